"""The scorer of the CoNLL shared tasks, conlleval, in Python: the same counts, the same report.

    allennlp elmo-score ner predictions.txt

prints the report on a file of predictions: one token per line, with its gold tag and its predicted tag in the last two
columns, and a blank line after each sentence.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Iterable, Iterator, List, Optional, Sequence, Tuple

from allennlp.common.checks import ConfigurationError

from elmo_plugin.files import read_lines
from elmo_plugin.tasks.common.metrics import F1Scores
from elmo_plugin.tasks.common.spans import chunks


@dataclass
class ConllCounts:
    """What conlleval counts in sentences of gold and predicted tags. A span is correct if its tokens and its type are.

    Tags may be in any scheme and malformed; the spans are then what conlleval makes of them, see `chunks`. U and L,
    which it doesn't know, count as B and I, among the correct tags, too.
    """

    num_tokens: int = 0
    num_correct_tags: int = 0
    gold: Counter = field(default_factory=Counter)  # spans by type
    predicted: Counter = field(default_factory=Counter)
    correct: Counter = field(default_factory=Counter)

    def add_sentence(self, gold_tags: Sequence[str], predicted_tags: Sequence[str]) -> None:
        if len(gold_tags) != len(predicted_tags):
            raise ValueError(f"a sentence has {len(gold_tags)} gold tags but {len(predicted_tags)} predicted ones")
        gold_tags, predicted_tags = as_conll_tags(gold_tags), as_conll_tags(predicted_tags)
        gold_spans, predicted_spans = chunks(gold_tags), chunks(predicted_tags)
        self.num_tokens += len(gold_tags)
        self.num_correct_tags += sum(map(str.__eq__, gold_tags, predicted_tags))
        self.gold.update(span.type for span in gold_spans)
        self.predicted.update(span.type for span in predicted_spans)
        self.correct.update(span.type for span in set(gold_spans) & set(predicted_spans))

    def add(self, other: "ConllCounts") -> None:
        self.num_tokens += other.num_tokens
        self.num_correct_tags += other.num_correct_tags
        self.gold.update(other.gold)
        self.predicted.update(other.predicted)
        self.correct.update(other.correct)

    @property
    def types(self) -> List[str]:
        return sorted(self.gold.keys() | self.predicted.keys())

    @property
    def accuracy(self) -> float:
        """The accuracy of tags, including those outside spans."""
        return _percentage(self.num_correct_tags, self.num_tokens) / 100

    def scores(self, type_: Optional[str] = None) -> F1Scores:
        """The scores of the spans of one type, or of all."""
        return F1Scores(*(percentage / 100 for percentage in self._percentages(type_)))

    def report(self) -> str:
        """conlleval's text, to the letter."""
        lines = [
            f"processed {self.num_tokens} tokens with {self.gold.total()} phrases; "
            f"found: {self.predicted.total()} phrases; correct: {self.correct.total()}."
        ]
        if self.num_tokens:
            accuracy = _percentage(self.num_correct_tags, self.num_tokens)
            lines.append(f"accuracy: {accuracy:6.2f}%; {_format(self._percentages())}")
        for type_ in self.types:
            lines.append(f"{type_:>17}: {_format(self._percentages(type_))}  {self.predicted[type_]}")
        return "\n".join(lines) + "\n"

    def _percentages(self, type_: Optional[str] = None) -> F1Scores:
        """The scores in conlleval's own arithmetic, since 53.125 is rounded up or down depending on how it was
        computed.
        """
        num_gold, num_predicted, num_correct = (
            counter.total() if type_ is None else counter[type_]
            for counter in (self.gold, self.predicted, self.correct)
        )
        precision, recall = _percentage(num_correct, num_predicted), _percentage(num_correct, num_gold)
        f1 = 2 * precision * recall / (precision + recall) if num_correct else 0.0
        return F1Scores(precision, recall, f1)


def as_conll_tags(tags: Iterable[str]) -> List[str]:
    """BIOUL tags as BIO, which conlleval knows. Other tags stay as they are."""
    prefixes = {"U-": "B-", "L-": "I-"}
    return [prefixes.get(tag[:2], tag[:2]) + tag[2:] for tag in tags]


def format_sentence(tokens: Sequence[str], *columns: Sequence[str]) -> str:
    """A sentence as conlleval reads it: one line per token with its tag in each of `columns`, then a blank line."""
    return "".join(" ".join(row) + "\n" for row in zip(tokens, *map(as_conll_tags, columns), strict=True)) + "\n"


def count_file(file_path: str) -> ConllCounts:
    """The counts of a file of predictions."""
    counts = ConllCounts()
    for gold_tags, predicted_tags in _tagged_sentences(file_path):
        counts.add_sentence(gold_tags, predicted_tags)
    return counts


def _tagged_sentences(file_path: str) -> Iterator[Tuple[List[str], List[str]]]:
    gold_tags: List[str] = []
    predicted_tags: List[str] = []
    for line_number, line in enumerate(read_lines(file_path, skip_blank=False), start=1):
        columns = line.rstrip("\r\n").split(" ")
        if columns == [""]:
            yield gold_tags, predicted_tags
            gold_tags, predicted_tags = [], []
        elif len(columns) < 3:
            raise ConfigurationError(
                f"{file_path}, line {line_number}: expected a token, its gold tag and its predicted tag, got "
                f"{line.strip()!r}"
            )
        else:
            gold_tags.append(columns[-2])
            predicted_tags.append(columns[-1])
    yield gold_tags, predicted_tags


def _format(percentages: F1Scores) -> str:
    return "precision: {:6.2f}%; recall: {:6.2f}%; FB1: {:6.2f}".format(*percentages)


def _percentage(numerator: int, denominator: int) -> float:
    return 100 * numerator / denominator if denominator else 0.0
