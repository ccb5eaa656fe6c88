"""Sentences in which one word is marked: `They sat on the [bank] of the river .`"""

from typing import List, NamedTuple

from allennlp.common.checks import ConfigurationError


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
