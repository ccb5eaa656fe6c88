import pytest

from elmo_plugin.tasks.ner import ConllMetric

GOLD = [["B-PER", "L-PER", "O"], ["U-LOC"], ["U-ORG", "O"]]
PREDICTED = [["B-PER", "L-PER", "U-LOC"], ["U-LOC"], ["O", "O"]]


def test_scores_are_overall_and_by_type():
    metric = ConllMetric()
    metric(PREDICTED, GOLD)
    metrics = metric.get_metric()
    assert metrics.pop("accuracy") == pytest.approx(4 / 6)
    assert metrics == pytest.approx(
        {
            **{"precision": 2 / 3, "recall": 2 / 3, "f1": 2 / 3},
            **{"precision-PER": 1.0, "recall-PER": 1.0, "f1-PER": 1.0},
            **{"precision-LOC": 0.5, "recall-LOC": 1.0, "f1-LOC": 2 / 3},
            **{"precision-ORG": 0.0, "recall-ORG": 0.0, "f1-ORG": 0.0},
        }
    )


def test_batches_add_up_to_the_same_as_one():
    metric, whole = ConllMetric(), ConllMetric()
    for predicted, gold in zip(PREDICTED, GOLD, strict=True):
        metric([predicted], [gold])
    whole(PREDICTED, GOLD)
    assert metric.get_metric() == whole.get_metric()


def test_a_reset_forgets():
    metric = ConllMetric()
    metric(PREDICTED, GOLD)
    metric.get_metric(reset=True)
    assert metric.get_metric() == {"precision": 0.0, "recall": 0.0, "f1": 0.0, "accuracy": 0.0}


def test_processes_add_up_even_with_types_that_only_one_has_seen(count_in_two_processes):
    metric = ConllMetric()
    metric(PREDICTED, GOLD)
    first, second = count_in_two_processes(ConllMetric(), PREDICTED, GOLD)
    assert first == second == pytest.approx(metric.get_metric())
