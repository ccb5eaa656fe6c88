import torch
from allennlp.training.metrics import CategoricalAccuracy

from elmo_plugin.tasks.common.accuracy import Accuracy

PROBABILITIES = torch.tensor([[0.1, 0.9], [0.8, 0.2], [0.5, 0.5], [0.3, 0.7]])
LABELS = torch.tensor([1, 1, 0, 1])


def test_it_is_allennlp_s_over_batches():
    ours, theirs = Accuracy(), CategoricalAccuracy()
    for rows in (slice(0, 3), slice(3, 4)):
        for metric in (ours, theirs):
            metric(PROBABILITIES[rows], LABELS[rows])
    assert ours.get_metric(reset=True) == {"accuracy": theirs.get_metric()} == {"accuracy": 0.75}
    assert ours.get_metric() == {"accuracy": 0.0}


def test_the_host_waits_for_a_gpu_only_to_read_it(gpu):
    metric = Accuracy()
    with gpu.counted() as counts:
        for _ in range(3):
            metric(PROBABILITIES.cuda(), LABELS.cuda())
    assert not counts.waits
    assert metric.get_metric() == {"accuracy": 0.75}


def test_it_is_of_all_processes(count_in_two_processes):
    of_processes = count_in_two_processes(Accuracy(), PROBABILITIES, LABELS)
    assert of_processes == [{"accuracy": 0.75}] * 2
