"""What an LSTM with a projected state computes at a step, between its two matrix multiplies and behind the second.

    [i, j, f, o] = W_x x_t + W_h h_{t-1} + b
    c_t = clip(sigmoid(f + 1) * c_{t-1} + sigmoid(i) * tanh(j))
    h_t = clip(W_p (sigmoid(o) * tanh(c_t)))

Gates come in the published files' order. Everything is written into memory that is there already, since fresh memory
for so many numbers would cost more than the arithmetic. `keep` is 0 for the rows whose state is reset to zeros before a
step, 1 for the others, and None if there are no such rows.

`recurrence.py` goes through the steps. `lstm_kernels.py` has the same four functions as one GPU kernel each.
"""

from typing import NamedTuple, Optional

import torch

from elmo_plugin.processor import tanh

FORGET_BIAS = 1.0


class LstmState(NamedTuple):
    hidden: torch.Tensor  # (batch_size, projection_dim)
    cell: torch.Tensor  # (batch_size, cell_dim)


class Clips(NamedTuple):
    """The largest numbers that cells and projected states may hold; None is no bound."""

    cell: Optional[float]
    projection: Optional[float]


def next_cell_(
    gates: torch.Tensor,
    cell: torch.Tensor,
    keep: Optional[torch.Tensor],
    clip: Optional[float],
    new_cell: torch.Tensor,
    tanh_cell: torch.Tensor,
    unprojected: torch.Tensor,
) -> None:
    """From a step's gates, which turn into their activations, to its cell and to what the projection is applied to."""
    input_gate, candidate, forget_gate, output_gate = gates.chunk(4, dim=-1)
    input_gate.sigmoid_()
    tanh(candidate, out=candidate)
    gates.narrow(-1, gates.size(-1) // 2, gates.size(-1) // 2).sigmoid_()
    torch.mul(cell, forget_gate, out=new_cell)
    if keep is not None:
        new_cell.mul_(keep)
    new_cell.addcmul_(input_gate, candidate)
    if clip is not None:
        new_cell.clamp_(-clip, clip)
    torch.mul(tanh(new_cell, out=tanh_cell), output_gate, out=unprojected)


def next_state_(
    hidden: torch.Tensor, clip: Optional[float], next_keep: Optional[torch.Tensor], met_hidden: torch.Tensor
) -> None:
    """Clips the projected state; `met_hidden` becomes what the next step meets."""
    if clip is not None:
        hidden.clamp_(-clip, clip)
    if next_keep is not None:
        torch.mul(hidden, next_keep, out=met_hidden)


def state_gradient_(
    grad_met: torch.Tensor,
    next_keep: Optional[torch.Tensor],
    grad_output: torch.Tensor,
    hidden: torch.Tensor,
    clip: Optional[float],
    grad_projected: torch.Tensor,
) -> None:
    """What reaches the projection, from the gradients of what the next step met and of the step's output."""
    if next_keep is not None:
        grad_met.mul_(next_keep)
    torch.add(grad_met, grad_output, out=grad_projected)
    _stop_at_clip_(grad_projected, hidden, clip)


def cell_gradient_(
    gates: torch.Tensor,
    grad_unprojected: torch.Tensor,
    grad_cell: torch.Tensor,
    cell: torch.Tensor,
    keep: Optional[torch.Tensor],
    clip: Optional[float],
    new_cell: torch.Tensor,
    tanh_cell: torch.Tensor,
    scratch: torch.Tensor,
) -> None:
    """Turns the gates' activations into their gradients, and the gradient of a step's cell into that of the cell
    before. `grad_unprojected` is overwritten.
    """
    input_gate, candidate, forget_gate, output_gate = gates.chunk(4, dim=-1)
    to_input, to_candidate, to_forget, to_output = scratch.chunk(4, dim=-1)
    through_sigmoid = torch.ops.aten.sigmoid_backward.grad_input
    through_tanh = torch.ops.aten.tanh_backward.grad_input
    torch.mul(grad_unprojected, tanh_cell, out=to_output)
    grad_unprojected.mul_(output_gate)
    grad_cell.add_(through_tanh(grad_unprojected, tanh_cell, grad_input=grad_unprojected))
    _stop_at_clip_(grad_cell, new_cell, clip)
    torch.mul(grad_cell, candidate, out=to_input)
    torch.mul(grad_cell, input_gate, out=to_candidate)
    torch.mul(grad_cell, cell, out=to_forget)
    grad_cell.mul_(forget_gate)
    if keep is not None:
        to_forget.mul_(keep)
        grad_cell.mul_(keep)
    through_sigmoid(to_input, input_gate, grad_input=input_gate)
    through_tanh(to_candidate, candidate, grad_input=candidate)
    half = gates.size(-1) // 2
    through_sigmoid(scratch[..., half:], gates[..., half:], grad_input=gates[..., half:])


def _stop_at_clip_(grad: torch.Tensor, clipped: torch.Tensor, bound: Optional[float]) -> None:
    """The gradient before clipping, given what came out of it."""
    if bound is not None:
        torch.ops.aten.hardtanh_backward.grad_input(grad, clipped, -bound, bound, grad_input=grad)
