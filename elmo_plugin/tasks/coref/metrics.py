"""MUC, B-cubed and CEAF-e, as the official scorer of CoNLL-2012 (version 8) counts them.

Mentions are compared by their words. Nothing is done to either side first: mentions that only one side has count
against the other's recall or precision, and clusters of one mention count where there are any (MUC has no links in
them). The sums of all documents make the scores of a corpus.
"""

from dataclasses import dataclass
from typing import Dict, Hashable, Iterable, List, NamedTuple, Sequence, Set

import numpy
from allennlp.training.metrics import Metric
from scipy.optimize import linear_sum_assignment

from elmo_plugin.tasks.common.processes import of_all_processes
from elmo_plugin.tasks.coref.conll import read_documents

Clustering = Sequence[Iterable[Hashable]]


class Scores(NamedTuple):
    """Fractions of 1. What has no denominator is 0, as in the official scorer."""

    precision: float
    recall: float
    f1: float


@dataclass
class Tally:
    """The sums that one of the metrics is made of."""

    recall_numerator: float = 0.0
    recall_denominator: float = 0.0
    precision_numerator: float = 0.0
    precision_denominator: float = 0.0

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(*(left + right for left, right in zip(vars(self).values(), vars(other).values(), strict=True)))

    def scores(self) -> Scores:
        precision = _ratio(self.precision_numerator, self.precision_denominator)
        recall = _ratio(self.recall_numerator, self.recall_denominator)
        return Scores(precision, recall, _ratio(2 * precision * recall, precision + recall))


def muc(gold: List[Set], predicted: List[Set]) -> Tally:
    """Vilain et al. (1995): of the links that it takes to hold a cluster together, those that the others have."""
    return Tally(*_common_links(gold, predicted), *_common_links(predicted, gold))


def b_cubed(gold: List[Set], predicted: List[Set]) -> Tally:
    """Bagga and Baldwin (1998): for each mention, how much of its cluster is in its cluster on the other side."""
    overlaps = _overlaps(gold, predicted)
    gold_sizes, predicted_sizes = _sizes(gold), _sizes(predicted)
    return Tally(
        float((overlaps**2 / gold_sizes[:, None]).sum()),
        float(gold_sizes.sum()),
        float((overlaps**2 / predicted_sizes[None, :]).sum()),
        float(predicted_sizes.sum()),
    )


def ceaf_e(gold: List[Set], predicted: List[Set]) -> Tally:
    """Luo (2005): the best one-to-one alignment of clusters, by phi_4 = 2 |K & R| / (|K| + |R|)."""
    similarity = 2 * _overlaps(gold, predicted) / (_sizes(gold)[:, None] + _sizes(predicted)[None, :])
    best = float(similarity[linear_sum_assignment(similarity, maximize=True)].sum())
    return Tally(best, len(gold), best, len(predicted))


METRICS = {"muc": muc, "b_cubed": b_cubed, "ceaf_e": ceaf_e}


class CoreferenceCounts:
    """What is counted in documents of gold and predicted clusters."""

    def __init__(self) -> None:
        self.tallies = {name: Tally() for name in METRICS}

    def add_document(self, gold: Clustering, predicted: Clustering) -> None:
        """A mention that is in several clusters of a side counts in the first one only."""
        gold_sets, predicted_sets = _disjoint(gold), _disjoint(predicted)
        for name, metric in METRICS.items():
            self.tallies[name] += metric(gold_sets, predicted_sets)

    def scores(self, name: str) -> Scores:
        return self.tallies[name].scores()

    def average_f1(self) -> float:
        """The score of CoNLL-2012: the mean of the three F1."""
        return sum(self.scores(name).f1 for name in METRICS) / len(METRICS)

    def report(self) -> str:
        lines = [f"{'':10}{'recall':>10}{'precision':>11}{'F1':>8}"]
        for name in METRICS:
            precision, recall, f1 = self.scores(name)
            lines.append(f"{name:10}{100 * recall:10.2f}{100 * precision:11.2f}{100 * f1:8.2f}")
        lines.append(f"{'average':10}{'':10}{'':11}{100 * self.average_f1():8.2f}")
        return "\n".join(lines) + "\n"


