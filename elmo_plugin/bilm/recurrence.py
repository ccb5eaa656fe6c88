"""The steps of an LSTM with a projected state, with gradients and without.

Only W_h h and the gates are sequential. The input's part is one matrix multiply over the whole sequence; in the
backward pass the weights' gradients are one multiply each over the whole sequence too, which is why the recurrence is
its own autograd function: autograd would do them step by step.

Tensors are (..., batch_size, dim) at a step; there may be a leading dimension for directions that are run together.
Rows are sorted by length, so that at each step the rows still running are a prefix of the batch and no step computes
padding.
"""

from itertools import pairwise
from typing import Callable, List, NamedTuple, Optional, Sequence, Tuple

import torch

from elmo_plugin.bilm import lstm_cell, lstm_gradients
from elmo_plugin.bilm.frozen import Product, TransposedProduct
from elmo_plugin.bilm.lstm_cell import Clips, LstmState, LstmWeights
from elmo_plugin.processor import lstm_kernels_for, mkl_has_avx512

_MAX_GATE_NUMBERS = 2**24
"""How many gate pre-activations are held at once without gradients: 64 MB of float32."""


LayOut = Callable[[str, torch.Tensor, int], Product]
"""Maps a weight's name and value to the way to multiply a number of rows by it."""


def plain(name: str, weight: torch.Tensor, num_rows: int) -> Product:
    return Product(weight)


def run_lstm(
    weights: LstmWeights,
    clips: Clips,
    inputs: torch.Tensor,
    state: LstmState,
    num_active: List[int],
    keep: Optional[torch.Tensor],
    lay_out: LayOut = plain,
) -> Tuple[torch.Tensor, LstmState]:
    """The outputs for inputs (..., num_steps, batch_size, dim), zeros for rows that have ended, and the last state.

    Without gradients the gates of only a block of steps are held at once, so that memory stays flat over long
    sequences. Under autocast the inputs are multiplied in half precision, and the recurrence stays in that of its
    weights.
    """
    if needs_gradient(inputs, *state, *weights):
        gates = Product(weights.input).plus(weights.bias, inputs.flatten(-3, -2)).to(weights.state.dtype)
        gates = gates.unflatten(-2, inputs.shape[-3:-1])
        with torch.autocast(inputs.device.type, enabled=False):
            # The gates belong to nobody else, and the multiply's backward pass doesn't need them.
            outputs, *last = Recurrence.apply(gates, weights.state, weights.projection, *state, num_active, keep, clips)
        return outputs.movedim(0, -3), LstmState(*last)
    block_outputs = []
    steps_per_block = max(1, _MAX_GATE_NUMBERS // max(1, inputs[..., 0, :, 0].numel() * weights.bias.size(-1)))
    for start in range(0, inputs.size(-3), steps_per_block):
        block = slice(start, start + steps_per_block)
        step_gates = _gates_of_running_rows(weights, inputs[..., block, :, :], num_active[block], lay_out)
        with torch.autocast(inputs.device.type, enabled=False):
            products = RecurrentProducts(
                lay_out("state", weights.state, inputs.size(-2)),
                None if weights.projection is None else lay_out("projection", weights.projection, inputs.size(-2)),
            )
            block_keep = None if keep is None else keep[block]
            trace = run_steps(step_gates, products, state, block_keep, clips, record=False)
        state = trace.final_state(num_active[block])
        block_outputs.append(trace.hiddens[1:])
    return torch.cat(block_outputs).movedim(0, -3), state


def needs_gradient(*tensors: Optional[torch.Tensor]) -> bool:
    return torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in tensors)


def _gates_of_running_rows(
    weights: LstmWeights, inputs: torch.Tensor, num_active: List[int], lay_out: LayOut
) -> Sequence[torch.Tensor]:
    """The inputs' part of the gates, step by step, each (..., num_running, 4 * cell_dim)."""
    if min(num_active) == inputs.size(-2):
        running = inputs.flatten(-3, -2)
    else:
        running = torch.cat([step[:active] for step, active in zip(inputs, num_active, strict=True)])
    gates = lay_out("input", weights.input, running.size(-2)).plus(weights.bias, running)
    return gates.to(weights.state.dtype).split(num_active, dim=-2)


