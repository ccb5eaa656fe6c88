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

from typing import Callable, List, NamedTuple, Optional, Tuple

import torch
from allennlp.common.checks import ConfigurationError

from elmo_plugin.bilm.products import Int8Product, Product, Products, fastest_float32
from elmo_plugin.processor import tanh

FORGET_BIAS = 1.0


class LstmState(NamedTuple):
    hidden: torch.Tensor  # (batch_size, projection_dim)
    cell: torch.Tensor  # (batch_size, cell_dim)


class _Clips(NamedTuple):
    cell: Optional[float]
    projection: Optional[float]


def _clip_(tensor: torch.Tensor, bound: Optional[float]) -> torch.Tensor:
    return tensor if bound is None else tensor.clamp_(-bound, bound)


def _stop_at_clip_(grad: torch.Tensor, clipped: torch.Tensor, bound: Optional[float]) -> torch.Tensor:
    """The gradient before clipping, given what came out of it."""
    if bound is None:
        return grad
    return torch.ops.aten.hardtanh_backward.grad_input(grad, clipped, -bound, bound, grad_input=grad)


def _with_forget_bias(bias: torch.Tensor) -> torch.Tensor:
    bias = bias.clone()
    bias.chunk(4)[2].add_(FORGET_BIAS)
    return bias


