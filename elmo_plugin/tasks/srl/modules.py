"""The deep LSTM of He et al. (2017), "Deep Semantic Role Labeling: What Works and What's Next"."""

from itertools import accumulate
from typing import Any, Iterator, List, NamedTuple, Optional, Tuple

import torch
from allennlp.common.checks import ConfigurationError
from allennlp.modules import Seq2SeqEncoder
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence


class HighwayLstm(torch.nn.Module):
    """One layer, in one direction, with a highway connection past it. Equations (2) to (8) of He et al.:

        i, f, o, r = sigmoid(W x_t + U h_s + b)         s is t - 1, or t + 1 if the layer goes backward
        g = tanh(W_g x_t + U_g h_s + b_g)
        c_t = i * g + f * c_s
        h_t = z * (r * o * tanh(c_t) + (1 - r) * W_h x_t)

    z is the dropout mask, the same at every step of a sentence: it is on what the next step sees, and on what the next
    layer sees. Only U h_s has to wait for the step before; all that depends on x is computed for the whole batch at
    once, padding left out, and so is the gradient of U.

    Each gate's matrices are initialised orthogonal, and the biases 0 but for the forget gate's, which are 1.
    """

    # In this order in the matrices: side by side those with a sigmoid, and those whose gradient comes by the cell.
    GATES = ("candidate", "input", "forget", "output", "highway")

    def __init__(self, input_dim: int, hidden_dim: int, go_forward: bool = True, dropout: float = 0.0) -> None:
        super().__init__()
        self.input_dim = input_dim
        self.hidden_dim = hidden_dim
        self.go_forward = go_forward
        self.dropout = dropout
        num_gates = len(self.GATES)
        # The rows past the gates' are W_h, which has no bias.
        self.input_weight = torch.nn.Parameter(torch.empty((num_gates + 1) * hidden_dim, input_dim))
        self.state_weight = torch.nn.Parameter(torch.empty(num_gates * hidden_dim, hidden_dim))
        self.bias = torch.nn.Parameter(torch.empty(num_gates * hidden_dim))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for weight in (self.input_weight, self.state_weight):
            for block in weight.data.split(self.hidden_dim):
                torch.nn.init.orthogonal_(block)
        torch.nn.init.zeros_(self.bias)
        forget = self.GATES.index("forget") * self.hidden_dim
        torch.nn.init.ones_(self.bias.data[forget : forget + self.hidden_dim])

    def forward(self, inputs: PackedSequence) -> PackedSequence:
        """`inputs` as `pack_padded_sequence` gives them: step by step, with the longest sentence first in each."""
        batch_sizes: List[int] = inputs.batch_sizes.tolist()
        # Shape: (num_tokens, num_gates * hidden_dim) and (num_tokens, hidden_dim)
        gates, carried = torch.nn.functional.linear(inputs.data, self.input_weight).split(
            [len(self.GATES) * self.hidden_dim, self.hidden_dim], dim=-1
        )
        gates = gates + self.bias
        # In mixed precision, too, the recurrence is in the precision of the weights, which the bias has brought back.
        outputs = _Recurrence.apply(
            gates,
            carried.to(gates.dtype),
            self.state_weight,
            self._dropout_mask(gates, batch_sizes[0]),
            _Steps(batch_sizes, self.go_forward),
        )
        return PackedSequence(outputs, inputs.batch_sizes, inputs.sorted_indices, inputs.unsorted_indices)

    def _dropout_mask(self, like: torch.Tensor, batch_size: int) -> Optional[torch.Tensor]:
        if not self.training or self.dropout == 0.0:
            return None
        ones = torch.ones(batch_size, self.hidden_dim, dtype=like.dtype, device=like.device)
        return torch.nn.functional.dropout(ones, self.dropout)