class RecurrentProducts(NamedTuple):
    """The two weights of the recurrence, ready to be multiplied."""

    state: Product
    projection: Optional[Product]


class Trace(NamedTuple):
    """What each step started from and produced, zeros for rows that have ended. `hiddens` and `cells` begin with the
    state before the first step.
    """

    hiddens: torch.Tensor  # (num_steps + 1, ..., batch_size, projection_dim)
    met_hiddens: torch.Tensor  # the same after resets
    cells: torch.Tensor  # (num_steps + 1, ..., batch_size, cell_dim)
    tanh_cells: torch.Tensor  # (num_steps, ..., batch_size, cell_dim)
    unprojected: torch.Tensor  # (num_steps, ..., batch_size, cell_dim)

    def final_state(self, num_active: List[int]) -> LstmState:
        """Each row's state when it ended."""
        hidden, cell = self.hiddens[-1].clone(), self.cells[-1].clone()
        for step, (num_before, num_now) in enumerate(pairwise([hidden.size(-2), *num_active])):
            if num_now < num_before:
                hidden[..., num_now:num_before, :] = self.hiddens[step, ..., num_now:num_before, :]
                cell[..., num_now:num_before, :] = self.cells[step, ..., num_now:num_before, :]
        return LstmState(hidden, cell)


def run_steps(
    step_gates: Sequence[torch.Tensor],
    products: RecurrentProducts,
    state: LstmState,
    keep: Optional[torch.Tensor],
    clips: Clips,
    record: bool,
) -> Trace:
    """Runs from `state`. `step_gates` are the inputs' part of each step's gates, biases included, of the rows that are
    still running; they turn into activations. Without `record`, only `hiddens` holds more than the last step.
    """
    arithmetic = lstm_kernels_for(state.cell) or lstm_cell
    trace = _room_for(step_gates, state, keep, record)
    hiddens, met_hiddens, cells, tanh_cells, all_unprojected = (tensor.unbind() for tensor in trace)
    for step, gates in enumerate(step_gates):
        num_running = gates.size(-2)
        if num_running == 0:
            break
        hidden, unprojected = _first(hiddens[step + 1], num_running), _first(all_unprojected[step], num_running)
        products.state.add_to_(gates, _first(met_hiddens[step], num_running))
        arithmetic.next_cell_(
            gates,
            _first(cells[step], num_running),
            _of_step(keep, step, num_running),
            clips.cell,
            _first(cells[step + 1], num_running),
            _first(tanh_cells[step], num_running),
            unprojected,
        )
        if products.projection is None:
            hidden.copy_(unprojected)
        else:
            products.projection.write_to_(hidden, unprojected)
        next_met = _first(met_hiddens[step + 1], num_running)
        arithmetic.next_state_(hidden, clips.projection, _of_step(keep, step + 1, num_running), next_met)
    return trace


def _first(tensor: torch.Tensor, num_rows: int) -> torch.Tensor:
    """The first rows of (..., batch_size, dim)."""
    return tensor if tensor.size(-2) == num_rows else tensor.narrow(-2, 0, num_rows)


def _of_step(keep: Optional[torch.Tensor], step: int, num_running: int) -> Optional[torch.Tensor]:
    """(num_running, 1); None where nothing is reset, as after the last step."""
    return None if keep is None or step == len(keep) else keep[step, :num_running]


def _room_for(
    step_gates: Sequence[torch.Tensor], state: LstmState, keep: Optional[torch.Tensor], record: bool
) -> Trace:
    num_steps, (hidden, cell) = len(step_gates), state
    # Rows that have ended leave gaps.
    has_gaps = num_steps > 0 and step_gates[-1].size(-2) < hidden.size(-2)
    new = torch.Tensor.new_zeros if has_gaps else torch.Tensor.new_empty

    def room(num: int, like: torch.Tensor) -> torch.Tensor:
        """Separate memory for each step; or the same memory `num` times, which all steps share."""
        return new(like, (num, *like.shape)) if record else new(like, (1, *like.shape)).expand(num, *like.shape)

    hiddens, cells = new(hidden, (num_steps + 1, *hidden.shape)), room(num_steps + 1, cell)
    hiddens[0], cells[0] = hidden, cell
    met_hiddens = hiddens
    if keep is not None:
        met_hiddens = room(num_steps + 1, hidden)
        torch.mul(hidden, keep[0], out=met_hiddens[0])
    # In the precision of the multiplies; the cells, which add up, are in their own.
    like = cell.to(hidden.dtype)
    tanh_cells = room(num_steps, like)
    # Where nothing is recorded, what is projected may overwrite what it is computed from.
    return Trace(hiddens, met_hiddens, cells, tanh_cells, room(num_steps, like) if record else tanh_cells)


