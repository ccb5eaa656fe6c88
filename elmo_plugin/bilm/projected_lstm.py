"""One layer of LSTM with a projected state, and clipping of cell and state.

    [i, j, f, o] = W_x x_t + W_h h_{t-1} + b
    c_t = clip(sigmoid(f + 1) * c_{t-1} + sigmoid(i) * tanh(j))
    h_t = clip(W_p (sigmoid(o) * tanh(c_t)))

Gates come in the published files' order and the forget bias is kept without its + 1, which is added here.

Only W_h h and the gates are sequential. The input's part is one matrix multiply over the whole sequence; in the
backward pass the four weight gradients are one multiply each over the whole sequence too, which is why the recurrence
is its own autograd function: autograd would do them step by step. Rows are sorted by length, so that at each step the
rows still running are a prefix of the batch and no step computes padding.
"""

from typing import List, NamedTuple, Optional, Tuple

import torch

FORGET_BIAS = 1.0


class LstmState(NamedTuple):
    hidden: torch.Tensor  # (batch_size, projection_dim)
    cell: torch.Tensor  # (batch_size, cell_dim)


class _Clips(NamedTuple):
    cell: Optional[float]
    projection: Optional[float]


def _clip_(tensor: torch.Tensor, bound: Optional[float]) -> torch.Tensor:
    return tensor if bound is None else tensor.clamp_(-bound, bound)


