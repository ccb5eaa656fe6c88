import pytest
import torch

from elmo_plugin.tasks.common.pooling import SelfAttentivePooling, masked_max, masked_mean, masked_min, masked_softmax

# Two texts, of two tokens and of one; what is at padding must not matter.
VECTORS = torch.tensor([[[1.0, -4.0], [3.0, -2.0], [99.0, -99.0]], [[-5.0, 6.0], [99.0, 99.0], [-99.0, -99.0]]])
MASK = torch.tensor([[True, True, False], [True, False, False]])


def self_attentive(vectors: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    torch.manual_seed(0)
    return SelfAttentivePooling(vectors.size(-1))(vectors, mask)


POOLINGS = [masked_max, masked_min, masked_mean, self_attentive]


@pytest.mark.parametrize(
    "pool, expected",
    [
        (masked_max, [[3.0, -2.0], [-5.0, 6.0]]),
        (masked_min, [[1.0, -4.0], [-5.0, 6.0]]),
        (masked_mean, [[2.0, -3.0], [-5.0, 6.0]]),
    ],
)
def test_max_min_and_mean_are_over_the_tokens_alone(pool, expected):
    assert pool(VECTORS, MASK).tolist() == expected


def test_self_attentive_pooling_weighs_tokens_by_a_softmax_of_their_scores():
    pooling = SelfAttentivePooling(2)
    with torch.no_grad():
        pooling.score.weight.copy_(torch.tensor([[0.5, 0.0]]))
        pooling.score.bias.fill_(7.0)
    # Scores 0.5 and 1.5 and a common 7: the second weight is 1 / (1 + e^-1).
    second = 1 / (1 + torch.exp(torch.tensor(-1.0)))
    expected = (1 - second) * VECTORS[0, 0] + second * VECTORS[0, 1]
    pooled = pooling(VECTORS, MASK)
    torch.testing.assert_close(pooled[0], expected)
    torch.testing.assert_close(pooled[1], VECTORS[1, 0])


@pytest.mark.parametrize("pool", POOLINGS)
@pytest.mark.parametrize("at_padding", [0.0, 1e30, float("inf"), float("nan")])
def test_padding_never_counts_whatever_it_holds(pool, at_padding):
    padded = VECTORS.masked_fill(~MASK.unsqueeze(-1), at_padding)
    torch.testing.assert_close(pool(padded, MASK)[0], pool(VECTORS[:1, :2], MASK[:1, :2])[0])
    torch.testing.assert_close(pool(padded, MASK)[1], VECTORS[1, 0])


@pytest.mark.parametrize("pool", POOLINGS)
def test_a_text_without_tokens_gives_zeros(pool):
    assert pool(VECTORS, torch.zeros_like(MASK)).tolist() == [[0.0, 0.0], [0.0, 0.0]]


@pytest.mark.parametrize("pool", POOLINGS)
def test_no_gradient_reaches_padding(pool):
    vectors = VECTORS.clone().requires_grad_()
    pool(vectors, MASK).sum().backward()
    assert (vectors.grad[MASK] != 0).any()
    assert (vectors.grad[~MASK] == 0).all()


@pytest.mark.parametrize("offset", [-1000.0, 0.0, 1000.0])
def test_a_masked_softmax_is_that_of_the_real_logits_however_far_from_zero(offset):
    logits = torch.tensor([1.0, 3.0, 50.0]) + offset
    weights = masked_softmax(logits, torch.tensor([True, True, False]))
    torch.testing.assert_close(weights[:2], torch.softmax(torch.tensor([1.0, 3.0]), dim=-1))
    assert weights[2] == 0


def test_a_masked_softmax_over_nothing_is_zero():
    assert masked_softmax(torch.tensor([1.0, 2.0]), torch.tensor([False, False])).tolist() == [0.0, 0.0]
