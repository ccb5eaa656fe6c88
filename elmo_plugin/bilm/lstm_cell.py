"""What an LSTM with a projected state computes at one step.

    [i, j, f, o] = W_x x_t + W_h h_{t-1} + b
    c_t = clip(sigmoid(f + 1) * c_{t-1} + sigmoid(i) * tanh(j))
    h_t = clip(W_p (sigmoid(o) * tanh(c_t)))

The two functions here are what stands between the multiplies by W_h and W_p, and after the second. Gates come in the
published files' order. Results are written into memory that already exists, because allocating it at every step would
cost more than the arithmetic. `keep` is 0 for rows whose state is reset to zeros before a step, 1 for the others, and
None if no row is reset.

`recurrence.py` goes through the steps, `lstm_gradients.py` has the gradients, and `lstm_kernels.py` has the four
functions as one GPU kernel each.
"""

from typing import NamedTuple, Optional

import torch

from elmo_plugin.processor import tanh

FORGET_BIAS = 1.0


class LstmState(NamedTuple):
    hidden: torch.Tensor  # (batch_size, projection_dim)
    cell: torch.Tensor  # (batch_size, cell_dim)


class LstmWeights(NamedTuple):
    """A layer's weights; or those of two layers that run together, stacked along a leading dimension."""

    input: torch.Tensor  # W_x: (..., 4 * cell_dim, input_dim)
    state: torch.Tensor  # W_h: (..., 4 * cell_dim, projection_dim)
    bias: torch.Tensor  # b: (..., 4 * cell_dim)
    projection: Optional[torch.Tensor]  # W_p: (..., projection_dim, cell_dim); None where h has the cell's width


class Clips(NamedTuple):
    """The largest absolute values that cells and projected states may have; None means no bound."""

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
    """c_t, tanh(c_t), and sigmoid(o) * tanh(c_t), which W_p is applied to. `gates` become their activations."""
    i, j, f, o = gates.chunk(4, dim=-1)
    i.sigmoid_()
    tanh(j, out=j)
    gates.narrow(-1, gates.size(-1) // 2, gates.size(-1) // 2).sigmoid_()  # f and o at once
    torch.mul(cell, f, out=new_cell)
    if keep is not None:
        new_cell.mul_(keep)
    new_cell.addcmul_(i, j)
    if clip is not None:
        new_cell.clamp_(-clip, clip)
    torch.mul(tanh(new_cell, out=tanh_cell), o, out=unprojected)


def next_state_(
    hidden: torch.Tensor, clip: Optional[float], next_keep: Optional[torch.Tensor], met_hidden: torch.Tensor
) -> None:
    """Clips W_p's product to h_t. `met_hidden` becomes what the next step starts from: zeros in rows that it resets."""
    if clip is not None:
        hidden.clamp_(-clip, clip)
    if next_keep is not None:
        torch.mul(hidden, next_keep, out=met_hidden)
