"""What SRL's LSTM computes at a step besides its matrix multiplies; `HighwayLstm` has the formula.

Everything is written into memory that already exists, because allocating it at every step would cost more than the
arithmetic. `elmo_plugin/lstm_kernels.py` has the same two functions as one GPU kernel each.
"""

from typing import Optional

import torch

from elmo_plugin.processor import tanh


def next_hidden_(
    step: torch.Tensor,
    bias: torch.Tensor,
    cell_before: torch.Tensor,
    mask: Optional[torch.Tensor],
    cell: torch.Tensor,
    squashed: torch.Tensor,
    hidden: torch.Tensor,
) -> None:
    """From a step's W x + U h and W_h x, (num_rows, 6 * dim), whose gates turn into activations, to cell and output.
    `cell_before` has the rows that have a step before them.
    """
    dim, num_continued = hidden.size(-1), len(cell_before)
    step[:, : 5 * dim].add_(bias)
    candidate, input_gate, forget_gate, output_gate, highway_gate, carried = step.split(dim, dim=-1)
    tanh(candidate, out=candidate)
    step[:, dim : 5 * dim].sigmoid_()
    torch.mul(forget_gate[:num_continued], cell_before, out=cell[:num_continued])
    if num_continued < len(cell):
        cell[num_continued:].zero_()
    cell.addcmul_(input_gate, candidate)
    # r h' + (1 - r) W_h x
    torch.mul(tanh(cell, out=squashed), output_gate, out=hidden)
    torch.lerp(carried, hidden, highway_gate, out=hidden)
    if mask is not None:
        hidden.mul_(mask)


def hidden_gradient_(
    step: torch.Tensor,
    squashed: torch.Tensor,
    cell_before: torch.Tensor,
    mask: Optional[torch.Tensor],
    grad_state: torch.Tensor,
    grad_output: torch.Tensor,
    grad_cell: torch.Tensor,
    scratch: torch.Tensor,
) -> None:
    """Turns one step's activations into the gradients of its W x + U h + b and W_h x, given the gradients that have
    reached its state from the step after it, which are overwritten, and its output. `grad_cell` holds the gradient of
    its cell from the step after it, and then that of the cell of the step before it, in as many rows as `cell_before`
    has.

    Nothing needs the activations afterwards. (A second backward pass through the same graph fails: torch finds them
    changed.)
    """
    dim, num_continued = squashed.size(-1), len(cell_before)
    candidate, input_gate, forget_gate, output_gate, highway_gate, carried = step.split(dim, dim=-1)
    to_input, to_forget, to_output, to_highway = scratch.split(dim, dim=-1)
    through_tanh = torch.ops.aten.tanh_backward.grad_input
    grad_hidden = grad_state.add_(grad_output)
    if mask is not None:
        grad_hidden.mul_(mask)
    through_gate = grad_hidden * highway_gate
    torch.mul(output_gate, squashed, out=to_highway).sub_(carried).mul_(grad_hidden)
    torch.sub(grad_hidden, through_gate, out=carried)
    torch.mul(through_gate, squashed, out=to_output)
    through_gate.mul_(output_gate)
    grad_cell.add_(through_tanh(through_gate, squashed, grad_input=through_gate))
    torch.mul(grad_cell, candidate, out=to_input)
    torch.mul(grad_cell[:num_continued], cell_before, out=to_forget[:num_continued])
    if num_continued < len(step):
        to_forget[num_continued:].zero_()
    through_tanh(torch.mul(grad_cell, input_gate, out=through_gate), candidate, grad_input=candidate)
    grad_cell[:num_continued].mul_(forget_gate[:num_continued])
    sigmoids = step[:, dim : 5 * dim]
    torch.ops.aten.sigmoid_backward.grad_input(scratch, sigmoids, grad_input=sigmoids)
