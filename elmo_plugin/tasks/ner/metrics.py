"""Span F1 as conlleval counts it, for a trainer."""

from typing import Dict, Sequence

from allennlp.training.metrics import Metric

from elmo_plugin.tasks.common.metrics import of_all_processes
from elmo_plugin.tasks.ner.conlleval import ConllCounts


@Metric.register("elmo::conll")
class ConllMetric(Metric):
    """Precision, recall and F1 of spans, overall and for each type of entity, and the accuracy of tags.

    The scores are fractions of 1, under `precision`, `recall`, `f1` and `accuracy`, and under `f1-PER` and the like.
    """

    supports_distributed = True

    def __init__(self) -> None:
        self._counts = ConllCounts()

    def __call__(  # type: ignore[override]
        self, predicted_tags: Sequence[Sequence[str]], gold_tags: Sequence[Sequence[str]]
    ) -> None:
        counts = ConllCounts()
        for gold, predicted in zip(gold_tags, predicted_tags, strict=True):
            counts.add_sentence(gold, predicted)
        for each in of_all_processes(counts):
            self._counts.add(each)

    def get_metric(self, reset: bool = False) -> Dict[str, float]:
        metrics = {**self._counts.scores()._asdict(), "accuracy": self._counts.accuracy}
        for type_ in self._counts.types:
            metrics.update({f"{name}-{type_}": score for name, score in self._counts.scores(type_)._asdict().items()})
        if reset:
            self.reset()
        return metrics

    def report(self) -> str:
        """conlleval's own report on everything counted since the last reset."""
        return self._counts.report()

    def reset(self) -> None:
        self._counts = ConllCounts()
