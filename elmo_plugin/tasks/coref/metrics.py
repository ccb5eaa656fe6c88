"""MUC, B-cubed and CEAF-e, as the official scorer of CoNLL-2012 (version 8.01) counts them.

Mentions are compared by their words. Mentions that only one side has count against the other's recall or precision, and
clusters of one mention count where there are any (MUC has no links in them). The sums of all documents make the scores
of a corpus.

A gold mention may be in several clusters, or twice in one: it counts as often as it occurs, but the gold cluster of a
predicted mention is the last one. A prediction of it counts once, in the first cluster that has it.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Dict, Hashable, Iterable, List, Sequence, Set

import numpy
from allennlp.training.metrics import Metric
from scipy.optimize import linear_sum_assignment

from elmo_plugin.tasks.common.metrics import CountingMetric, Counts, F1Scores, ratio
from elmo_plugin.tasks.coref.conll import read_documents

Clustering = Sequence[Iterable[Hashable]]
Clusters = List[List[Hashable]]


@dataclass
class Tally(Counts):
    """The sums that one of the metrics is made of."""

    recall_numerator: float = 0.0
    recall_denominator: float = 0.0
    precision_numerator: float = 0.0
    precision_denominator: float = 0.0

    def scores(self) -> F1Scores:
        precision = ratio(self.precision_numerator, self.precision_denominator)
        return F1Scores.of(precision, ratio(self.recall_numerator, self.recall_denominator))


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


@dataclass
class CoreferenceCounts(Counts):
    """What is counted over documents with gold and predicted clusters, by the names of `METRICS`, and of the gold
    mentions the recall among the spans that a model considered.
    """

    muc: Tally = field(default_factory=Tally)
    b_cubed: Tally = field(default_factory=Tally)
    ceaf_e: Tally = field(default_factory=Tally)
    mentions: Tally = field(default_factory=Tally)

    def add_document(self, gold: Clustering, predicted: Clustering) -> None:
        """The order of gold clusters matters where a mention is in two of them; see above."""
        gold_clusters = [mentions for cluster in gold if (mentions := list(cluster))]
        predicted_clusters = _without_repetitions(predicted, set(_places(gold_clusters)))
        for name, metric in METRICS.items():
            setattr(self, name, getattr(self, name) + metric(gold_clusters, predicted_clusters))

    def scores(self, name: str) -> F1Scores:
        return getattr(self, name).scores()

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
class CoreferenceMetric(CountingMetric):
    """The three metrics and their average, and the recall of mentions among the spans that weren't pruned.

    It is called with the predicted and the gold clusters of documents, and the spans that were left to choose from.
    `f1` is the average that CoNLL-2012 ranks by; `muc_precision`, `b_cubed_f1`, `ceaf_e_recall` and so on are its
    parts; `mention_recall` is the fraction of gold mentions that the model considered at all.
    """

    make_counts = CoreferenceCounts

    def count(
        self, counts: CoreferenceCounts, predicted: Clustering, gold: Clustering, considered: Iterable[Hashable]
    ) -> None:
        counts.add_document(gold, predicted)
        mentions = {mention for cluster in gold for mention in cluster}
        counts.mentions += Tally(len(mentions.intersection(considered)), len(mentions))

    def metrics(self, counts: CoreferenceCounts) -> Dict[str, float]:
        metrics = {"f1": counts.average_f1(), "mention_recall": counts.mentions.scores().recall}
        for name in METRICS:
            scores = counts.scores(name)._asdict()
            metrics.update({f"{name}_{score_name}": score for score_name, score in scores.items()})
        return metrics


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
