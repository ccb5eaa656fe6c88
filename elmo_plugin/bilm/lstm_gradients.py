"""The gradients of the two functions in `lstm_cell.py`, written into memory that already exists."""

from typing import Optional

import torch


def state_gradient_(
    grad_met: torch.Tensor,
    next_keep: Optional[torch.Tensor],
    grad_output: torch.Tensor,
    hidden: torch.Tensor,
    clip: Optional[float],
    grad_projected: torch.Tensor,
) -> None:
    """What reaches the projection, from the gradients of what the next step started from and of the step's output."""
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
    """Turns the gates' activations into their gradients, and the gradient of a step's cell into that of the cell before
    it. `grad_unprojected` is overwritten.
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
