import math

import pytest
import torch
from allennlp.common import Params
from allennlp.modules.matrix_attention import LinearMatrixAttention
from torch.testing import assert_close

from elmo_plugin.tasks.squad import modules
from elmo_plugin.tasks.squad.modules import (
    BiAttention,
    ChainedHeads,
    LinearHeads,
    SelfAttention,
    SpanHeads,
    TrilinearSimilarity,
    best_spans,
)

GRU = {"type": "gru", "hidden_size": 3, "bidirectional": True}


def randn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def heads(type_, **changes):
    params = {"type": type_, **({"encoder": dict(GRU)} if type_ == "chained" else {}), **changes}
    return SpanHeads.from_params(Params(params), input_dim=4)


def test_similarity_worked_by_hand():
    similarity = TrilinearSimilarity(2)
    similarity.left_weight.data = torch.tensor([1.0, 2.0])
    similarity.right_weight.data = torch.tensor([10.0, 20.0])
    similarity.product_weight.data = torch.tensor([100.0, 200.0])
    left, right = torch.tensor([[[1.0, 1.0], [2.0, 0.0]]]), torch.tensor([[[3.0, 1.0]]])
    # 3 + 50 + 500, and 2 + 50 + 600
    assert similarity(left, right).tolist() == [[[553], [652]]]


def test_similarity_is_that_of_allennlp():
    similarity = TrilinearSimilarity(5)
    reference = LinearMatrixAttention(5, 5, "x,y,x*y")
    reference._weight_vector.data = torch.cat(list(similarity.parameters())).detach()
    left, right = randn(2, 4, 5), randn(2, 3, 5, seed=1)
    assert_close(similarity(left, right), reference(left, right))


def test_nothing_larger_than_the_similarity_is_kept_for_the_gradient():
    similarity = TrilinearSimilarity(50)
    sizes = []

    def pack(tensor):
        sizes.append(tensor.numel())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        similarity(randn(2, 30, 50), randn(2, 20, 50))
    assert max(sizes) <= 2 * 30 * 50


def plain_bi_attention(attention, passage, question):
    """The equations, token by token, for one pair without padding."""
    scores = attention.similarity(passage.unsqueeze(0), question.unsqueeze(0))[0]
    summary = torch.softmax(scores.max(dim=1).values, dim=0) @ passage
    rows = []
    for token, row in zip(passage, scores, strict=True):
        found = sum(weight * word for weight, word in zip(torch.softmax(row, dim=0), question, strict=True))
        rows.append(torch.cat([token, found, token * found, token * summary]))
    return torch.stack(rows)


def test_bi_attention_is_the_papers_equations():
    attention = BiAttention(4)
    passage, question = randn(5, 4), randn(3, 4, seed=1)
    output = attention(passage[None], torch.ones(1, 5).bool(), question[None], torch.ones(1, 3).bool())
    assert output.size(-1) == attention.get_output_dim()
    assert_close(output[0], plain_bi_attention(attention, passage, question))


def test_bi_attention_sees_no_padding():
    attention = BiAttention(4)
    passage, question = randn(1, 5, 4), randn(1, 3, 4, seed=1)
    passage_mask, question_mask = torch.tensor([[True] * 3 + [False] * 2]), torch.tensor([[True, True, False]])
    # What is in the padding must not matter, however large.
    passage[:, 3:], question[:, 2:] = 100.0, 100.0
    output = attention(passage, passage_mask, question, question_mask)
    assert_close(output[0, :3], plain_bi_attention(attention, passage[0, :3], question[0, :2]))


def test_self_attention_is_over_the_other_tokens():
    attention = SelfAttention(4)
    passage = randn(1, 4, 4)
    output = attention(passage, torch.ones(1, 4).bool())
    assert output.size(-1) == attention.get_output_dim()
    scores = attention.similarity(passage, passage)[0]
    for index in range(4):
        others = [other for other in range(4) if other != index]
        found = torch.softmax(scores[index, others], dim=0) @ passage[0, others]
        assert_close(output[0, index], torch.cat([passage[0, index], found, passage[0, index] * found]))


def test_self_attention_sees_no_padding():
    attention = SelfAttention(4)
    passage = randn(1, 5, 4)
    passage[:, 3:] = 100.0
    padded = attention(passage, torch.tensor([[True] * 3 + [False] * 2]))
    assert_close(padded[:, :3], attention(passage[:, :3], torch.ones(1, 3).bool()))


def test_single_token_attends_to_nothing():
    passage = randn(1, 1, 4)
    output = SelfAttention(4)(passage, torch.ones(1, 1).bool())
    assert_close(output, torch.cat([passage, torch.zeros(1, 1, 8)], dim=-1))