def score_files(key_file: str, response_file: str) -> CoreferenceCounts:
    """The counts of the documents of two files. Those that the response lacks have no cluster there."""
    responses = {(document.id, document.part): document.clusters for document in read_documents(response_file)}
    counts = CoreferenceCounts()
    for document in read_documents(key_file):
        counts.add_document(document.clusters, responses.pop((document.id, document.part), []))
    if responses:
        raise ValueError(f"{response_file} holds documents that {key_file} doesn't: {sorted(responses)}")
    return counts


@Metric.register("elmo::coref")
class CoreferenceMetric(Metric):
    """The three metrics and their average, and the recall of mentions among the spans that weren't pruned.

    Under `f1` the average that CoNLL-2012 ranks by; under `muc_precision`, `b_cubed_f1`, `ceaf_e_recall` and the like
    what it is made of; under `mention_recall` the fraction of gold mentions that the model considered at all.
    """

    supports_distributed = True

    def __init__(self) -> None:
        self.reset()

    def __call__(  # type: ignore[override]
        self,
        predicted: Sequence[Clustering],
        gold: Sequence[Clustering],
        considered: Sequence[Iterable[Hashable]],
    ) -> None:
        """Counts a batch of documents; `considered` are the spans of each that were left to choose from."""
        counts = CoreferenceCounts()
        recall = Tally()
        for predicted_clusters, gold_clusters, spans in zip(predicted, gold, considered, strict=True):
            counts.add_document(gold_clusters, predicted_clusters)
            mentions = {mention for cluster in gold_clusters for mention in cluster}
            recall += Tally(len(mentions.intersection(spans)), len(mentions))
        for tallies in of_all_processes({**counts.tallies, "mentions": recall}):
            self._mentions += tallies.pop("mentions")
            for name, tally in tallies.items():
                self._counts.tallies[name] += tally

    def get_metric(self, reset: bool = False) -> Dict[str, float]:
        metrics = {"f1": self._counts.average_f1(), "mention_recall": self._mentions.scores().recall}
        for name in METRICS:
            scores = self._counts.scores(name)._asdict()
            metrics.update({f"{name}_{score_name}": score for score_name, score in scores.items()})
        if reset:
            self.reset()
        return metrics

    def reset(self) -> None:
        self._counts = CoreferenceCounts()
        self._mentions = Tally()


def _common_links(clusters: List[Set], others: List[Set]) -> tuple:
    """How many links it takes to hold `clusters` together, after how many of them `others` have."""
    place = {mention: number for number, other in enumerate(others) for mention in other}
    num_common = num_links = 0
    for cluster in clusters:
        num_elsewhere = sum(mention not in place for mention in cluster)
        num_parts = len({place[mention] for mention in cluster if mention in place}) + num_elsewhere
        num_common += len(cluster) - num_parts
        num_links += len(cluster) - 1
    return num_common, num_links


def _overlaps(gold: List[Set], predicted: List[Set]) -> numpy.ndarray:
    """(num_gold, num_predicted): how many mentions two clusters have in common."""
    overlaps = numpy.zeros((len(gold), len(predicted)))
    place = {mention: number for number, cluster in enumerate(predicted) for mention in cluster}
    for number, cluster in enumerate(gold):
        for mention in cluster:
            if mention in place:
                overlaps[number, place[mention]] += 1
    return overlaps


def _sizes(clusters: List[Set]) -> numpy.ndarray:
    return numpy.array([len(cluster) for cluster in clusters], dtype=float)


def _disjoint(clusters: Clustering) -> List[Set]:
    seen: Set[Hashable] = set()
    sets = []
    for cluster in clusters:
        mentions = set(cluster) - seen
        seen |= mentions
        if mentions:
            sets.append(mentions)
    return sets


def _ratio(numerator: float, denominator: float) -> float:
    return numerator / denominator if denominator else 0.0