def _gate_nonlinearities_(gates: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Turns a step's pre-activations, in place, into (input, candidate, forget, output)."""
    input_gate, candidate, forget_gate, output_gate = gates.chunk(4, dim=-1)
    input_gate.sigmoid_()
    tanh(candidate, out=candidate)
    gates[:, gates.size(1) // 2 :].sigmoid_()
    return input_gate, candidate, forget_gate, output_gate


def run_steps(
    gates: torch.Tensor,
    state_product: Product,
    projection: Optional[Product],
    state: LstmState,
    num_active: List[int],
    keep: Optional[torch.Tensor],
    clips: _Clips,
) -> Tuple[torch.Tensor, LstmState]:
    """The recurrence, without gradients. `gates`, (num_running, 4 * cell_dim), holds the inputs' part of the rows still
    running at each step, biases included, one step after the other, and is overwritten.
    """
    hidden, cell = state.hidden.clone(), state.cell.clone()
    scratch = torch.empty_like(cell)
    outputs = gates.new_zeros(len(num_active), *hidden.shape)
    for step, (active, step_gates) in enumerate(zip(num_active, gates.split(num_active), strict=True)):
        if active == 0:
            break
        h, c = hidden[:active], cell[:active]
        if keep is not None:
            h.mul_(keep[step, :active])
            c.mul_(keep[step, :active])
        input_gate, candidate, forget_gate, output_gate = _gate_nonlinearities_(state_product.add_to_(step_gates, h))
        _clip_(c.mul_(forget_gate).addcmul_(input_gate, candidate), clips.cell)
        unprojected = tanh(c, out=scratch[:active]).mul_(output_gate)
        h.copy_(unprojected if projection is None else _clip_(projection(unprojected), clips.projection))
        outputs[step, :active] = h
    return outputs, LstmState(hidden, cell)


class _Recurrence(torch.autograd.Function):
    """`run_steps` with a hand-written backward pass. `gates` are without their bias, which is cheaper to add while a
    step's numbers are in the processor's caches. They are overwritten, by the activations and then by the gradients:
    fresh memory for so many numbers would cost more than the arithmetic. (A second backward pass through the same graph
    fails: torch finds them changed.)
    """

    @staticmethod
    def forward(ctx, gates, state_weight, bias, projection_weight, hidden, cell, num_active, keep, clips):
        num_steps, batch_size, _ = gates.shape
        ctx.num_active, ctx.clips = num_active, clips
        # Rows that have ended leave gaps, which have to be zero.
        new = gates.new_empty if num_active[-1:] == [batch_size] else gates.new_zeros
        # What went into each step: the state it met (after a reset) and what came out of the cell.
        hiddens = new(num_steps + 1, batch_size, hidden.size(-1))
        cells = new(num_steps + 1, batch_size, cell.size(-1))
        met_hiddens, met_cells = (hiddens, cells) if keep is None else (hiddens.clone(), cells.clone())
        tanh_cells, unprojected = (new(num_steps, batch_size, cell.size(-1)) for _ in range(2))
        hiddens[0], cells[0] = hidden, cell
        bias = _with_forget_bias(bias)
        # The other way round in memory, both are multiplied faster at every step.
        transposed_weight = state_weight.t().contiguous()
        transposed_projection = None if projection_weight is None else projection_weight.t().contiguous()
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
            step_gates = gates[step, :active].addmm_(h[:active], transposed_weight).add_(bias)
            input_gate, candidate, forget_gate, output_gate = _gate_nonlinearities_(step_gates)
            new_cell = torch.mul(c[:active], forget_gate, out=cells[step + 1, :active])
            _clip_(new_cell.addcmul_(input_gate, candidate), clips.cell)
            tanh_cell = tanh(new_cell, out=tanh_cells[step, :active])
            out = torch.mul(tanh_cell, output_gate, out=unprojected[step, :active])
            if transposed_projection is None:
                hiddens[step + 1, :active] = out
            else:
                _clip_(torch.mm(out, transposed_projection, out=hiddens[step + 1, :active]), clips.projection)
        ctx.save_for_backward(
            gates,
            met_hiddens,
            met_cells,
            hiddens,
            cells,
            tanh_cells,
            unprojected,
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
            hiddens,
            cells,
            tanh_cells,
            unprojected,
            state_weight,
            projection_weight,
            keep,
        ) = ctx.saved_tensors
        num_steps, batch_size, _ = gates.shape
        grad_projected = None if projection_weight is None else torch.zeros_like(hiddens[1:])
        grad_hidden, grad_cell = grad_final_hidden.clone(), grad_final_cell.clone()
        scratch = torch.empty_like(gates[0])
        for step in range(num_steps - 1, -1, -1):
            active = ctx.num_active[step]
            grad_out = grad_hidden[:active].add_(grad_outputs[step, :active])
            if grad_projected is not None:
                _stop_at_clip_(grad_out, hiddens[step + 1, :active], ctx.clips.projection)
                grad_projected[step, :active] = grad_out
                grad_out = grad_out @ projection_weight
            _to_gradients_(
                gates[step, :active],
                grad_out,
                grad_cell[:active],
                met_cells[step, :active],
                cells[step + 1, :active],
                tanh_cells[step, :active],
                ctx.clips,
                scratch[:active],
            )
            if active < batch_size:
                gates[step, active:].zero_()
            torch.mm(gates[step, :active], state_weight, out=grad_hidden[:active])
            if keep is not None:
                grad_hidden.mul_(keep[step])
                grad_cell.mul_(keep[step])
        # One multiply over all steps for each weight. Rows that had ended have zero gradients.
        flat_gates = gates.view(num_steps * batch_size, -1)
        grad_state_weight = flat_gates.t() @ met_hiddens[:num_steps].reshape(num_steps * batch_size, -1)
        grad_projection_weight = None
        if grad_projected is not None:
            grad_projection_weight = grad_projected.flatten(0, 1).t() @ unprojected.flatten(0, 1)
        return (
            gates,
            grad_state_weight,
            flat_gates.sum(dim=0),
            grad_projection_weight,
            grad_hidden,
            grad_cell,
            None,
            None,
            None,
        )


def _to_gradients_(
    gates: torch.Tensor,
    grad_out: torch.Tensor,
    grad_cell: torch.Tensor,
    met_cell: torch.Tensor,
    cell: torch.Tensor,
    tanh_cell: torch.Tensor,
    clips: _Clips,
    scratch: torch.Tensor,
) -> None:
    """One step of the backward pass between the two matrix multiplies: turns the gates' activations into the gradients
    of what they were activations of. `grad_out` reaches what the cell gave out, and is overwritten; `grad_cell` reaches
    the new cell, and becomes the gradient of the cell the step met.
    """
    input_gate, candidate, forget_gate, output_gate = gates.chunk(4, dim=-1)
    to_input, to_candidate, to_forget, to_output = scratch.chunk(4, dim=-1)
    through_sigmoid = torch.ops.aten.sigmoid_backward.grad_input
    through_tanh = torch.ops.aten.tanh_backward.grad_input
    torch.mul(grad_out, tanh_cell, out=to_output)
    grad_out.mul_(output_gate)
    grad_cell.add_(through_tanh(grad_out, tanh_cell, grad_input=grad_out))
    _stop_at_clip_(grad_cell, cell, clips.cell)
    torch.mul(grad_cell, candidate, out=to_input)
    torch.mul(grad_cell, input_gate, out=to_candidate)
    torch.mul(grad_cell, met_cell, out=to_forget)
    grad_cell.mul_(forget_gate)
    through_sigmoid(to_input, input_gate, grad_input=input_gate)
    through_tanh(to_candidate, candidate, grad_input=candidate)
    half = gates.size(1) // 2
    through_sigmoid(scratch[:, half:], gates[:, half:], grad_input=gates[:, half:])


class ProjectedLstm(torch.nn.Module):
    """One layer in one direction. Inputs and outputs have the step first: (num_steps, batch_size, dim).

    Where no gradient is asked for and the weights are frozen, they are laid out for the fastest kernel, which takes as
    much memory again. The attribute `precision`, "float32" or "int8", says whether they are rounded there.
    """

    def __init__(
        self,
        input_dim: int,
        projection_dim: int,
        cell_dim: int,
        cell_clip: Optional[float] = None,
        projection_clip: Optional[float] = None,
    ) -> None:
        super().__init__()
        self.precision = "float32"
        self._products = Products()
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
        if self.needs_gradient(inputs, *state):
            self._check_float32("gradients are wanted")
            gates = torch.nn.functional.linear(inputs, self.input_weight)
            # Under autocast the multiply above runs in half precision; the recurrence stays in float32.
            with torch.autocast(inputs.device.type, enabled=False):
                # The gates belong to nobody else, and the multiply's backward pass doesn't need them.
                outputs, hidden, cell = _Recurrence.apply(
                    gates.float() if gates.dtype in (torch.float16, torch.bfloat16) else gates,
                    self.state_weight,
                    self.bias,
                    self.projection_weight,
                    state.hidden,
                    state.cell,
                    num_active,
                    keep,
                    self._clips,
                )
            return outputs, LstmState(hidden, cell)
        return self._run_in_blocks(inputs, state, num_active, keep)

    def needs_gradient(self, *tensors: torch.Tensor) -> bool:
        """Whether autograd has to follow a run on these inputs and states."""
        return torch.is_grad_enabled() and any(
            tensor.requires_grad for tensor in (*tensors, self.state_weight, self.input_weight)
        )

    def _check_float32(self, obstacle: str) -> None:
        if self.precision != "float32":
            raise ConfigurationError(
                f"precision {self.precision} is for embedding with a frozen biLM on a CPU, but {obstacle}; set it to "
                '"float32"'
            )

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
        num_rows = max(num_active, default=0)
        state_product = self._product("state", num_rows)
        projection = None if self.projection_weight is None else self._product("projection", num_rows)
        steps_per_block = max(1, _MAX_GATE_NUMBERS // max(1, inputs.size(1) * 4 * self.cell_dim))
        outputs = []
        for start in range(0, inputs.size(0), steps_per_block):
            block = slice(start, start + steps_per_block)
            gates = self._input_gates(inputs[block], num_active[block]).to(state.hidden.dtype)
            with torch.autocast(inputs.device.type, enabled=False):
                block_outputs, state = run_steps(
                    gates,
                    state_product,
                    projection,
                    state,
                    num_active[block],
                    None if keep is None else keep[block],
                    self._clips,
                )
            outputs.append(block_outputs)
        return torch.cat(outputs) if outputs else inputs.new_zeros(0, inputs.size(1), self.projection_dim), state

    def _product(self, name: str, num_rows: int) -> Product:
        weight = getattr(self, f"{name}_weight")
        return self._products.get(name, weight, self._kind_of_product(weight, num_rows))

    def _kind_of_product(self, weight: torch.Tensor, num_rows: int) -> Callable[[torch.Tensor], Product]:
        if not weight.is_cpu:
            self._check_float32("it is on a GPU")
        if weight.requires_grad:
            self._check_float32("its weights aren't frozen")
        return fastest_float32(weight, num_rows) if self.precision == "float32" else Int8Product

    def _input_gates(self, inputs: torch.Tensor, num_active: List[int]) -> torch.Tensor:
        """The inputs' part of the gates, of the running rows only: (num_running, 4 * cell_dim)."""
        if sum(num_active) == inputs.size(0) * inputs.size(1):
            running = inputs.flatten(0, 1)
        else:
            running = torch.cat([step[:active] for step, active in zip(inputs, num_active, strict=True)])
        is_plain = self.precision == "float32" and (
            len(running) > _MAX_ROWS_LAID_OUT or self.input_weight.requires_grad or torch.is_autocast_enabled("cpu")
        )
        kind = Product if is_plain else self._kind_of_product(self.input_weight, num_rows=len(running))
        if kind is Product:
            return torch.nn.functional.linear(running, self.input_weight, _with_forget_bias(self.bias))
        return self._product("input", num_rows=len(running))(running).add_(_with_forget_bias(self.bias))


_MAX_ROWS_LAID_OUT = 256
"""With more rows than that it makes little difference how a weight is laid out."""

_MAX_GATE_NUMBERS = 2**24
"""How many gate pre-activations are held at once without gradients: 64 MB of float32."""
