"""The kernels in Triton's interpreter, which runs them on a CPU, against torch's operations."""

import importlib.util

import pytest
import torch

from elmo_plugin.bilm import lstm_cell, lstm_gradients, recurrence
from elmo_plugin.bilm.directions import run_together
from elmo_plugin.bilm.projected_lstm import ProjectedLstm
from elmo_plugin.tasks.srl import highway_cell, modules
from elmo_plugin.tasks.srl.modules import AlternatingLstm

pytest.importorskip("triton", reason="Triton isn't installed: pip install triton")

CLIPS = pytest.mark.parametrize("clip", [None, 0.3])
DIRECTIONS = pytest.mark.parametrize("directions", [(), (2,)], ids=["one direction", "two"])
RESETS = pytest.mark.parametrize("with_resets", [False, True])

NUM_ROWS, DIM = 5, 401  # neither a power of two; together more than a block


@pytest.fixture(scope="module")
def kernels():
    """A copy of the module that was made for the interpreter: Triton looks when a kernel is defined."""
    path = importlib.util.find_spec("elmo_plugin.lstm_kernels").origin
    spec = importlib.util.spec_from_file_location("interpreted_lstm_kernels", path)
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("TRITON_INTERPRET", "1")
        spec.loader.exec_module(module)
        yield module


def assert_same(name, kernels, make_arguments):
    """Both write the same into the same places."""
    ours, expected = make_arguments(), make_arguments()
    getattr(kernels, name)(*ours)
    (module,) = (module for module in (lstm_cell, lstm_gradients, highway_cell) if hasattr(module, name))
    getattr(module, name)(*expected)
    for place, (mine, theirs) in enumerate(zip(ours, expected, strict=True)):
        if isinstance(mine, torch.Tensor) and place not in OVERWRITTEN[name]:
            torch.testing.assert_close(mine, theirs, msg=lambda text: f"argument {place}: {text}")  # noqa: B023


# Arguments that hold nothing of interest afterwards.
OVERWRITTEN = {
    "next_cell_": (),
    "next_state_": (),
    "state_gradient_": (0,),
    "cell_gradient_": (1, 8),
    "next_hidden_": (),
    "hidden_gradient_": (4, 7),
}


def maker(*shapes, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator) for shape in shapes]


def keep_or_none(with_resets):
    return torch.tensor([1.0, 0.0, 1.0, 1.0, 0.0]).unsqueeze(1) if with_resets else None


def gates_of_a_step(directions, generator_seed=3):
    """As they are cut from those of all steps: with two directions, each lies apart."""
    (all_steps,) = maker((*directions, 3, NUM_ROWS, 4 * DIM), seed=generator_seed)
    return all_steps.select(-3, 1)


@CLIPS
@DIRECTIONS
@RESETS
def test_the_next_cell(kernels, clip, directions, with_resets):
    shape = (*directions, NUM_ROWS, DIM)

    def arguments():
        (cell,) = maker(shape)
        places = (torch.empty(shape) for _ in range(3))
        return gates_of_a_step(directions), cell, keep_or_none(with_resets), clip, *places

    assert_same("next_cell_", kernels, arguments)


@CLIPS
@DIRECTIONS
@RESETS
def test_the_next_state(kernels, clip, directions, with_resets):
    shape = (*directions, NUM_ROWS, DIM)
    assert_same("next_state_", kernels, lambda: (*maker(shape), clip, keep_or_none(with_resets), torch.zeros(shape)))


@CLIPS
@DIRECTIONS
@RESETS
def test_the_gradient_of_the_state(kernels, clip, directions, with_resets):
    shape = (*directions, NUM_ROWS, DIM)

    def arguments():
        grad_met, grad_output, hidden = maker(shape, shape, shape)
        return grad_met, keep_or_none(with_resets), grad_output, hidden, clip, torch.empty(shape)

    assert_same("state_gradient_", kernels, arguments)


@CLIPS
@DIRECTIONS
@RESETS
def test_the_gradient_of_the_cell(kernels, clip, directions, with_resets):
    shape = (*directions, NUM_ROWS, DIM)

    def arguments():
        grad_unprojected, grad_cell, cell, new_cell, tanh_cell = maker(*[shape] * 5)
        gates = gates_of_a_step(directions).sigmoid_()
        scratch = torch.empty(*directions, NUM_ROWS, 4 * DIM)
        keep = keep_or_none(with_resets)
        return gates, grad_unprojected, grad_cell, cell, keep, clip, new_cell, tanh_cell.tanh_(), scratch

    assert_same("cell_gradient_", kernels, arguments)


