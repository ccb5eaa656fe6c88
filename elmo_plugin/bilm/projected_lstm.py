"""One layer of LSTM with a projected state, and clipping of cell and state. Its formula is in `lstm_cell.py`."""

from typing import List, Optional, Tuple

import torch

from elmo_plugin.bilm.frozen import FrozenProducts, Product, are_frozen
from elmo_plugin.bilm.lstm_cell import FORGET_BIAS, Clips, LstmState, LstmWeights
from elmo_plugin.bilm.recurrence import LayOut, needs_gradient, plain, run_lstm
from elmo_plugin.errors import ConfigurationError


class ProjectedLstm(torch.nn.Module):
    """One layer in one direction. Inputs and outputs have the step first: (num_steps, batch_size, dim).

    The forget bias is kept without its + 1, as in the published files. Where no gradient is needed and the weights are
    frozen, they are laid out for the fastest kernel, which takes as much memory again (`frozen.py`). The attribute
    `precision` is that of the multiplies; see `BiLm`.
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
        self._products = FrozenProducts()
        self.projection_dim = projection_dim
        self.cell_dim = cell_dim
        has_projection = projection_dim != cell_dim
        self.clips = Clips(cell_clip or None, projection_clip or None if has_projection else None)
        self.input_weight = torch.nn.Parameter(torch.empty(4 * cell_dim, input_dim))
        self.state_weight = torch.nn.Parameter(torch.empty(4 * cell_dim, projection_dim))
        self.bias = torch.nn.Parameter(torch.zeros(4 * cell_dim))
        self.projection_weight: Optional[torch.nn.Parameter] = None
        if has_projection:
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
        self, inputs: torch.Tensor, state: LstmState, num_active: List[int], keep: Optional[torch.Tensor] = None
    ) -> Tuple[torch.Tensor, LstmState]:
        """Runs from `state`. At each step the first `num_active[step]` rows are running; these numbers never grow.

        `keep`, (num_steps, batch_size, 1), is 0 where a row's state is set to zero before a step, and 1 elsewhere.
        """
        self._check_precision(inputs, *state)
        return self.run(self.weights(), inputs, state, num_active, keep, self._lay_out)

    def run(
        self,
        weights: LstmWeights,
        inputs: torch.Tensor,
        state: LstmState,
        num_active: List[int],
        keep: Optional[torch.Tensor],
        lay_out: LayOut = plain,
    ) -> Tuple[torch.Tensor, LstmState]:
        """The same with the given weights, in this layer's precision."""
        dtype = torch.bfloat16 if self.precision == "bfloat16" else self.bias.dtype
        projection = None if weights.projection is None else weights.projection.to(dtype)
        weights = weights._replace(state=weights.state.to(dtype), projection=projection)
        state = LstmState(state.hidden.to(dtype), state.cell)
        outputs, last = run_lstm(weights, self.clips, inputs, state, num_active, keep, lay_out)
        return outputs.to(self.bias.dtype), LstmState(last.hidden.to(self.bias.dtype), last.cell)

    def weights(self) -> LstmWeights:
        bias = self.bias.clone()
        bias.narrow(0, 2 * self.cell_dim, self.cell_dim).add_(FORGET_BIAS)
        return LstmWeights(self.input_weight, self.state_weight, bias, self.projection_weight)

    def _lay_out(self, name: str, weight: torch.Tensor, num_rows: int) -> Product:
        return self._products.get(name, weight, num_rows, self.precision)

    def _check_precision(self, *tensors: torch.Tensor) -> None:
        if self.precision != "int8":
            return
        if not (are_frozen(self.parameters()) and self.bias.is_cpu and not needs_gradient(*tensors)):
            raise ConfigurationError(
                "precision int8 is for embedding with a frozen biLM on a CPU, but this one trains or is on a GPU; set "
                'it to "float32"'
            )