@Seq2SeqEncoder.register("elmo::alternating_lstm")
class AlternatingLstm(Seq2SeqEncoder):
    """LSTM layers with highway connections, the first of which goes forward, the second backward, and so on.

    The same function as AllenNLP's `alternating_lstm` (with `use_highway`, without `use_input_projection_bias`), with
    everything that isn't sequential taken out of the loop over steps; benchmarks/srl_lstm.py compares the two. They
    differ in training: what is dropped here is dropped for the next layer too, as He et al. have it, and there for the
    next step only.

    input_size, hidden_size, num_layers: as for any LSTM; every layer gives `hidden_size` numbers a token.
    recurrent_dropout: the chance that a unit is dropped, for a whole sentence, in each layer.
    """

    def __init__(self, input_size: int, hidden_size: int, num_layers: int = 8, recurrent_dropout: float = 0.1) -> None:
        super().__init__(stateful=False)
        if num_layers < 1 or hidden_size < 1 or not 0.0 <= recurrent_dropout < 1.0:
            raise ConfigurationError(
                "encoder elmo::alternating_lstm: num_layers and hidden_size must be 1 or more and recurrent_dropout in "
                f"[0, 1), not {num_layers}, {hidden_size} and {recurrent_dropout}"
            )
        self._input_size = input_size
        self._hidden_size = hidden_size
        self.layers = torch.nn.ModuleList(
            HighwayLstm(
                hidden_size if index else input_size, hidden_size, go_forward=index % 2 == 0, dropout=recurrent_dropout
            )
            for index in range(num_layers)
        )

    def get_input_dim(self) -> int:
        return self._input_size

    def get_output_dim(self) -> int:
        return self._hidden_size

    def is_bidirectional(self) -> bool:
        return False  # no half of the output belongs to one direction

    def forward(self, inputs: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """(batch_size, num_tokens, input_size) -> (batch_size, num_tokens, hidden_size), zeros at padding."""
        # A row without tokens counts as one of a single token, which the mask then takes out.
        lengths = mask.sum(dim=1).clamp(min=1).cpu()
        packed = pack_padded_sequence(inputs, lengths, batch_first=True, enforce_sorted=False)
        for layer in self.layers:
            packed = layer(packed)
        outputs, _ = pad_packed_sequence(packed, batch_first=True, total_length=inputs.size(1))
        return outputs.masked_fill(~mask.unsqueeze(-1), 0.0)


class _Steps(NamedTuple):
    """The steps of packed sentences, in which the rows of a step are side by side, the longest sentence first."""

    batch_sizes: List[int]
    go_forward: bool

    def in_order(self) -> Iterator[Tuple[slice, slice, slice]]:
        """The rows of each step in reading order; those among them with a step before; and that step's, alike.

        Going forward, sentences drop out one after another. Going backward they come in, without a step before.
        """
        starts = [0, *accumulate(self.batch_sizes)]
        numbers = range(len(self.batch_sizes))
        size_before = start_before = 0
        for number in numbers if self.go_forward else reversed(numbers):
            start, size = starts[number], self.batch_sizes[number]
            num_common = min(size, size_before)
            yield (
                slice(start, start + size),
                slice(start, start + num_common),
                slice(start_before, start_before + num_common),
            )
            size_before, start_before = size, start


class _Recurrence(torch.autograd.Function):
    """What is sequential in `HighwayLstm`, with a backward pass that leaves everything else out of its loop, too."""

    @staticmethod
    def forward(
        ctx: Any,
        gates: torch.Tensor,
        carried: torch.Tensor,
        state_weight: torch.Tensor,
        mask: Optional[torch.Tensor],
        steps: _Steps,
    ) -> torch.Tensor:
        """`gates`, (num_tokens, 5 * dim), are W x + b; `carried`, (num_tokens, dim), is W_h x."""
        dim = carried.size(-1)
        activations, cells, outputs = torch.empty_like(gates), torch.empty_like(carried), torch.empty_like(carried)
        hidden_before, cells_before = torch.zeros_like(carried), torch.zeros_like(carried)
        weight = state_weight.t()
        for rows, continued, before in steps.in_order():
            hidden_before[continued] = outputs[before]
            cells_before[continued] = cells[before]
            activation = torch.addmm(gates[rows], hidden_before[rows], weight, out=activations[rows])
            activation[:, :dim].tanh_()
            activation[:, dim:].sigmoid_()
            candidate, input_gate, forget_gate, output_gate, highway_gate = activation.split(dim, dim=-1)
            cell = torch.mul(forget_gate, cells_before[rows], out=cells[rows]).addcmul_(input_gate, candidate)
            # r h' + (1 - r) carried
            hidden = torch.lerp(carried[rows], torch.tanh(cell).mul_(output_gate), highway_gate, out=outputs[rows])
            if mask is not None:
                hidden.mul_(mask[: len(hidden)])
        ctx.save_for_backward(activations, carried, cells, cells_before, hidden_before, state_weight, mask)
        ctx.steps = steps
        return outputs

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_outputs: torch.Tensor) -> Tuple[Optional[torch.Tensor], ...]:
        activations, carried, cells, cells_before, hidden_before, state_weight, mask = ctx.saved_tensors
        candidate, input_gate, forget_gate, output_gate, highway_gate = activations.split(carried.size(-1), dim=-1)
        tanh = torch.tanh(cells)
        # Shape: (num_tokens, 5, dim); by what a gate's gradient is that of the cell (the first three) or of h.
        factors = torch.stack(
            [
                input_gate * (1 - candidate**2),
                candidate * input_gate * (1 - input_gate),
                cells_before * forget_gate * (1 - forget_gate),
                highway_gate * tanh * output_gate * (1 - output_gate),
                (output_gate * tanh - carried) * highway_gate * (1 - highway_gate),
            ],
            dim=1,
        )
        cell_factor = highway_gate * output_gate * (1 - tanh**2)
        grad_hidden, grad_cell, grad_gates = grad_outputs.clone(), torch.zeros_like(cells), torch.empty_like(factors)
        for rows, continued, before in reversed(list(ctx.steps.in_order())):
            hidden, cell = grad_hidden[rows], grad_cell[rows]
            if mask is not None:
                hidden.mul_(mask[: len(hidden)])
            cell.addcmul_(hidden, cell_factor[rows])
            torch.mul(cell.unsqueeze(1), factors[rows, :3], out=grad_gates[rows, :3])
            torch.mul(hidden.unsqueeze(1), factors[rows, 3:], out=grad_gates[rows, 3:])
            grad_hidden[before].addmm_(grad_gates[continued].flatten(1), state_weight)
            grad_cell[before].addcmul_(grad_cell[continued], forget_gate[continued])
        flat_gates = grad_gates.flatten(1)
        return flat_gates, grad_hidden * (1 - highway_gate), flat_gates.t() @ hidden_before, None, None