def _gate_nonlinearities_(gates: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Turns a step's pre-activations, in place, into (input, candidate, forget, output)."""
    input_gate, candidate, forget_gate, output_gate = gates.chunk(4, dim=-1)
    return input_gate.sigmoid_(), candidate.tanh_(), forget_gate.add_(FORGET_BIAS).sigmoid_(), output_gate.sigmoid_()


def run_steps(
    gates: torch.Tensor,
    state_weight: torch.Tensor,
    projection_weight: Optional[torch.Tensor],
    state: LstmState,
    num_active: List[int],
    keep: Optional[torch.Tensor],
    clips: _Clips,
) -> Tuple[torch.Tensor, LstmState]:
    """The recurrence, without gradients. `gates`, (num_steps, batch_size, 4 * cell_dim), holds the inputs' part and is
    overwritten.
    """
    hidden, cell = state.hidden.clone(), state.cell.clone()
    outputs = gates.new_zeros(gates.size(0), gates.size(1), hidden.size(-1))
    transposed_weight = state_weight.t()
    for step, active in enumerate(num_active):
        h, c = hidden[:active], cell[:active]
        if keep is not None:
            h.mul_(keep[step, :active])
            c.mul_(keep[step, :active])
        step_gates = gates[step, :active].addmm_(h, transposed_weight)
        input_gate, candidate, forget_gate, output_gate = _gate_nonlinearities_(step_gates)
        _clip_(c.mul_(forget_gate).addcmul_(input_gate, candidate), clips.cell)
        unprojected = torch.tanh(c).mul_(output_gate)
        if projection_weight is None:
            h.copy_(unprojected)
        else:
            _clip_(torch.mm(unprojected, projection_weight.t(), out=h), clips.projection)
        outputs[step, :active] = h
    return outputs, LstmState(hidden, cell)


class _Recurrence(torch.autograd.Function):
    """`run_steps` with a hand-written backward pass."""

    @staticmethod
    def forward(ctx, gates, state_weight, projection_weight, hidden, cell, num_active, keep, clips):
        num_steps, batch_size, _ = gates.shape
        ctx.num_active, ctx.clips = num_active, clips
        gates = gates.clone()
        # What went into each step: the state it met (after a reset) and what came out of the cell.
        hiddens = gates.new_zeros(num_steps + 1, batch_size, hidden.size(-1))
        cells = gates.new_zeros(num_steps + 1, batch_size, cell.size(-1))
        met_hiddens, met_cells = (hiddens, cells) if keep is None else (hiddens.clone(), cells.clone())
        unprojected = torch.zeros_like(cells[1:])
        projected = None if projection_weight is None else torch.zeros_like(hiddens[1:])
        clamped_cell = None if clips.cell is None else torch.zeros_like(cells[1:], dtype=torch.bool)
        hiddens[0], cells[0] = hidden, cell
        transposed_weight = state_weight.t()
        for step, active in enumerate(num_active):
            h, c = hiddens[step], cells[step]
            if keep is not None:
                torch.mul(h, keep[step], out=met_hiddens[step])
                torch.mul(c, keep[step], out=met_cells[step])
                h, c = met_hiddens[step], met_cells[step]
            # Rows that have ended keep their state, for the final one.
            if active < batch_size:
                hiddens[step + 1, active:] = h[active:]
                cells[step + 1, active:] = c[active:]
            step_gates = gates[step, :active].addmm_(h[:active], transposed_weight)
            input_gate, candidate, forget_gate, output_gate = _gate_nonlinearities_(step_gates)
            new_cell = torch.mul(c[:active], forget_gate, out=cells[step + 1, :active])
            new_cell.addcmul_(input_gate, candidate)
            if clamped_cell is not None:
                torch.gt(new_cell.abs(), clips.cell, out=clamped_cell[step, :active])
                _clip_(new_cell, clips.cell)
            out = torch.tanh(new_cell, out=unprojected[step, :active]).mul_(output_gate)
            if projected is None:
                hiddens[step + 1, :active] = out
            else:
                raw = torch.mm(out, projection_weight.t(), out=projected[step, :active])
                hiddens[step + 1, :active] = (
                    raw if clips.projection is None else raw.clamp(-clips.projection, clips.projection)
                )
        ctx.save_for_backward(
            gates,
            met_hiddens,
            met_cells,
            cells,
            unprojected,
            projected,
            clamped_cell,
            state_weight,
            projection_weight,
            keep,
        )
        outputs = hiddens[1:].clone()
        for step, active in enumerate(num_active):
            if active < batch_size:
                outputs[step, active:] = 0.0
        return outputs, hiddens[-1].clone(), cells[-1].clone()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad_outputs, grad_final_hidden, grad_final_cell):
        (
            gates,
            met_hiddens,
            met_cells,
            cells,
            unprojected,
            projected,
            clamped_cell,
            state_weight,
            projection_weight,
            keep,
        ) = ctx.saved_tensors
        num_steps, batch_size, _ = gates.shape
        grad_gates = torch.zeros_like(gates)
        grad_projected = None if projected is None else torch.zeros_like(projected)
        grad_hidden, grad_cell = grad_final_hidden.clone(), grad_final_cell.clone()
        for step in range(num_steps - 1, -1, -1):
            active = ctx.num_active[step]
            gh = grad_hidden[:active].add_(grad_outputs[step, :active])
            gc = grad_cell[:active]
            if grad_projected is None:
                grad_out = gh
            else:
                if ctx.clips.projection is not None:
                    gh = gh.masked_fill(projected[step, :active].abs() > ctx.clips.projection, 0.0)
                grad_projected[step, :active] = gh
                grad_out = gh @ projection_weight
            input_gate, candidate, forget_gate, output_gate = gates[step, :active].chunk(4, dim=-1)
            tanh_cell = torch.tanh(cells[step + 1, :active])
            gc.addcmul_(grad_out * output_gate, 1.0 - tanh_cell * tanh_cell)
            if clamped_cell is not None:
                gc.masked_fill_(clamped_cell[step, :active], 0.0)
            g_input, g_candidate, g_forget, g_output = grad_gates[step, :active].chunk(4, dim=-1)
            torch.mul(gc * candidate, input_gate * (1.0 - input_gate), out=g_input)
            torch.mul(gc * input_gate, 1.0 - candidate * candidate, out=g_candidate)
            torch.mul(gc * met_cells[step, :active], forget_gate * (1.0 - forget_gate), out=g_forget)
            torch.mul(grad_out * tanh_cell, output_gate * (1.0 - output_gate), out=g_output)
            gc.mul_(forget_gate)
            torch.mm(grad_gates[step, :active], state_weight, out=grad_hidden[:active])
            if keep is not None:
                grad_hidden.mul_(keep[step])
                grad_cell.mul_(keep[step])
        # One multiply over all steps for each weight. Rows that had ended have zero gradients.
        flat_gates = grad_gates.view(num_steps * batch_size, -1)
        grad_state_weight = flat_gates.t() @ met_hiddens[:num_steps].reshape(num_steps * batch_size, -1)
        grad_projection_weight = None
        if grad_projected is not None:
            grad_projection_weight = grad_projected.flatten(0, 1).t() @ unprojected.flatten(0, 1)
        return grad_gates, grad_state_weight, grad_projection_weight, grad_hidden, grad_cell, None, None, None


