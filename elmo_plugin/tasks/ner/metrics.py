"""Span F1 as conlleval counts it, for a trainer."""

from typing import Dict, Sequence

from allennlp.training.metrics import Metric

from elmo_plugin.tasks.common.metrics import CountingMetric
from elmo_plugin.tasks.ner.conlleval import ConllCounts


@Metric.register("elmo::conll")
class ConllMetric(CountingMetric):
    """Precision, recall and F1 of spans, overall and for each type of entity, and the accuracy of tags.

    It is called with the predicted and the gold tags of sentences. The scores are fractions of 1, under `precision`,
    `recall`, `f1` and `accuracy`, and under `f1-PER` and the like.
    """

    make_counts = ConllCounts

    def count(self, counts: ConllCounts, predicted_tags: Sequence[str], gold_tags: Sequence[str]) -> None:
        counts.add_sentence(gold_tags, predicted_tags)

    def metrics(self, counts: ConllCounts) -> Dict[str, float]:
        metrics = {**counts.scores()._asdict(), "accuracy": counts.accuracy}
        for type_ in counts.types:
            metrics.update({f"{name}-{type_}": score for name, score in counts.scores(type_)._asdict().items()})
        return metrics
