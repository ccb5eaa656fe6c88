"""The treebank's bracketed trees: `(3 (2 It) (4 (2 's) (4 lovely)))`, a sentiment from 0 to 4 on every phrase."""

import re
from dataclasses import dataclass
from typing import List, NamedTuple, Optional

from elmo_plugin.corpora import unescape

LABELS = "01234"

# ASCII white space only: the treebank has a no-break space inside tokens such as "2 1/2".
_PIECE = re.compile(r"[()]|[^() \t\n\r\f\v]+")


class Phrase(NamedTuple):
    """A phrase: the tokens from `start` up to, not including, `end`."""

    label: int
    start: int
    end: int


class Tree(NamedTuple):
    """`phrases` holds every phrase, parents before their children: the whole sentence is the first."""

    tokens: List[str]
    phrases: List[Phrase]

    def words(self, phrase: Phrase) -> List[str]:
        return self.tokens[phrase.start : phrase.end]


def parse_tree(text: str) -> Tree:
    """Reads one tree, without recursion, so none is too deep. A broken one raises a ValueError naming the column."""
    builder = _TreeBuilder()
    for match in _PIECE.finditer(text):
        try:
            builder.add(match.group())
        except ValueError as error:
            raise ValueError(f"column {match.start() + 1}: {error}") from None
    return builder.finish()


@dataclass
class _Node:
    """A phrase whose bracket isn't closed yet."""

    index: int
    start: int
    label: Optional[int] = None
    is_leaf: bool = False


class _TreeBuilder:
    def __init__(self) -> None:
        self._tokens: List[str] = []
        self._phrases: List[Optional[Phrase]] = []
        self._open: List[_Node] = []

    def add(self, piece: str) -> None:
        if self._phrases and not self._open:
            raise ValueError(f"the tree ends before {piece!r}; one tree per line is expected")
        if piece == "(":
            self._open_phrase()
        elif not self._open:
            raise ValueError(f"{piece!r} where a tree should open with '('")
        elif piece == ")":
            self._close_phrase()
        elif self._open[-1].label is None:
            self._open[-1].label = _label(piece)
        else:
            self._add_word(piece)

    def finish(self) -> Tree:
        if self._open:
            raise ValueError(f"the tree ends with {len(self._open)} '(' still open")
        if not self._phrases:
            raise ValueError("there is no tree")
        return Tree(self._tokens, [span for span in self._phrases if span is not None])

    def _open_phrase(self) -> None:
        if self._open:
            parent = self._open[-1]
            if parent.label is None:
                raise ValueError("a phrase opens where its parent's label (0 to 4) should be")
            if parent.is_leaf:
                raise ValueError(f"a phrase opens beside the word {self._tokens[-1]!r}")
        self._open.append(_Node(len(self._phrases), len(self._tokens)))
        self._phrases.append(None)

    def _add_word(self, word: str) -> None:
        node = self._open[-1]
        if node.start < len(self._tokens):
            raise ValueError(f"the word {word!r} has no bracket and label of its own")
        node.is_leaf = True
        self._tokens.append(unescape(word))

    def _close_phrase(self) -> None:
        node = self._open.pop()
        if node.label is None:
            raise ValueError("a phrase closes without a label (0 to 4)")
        if node.start == len(self._tokens):
            raise ValueError("a phrase closes without a word")
        self._phrases[node.index] = Phrase(node.label, node.start, len(self._tokens))


def _label(piece: str) -> int:
    if len(piece) != 1 or piece not in LABELS:
        raise ValueError(f"a label must be one of 0, 1, 2, 3, 4, not {piece!r}")
    return int(piece)
