"""The deep LSTM of He et al. (2017), "Deep Semantic Role Labeling: What Works and What's Next"."""

from itertools import accumulate
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple

import torch
from allennlp.common.checks import ConfigurationError
from allennlp.modules import Seq2SeqEncoder
from torch.nn.utils.rnn import PackedSequence

from elmo_plugin.processor import lstm_kernels_for
from elmo_plugin.tasks.common.recurrent import LongestFirst
from elmo_plugin.tasks.srl import highway_cell


class HighwayLstm(torch.nn.Module):
    """One layer, in one direction, with a highway connection past it. Equations (2) to (8) of He et al.:

        i, f, o, r = sigmoid(W x_t + U h_s + b)         s is t - 1, or t + 1 if the layer goes backward
        g = tanh(W_g x_t + U_g h_s + b_g)
        c_t = i * g + f * c_s
        h_t = z * (r * o * tanh(c_t) + (1 - r) * W_h x_t)

    z is the dropout mask, the same at every step of a sentence: it is on what the next step sees, and on what the next
    layer sees. Only U h_s has to wait for the previous step; everything that depends on x is computed for the whole
    batch at once, without padding, and so are the gradients of W and U.

    Each gate's matrices start orthogonal, and the biases at 0 except for the forget gate's, which start at 1.
    """

    # In this order in the matrices: those with a sigmoid are side by side.
    GATES = ("candidate", "input", "forget", "output", "highway")

    def __init__(self, input_dim: int, hidden_dim: int, go_forward: bool = True, dropout: float = 0.0) -> None:
        super().__init__()
        self.input_dim = input_dim
        self.hidden_dim = hidden_dim
        self.go_forward = go_forward
        self.dropout = dropout
        num_gates = len(self.GATES)
        # Each has one row per input, the faster orientation for the products and for their gradients. The columns past
        # the gates' are W_h, which has no bias.
        self.input_weight = torch.nn.Parameter(torch.empty(input_dim, (num_gates + 1) * hidden_dim))
        self.state_weight = torch.nn.Parameter(torch.empty(hidden_dim, num_gates * hidden_dim))
        self.bias = torch.nn.Parameter(torch.empty(num_gates * hidden_dim))
        self.reset_parameters()
        self.register_load_state_dict_pre_hook(_transpose_earlier_weights)

    def reset_parameters(self) -> None:
        for weight in (self.input_weight, self.state_weight):
            for block in weight.data.t().split(self.hidden_dim):
                torch.nn.init.orthogonal_(block)
        torch.nn.init.zeros_(self.bias)
        forget = self.GATES.index("forget") * self.hidden_dim
        torch.nn.init.ones_(self.bias.data[forget : forget + self.hidden_dim])

    def forward(self, inputs: PackedSequence) -> PackedSequence:
        """`inputs` as `pack_padded_sequence` gives them: step by step, with the longest sentence first in each."""
        batch_sizes: List[int] = inputs.batch_sizes.tolist()
        # W x for each gate, and W_h x. Shape: (num_tokens, (num_gates + 1) * hidden_dim)
        projected = inputs.data @ self.input_weight
        # Even in mixed precision the recurrence is in the precision of the weights.
        projected = projected.to(self.state_weight.dtype)
        with torch.autocast(projected.device.type, enabled=False):
            outputs, _ = _Recurrence.apply(
                projected,
                self.state_weight,
                self.bias,
                self._dropout_mask(projected, batch_sizes[0]),
                _Steps(batch_sizes, self.go_forward),
            )
        return PackedSequence(outputs, inputs.batch_sizes, inputs.sorted_indices, inputs.unsorted_indices)

    def _dropout_mask(self, like: torch.Tensor, batch_size: int) -> Optional[torch.Tensor]:
        if not self.training or self.dropout == 0.0:
            return None
        ones = torch.ones(batch_size, self.hidden_dim, dtype=like.dtype, device=like.device)
        return torch.nn.functional.dropout(ones, self.dropout)


def _transpose_earlier_weights(lstm: HighwayLstm, state_dict: Dict[str, torch.Tensor], prefix: str, *_: Any) -> None:
    """For archives trained when the weights had one row per output."""
    state_weight = state_dict.get(f"{prefix}state_weight")
    if state_weight is not None and state_weight.shape == lstm.state_weight.t().shape:
        for key in (f"{prefix}input_weight", f"{prefix}state_weight"):
            state_dict[key] = state_dict[key].t()


