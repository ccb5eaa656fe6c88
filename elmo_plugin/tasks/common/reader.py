"""What the tasks' readers share."""

from typing import Dict, Iterable, Iterator, List, Optional, Sequence, Tuple, TypeVar, Union

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
        words: Sequence[object] = text
        if isinstance(text, str):
            tokens = words = self._tokenizer.tokenize(text)
            if tokens and all(token.idx is not None for token in tokens):
                return tokens, text
        if not words:
            raise ValueError(f"the {name} holds no token: {text!r}")
        words = list(map(str, words))
        return joined(words), " ".join(words)


def some(items: Iterable[Item], otherwise: str) -> Iterator[Item]:
    """The items; if there are none, a ConfigurationError that says `otherwise`."""
    is_empty = True
    for item in items:
        is_empty = False
        yield item
    if is_empty:
        raise ConfigurationError(otherwise)
