import pytest
import torch
from allennlp.modules.lstm_cell_with_projection import LstmCellWithProjection

from elmo_plugin.bilm import frozen, recurrence
from elmo_plugin.bilm.directions import Rows
from elmo_plugin.bilm.projected_lstm import LstmState, ProjectedLstm

LENGTHS = [7, 5, 5, 1]


def as_num_active(lengths):
    return [sum(length > step for length in lengths) for step in range(max(lengths))]


def as_keep(resets, num_active):
    return Rows(num_active, torch.arange(resets.size(1))).keep(resets.t(), torch.float32)


@pytest.fixture
def lstm():
    torch.manual_seed(1)
    lstm = ProjectedLstm(input_dim=3, projection_dim=2, cell_dim=5, cell_clip=0.5, projection_clip=0.3)
    for parameter in lstm.parameters():
        torch.nn.init.normal_(parameter)
    return lstm


def as_allennlps(lstm):
    """AllenNLP's cell with the same weights: its gates come in another order, and its forget bias holds the + 1."""

    def reorder(weight):
        input_gate, candidate, forget_gate, output_gate = weight.detach().chunk(4)
        return torch.cat([input_gate, forget_gate, candidate, output_gate])

    cell = LstmCellWithProjection(3, 2, 5, memory_cell_clip_value=0.5, state_projection_clip_value=0.3)
    with torch.no_grad():
        cell.input_linearity.weight.copy_(reorder(lstm.input_weight))
        cell.state_linearity.weight.copy_(reorder(lstm.state_weight))
        cell.state_linearity.bias.copy_(reorder(lstm.bias))
        cell.state_linearity.bias[5:10] += 1.0
        cell.state_projection.weight.copy_(lstm.projection_weight)
    return cell


def test_outputs_states_and_gradients_equal_allennlps(lstm):
    cell = as_allennlps(lstm)
    ours, theirs = (torch.randn(4, 7, 3, generator=torch.Generator().manual_seed(2)).requires_grad_() for _ in range(2))
    outputs, state = lstm(ours.transpose(0, 1), lstm.zero_state(4), as_num_active(LENGTHS))
    expected, (hidden, memory) = cell(theirs, LENGTHS)
    torch.testing.assert_close(outputs.transpose(0, 1), expected)
    torch.testing.assert_close((state.hidden, state.cell), (hidden[0], memory[0]))
    weight = torch.randn(4, 7, 2)
    ((outputs.transpose(0, 1) * weight).sum() + state.cell.sum()).backward()
    ((expected * weight).sum() + memory.sum()).backward()
    torch.testing.assert_close(ours.grad, theirs.grad)
    torch.testing.assert_close(lstm.projection_weight.grad, cell.state_projection.weight.grad)
    torch.testing.assert_close(lstm.bias.grad.chunk(4)[1], cell.state_linearity.bias.grad.chunk(4)[2])


@pytest.mark.parametrize("projection_dim", [2, 4], ids=["projected", "no projection"])
@pytest.mark.parametrize("with_resets", [False, True])
def test_the_hand_written_gradient_is_right(projection_dim, with_resets, assert_gradients_are_finite_differences):
    torch.manual_seed(0)
    lstm = ProjectedLstm(3, projection_dim, 4, cell_clip=0.5, projection_clip=0.3).double()
    for parameter in lstm.parameters():
        torch.nn.init.normal_(parameter)
    inputs = torch.randn(5, 3, 3, dtype=torch.double, requires_grad=True)
    hidden = (torch.randn(3, projection_dim, dtype=torch.double) * 0.1).requires_grad_()
    cell = (torch.randn(3, 4, dtype=torch.double) * 0.1).requires_grad_()
    num_active = [3, 3, 2, 1, 0]
    keep = as_keep(torch.rand(5, 3) < 0.4, num_active).double() if with_resets else None

    weights = [torch.randn(size, dtype=torch.double) for size in ((5, 3, projection_dim), (3, projection_dim), (3, 4))]

    def loss():
        outputs, state = lstm(inputs, LstmState(hidden, cell), num_active, keep)
        return sum((tensor * weight).sum() for tensor, weight in zip((outputs, *state), weights, strict=True))

    assert_gradients_are_finite_differences(loss, (inputs, hidden, cell, *lstm.parameters()))


def test_a_second_backward_pass_through_the_same_graph_is_refused(lstm):
    outputs, _ = lstm(torch.randn(7, 4, 3), lstm.zero_state(4), as_num_active(LENGTHS))
    outputs.sum().backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        outputs.sum().backward()


def test_without_gradients_the_numbers_are_the_same_in_any_blocks(lstm, monkeypatch):
    inputs = torch.randn(7, 4, 3)
    keep = as_keep(torch.rand(7, 4) < 0.3, as_num_active(LENGTHS))
    with_gradients = lstm(inputs, lstm.zero_state(4), as_num_active(LENGTHS), keep)
    for numbers in (1, 2 * 4 * 20, 10**9):
        monkeypatch.setattr(recurrence, "_MAX_GATE_NUMBERS", numbers)
        with torch.no_grad():
            without = lstm(inputs, lstm.zero_state(4), as_num_active(LENGTHS), keep)
        torch.testing.assert_close(without, with_gradients, atol=1e-6, rtol=0)


def test_inputs_and_state_are_left_as_they_were(lstm):
    inputs, state = torch.randn(7, 4, 3), LstmState(torch.randn(4, 2), torch.randn(4, 5))
    before = inputs.clone(), LstmState(*(tensor.clone() for tensor in state))
    with torch.no_grad():
        lstm(inputs, state, as_num_active(LENGTHS))
    assert (
        torch.equal(inputs, before[0])
        and torch.equal(state.hidden, before[1].hidden)
        and torch.equal(state.cell, before[1].cell)
    )


def test_autocast_keeps_the_recurrence_in_single_precision(lstm):
    inputs = torch.randn(7, 4, 3)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        outputs, state = lstm(inputs, lstm.zero_state(4), as_num_active(LENGTHS))
    assert outputs.dtype == state.cell.dtype == torch.float32
    expected = lstm(inputs, lstm.zero_state(4), as_num_active(LENGTHS))[0]
    torch.testing.assert_close(outputs, expected, atol=0.05, rtol=0.05)


@pytest.mark.parametrize("lengths", [LENGTHS, [3]], ids=["a batch", "one row"])
def test_laid_out_weights_change_no_number(lstm, monkeypatch, lengths):
    monkeypatch.setattr(frozen, "_LEAST_PACKED_NUMBERS", 0)
    inputs = torch.randn(8, len(lengths), 3)  # one step more than the longest row has
    num_active = [*as_num_active(lengths), *[0] * (8 - max(lengths))]
    expected = lstm(inputs, lstm.zero_state(len(lengths)), num_active)
    lstm.requires_grad_(False)
    torch.testing.assert_close(lstm(inputs, lstm.zero_state(len(lengths)), num_active), expected, atol=1e-5, rtol=0)
    assert len(lstm._products._made) >= 2


def test_rows_that_have_ended_take_no_part_in_the_input_multiply(lstm, monkeypatch):
    rows = []
    original = torch.addmm
    monkeypatch.setattr(torch, "addmm", lambda bias, x, *rest: rows.append(len(x)) or original(bias, x, *rest))
    with torch.no_grad():
        lstm(torch.randn(7, 4, 3), lstm.zero_state(4), as_num_active(LENGTHS))
    assert rows == [sum(LENGTHS)]
