"""The module `allennlp.commands.elmo` of AllenNLP 0.9, which scripts written for it still import.

AllenNLP dropped it in 1.0. With the plugin installed the import works again: `elmo_plugin_startup` finds no such module
in AllenNLP and hands out the names of this one.

Signatures, defaults, shapes and types are those of 0.9. What differs: the vectors of a sentence depend on that sentence
alone, so that a script gives the same vectors twice. 0.9 carried the LSTM's states from call to call;
`ElmoEmbedder(..., stateful=True)` still does. And a batch of long sequences is run in parts, so that memory stays flat.
"""

import warnings
from typing import Dict, Iterable, Iterator, List, Optional, Sequence, Tuple, Union

import numpy
import torch
from allennlp.data.token_indexers import ELMoTokenCharactersIndexer
from allennlp.modules.elmo import _ElmoBiLm, batch_to_ids
from allennlp.nn.util import remove_sentence_boundaries

from elmo_plugin.bilm import BiLm
from elmo_plugin.bilm.pretrained import PRETRAINED
from elmo_plugin.embedding import embedder_api
from elmo_plugin.files import PathOrStr

# Scripts import these from here too.
__all__ = [
    "DEFAULT_BATCH_SIZE",
    "DEFAULT_OPTIONS_FILE",
    "DEFAULT_WEIGHT_FILE",
    "ELMoTokenCharactersIndexer",
    "ElmoEmbedder",
    "_ElmoBiLm",
    "batch_to_ids",
    "empty_embedding",
    "remove_sentence_boundaries",
]

DEFAULT_OPTIONS_FILE, DEFAULT_WEIGHT_FILE = PRETRAINED["original"]
DEFAULT_BATCH_SIZE = 64


def empty_embedding() -> numpy.ndarray:
    """The vectors of a sentence without tokens, for a biLM of any width."""
    return numpy.zeros((3, 0, 1024))


class ElmoEmbedder(embedder_api.ElmoEmbedder):
    """Embeds tokenised sentences with the published biLM `original`, or with the one in two files, paths or URLs."""

    def __init__(
        self,
        options_file: PathOrStr = DEFAULT_OPTIONS_FILE,
        weight_file: PathOrStr = DEFAULT_WEIGHT_FILE,
        cuda_device: int = -1,
        *,
        stateful: bool = False,
    ) -> None:
        super().__init__(str(options_file), str(weight_file), cuda_device, stateful=stateful)
        self.indexer = ELMoTokenCharactersIndexer()
        self.elmo_bilm = _CallableBiLm(self.bilm)

    def batch_to_embeddings(self, batch: Sequence[Sequence[str]]) -> Tuple[torch.Tensor, torch.Tensor]:
        vectors, mask = super().batch_to_embeddings([_tokens(sentence) for sentence in batch])
        return vectors, mask.long()

    def embed_sentences(
        self, sentences: Iterable[Sequence[str]], batch_size: int = DEFAULT_BATCH_SIZE, look_ahead: int = 8
    ) -> Iterator[numpy.ndarray]:
        return super().embed_sentences(map(_tokens, sentences), batch_size, look_ahead)

    def _embed_together(self, batch: List[List[str]]) -> List[numpy.ndarray]:
        return [vectors if vectors.shape[1] else empty_embedding() for vectors in super()._embed_together(batch)]


def _tokens(sentence: Sequence[str]) -> List[str]:
    """As in 0.9 a sentence may be any sequence: a tuple, an array, and a protein's letters in one string."""
    if isinstance(sentence, str) and " " in sentence:
        warnings.warn("a sentence that is a string, not a list of tokens, is read letter by letter", stacklevel=3)
    return list(sentence)


class _CallableBiLm(torch.nn.Module):
    """The biLM as `ElmoEmbedder.elmo_bilm` was called: character ids in, a dictionary out, boundaries included."""

    def __init__(self, bilm: BiLm) -> None:
        super().__init__()
        self.bilm = bilm
        self._elmo_lstm = _Lstm(bilm)

    @property
    def num_layers(self) -> int:
        return self.bilm.num_layers

    def get_output_dim(self) -> int:
        return self.bilm.get_output_dim()

    def forward(self, inputs: torch.Tensor) -> Dict[str, Union[torch.Tensor, List[torch.Tensor]]]:
        layers, mask = self.bilm(inputs)
        return {"activations": list(layers), "mask": mask.long()}


class _Lstm:
    """What scripts do with the LSTM inside: they move its carried states to another device, or drop them."""

    def __init__(self, bilm: BiLm) -> None:
        self._bilm = bilm
        self._states: Sequence[torch.Tensor] = ()  # which go where they are needed by themselves

    def reset_states(self, mask: Optional[torch.Tensor] = None) -> None:
        self._bilm.reset_state()
