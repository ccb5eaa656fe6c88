import math

import torch
from torch.testing import assert_close

from elmo_plugin.tasks.snli.modules import align, average_and_max, local_inference


def softmax(*values):
    exponentials = [math.exp(value) for value in values]
    return [value / sum(exponentials) for value in exponentials]


def test_alignment_worked_by_hand():
    premise = torch.tensor([[[1.0, 0.0], [0.0, 2.0]]])
    hypothesis = torch.tensor([[[1.0, 1.0], [3.0, 0.0], [0.0, 0.0]]])
    # e = [[1, 3, 0], [2, 0, 0]]
    alignment = align(premise, torch.ones(1, 2).bool(), hypothesis, torch.ones(1, 3).bool())
    rows = [softmax(1, 3, 0), softmax(2, 0, 0)]
    assert_close(alignment.premise_attention, torch.tensor([rows]))
    assert_close(alignment.premise, torch.tensor([[[row[0] + 3 * row[1], row[0]] for row in rows]]))
    rows = [softmax(1, 2), softmax(3, 0), softmax(0, 0)]
    assert_close(alignment.hypothesis_attention, torch.tensor([rows]))
    assert_close(alignment.hypothesis, torch.tensor([[[row[0], 2 * row[1]] for row in rows]]))


def test_alignment_sees_no_padding():
    torch.manual_seed(0)
    premise, hypothesis = torch.randn(1, 2, 4), torch.randn(1, 3, 4)
    alone = align(premise, torch.ones(1, 2).bool(), hypothesis, torch.ones(1, 3).bool())
    # What is in the padding must not matter, however large.
    padded_premise = torch.cat([premise, torch.full((1, 2, 4), 100.0)], dim=1)
    padded_hypothesis = torch.cat([hypothesis, torch.full((1, 1, 4), 100.0)], dim=1)
    premise_mask = torch.tensor([[True, True, False, False]])
    hypothesis_mask = torch.tensor([[True, True, True, False]])
    padded = align(padded_premise, premise_mask, padded_hypothesis, hypothesis_mask)
    assert_close(padded.premise[:, :2], alone.premise)
    assert_close(padded.hypothesis[:, :3], alone.hypothesis)
    assert padded.premise_attention[:, 2:].eq(0).all() and padded.premise_attention[:, :, 3:].eq(0).all()
    assert padded.hypothesis_attention[:, 3:].eq(0).all() and padded.hypothesis_attention[:, :, 2:].eq(0).all()


def test_local_inference_worked_by_hand():
    compared = local_inference(torch.tensor([[[2.0, 3.0]]]), torch.tensor([[[5.0, -1.0]]]))
    assert compared.tolist() == [[[2, 3, 5, -1, -3, 4, 10, -3]]]


def test_pooling_worked_by_hand():
    composed = torch.tensor([[[1.0, -4.0], [3.0, -2.0], [9.0, 9.0]], [[1.0, 2.0], [0.0, 0.0], [0.0, 0.0]]])
    mask = torch.tensor([[True, True, False], [True, False, False]])
    assert average_and_max(composed, mask).tolist() == [[2, -3, 3, -2], [1, 2, 1, 2]]
