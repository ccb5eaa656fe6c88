import pytest
import torch

from elmo_plugin.tasks.common.gru_steps import run_gru
from elmo_plugin.tasks.common.recurrent import turned_round

NUM_TOKENS, BATCH_SIZE, DIM = 4, 3, 2


def arguments(num_directions):
    """Gates, weight and bias, in double precision, and where the second direction reads."""
    torch.manual_seed(0)
    shapes = [(num_directions, 3 * DIM, DIM), (num_directions, 3 * DIM)]
    shapes += [(NUM_TOKENS, BATCH_SIZE, 3 * DIM)] * num_directions
    weight, bias, *gates = (torch.randn(shape, dtype=torch.double, requires_grad=True) for shape in shapes)
    turned = turned_round(torch.tensor([4, 2, 3]), NUM_TOKENS) if num_directions == 2 else None
    return gates, weight, bias, turned


@pytest.mark.parametrize("num_directions", [1, 2])
def test_gradients_equal_finite_differences(num_directions):
    gates, weight, bias, turned = arguments(num_directions)
    assert torch.autograd.gradcheck(
        lambda weight, bias, *gates: tuple(run_gru(gates, weight, bias, turned)), (weight, bias, *gates)
    )


def test_gradients_of_one_direction_alone_leave_the_other_without():
    gates, weight, bias, turned = arguments(2)
    run_gru(gates, weight, bias, turned)[1].sum().backward()
    assert not gates[0].grad.any() and gates[1].grad.any()
    assert not weight.grad[0].any() and weight.grad[1].any()


def test_what_it_is_given_stays_as_it_is():
    gates, weight, bias, turned = arguments(2)
    before = [tensor.detach().clone() for tensor in (*gates, weight, bias)]
    states = run_gru(gates, weight, bias, turned)
    torch.stack(list(states)).sum().backward()
    for tensor, old in zip((*gates, weight, bias), before, strict=True):
        assert torch.equal(tensor, old)


def test_under_autocast_the_steps_keep_their_precision():
    gates, weight, bias, turned = (
        [tensor.detach().float() for tensor in part] if isinstance(part, list) else part for part in arguments(2)
    )
    weight, bias = weight.detach().float(), bias.detach().float()
    expected = run_gru(gates, weight, bias, turned)
    with torch.autocast("cpu", torch.bfloat16):
        found = run_gru([direction.bfloat16() for direction in gates], weight, bias, turned)
    for own, other in zip(found, expected, strict=True):
        assert own.dtype == torch.float32
        torch.testing.assert_close(own, other, atol=0.02, rtol=0.02)