@Seq2SeqEncoder.register("elmo::alternating_lstm")
class AlternatingLstm(Seq2SeqEncoder):
    """LSTM layers with highway connections, the first of which goes forward, the second backward, and so on.

    The same function as AllenNLP's `alternating_lstm` (with `use_highway`, without `use_input_projection_bias`), with
    everything that isn't sequential taken out of the loop over steps; benchmarks/srl_lstm.py compares the two. They
    differ in training: what is dropped here is dropped for the next layer too, as in He et al., and there for the next
    step only.

    input_size, hidden_size, num_layers: as for any LSTM; every layer gives `hidden_size` numbers per token.
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
        rows = LongestFirst.of(mask)
        packed = rows.pack(inputs)
        for layer in self.layers:
            packed = layer(packed)
        outputs = rows.pad(packed, inputs.size(1))
        return outputs.masked_fill(~mask.unsqueeze(-1), 0.0)


class _Steps(NamedTuple):
    """The steps of packed sentences, in which the rows of a step are side by side, the longest sentence first."""

    batch_sizes: List[int]
    go_forward: bool

    def in_order(self) -> Iterator[Tuple[slice, slice, slice]]:
        """The rows of each step in reading order; those among them that have a previous step; and their rows in that
        step.

        Going forward, sentences drop out one after another. Going backward they come in, without a previous step.
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

    def rows_before(self) -> List[int]:
        """For each row of each step, that of the previous step; -1 where there is none."""
        places = [-1] * sum(self.batch_sizes)
        for _, continued, before in self.in_order():
            places[continued] = range(before.start, before.stop)
        return places


class _Recurrence(torch.autograd.Function):
    """What is sequential in `HighwayLstm`. In both passes a step's numbers are small enough for the processor's caches,
    so everything elementwise is done inside the loop, adding the bias included, and only the gradients of U and b are
    outside it.
    """

    @staticmethod
    def forward(
        ctx: Any,
        projected: torch.Tensor,
        state_weight: torch.Tensor,
        bias: torch.Tensor,
        mask: Optional[torch.Tensor],
        steps: _Steps,
    ) -> Tuple[torch.Tensor, torch.Tensor]:
        """`projected`, (num_tokens, 6 * dim), are W x and W_h x. They are overwritten with the gates."""
        dim = len(state_weight)
        cells, squashed, outputs = (projected.new_empty(len(projected), dim) for _ in range(3))
        arithmetic = lstm_kernels_for(projected) or highway_cell
        for rows, continued, before in steps.in_order():
            step, num_continued = projected[rows], continued.stop - continued.start
            step[:num_continued, : 5 * dim].addmm_(outputs[before], state_weight)
            step_mask = None if mask is None else mask[: len(step)]
            arithmetic.next_hidden_(step, bias, cells[before], step_mask, cells[rows], squashed[rows], outputs[rows])
        ctx.mark_dirty(projected)
        ctx.set_materialize_grads(False)  # for the gates, which go nowhere
        rows_before = torch.tensor(steps.rows_before(), device=projected.device)
        ctx.save_for_backward(projected, cells, squashed, outputs, state_weight, mask, rows_before)
        ctx.steps = steps
        return outputs, projected

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_outputs: torch.Tensor, _: torch.Tensor) -> Tuple[Optional[torch.Tensor], ...]:
        activations, cells, squashed, outputs, state_weight, mask, rows_before = ctx.saved_tensors
        dim, batch_size = len(state_weight), ctx.steps.batch_sizes[0]
        transposed_weight = state_weight.t().contiguous()
        # The gradients that have reached each sentence's state from later steps. Shape: (batch_size, dim)
        grad_state, grad_cells = (outputs.new_zeros(batch_size, dim) for _ in range(2))
        scratch = outputs.new_empty(batch_size, 4 * dim)
        arithmetic, grad_outputs = lstm_kernels_for(outputs) or highway_cell, grad_outputs.contiguous()
        for rows, continued, before in reversed(list(ctx.steps.in_order())):
            step, num_rows, num_continued = activations[rows], rows.stop - rows.start, continued.stop - continued.start
            arithmetic.hidden_gradient_(
                step,
                squashed[rows],
                cells[before],
                None if mask is None else mask[:num_rows],
                grad_state[:num_rows],
                grad_outputs[rows],
                grad_cells[:num_rows],
                scratch[:num_rows],
            )
            torch.mm(step[:num_continued, : 5 * dim], transposed_weight, out=grad_state[:num_continued])
        hidden_before = outputs.index_select(0, rows_before.clamp(min=0))
        hidden_before.masked_fill_((rows_before < 0).unsqueeze(1), 0.0)
        grad_gates = activations[:, : 5 * dim]
        return activations, hidden_before.t() @ grad_gates, grad_gates.sum(dim=0), None, None
