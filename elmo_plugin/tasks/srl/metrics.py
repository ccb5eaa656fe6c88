"""Span F1 as srl-eval counts it, for a trainer."""

from typing import Dict, Sequence

from allennlp.training.metrics import Metric

from elmo_plugin.tasks.common.metrics import CountingMetric
from elmo_plugin.tasks.srl.srl_eval import SrlCounts


@Metric.register("elmo::srl")
class SrlMetric(CountingMetric):
    """Precision, recall and F1 of arguments, V excluded and continuations joined, overall and for each type.

    It is called with the predicted and the gold tags of predicates. The scores are fractions of 1, under `precision`,
    `recall` and `f1`, and under `f1-ARG0` and the like; `perfect` is the fraction of predicates all of whose arguments
    are right. There are no scores before anything is counted.
    """

    make_counts = SrlCounts

    def count(self, counts: SrlCounts, predicted_tags: Sequence[str], gold_tags: Sequence[str]) -> None:
        counts.add_proposition(gold_tags, predicted_tags)

    def metrics(self, counts: SrlCounts) -> Dict[str, float]:
        if not counts.num_propositions:
            return {}
        by_type = {f"f1-{type_}": counts.scores(type_).f1 for type_ in counts.types}
        return {**counts.scores()._asdict(), "perfect": counts.num_perfect / counts.num_propositions, **by_type}
