"""DatasetReader "elmo::sst": the Stanford Sentiment Treebank."""

from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader, Field, Instance
from allennlp.data.fields import MetadataField, TextField

from elmo_plugin.files import numbered_lines
from elmo_plugin.tasks.common.labels import KnownLabelField
from elmo_plugin.tasks.common.reader import TaskReader, Text, some
from elmo_plugin.tasks.sst.trees import Tree, parse_tree

# The class of each of the treebank's labels, 0 to 4. None: not in the task.
GRANULARITIES: Dict[str, Sequence[Optional[str]]] = {
    "5-class": ("very negative", "negative", "neutral", "positive", "very positive"),
    "2-class": ("negative", "negative", None, "positive", "positive"),
}


@DatasetReader.register("elmo::sst")
class SentimentTreebankReader(TaskReader):
    """Reads the treebank's trees, one per line, into `tokens` and their `label`.

    - `granularity`: `5-class`, or `2-class`, which leaves out neutral ones.
    - `phrases`: every phrase of a tree is an instance, as in training; otherwise the whole sentences only, as in
      evaluation.
    - `min_tokens`: with `phrases`, shorter ones are left out.
    - The others are those of `TaskReader`. The trees' tokens are used as they are, except for their escapes.

    Readings taken of "we only train on phrases that contain four or more tokens" (A.8): a whole sentence is kept even
    if it is shorter (136 of the 8,544 training sentences), being what the task is about; and a phrase that occurs in
    several sentences is an instance each time.
    """

    def __init__(
        self, *, granularity: str = "5-class", phrases: bool = False, min_tokens: int = 4, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        if granularity not in GRANULARITIES:
            raise ConfigurationError(
                f"reader elmo::sst: granularity must be one of {', '.join(map(repr, GRANULARITIES))}, "
                f"not {granularity!r}"
            )
        self._labels = GRANULARITIES[granularity]
        self._phrases = phrases
        self._min_tokens = min_tokens

    def _read(self, file_path: str) -> Iterator[Instance]:
        trees = read_trees(str(file_path), self._encoding)
        phrases = (phrase for tree in trees for phrase in self._phrases_of(tree))
        otherwise = f"{file_path} holds no labelled sentence; one tree per line is expected"
        for tokens, label in self.shard_iterable(some(phrases, otherwise)):
            yield self.text_to_instance(tokens, label)

    def _phrases_of(self, tree: Tree) -> Iterator[Tuple[List[str], str]]:
        """The words and the label of each phrase that is asked for."""
        sentence, *parts = tree.phrases
        long_enough = [part for part in parts if part.end - part.start >= self._min_tokens] if self._phrases else []
        for phrase in [sentence, *long_enough]:
            label = self._labels[phrase.label]
            if label is not None:
                yield tree.words(phrase), label

    def text_to_instance(self, text: Text, label: Optional[str] = None) -> Instance:
        """`text` is a sentence to tokenise, or its words."""
        tokens, _ = self.tokens_of(text)
        fields: Dict[str, Field] = {
            "tokens": TextField(tokens),
            "metadata": MetadataField({"tokens": [token.text for token in tokens]}),
        }
        if label is not None:
            fields["label"] = KnownLabelField(label)
        return Instance(fields)


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
