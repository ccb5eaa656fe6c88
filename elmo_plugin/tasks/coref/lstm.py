"""Seq2SeqEncoder "elmo::coupled_lstm": the LSTM of Lee et al. (2017)."""

import math

import torch
from allennlp.modules import Seq2SeqEncoder

from elmo_plugin.tasks.common.recurrent import gather_steps, turned_round


@Seq2SeqEncoder.register("elmo::coupled_lstm")
class CoupledLstm(Seq2SeqEncoder):
    """One layer in both directions, which forgets as much as it takes in (section 4 of Lee et al.):

        i, o = sigmoid(W [x_t; z * h_s] + b)        s is t - 1 in the forward direction and t + 1 in the backward one
        g = tanh(W_g [x_t; z * h_s] + b_g)
        c_t = i * g + (1 - i) * c_s
        h_t = o * tanh(c_t)

    The first states are learnt. z is a dropout mask on the state, the same at all steps of a sentence. As in their
    code, each gate's matrix starts orthogonal, and biases and first states uniform within Glorot's bounds.

    The directions run side by side, the backward one over reversed sentences, and what doesn't depend on the state is
    computed for all steps at once. Padding may only be at the end.
    """

    def __init__(self, input_size: int, hidden_size: int, recurrent_dropout: float = 0.0) -> None:
        super().__init__(stateful=False)
        self._input_size, self._hidden_size = input_size, hidden_size
        self.recurrent_dropout = recurrent_dropout
        # For both directions; the columns are the gates i, o and g.
        self.input_weight = torch.nn.Parameter(torch.empty(2, input_size, 3 * hidden_size))
        self.state_weight = torch.nn.Parameter(torch.empty(2, hidden_size, 3 * hidden_size))
        self.bias = torch.nn.Parameter(torch.empty(2, 1, 3 * hidden_size))
        self.first_hidden = torch.nn.Parameter(torch.empty(2, 1, hidden_size))
        self.first_cell = torch.nn.Parameter(torch.empty(2, 1, hidden_size))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for direction in range(2):
            for gate in range(3):
                columns = slice(gate * self._hidden_size, (gate + 1) * self._hidden_size)
                matrix = torch.nn.init.orthogonal_(torch.empty(self._input_size + self._hidden_size, self._hidden_size))
                self.input_weight.data[direction, :, columns] = matrix[: self._input_size]
                self.state_weight.data[direction, :, columns] = matrix[self._input_size :]
            for vector in (self.bias, self.first_hidden, self.first_cell):
                fans = 2 * vector.size(-1) if vector is self.bias else 1 + vector.size(-1)
                torch.nn.init.uniform_(vector.data[direction], -math.sqrt(6 / fans), math.sqrt(6 / fans))

    def get_input_dim(self) -> int:
        return self._input_size

    def get_output_dim(self) -> int:
        return 2 * self._hidden_size

    def is_bidirectional(self) -> bool:
        return True

    def forward(self, inputs: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """(batch_size, num_tokens, input_size) -> (batch_size, num_tokens, 2 * hidden_size), zeros at padding."""
        steps = inputs.masked_fill(~mask.unsqueeze(-1), 0.0).transpose(0, 1)
        turned = turned_round(mask.sum(dim=1), len(steps))
        # Shape: (2, num_tokens * batch_size, input_size)
        both = torch.stack([steps, gather_steps(steps, turned)]).flatten(1, 2)
        # Shape: (2, num_tokens, batch_size, 3 * hidden_size)
        projected = torch.baddbmm(self.bias, both, self.input_weight).unflatten(1, steps.shape[:2])
        # Even in mixed precision the recurrence is in the precision of the weights.
        with torch.autocast(projected.device.type, enabled=False):
            forward, backward = self._run(projected.to(self.state_weight.dtype))
        outputs = torch.cat([forward, gather_steps(backward, turned)], dim=-1).transpose(0, 1)
        return outputs.masked_fill(~mask.unsqueeze(-1), 0.0)

    def _run(self, projected: torch.Tensor) -> torch.Tensor:
        """The outputs of each step, (2, num_tokens, batch_size, hidden_size)."""
        batch_size = projected.size(2)
        hidden, cell = (state.expand(-1, batch_size, -1) for state in (self.first_hidden, self.first_cell))
        kept = torch.nn.functional.dropout(torch.ones_like(hidden), self.recurrent_dropout, self.training)
        outputs = []
        for step in projected.unbind(dim=1):
            gates = torch.baddbmm(step, hidden * kept, self.state_weight)
            input_gate, output_gate, candidate = gates.chunk(3, dim=-1)
            cell = torch.lerp(cell, torch.tanh(candidate), torch.sigmoid(input_gate))
            hidden = torch.sigmoid(output_gate) * torch.tanh(cell)
            outputs.append(hidden)
        return torch.stack(outputs, dim=1)
