from elmo_plugin.tasks.srl import SrlMetric

GOLD = [["B-ARG0", "B-V", "O"], ["B-V", "B-ARG1", "I-ARG1"]]
PREDICTED = [["B-ARG0", "B-V", "O"], ["B-V", "B-ARG1", "O"]]


def test_scores_are_overall_and_by_type():
    metric = SrlMetric()
    metric(PREDICTED, GOLD)
    expected = {"precision": 0.5, "recall": 0.5, "f1": 0.5, "perfect": 0.5, "f1-ARG0": 1.0, "f1-ARG1": 0.0}
    assert metric.get_metric() == expected


def test_batches_add_up_and_a_reset_starts_anew():
    together, apart = SrlMetric(), SrlMetric()
    together(PREDICTED, GOLD)
    for predicted, gold in zip(PREDICTED, GOLD, strict=True):
        apart([predicted], [gold])
    assert apart.get_metric() == together.get_metric(reset=True)
    assert together.get_metric() == {}


def test_a_single_argument_can_spoil_perfection():
    metric = SrlMetric()
    metric([["O", "B-V"]], [["B-ARG0", "B-V"]])
    assert metric.get_metric() == {"precision": 0.0, "recall": 0.0, "f1": 0.0, "perfect": 0.0, "f1-ARG0": 0.0}


def test_processes_count_together(count_in_two_processes):
    first, second = count_in_two_processes(SrlMetric(), PREDICTED, GOLD)
    assert first == second
    assert first["f1"] == 0.5
    assert {"f1-ARG0", "f1-ARG1"} < first.keys()
