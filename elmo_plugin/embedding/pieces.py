"""The pieces of an embedding job: consecutive lines of its text, each piece embedded independently of the others."""

from dataclasses import dataclass
from itertools import count, islice
from typing import Iterable, Iterator, List, NamedTuple

import numpy

from elmo_plugin.embedding.embedder_api import ElmoEmbedder
from elmo_plugin.embedding.hdf5_layout import check_layers, select_layers
from elmo_plugin.errors import ConfigurationError


class Piece(NamedTuple):
    """Consecutive sentences, and the index of the first one's line."""

    number: int
    first_line: int
    sentences: List[str]


def cut(sentences: Iterable[str], piece_size: int, first_line: int = 0) -> Iterator[Piece]:
    """Pieces of `piece_size` sentences; the last may be smaller. The first of them is on `first_line`."""
    remaining = iter(sentences)
    for number in count():
        stretch = list(islice(remaining, piece_size))
        if not stretch:
            return
        yield Piece(number, first_line + number * piece_size, stretch)


@dataclass(frozen=True)
class PieceEmbedder:
    """Embeds pieces. Its settings and the biLM determine the vectors to the last bit: they are the same whoever
    computes them, in any order.
    """

    output_format: str = "all"
    batch_size: int = 64
    float16: bool = False

    def __post_init__(self) -> None:
        check_layers(self.output_format)
        if self.batch_size < 1:
            raise ConfigurationError(f"the batch size has to be at least 1, got {self.batch_size}")

    def embed(self, embedder: ElmoEmbedder, piece: Piece) -> Iterator[numpy.ndarray]:
        """The vectors of each sentence, in the form to be stored."""
        vectors = embedder.embed_apart((sentence.split() for sentence in piece.sentences), self.batch_size)
        for line, layers in enumerate(vectors, start=piece.first_line):
            yield self._encode(layers, line)

    def _encode(self, layers: numpy.ndarray, line: int) -> numpy.ndarray:
        vectors = select_layers(layers, self.output_format)
        if not self.float16:
            return vectors
        with numpy.errstate(over="ignore"):
            halves = vectors.astype(numpy.float16)
        if not numpy.isfinite(halves).all():
            raise ConfigurationError(
                f"line {line + 1} has a value that is too large for float16 ({abs(vectors).max():.6g}); leave out "
                "--float16"
            )
        return halves