NUM_CONTINUED = pytest.mark.parametrize("num_continued", [0, 3, NUM_ROWS])
MASKS = pytest.mark.parametrize("with_mask", [False, True])


def dropout_mask(with_mask):
    return torch.rand(NUM_ROWS, DIM, generator=torch.Generator().manual_seed(5)).round() * 2 if with_mask else None


@NUM_CONTINUED
@MASKS
def test_srls_next_hidden(kernels, num_continued, with_mask):
    shape = NUM_ROWS, DIM

    def arguments():
        step, bias, before = maker((NUM_ROWS, 6 * DIM), (5 * DIM,), (num_continued, DIM))
        return step, bias, before, dropout_mask(with_mask), *(torch.empty(shape) for _ in range(3))

    assert_same("next_hidden_", kernels, arguments)


@NUM_CONTINUED
@MASKS
def test_srls_gradient(kernels, num_continued, with_mask):
    shape = NUM_ROWS, DIM

    def arguments():
        step, squashed, before, grad_state, grad_output, grad_cell = maker(
            (NUM_ROWS, 6 * DIM), shape, (num_continued, DIM), shape, shape, shape
        )
        arguments = step.sigmoid_(), squashed.tanh_(), before, dropout_mask(with_mask), grad_state, grad_output
        return *arguments, grad_cell, torch.empty(NUM_ROWS, 4 * DIM)

    assert_same("hidden_gradient_", kernels, arguments)


def test_srls_lstm_gives_the_same_outputs_and_gradients(kernels, monkeypatch):
    torch.manual_seed(0)
    lstm = AlternatingLstm(3, 5, num_layers=3, recurrent_dropout=0.0)
    inputs, mask = torch.randn(4, 6, 3), torch.arange(6) < torch.tensor([[6], [2], [4], [1]])
    results = []
    for arithmetic in (highway_cell, kernels):
        monkeypatch.setattr(modules, "lstm_kernels_for", lambda tensor: arithmetic)  # noqa: B023
        given = inputs.clone().requires_grad_()
        outputs = lstm(given, mask)
        results.append([outputs, *torch.autograd.grad((outputs * outputs).sum(), [given, *lstm.parameters()])])
    torch.testing.assert_close(*results)


def test_what_is_no_number_is_not_clipped_away(kernels):
    hidden = torch.tensor([[float("nan"), 2.0, -2.0]])
    kernels.next_state_(hidden, 1.0, None, hidden)
    assert hidden[0, 0].isnan() and hidden[0, 1:].tolist() == [1.0, -1.0]


@pytest.mark.parametrize("cell_dim", [6, 4], ids=["projected", "no projection"])
@RESETS
def test_two_layers_together_give_the_same_outputs_and_gradients(kernels, monkeypatch, with_resets, cell_dim):
    torch.manual_seed(0)
    layers = [ProjectedLstm(3, 4, cell_dim, cell_clip=0.5, projection_clip=0.2) for _ in range(2)]
    for layer in layers:
        for parameter in layer.parameters():
            torch.nn.init.normal_(parameter)
    inputs = torch.randn(2, 6, NUM_ROWS, 3)
    keep = torch.rand(6, NUM_ROWS, 1).round() if with_resets else None
    results = []
    for arithmetic in (None, kernels):
        monkeypatch.setattr(recurrence, "lstm_kernels_for", lambda tensor: arithmetic)  # noqa: B023
        given = inputs.clone().requires_grad_()
        zeros = [layer.zero_state(NUM_ROWS) for layer in layers]
        state = recurrence.LstmState(*(torch.stack(pair) for pair in zip(*zeros, strict=True)))
        outputs, last = run_together(layers, given, state, [NUM_ROWS] * 6, keep)
        parameters = [parameter for layer in layers for parameter in layer.parameters()]
        loss = (outputs * outputs.detach().cos()).sum() + last.cell.sum()
        results.append([outputs, *last, *torch.autograd.grad(loss, [given, *parameters])])
        with torch.no_grad():
            results[-1].append(run_together(layers, inputs, state, [NUM_ROWS] * 6, keep)[0])
    torch.testing.assert_close(*results)
