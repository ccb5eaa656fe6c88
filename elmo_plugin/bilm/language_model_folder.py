"""A biLM's folder with softmax.hdf5 in it, as the language model that it is.

`allennlp predict wiki-base sentences.jsonl` gives perplexities and substitutes in context, and `allennlp evaluate
wiki-base heldout.txt` a text's perplexity.
"""

import copy
from typing import Any, Dict, Optional

from allennlp.common import Lazy, Params
from allennlp.data import DatasetReader, Vocabulary
from allennlp.data.vocabulary import DEFAULT_NON_PADDED_NAMESPACES
from allennlp.models.archival import Archive

from elmo_plugin.bilm import checkpoint, softmax_file
from elmo_plugin.bilm.language_model import BiLmLanguageModel
from elmo_plugin.bilm.softmax import FullSoftmax
from elmo_plugin.bilm.word_ids import NAMESPACE

_CONFIG: Dict[str, Any] = {
    "dataset_reader": {"type": "elmo::bilm"},
    "data_loader": {"type": "elmo::windows", "batch_size": 64, "num_steps": 20, "shuffle": False},
    "model": {"type": "elmo::bilm"},
}


def open_archive(name: str) -> Optional[Archive]:
    """The language model of a biLM that has its softmax beside it, by the biLM's name or folder, as AllenNLP opens an
    archive; None for anything else.
    """
    path = softmax_file.find(name)
    if path is None:
        return None
    bilm = checkpoint.read(path.with_name("options.json"), path.with_name("weights.hdf5"))
    softmax = softmax_file.read(path, bilm.options.projection_dim)
    vocab = Vocabulary(non_padded_namespaces=[*DEFAULT_NON_PADDED_NAMESPACES, NAMESPACE])
    vocab.add_tokens_to_namespace(softmax.words, NAMESPACE)
    model = BiLmLanguageModel(vocab, bilm, Lazy(FullSoftmax))
    model.softmax.load_state_dict({"weight": softmax.weight, "bias": softmax.bias})
    model.eval()
    config = Params(copy.deepcopy(_CONFIG))
    reader = DatasetReader.from_params(config.duplicate()["dataset_reader"])
    return Archive(model, config, reader, reader, None)
