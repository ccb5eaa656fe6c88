"""Sentences in which one word is marked: `They sat on the [bank] of the river .`"""

from typing import List, NamedTuple, Sequence

import numpy
from allennlp.common.checks import ConfigurationError

from elmo_plugin.embedding import ElmoEmbedder

TINY = 1e-12  # instead of a norm of zero


class MarkedSentence(NamedTuple):
    """Tokens, and the position of the marked one."""

    tokens: List[str]
    place: int

    @property
    def word(self) -> str:
        return self.tokens[self.place]

    def excerpt(self, num_around: int = 4) -> str:
        """The word, marked, among some of its neighbours."""
        start = max(0, self.place - num_around)
        end = self.place + 1 + num_around
        before, after = self.tokens[start : self.place], self.tokens[self.place + 1 : end]
        words = [*before, f"[{self.word}]", *after]
        return " ".join(["..."] * (start > 0) + words + ["..."] * (end < len(self.tokens)))


def parse_marked(text: str, where: str = "") -> MarkedSentence:
    """Reads a tokenised sentence in which exactly one token is in square brackets."""
    tokens = text.split()
    marked = [place for place, token in enumerate(tokens) if len(token) > 2 and token[0] == "[" and token[-1] == "]"]
    if len(marked) != 1:
        raise ConfigurationError(
            f"{where or 'a sentence'}: exactly one word has to be in square brackets, as in 'on the [bank] of the "
            f"river', but here {len(marked)} are: {text.strip()!r}"
        )
    (place,) = marked
    tokens[place] = tokens[place][1:-1]
    return MarkedSentence(tokens, place)


def marked_vectors(embedder: ElmoEmbedder, sentences: Sequence[MarkedSentence], batch_size: int = 64) -> numpy.ndarray:
    """The vectors of the marked words, (num_layers, num_sentences, dim)."""
    layers = embedder.embed_sentences((sentence.tokens for sentence in sentences), batch_size)
    return numpy.stack([found[:, sentence.place] for found, sentence in zip(layers, sentences, strict=True)], axis=1)


def unit_vectors(vectors: numpy.ndarray) -> numpy.ndarray:
    """The same vectors at length 1, so that products of them are cosines; zeros stay zeros."""
    return vectors / numpy.maximum(numpy.linalg.norm(vectors, axis=-1, keepdims=True), TINY)
