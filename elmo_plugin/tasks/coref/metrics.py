"""MUC, B-cubed and CEAF-e, as the official scorer of CoNLL-2012 (version 8.01) counts them.

Mentions are compared by their words. Mentions that only one side has count against the other's recall or precision, and
clusters of one mention count where there are any (MUC has no links in them). The sums of all documents make the scores
of a corpus.

A gold mention may be in several clusters, or twice in one: it counts as often as it occurs, but the gold cluster of a
predicted mention is the last one. A prediction of it counts once, in the first cluster that has it.
"""

from collections import Counter
from dataclasses import dataclass
from typing import Dict, Hashable, Iterable, List, Sequence, Set

import numpy
from allennlp.training.metrics import Metric
from scipy.optimize import linear_sum_assignment

from elmo_plugin.tasks.common.metrics import F1Scores, of_all_processes
from elmo_plugin.tasks.coref.conll import read_documents

Clustering = Sequence[Iterable[Hashable]]
Clusters = List[List[Hashable]]


@dataclass
class Tally:
    """The sums that one of the metrics is made of."""

    recall_numerator: float = 0.0
    recall_denominator: float = 0.0
    precision_numerator: float = 0.0
    precision_denominator: float = 0.0

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(*(left + right for left, right in zip(vars(self).values(), vars(other).values(), strict=True)))

    def scores(self) -> F1Scores:
        precision = _ratio(self.precision_numerator, self.precision_denominator)
        recall = _ratio(self.recall_numerator, self.recall_denominator)
        return F1Scores(precision, recall, _ratio(2 * precision * recall, precision + recall))


def muc(gold: Clusters, predicted: Clusters) -> Tally:
    """Vilain et al. (1995): the links that hold a cluster together which the other side has, too."""
    num_common = sum(number - 1 for cluster in _gold_clusters_met(gold, predicted) for number in cluster.values())
    return Tally(num_common, _num_links(gold), num_common, _num_links(predicted))


def b_cubed(gold: Clusters, predicted: Clusters) -> Tally:
    """Bagga and Baldwin (1998): for each mention, how much of its cluster is in its cluster on the other side."""
    gold_sets = [set(cluster) for cluster in gold]
    recall = precision = 0.0
    for cluster, met in zip(predicted, _gold_clusters_met(gold, predicted), strict=True):
        for number, num_mentions in met.items():
            num_common = sum(mention in gold_sets[number] for mention in cluster)
            recall += num_mentions * num_common / len(gold[number])
            precision += num_mentions * num_common / len(cluster)
    return Tally(recall, sum(map(len, gold)), precision, sum(map(len, predicted)))


def ceaf_e(gold: Clusters, predicted: Clusters) -> Tally:
    """Luo (2005): the best one-to-one alignment of clusters, by phi_4 = 2 |K & R| / (|K| + |R|)."""
    similarity = 2 * _overlaps(gold, predicted) / (_sizes(gold)[:, None] + _sizes(predicted)[None, :])
    best = float(similarity[linear_sum_assignment(similarity, maximize=True)].sum())
    return Tally(best, len(gold), best, len(predicted))


METRICS = {"muc": muc, "b_cubed": b_cubed, "ceaf_e": ceaf_e}


class CoreferenceCounts:
    """What is counted over documents with gold and predicted clusters."""

    def __init__(self) -> None:
        self.tallies = {name: Tally() for name in METRICS}

    def add_document(self, gold: Clustering, predicted: Clustering) -> None:
        """The order of gold clusters matters where a mention is in two of them; see above."""
        gold_clusters = [mentions for cluster in gold if (mentions := list(cluster))]
        predicted_clusters = _without_repetitions(predicted, set(_places(gold_clusters)))
        for name, metric in METRICS.items():
            self.tallies[name] += metric(gold_clusters, predicted_clusters)

    def scores(self, name: str) -> F1Scores:
        return self.tallies[name].scores()

    def average_f1(self) -> float:
        """The score of CoNLL-2012: the mean of the three F1."""
        return sum(self.scores(name).f1 for name in METRICS) / len(METRICS)

    def report(self) -> str:
        """Percentages cut off after two digits, as in the official report."""
        lines = [f"{'':10}{'recall':>10}{'precision':>11}{'F1':>8}"]
        for name in METRICS:
            precision, recall, f1 = self.scores(name)
            lines.append(f"{name:10}{_percentage(recall):10.2f}{_percentage(precision):11.2f}{_percentage(f1):8.2f}")
        lines.append(f"{'average':10}{'':10}{'':11}{_percentage(self.average_f1()):8.2f}")
        return "\n".join(lines) + "\n"


def score_files(key_file: str, response_file: str) -> CoreferenceCounts:
    """The counts of the documents of two files. Documents missing from the response have no clusters there."""
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

    `f1` is the average that CoNLL-2012 ranks by; `muc_precision`, `b_cubed_f1`, `ceaf_e_recall` and so on are its
    parts; `mention_recall` is the fraction of gold mentions that the model considered at all.
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


def _gold_clusters_met(gold: Clusters, predicted: Clusters) -> List[Counter]:
    """For each predicted cluster, how many of its mentions are in which gold one."""
    place = _places(gold)
    return [Counter(place[mention] for mention in cluster if mention in place) for cluster in predicted]


def _places(clusters: Clusters) -> Dict[Hashable, int]:
    """The number of the last cluster that a mention is in."""
    return {mention: number for number, cluster in enumerate(clusters) for mention in cluster}


def _num_links(clusters: Clusters) -> int:
    return sum(len(cluster) - 1 for cluster in clusters)


def _overlaps(gold: Clusters, predicted: Clusters) -> numpy.ndarray:
    """(num_gold, num_predicted): how many mentions two clusters have in common."""
    overlaps = numpy.zeros((len(gold), len(predicted)))
    place = _places(predicted)
    for number, cluster in enumerate(gold):
        for mention in cluster:
            if mention in place:
                overlaps[number, place[mention]] += 1
    return overlaps


def _sizes(clusters: Clusters) -> numpy.ndarray:
    return numpy.array([len(cluster) for cluster in clusters], dtype=float)


def _without_repetitions(predicted: Clustering, gold_mentions: Set[Hashable]) -> Clusters:
    """The clusters without repeated gold mentions. The official scorer leaves other repetitions in."""
    seen: Set[Hashable] = set()
    clusters: Clusters = []
    for cluster in predicted:
        kept = []
        for mention in cluster:
            if mention not in seen:
                kept.append(mention)
            if mention in gold_mentions:
                seen.add(mention)
        if kept:
            clusters.append(kept)
    return clusters


def _percentage(fraction: float) -> float:
    return int(fraction * 10000) / 100


def _ratio(numerator: float, denominator: float) -> float:
    return numerator / denominator if denominator else 0.0