class ProjectedLstm(torch.nn.Module):
    """One layer in one direction. Inputs and outputs have the step first: (num_steps, batch_size, dim)."""

    def __init__(
        self,
        input_dim: int,
        projection_dim: int,
        cell_dim: int,
        cell_clip: Optional[float] = None,
        projection_clip: Optional[float] = None,
    ) -> None:
        super().__init__()
        self.projection_dim = projection_dim
        self.cell_dim = cell_dim
        self._clips = _Clips(cell_clip or None, projection_clip or None)
        self.input_weight = torch.nn.Parameter(torch.empty(4 * cell_dim, input_dim))
        self.state_weight = torch.nn.Parameter(torch.empty(4 * cell_dim, projection_dim))
        self.bias = torch.nn.Parameter(torch.zeros(4 * cell_dim))
        self.projection_weight: Optional[torch.nn.Parameter] = None
        if projection_dim != cell_dim:
            self.projection_weight = torch.nn.Parameter(torch.empty(projection_dim, cell_dim))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        # Glorot, over the one matrix that the original makes of W_x and W_h.
        bound = (6.0 / (self.input_weight.size(1) + self.projection_dim + 4 * self.cell_dim)) ** 0.5
        torch.nn.init.uniform_(self.input_weight, -bound, bound)
        torch.nn.init.uniform_(self.state_weight, -bound, bound)
        torch.nn.init.zeros_(self.bias)
        if self.projection_weight is not None:
            torch.nn.init.xavier_uniform_(self.projection_weight)

    def zero_state(self, batch_size: int) -> LstmState:
        zeros = self.bias.new_zeros
        return LstmState(zeros(batch_size, self.projection_dim), zeros(batch_size, self.cell_dim))

    def forward(
        self,
        inputs: torch.Tensor,
        state: LstmState,
        num_active: List[int],
        resets: Optional[torch.Tensor] = None,
    ) -> Tuple[torch.Tensor, LstmState]:
        """Runs from `state`. At each step the first `num_active[step]` rows are running; numbers never grow.

        `resets`, (num_steps, batch_size) bool, sets a row's state to zero before a step.
        """
        keep = None if resets is None else self._keep(resets, num_active).to(inputs.dtype)
        if torch.is_grad_enabled() and any(
            tensor.requires_grad for tensor in (inputs, self.state_weight, self.input_weight, state.hidden, state.cell)
        ):
            gates = torch.nn.functional.linear(inputs, self.input_weight, self.bias)
            # Under autocast the multiply above runs in half precision; the recurrence stays in float32.
            with torch.autocast(inputs.device.type, enabled=False):
                outputs, hidden, cell = _Recurrence.apply(
                    gates.float() if gates.dtype in (torch.float16, torch.bfloat16) else gates,
                    self.state_weight,
                    self.projection_weight,
                    state.hidden,
                    state.cell,
                    num_active,
                    keep,
                    self._clips,
                )
            return outputs, LstmState(hidden, cell)
        return self._run_in_blocks(inputs, state, num_active, keep)

    def _keep(self, resets: torch.Tensor, num_active: List[int]) -> torch.Tensor:
        """0 where a running row is reset, 1 elsewhere: rows that have ended keep their last state. Shape: (num_steps,
        batch_size, 1)
        """
        rows = torch.arange(resets.size(1), device=resets.device)
        running = rows < torch.tensor(num_active, device=resets.device).unsqueeze(1)
        return ~(resets & running).unsqueeze(-1)

    def _run_in_blocks(
        self, inputs: torch.Tensor, state: LstmState, num_active: List[int], keep: Optional[torch.Tensor]
    ) -> Tuple[torch.Tensor, LstmState]:
        """Without gradients the gates of only a block of steps are held at once, so that memory stays flat over long
        sequences.
        """
        steps_per_block = max(1, _MAX_GATE_NUMBERS // max(1, inputs.size(1) * 4 * self.cell_dim))
        outputs = []
        for start in range(0, inputs.size(0), steps_per_block):
            block = slice(start, start + steps_per_block)
            gates = torch.nn.functional.linear(inputs[block], self.input_weight, self.bias).to(state.hidden.dtype)
            with torch.autocast(inputs.device.type, enabled=False):
                block_outputs, state = run_steps(
                    gates,
                    self.state_weight,
                    self.projection_weight,
                    state,
                    num_active[block],
                    None if keep is None else keep[block],
                    self._clips,
                )
            outputs.append(block_outputs)
        return torch.cat(outputs) if outputs else inputs.new_zeros(0, inputs.size(1), self.projection_dim), state


_MAX_GATE_NUMBERS = 2**24
"""How many gate pre-activations are held at once without gradients: 64 MB of float32."""
