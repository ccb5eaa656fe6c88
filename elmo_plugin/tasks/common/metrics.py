"""What the tasks' metrics share."""

from collections import Counter
from dataclasses import dataclass, field, fields
from typing import Any, Callable, ClassVar, Collection, Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch
from allennlp.common.util import is_distributed
from allennlp.training.metrics import Metric


def ratio(numerator: float, denominator: float) -> float:
    """What has no denominator is 0, as in the official scorers."""
    return numerator / denominator if denominator else 0.0


class F1Scores(NamedTuple):
    """Fractions of 1, or percentages."""

    precision: float
    recall: float
    f1: float

    @classmethod
    def of(cls, precision: float, recall: float) -> "F1Scores":
        return cls(precision, recall, ratio(2 * precision * recall, precision + recall))

    @classmethod
    def percentages(cls, num_correct: int, num_predicted: int, num_gold: int) -> "F1Scores":
        """In the official scorers' own arithmetic, since 53.125 is rounded up or down depending on how it was
        computed.
        """
        return cls.of(ratio(100 * num_correct, num_predicted), ratio(100 * num_correct, num_gold))

    def fractions(self) -> "F1Scores":
        """Those of percentages."""
        return F1Scores(*(percentage / 100 for percentage in self))


class Counts:
    """A dataclass of numbers, of Counters, or of further counts, which adds up field by field."""

    def __add__(self, other: Any) -> Any:
        names = [each.name for each in fields(self)]  # type: ignore[arg-type]
        return type(self)(*(getattr(self, name) + getattr(other, name) for name in names))


@dataclass
class SpanCounts(Counts):
    """The spans that tags denote, by type: those in the gold tags, the predicted ones, and those in both."""

    gold: Counter = field(default_factory=Counter)
    predicted: Counter = field(default_factory=Counter)
    correct: Counter = field(default_factory=Counter)
    excluded: ClassVar[Tuple[str, ...]] = ()  # types that don't count overall

    def add_spans(self, gold: Collection[Any], predicted: Collection[Any]) -> None:
        correct = set(gold) & set(predicted)
        for counter, spans in ((self.gold, gold), (self.predicted, predicted), (self.correct, correct)):
            counter.update(span.type for span in spans)

    @property
    def types(self) -> List[str]:
        """The types that occurred, apart from those that are excluded."""
        return sorted((self.gold.keys() | self.predicted.keys()) - set(self.excluded))

    def numbers(self, type_: Optional[str] = None) -> List[int]:
        """How many spans of one type, or of all that count, are correct, predicted and gold."""
        types = self.types if type_ is None else [type_]
        return [sum(counter[each] for each in types) for counter in (self.correct, self.predicted, self.gold)]

    def percentages(self, type_: Optional[str] = None) -> F1Scores:
        return F1Scores.percentages(*self.numbers(type_))

    def scores(self, type_: Optional[str] = None) -> F1Scores:
        """The same as fractions of 1."""
        return self.percentages(type_).fractions()


class CountingMetric(Metric):
    """A metric that follows from what was counted, in all processes, since it was last reset.

    It is called with a batch's predictions, what they are compared with, and so on: for each, a sequence with one item
    per example. A subclass says what is counted in (`make_counts`), how an example is (`count`), and what follows
    (`metrics`).
    """

    supports_distributed = True
    make_counts: Callable[[], Any]
    _counts: Any

    def __init__(self) -> None:
        self.reset()

    def __call__(self, *batch: Sequence) -> None:  # type: ignore[override]
        counts = self.make_counts()
        for example in zip(*batch, strict=True):
            self.count(counts, *example)
        gathered: List[Any] = [counts]
        if is_distributed():
            # Processes may have seen different labels, so a tensor won't do.
            gathered = [counts] * torch.distributed.get_world_size()
            torch.distributed.all_gather_object(gathered, counts)
        self._counts = sum(gathered, self._counts)

    def count(self, counts: Any, *example: Any) -> None:
        raise NotImplementedError

    def metrics(self, counts: Any) -> Dict[str, float]:
        raise NotImplementedError

    def get_metric(self, reset: bool = False) -> Dict[str, float]:
        metrics = self.metrics(self._counts)
        if reset:
            self.reset()
        return metrics

    def reset(self) -> None:
        self._counts = self.make_counts()