class Recurrence(torch.autograd.Function):
    """`run_steps` with a hand-written backward pass, on gates (..., num_steps, batch_size, 4 * cell_dim).

    The gates are overwritten, by the activations and then by the gradients. (A second backward pass through the same
    graph fails: torch finds them changed.)
    """

    @staticmethod
    def forward(ctx, gates, state_weight, projection_weight, hidden, cell, num_active, keep, clips):
        # MKL with AVX-512 multiplies both faster when they are transposed in memory.
        kind = TransposedProduct if gates.is_cpu and mkl_has_avx512() else Product
        products = RecurrentProducts(kind(state_weight), None if projection_weight is None else kind(projection_weight))
        step_gates = [_first(step, active) for step, active in zip(gates.unbind(-3), num_active, strict=True)]
        trace = run_steps(step_gates, products, LstmState(hidden, cell), keep, clips, record=True)
        ctx.num_active, ctx.clips = num_active, clips
        ctx.save_for_backward(gates, *trace, state_weight, projection_weight, keep)
        return trace.hiddens[1:].clone(), *trace.final_state(num_active)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad_outputs, grad_final_hidden, grad_final_cell):
        gates, *saved, state_weight, projection_weight, keep = ctx.saved_tensors
        trace, clips, arithmetic = Trace(*saved), ctx.clips, lstm_kernels_for(gates) or lstm_gradients
        grad_hidden, grad_cell = grad_final_hidden.clone(), grad_final_cell.clone()
        grad_outputs = grad_outputs.contiguous()
        grad_projected = torch.zeros_like(grad_outputs)
        scratch = torch.empty_like(gates.select(-3, 0))
        for step, num_running in reversed(list(enumerate(ctx.num_active))):
            step_gates = gates.select(-3, step)
            running_gates, grad_met = _first(step_gates, num_running), _first(grad_hidden, num_running)
            grad_out = _first(grad_projected[step], num_running)
            arithmetic.state_gradient_(
                grad_met,
                _of_step(keep, step + 1, num_running),
                _first(grad_outputs[step], num_running),
                _first(trace.hiddens[step + 1], num_running),
                clips.projection,
                grad_out,
            )
            arithmetic.cell_gradient_(
                running_gates,
                grad_out if projection_weight is None else grad_out @ projection_weight,
                _first(grad_cell, num_running),
                _first(trace.cells[step], num_running),
                _of_step(keep, step, num_running),
                clips.cell,
                _first(trace.cells[step + 1], num_running),
                _first(trace.tanh_cells[step], num_running),
                _first(scratch, num_running),
            )
            if num_running < gates.size(-2):
                step_gates[..., num_running:, :] = 0.0
            torch.matmul(running_gates, state_weight, out=grad_met)
        if keep is not None:
            grad_hidden.mul_(keep[0])
        # One multiply over all steps for each weight. Rows that have ended have zero gradients.
        grad_state_weight = gates.flatten(-3, -2).mT @ _all_steps(trace.met_hiddens[:-1])
        grad_projection_weight = None
        if projection_weight is not None:
            grad_projection_weight = _all_steps(grad_projected).mT @ _all_steps(trace.unprojected)
        return gates, grad_state_weight, grad_projection_weight, grad_hidden, grad_cell, None, None, None


def _all_steps(tensor: torch.Tensor) -> torch.Tensor:
    """(num_steps, ..., batch_size, dim) -> (..., num_steps * batch_size, dim)"""
    return tensor.movedim(0, -3).flatten(-3, -2)
