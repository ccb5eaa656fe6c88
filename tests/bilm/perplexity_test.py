import math

import pytest
import torch
from allennlp.training.metrics import Metric

from elmo_plugin.bilm.perplexity import BiLmPerplexity

FORWARD = torch.tensor([[1.0, 2.0, 9.0], [3.0, 9.0, 9.0]])
BACKWARD = torch.tensor([[2.0, 4.0, 9.0], [6.0, 9.0, 9.0]])
MASK = torch.tensor([[True, True, False], [True, False, False]])


def test_each_figure_by_hand():
    metric = Metric.by_name("elmo::bilm_perplexity")()
    metric(FORWARD, BACKWARD, MASK)
    figures = metric.get_metric()
    assert figures["forward_perplexity"] == pytest.approx(math.exp(2))
    assert figures["backward_perplexity"] == pytest.approx(math.exp(4))
    assert figures["perplexity"] == pytest.approx((math.exp(2) + math.exp(4)) / 2)
    assert figures["exp_mean_loss_perplexity"] == pytest.approx(math.exp(3))


def test_batches_count_by_their_targets():
    whole, parts = BiLmPerplexity(), BiLmPerplexity()
    whole(FORWARD, BACKWARD, MASK)
    for row in range(2):
        parts(FORWARD[row], BACKWARD[row], MASK[row])
    parts(FORWARD, BACKWARD, torch.zeros_like(MASK))
    assert parts.get_metric(reset=True) == whole.get_metric()
    assert all(math.isnan(figure) for figure in parts.get_metric().values())


def test_sums_are_kept_in_double_precision():
    metric = BiLmPerplexity()
    large = 2.0**25  # float32 can't tell it from large + 1
    metric(torch.tensor([large, 1.0]), torch.tensor([large, 1.0]), torch.ones(2, dtype=torch.bool))
    metric(torch.tensor([1.0]), torch.tensor([1.0]), torch.ones(1, dtype=torch.bool))
    assert metric._totals.tolist() == [large + 2, large + 2, 3.0]


def test_masked_values_may_be_anything():
    metric = BiLmPerplexity()
    metric(torch.tensor([1.0, math.nan]), torch.tensor([1.0, math.inf]), torch.tensor([True, False]))
    assert metric.get_metric()["perplexity"] == pytest.approx(math.e)


def test_a_loss_beyond_exp_is_infinite_rather_than_an_error():
    metric = BiLmPerplexity()
    metric(torch.tensor([1000.0]), torch.tensor([1.0]), torch.tensor([True]))
    assert metric.get_metric()["perplexity"] == math.inf


def test_processes_are_summed(monkeypatch):
    metric = BiLmPerplexity()
    monkeypatch.setattr(
        "elmo_plugin.bilm.perplexity.dist_reduce_sum", lambda batch: batch * torch.tensor([3.0, 3.0, 2.0])
    )
    metric(FORWARD, BACKWARD, MASK)
    assert metric.get_metric()["forward_perplexity"] == pytest.approx(math.exp(3))


def test_it_keeps_no_graph():
    metric = BiLmPerplexity()
    metric(FORWARD.clone().requires_grad_(), BACKWARD, MASK)
    assert not metric._totals.requires_grad
