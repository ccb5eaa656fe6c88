"""softmax.hdf5: a biLM's softmax, in a file beside the published two, which hold none.

With it a biLM's folder is a language model again: `allennlp predict wiki-base sentences.jsonl` gives perplexities and
substitutes in context, and `allennlp evaluate wiki-base heldout.txt` a text's perplexity. The weights are rounded to
eight bits, with a scale for each word, which takes a quarter of the space.
"""

import copy
import os
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import h5py
import numpy
import torch
from allennlp.common import Lazy, Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader, Vocabulary
from allennlp.data.vocabulary import DEFAULT_NON_PADDED_NAMESPACES
from allennlp.models.archival import Archive

from elmo_plugin.bilm.checkpoint import read
from elmo_plugin.bilm.language_model import BiLmLanguageModel
from elmo_plugin.bilm.pretrained import PRETRAINED
from elmo_plugin.bilm.softmax import FullSoftmax
from elmo_plugin.bilm.word_ids import NAMESPACE
from elmo_plugin.files import PathOrStr, replacing

NAME = "softmax.hdf5"
ALWAYS_ALLOWED_BYTES, MAX_RATIO = 2**26, 100
_CONFIG: Dict[str, Any] = {
    "dataset_reader": {"type": "elmo::bilm"},
    "data_loader": {"type": "elmo::windows", "batch_size": 64, "num_steps": 20, "shuffle": False},
    "model": {"type": "elmo::bilm"},
}


class WordSoftmax(NamedTuple):
    words: List[str]
    weight: torch.Tensor  # (num_words, dim)
    bias: torch.Tensor  # (num_words,)


def write(model: BiLmLanguageModel, path: PathOrStr) -> None:
    """Writes a language model's softmax, full or sampled."""
    if not isinstance(model.softmax, FullSoftmax):
        raise ConfigurationError(f"only a full or sampled softmax can be written, not {type(model.softmax).__name__}")
    words = model.vocab.get_index_to_token_vocabulary(model.namespace)
    weight, bias = (tensor.detach().float() for tensor in (model.softmax.weight, model.softmax.bias))
    scale = weight.abs().amax(dim=1).clamp(min=1e-12) / 127
    compression = {"compression": "gzip", "compression_opts": 9, "shuffle": True}
    with replacing(Path(path)) as temporary, h5py.File(temporary, "w") as file:
        text = "\n".join(words[index] for index in range(len(words))).encode("utf-8")
        file.create_dataset("words", data=numpy.frombuffer(text, dtype=numpy.uint8), **compression)
        file.create_dataset("weight", data=(weight / scale[:, None]).round().to(torch.int8).numpy(), **compression)
        file.create_dataset("scale", data=scale.numpy(), **compression)
        file.create_dataset("bias", data=bias.numpy(), **compression)


def read_softmax(path: PathOrStr, dim: int) -> WordSoftmax:
    """The softmax over states of `dim` numbers. Raises ConfigurationError for a file that is damaged or another's."""
    try:
        with h5py.File(path, "r") as file:
            (num_words,) = file["scale"].shape
            words = _dataset(file, "words", "u1")
            weight = torch.from_numpy(_dataset(file, "weight", "i1", (num_words, dim))).float()
            weight *= torch.from_numpy(_dataset(file, "scale", "f4", (num_words,)))[:, None]
            bias = torch.from_numpy(_dataset(file, "bias", "f4", (num_words,)))
        softmax = WordSoftmax(words.tobytes().decode("utf-8").split("\n"), weight, bias)
        if len(set(softmax.words)) != num_words:
            raise ValueError(f"it has {len(set(softmax.words))} different words for {num_words} weights")
        return softmax
    except (OSError, KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise ConfigurationError(
            f"{path} can't be read as a softmax of this biLM: {error}. Write it again by bilm-export."
        ) from error


def _dataset(file: h5py.File, name: str, kind: str, shape: Optional[Tuple[int, ...]] = None) -> numpy.ndarray:
    """A dataset, whose type and size are looked at before it is read."""
    dataset = file[name]
    if dataset.dtype != kind or dataset.is_virtual or dataset.external:
        raise ValueError(f"{name} is of type {dataset.dtype}, or lies in another file")
    if shape is not None and dataset.shape != shape:
        raise ValueError(f"{name} is {dataset.shape} large, where {shape} was expected")
    if dataset.nbytes > max(ALWAYS_ALLOWED_BYTES, MAX_RATIO * os.path.getsize(file.filename)):
        raise ValueError(f"{name} would take {dataset.nbytes:,} bytes of memory, out of all proportion to the file")
    return dataset[...]


def open_archive(name: str) -> Optional[Archive]:
    """The language model of a biLM that has its softmax beside it, by the biLM's name or folder, as AllenNLP opens an
    archive; None for anything else.
    """
    folder = Path(PRETRAINED[name].options_file).parent if name in PRETRAINED else Path(name)
    if not (folder / NAME).is_file():
        return None
    bilm = read(folder / "options.json", folder / "weights.hdf5")
    softmax = read_softmax(folder / NAME, bilm.options.projection_dim)
    vocab = Vocabulary(non_padded_namespaces=[*DEFAULT_NON_PADDED_NAMESPACES, NAMESPACE])
    vocab.add_tokens_to_namespace(softmax.words, NAMESPACE)
    model = BiLmLanguageModel(vocab, bilm, Lazy(FullSoftmax))
    model.softmax.load_state_dict({"weight": softmax.weight, "bias": softmax.bias})
    model.eval()
    config = Params(copy.deepcopy(_CONFIG))
    reader = DatasetReader.from_params(config.duplicate()["dataset_reader"])
    return Archive(model, config, reader, reader, None)
