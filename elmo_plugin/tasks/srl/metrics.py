"""Span F1 as srl-eval counts it, for a trainer."""

from typing import Dict, Sequence

from allennlp.training.metrics import Metric

from elmo_plugin.tasks.common.metrics import of_all_processes
from elmo_plugin.tasks.srl.srl_eval import SrlCounts


@Metric.register("elmo::srl")
class SrlMetric(Metric):
    """Precision, recall and F1 of arguments, V excluded and continuations joined, overall and for each type.

    The scores are fractions of 1, under `precision`, `recall` and `f1`, and under `f1-ARG0` and the like; `perfect` is
    the fraction of predicates all of whose arguments are right. There are no scores before anything is counted.
    """

    supports_distributed = True

    def __init__(self) -> None:
        self._counts = SrlCounts()

    def __call__(  # type: ignore[override]
        self, predicted_tags: Sequence[Sequence[str]], gold_tags: Sequence[Sequence[str]]
    ) -> None:
        counts = SrlCounts()
        for gold, predicted in zip(gold_tags, predicted_tags, strict=True):
            counts.add_proposition(gold, predicted)
        for each in of_all_processes(counts):
            self._counts.add(each)

    def get_metric(self, reset: bool = False) -> Dict[str, float]:
        metrics: Dict[str, float] = {}
        counts = self._counts
        if counts.num_propositions:
            metrics = {**counts.scores()._asdict(), "perfect": counts.num_perfect / counts.num_propositions}
        metrics.update({f"f1-{type_}": counts.scores(type_).f1 for type_ in counts.types})
        if reset:
            self.reset()
        return metrics

    def reset(self) -> None:
        self._counts = SrlCounts()