def test_self_attention_in_blocks_is_the_same_with_its_gradients(monkeypatch):
    attention = SelfAttention(4)
    mask = torch.tensor([[True] * 7, [True] * 5 + [False] * 2])
    outputs, gradients = [], []
    for max_weights in (10**6, 2 * 7 * 3):
        monkeypatch.setattr(modules, "MAX_WEIGHTS", max_weights)
        passage = randn(2, 7, 4).requires_grad_()
        outputs.append(attention(passage, mask))
        gradients.append(torch.autograd.grad(outputs[-1].square().sum(), [passage, *attention.parameters()]))
    assert_close(outputs[0], outputs[1])
    assert_close(gradients[0], gradients[1])


def test_no_more_than_so_many_weights_are_made_at_a_time_for_a_passage_of_20000_tokens(monkeypatch):
    sizes = []

    def attend(self, passage, mask, start, end):
        sizes.append((end - start) * passage.size(1))
        return passage[:, start:end]

    monkeypatch.setattr(SelfAttention, "_attend", attend)
    output = SelfAttention(2)(randn(1, 20_000, 2), torch.ones(1, 20_000, dtype=torch.bool))
    assert output.shape == (1, 20_000, 6)
    assert sum(sizes) == 20_000**2 and max(sizes) <= modules.MAX_WEIGHTS


def test_linear_heads_are_the_default():
    assert isinstance(SpanHeads.from_params(Params({}), input_dim=4), LinearHeads)


def test_linear_heads_are_two_layers():
    linear = heads("linear")
    passage = randn(2, 5, 4)
    start, end = linear(passage, torch.ones(2, 5).bool())
    assert_close(start, passage @ linear.start.weight[0] + linear.start.bias)
    assert_close(end, passage @ linear.end.weight[0] + linear.end.bias)


def test_end_of_chained_heads_hears_of_the_start():
    chained = heads("chained")
    assert isinstance(chained, ChainedHeads)
    passage, mask = randn(2, 5, 4), torch.ones(2, 5).bool()
    start, end = chained(passage, mask)
    of_start = chained.start_encoder._module(passage)[0]
    of_end = chained.end_encoder._module(torch.cat([of_start, passage], dim=-1))[0]
    assert_close(start, chained.start(of_start).squeeze(-1))
    assert_close(end, chained.end(of_end).squeeze(-1))


@pytest.mark.parametrize("type_, num_masks", [("linear", 2), ("chained", 4)])
def test_dropout_is_before_every_layer_of_the_heads(type_, num_masks):
    with_dropout = heads(type_, variational_dropout=0.5).train()
    calls = []
    with_dropout.dropout.register_forward_hook(lambda *_: calls.append(1))
    with_dropout(randn(2, 5, 4), torch.ones(2, 5).bool())
    assert len(calls) == num_masks


def every_span(start, end, length, max_span_tokens):
    """All spans with their probabilities, best first."""
    spans = [
        (float(start[first] * end[last]), first, last)
        for first in range(length)
        for last in range(first, min(first + max_span_tokens, length))
    ]
    return sorted(spans, reverse=True)


@pytest.mark.parametrize("max_span_tokens", [1, 2, 4, 17])
def test_best_spans_are_those_of_a_search_over_all(max_span_tokens):
    lengths = [7, 1, 4, 6]
    mask = torch.arange(7) < torch.tensor(lengths).unsqueeze(1)
    start, end = (torch.softmax(3 * randn(4, 7, seed=seed).masked_fill(~mask, -1e9), dim=-1) for seed in (0, 1))
    spans = best_spans(start, end, mask, max_span_tokens, num_best=4)
    for row, length in enumerate(lengths):
        expected = every_span(start[row], end[row], length, max_span_tokens)[:4]
        found = torch.stack([spans.starts[row], spans.ends[row]], dim=-1)[: len(expected)]
        assert found.tolist() == [[first, last] for _, first, last in expected]
        probabilities = [probability for probability, _, _ in expected]
        assert_close(spans.log_probabilities[row].exp()[: len(expected)], torch.tensor(probabilities))
        assert spans.log_probabilities[row, len(expected) :].eq(-math.inf).all()


def test_end_before_the_start_is_no_span():
    start, end = torch.tensor([[0.1, 0.1, 0.8]]), torch.tensor([[0.8, 0.11, 0.09]])
    spans = best_spans(start, end, torch.ones(1, 3).bool(), 17)
    assert (spans.starts.item(), spans.ends.item()) == (0, 0)


def test_span_of_no_probability_is_better_than_none():
    start, end = torch.tensor([[0.0, 1.0, 0.0]]), torch.tensor([[1.0, 0.0, 0.0]])
    spans = best_spans(start, end, torch.tensor([[True, True, False]]), 1, num_best=3)
    assert sorted(spans.starts[0, :2].tolist()) == [0, 1]
    assert spans.log_probabilities[0, :2].isfinite().all()
    assert spans.log_probabilities[0, 2] == -math.inf
