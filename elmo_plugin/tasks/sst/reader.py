"""DatasetReader "elmo::sst": the Stanford Sentiment Treebank."""

import logging
from typing import Dict, Iterator, List, NamedTuple, Optional, Sequence, Union

from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader, Field, Instance, Token, TokenIndexer, Tokenizer
from allennlp.data.fields import MetadataField, TextField
from allennlp.data.token_indexers import SingleIdTokenIndexer

from elmo_plugin.files import check_encoding, numbered_lines
from elmo_plugin.tasks.common.labels import KnownLabelField
from elmo_plugin.tasks.sst.trees import Tree, parse_tree
from elmo_plugin.text.tokenizer import RuleBasedTokenizer

logger = logging.getLogger(__name__)

# The class of each of the treebank's labels, 0 to 4. None: not in the task.
GRANULARITIES: Dict[str, Sequence[Optional[str]]] = {
    "5-class": ("very negative", "negative", "neutral", "positive", "very positive"),
    "2-class": ("negative", "negative", None, "positive", "positive"),
}


class LabelledPhrase(NamedTuple):
    tokens: List[str]
    label: str


@DatasetReader.register("elmo::sst")
class SentimentTreebankReader(DatasetReader):
    """Reads the treebank's trees, one per line, into `tokens` and their `label`.

    - `granularity`: `5-class`, or `2-class`, which leaves out neutral ones.
    - `phrases`: every phrase of a tree is an instance, as in training; otherwise the whole sentences only, as in
      evaluation.
    - `min_tokens`: with `phrases`, shorter ones are left out.
    - `encoding`: that of the files.
    - `tokenizer`: for text that isn't tokenised yet (a predictor's). The trees' tokens are used as they are, except for
      their escapes.

    Readings taken of "we only train on phrases that contain four or more tokens" (A.8): a whole sentence is kept even
    if it is shorter (136 of the 8,544 training sentences), being what the task is about; and a phrase that occurs in
    several sentences is an instance each time.
    """

    def __init__(
        self,
        token_indexers: Optional[Dict[str, TokenIndexer]] = None,
        tokenizer: Optional[Tokenizer] = None,
        granularity: str = "5-class",
        phrases: bool = False,
        min_tokens: int = 4,
        encoding: str = "utf-8",
        **kwargs,
    ) -> None:
        super().__init__(manual_distributed_sharding=True, manual_multiprocess_sharding=True, **kwargs)
        if granularity not in GRANULARITIES:
            raise ConfigurationError(
                f"reader elmo::sst: granularity must be one of {', '.join(map(repr, GRANULARITIES))}, "
                f"not {granularity!r}"
            )
        check_encoding(encoding)
        self._token_indexers = token_indexers or {"tokens": SingleIdTokenIndexer()}
        self._tokenizer = tokenizer or RuleBasedTokenizer()
        self._labels = GRANULARITIES[granularity]
        self._phrases = phrases
        self._min_tokens = min_tokens
        self._encoding = encoding

    def _read(self, file_path: str) -> Iterator[Instance]:
        for tokens, label in self.shard_iterable(self._labelled_phrases(file_path)):
            yield self.text_to_instance(tokens, label)

    def _labelled_phrases(self, file_path: str) -> Iterator[LabelledPhrase]:
        num_phrases = 0
        for tree in read_trees(str(file_path), self._encoding):
            for phrase in self._phrases_of(tree):
                num_phrases += 1
                yield phrase
        if not num_phrases:
            raise ConfigurationError(f"{file_path} holds no labelled sentence; one tree per line is expected")
        logger.info("read %d labelled phrases from %s", num_phrases, file_path)

    def _phrases_of(self, tree: Tree) -> Iterator[LabelledPhrase]:
        sentence, *parts = tree.phrases
        long_enough = [part for part in parts if part.end - part.start >= self._min_tokens] if self._phrases else []
        for phrase in [sentence, *long_enough]:
            label = self._labels[phrase.label]
            if label is not None:
                yield LabelledPhrase(tree.words(phrase), label)

    def text_to_instance(self, text: Union[str, Sequence[Union[str, Token]]], label: Optional[str] = None) -> Instance:
        """`text` is a sentence to tokenise, or its tokens."""
        if isinstance(text, str):
            tokens = self._tokenizer.tokenize(text)
        else:
            tokens = [Token(token) if isinstance(token, str) else token for token in text]
        if not tokens:
            raise ValueError(f"a sentence needs at least one token, but there is none in {text!r}")
        fields: Dict[str, Field] = {
            "tokens": TextField(tokens),
            "metadata": MetadataField({"tokens": [token.text for token in tokens]}),
        }
        if label is not None:
            fields["label"] = KnownLabelField(label)
        return Instance(fields)

    def apply_token_indexers(self, instance: Instance) -> None:
        instance["tokens"].token_indexers = self._token_indexers  # type: ignore[attr-defined]


def read_trees(file_path: str, encoding: str = "utf-8") -> Iterator[Tree]:
    """The trees in a file (a path or URL), one per line; empty lines are skipped. A broken one is named by file and
    line.
    """
    for number, line in numbered_lines(file_path, encoding=encoding):
        try:
            tree = parse_tree(line)
        except ValueError as error:
            raise ConfigurationError(f"{file_path}, line {number}: broken tree: {error}") from error
        yield tree
