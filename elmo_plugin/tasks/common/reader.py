"""What the tasks' readers share."""

import logging
import reprlib
from typing import Any, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple, TypeVar, Union

from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader, Instance, Token, TokenIndexer, Tokenizer
from allennlp.data.token_indexers import SingleIdTokenIndexer

from elmo_plugin.files import check_encoding
from elmo_plugin.tasks.common.words import joined
from elmo_plugin.text import RuleBasedTokenizer

Item = TypeVar("Item")
Text = Union[str, Sequence[str]]  # to be tokenised, or the words of one


class TaskReader(DatasetReader):
    """A reader of plain or gzipped files, each process and worker of which makes instances of its share.

    token_indexers: how the words of the fields in `texts` are indexed; by default a number for each.
    tokenizer: for text that isn't tokenised, as predictors get; `elmo::spacy` by default.
    max_instances: how many instances of a file to read at most.
    encoding: that of the files.
    """

    texts: Tuple[str, ...] = ("tokens",)

    def __init__(
        self,
        token_indexers: Optional[Dict[str, TokenIndexer]] = None,
        tokenizer: Optional[Tokenizer] = None,
        max_instances: Optional[int] = None,
        encoding: str = "utf-8",
    ) -> None:
        super().__init__(
            max_instances=max_instances, manual_distributed_sharding=True, manual_multiprocess_sharding=True
        )
        check_encoding(encoding)
        self._token_indexers = token_indexers or {"tokens": SingleIdTokenIndexer()}
        self._tokenizer = tokenizer or RuleBasedTokenizer()
        self._encoding = encoding

    def apply_token_indexers(self, instance: Instance) -> None:
        for name in self.texts:
            instance[name].token_indexers = self._token_indexers  # type: ignore[attr-defined]

    def tokens_of(self, text: Text, name: str = "sentence") -> Tuple[List[Token], str]:
        """The tokens of a text, and the text in which they have their places: the given one, or, for words and for
        tokenizers that give no places, the words with a space between each two.
        """
        tokens: Sequence = self._tokenizer.tokenize(text) if isinstance(text, str) else text
        if not tokens:
            raise ValueError(f"the {name} holds no token: {text!r}")
        if isinstance(text, str) and all(token.idx is not None for token in tokens):
            return list(tokens), text
        return joined(tokens), " ".join(map(str, tokens))


def some(items: Iterable[Item], otherwise: str) -> Iterator[Item]:
    """The items; if there are none, a ConfigurationError that says `otherwise`."""
    is_empty = True
    for item in items:
        is_empty = False
        yield item
    if is_empty:
        raise ConfigurationError(otherwise)


def json_value(parent: Any, key: str, expected: type, place: str) -> Any:
    """What an object in a JSON file has under a key; `place` is for errors."""
    if not isinstance(parent, dict):
        raise ConfigurationError(f"{place}: expected an object with {key!r}, got {reprlib.repr(parent)}")
    if not isinstance(parent.get(key), expected):
        got = reprlib.repr(parent[key]) if key in parent else f"missing; there are {', '.join(sorted(parent))}"
        raise ConfigurationError(f"{place}: {key!r} must be a {expected.__name__}, but is {got}")
    return parent[key]


class Notes:
    """What is worth saying about a file: counted while it is read, and logged at the end."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._noted: Dict[Tuple[int, str], Tuple[int, str]] = {}

    def add(self, level: int, note: str, number: int = 1, place: str = "") -> None:
        """`note` has {} for the number of times that it was added; the first place is logged with it."""
        if number:
            total, first_place = self._noted.get((level, note), (0, place))
            self._noted[level, note] = total + number, first_place

    def log(self, path: str) -> None:
        for (level, note), (number, place) in self._noted.items():
            where = f"; the first is at {place}" if place else ""
            self._logger.log(level, "%s: %s%s", path, note.format(number), where)
