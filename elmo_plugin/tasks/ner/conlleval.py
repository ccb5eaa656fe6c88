"""The scorer of the CoNLL shared tasks, conlleval, in Python: the same counts, the same report.

    allennlp elmo-score ner predictions.txt

prints the report on a file of predictions: one token per line, with its gold tag and its predicted tag in the last two
columns, and a blank line after each sentence.
"""

from dataclasses import dataclass
from typing import Iterable, List, Sequence

from allennlp.common.checks import ConfigurationError

from elmo_plugin.tasks.common.columns import sentence_rows
from elmo_plugin.tasks.common.metrics import F1Scores, SpanCounts, ratio
from elmo_plugin.tasks.common.spans import chunks


@dataclass
class ConllCounts(SpanCounts):
    """What conlleval counts in sentences of gold and predicted tags. A span is correct if its tokens and its type are.

    Tags may be in any scheme and malformed; the spans are then what conlleval makes of them, see `chunks`. U and L,
    which it doesn't know, count as B and I, among the correct tags, too.
    """

    num_tokens: int = 0
    num_correct_tags: int = 0

    def add_sentence(self, gold_tags: Sequence[str], predicted_tags: Sequence[str]) -> None:
        if len(gold_tags) != len(predicted_tags):
            raise ValueError(f"a sentence has {len(gold_tags)} gold tags but {len(predicted_tags)} predicted ones")
        gold_tags, predicted_tags = as_conll_tags(gold_tags), as_conll_tags(predicted_tags)
        self.num_tokens += len(gold_tags)
        self.num_correct_tags += sum(map(str.__eq__, gold_tags, predicted_tags))
        self.add_spans(chunks(gold_tags), chunks(predicted_tags))

    @property
    def accuracy(self) -> float:
        """The accuracy of tags, including those outside spans."""
        return ratio(100 * self.num_correct_tags, self.num_tokens) / 100

    def report(self) -> str:
        """conlleval's text, to the letter."""
        lines = [
            f"processed {self.num_tokens} tokens with {self.gold.total()} phrases; "
            f"found: {self.predicted.total()} phrases; correct: {self.correct.total()}."
        ]
        if self.num_tokens:
            accuracy = 100 * self.num_correct_tags / self.num_tokens
            lines.append(f"accuracy: {accuracy:6.2f}%; {_format(self.percentages())}")
        for type_ in self.types:
            lines.append(f"{type_:>17}: {_format(self.percentages(type_))}  {self.predicted[type_]}")
        return "\n".join(lines) + "\n"


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
    for rows in sentence_rows(file_path):
        for row in rows:
            if len(row.columns) < 3:
                raise ConfigurationError(
                    f"{row.place}: expected a token, its gold tag and its predicted tag, got {row.line.strip()!r}"
                )
        counts.add_sentence([row.columns[-2] for row in rows], [row.columns[-1] for row in rows])
    return counts


def _format(percentages: F1Scores) -> str:
    return "precision: {:6.2f}%; recall: {:6.2f}%; FB1: {:6.2f}".format(*percentages)
