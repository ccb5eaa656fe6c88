"""LSTMs and GRUs that train faster on a CPU."""

from typing import List, NamedTuple, Optional, Sequence, Tuple

import torch
from allennlp.modules import Seq2SeqEncoder
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence
from torch.utils.weak import WeakTensorKeyDictionary

from elmo_plugin.tasks.common.gru_steps import run_gru


class LongestFirst(NamedTuple):
    """A batch's rows in the order of their lengths, as in packed sequences."""

    lengths: torch.Tensor  # (batch_size,), on the host, the largest first
    order: torch.Tensor  # (batch_size,), the rows in that order
    restored: torch.Tensor  # (batch_size,), where each row is in that order

    @classmethod
    def of(cls, mask: torch.Tensor, lengths: Optional[Sequence[int]] = None) -> "LongestFirst":
        """For a mask, (batch_size, num_tokens), with a row's padding at its end.

        The host has to know the lengths, and waits for a GPU unless they are given. All callers with the same mask get
        the same answer, so that it waits once per batch, not once per layer.
        """
        if mask not in _longest_first:
            on_host = mask.sum(dim=1).cpu() if lengths is None else torch.tensor(lengths)
            # A row without tokens counts as having one token, which the mask then removes.
            in_order, order = on_host.clamp(min=1).sort(descending=True, stable=True)
            rows = torch.stack([order, order.argsort()]).to(mask.device, non_blocking=True)
            _longest_first[mask] = cls(in_order, *rows)
        return _longest_first[mask]

    def pack(self, inputs: torch.Tensor) -> PackedSequence:
        return pack_padded_sequence(inputs.index_select(0, self.order), self.lengths, batch_first=True)

    def pad(self, outputs: PackedSequence, num_tokens: int) -> torch.Tensor:
        padded, _ = pad_packed_sequence(outputs, batch_first=True, total_length=num_tokens)
        return padded.index_select(0, self.restored)


_longest_first = WeakTensorKeyDictionary()


class LayerWeights(NamedTuple):
    """A layer's weights in one direction, in the order in which torch takes them."""

    of_inputs: torch.Tensor  # (num_gates * hidden_size, input_size)
    of_states: torch.Tensor  # (num_gates * hidden_size, hidden_size)
    input_bias: torch.Tensor  # (num_gates * hidden_size,)
    state_bias: torch.Tensor  # (num_gates * hidden_size,)


_NAMES = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")


class RecurrentEncoder(Seq2SeqEncoder):
    """torch's LSTM or GRU, with the arguments, the weights' names and the vectors of AllenNLP's `lstm` and `gru`.

    AllenNLP packs a batch, as is best on a GPU. On a CPU, torch takes the steps out of packed sentences one by one, and
    its backward pass fills a matrix as large as all of them for each. Here they stay padded on a CPU, and what reads
    backward reads reversed sentences; a GRU has its own steps (`gru_steps.py`). benchmarks/task_encoders.py compares
    them with AllenNLP's. Padding may only be at the end.
    """

    _layers: type

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        dropout: float = 0.0,
        bidirectional: bool = False,
    ) -> None:
        super().__init__(stateful=False)
        self._module = self._layers(
            input_size, hidden_size, num_layers, batch_first=True, dropout=dropout, bidirectional=bidirectional
        )

    def get_input_dim(self) -> int:
        return self._module.input_size

    def get_output_dim(self) -> int:
        return self._module.hidden_size * (2 if self._module.bidirectional else 1)

    def is_bidirectional(self) -> bool:
        return self._module.bidirectional

    def forward(self, inputs: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """(batch_size, num_tokens, input_size) -> (batch_size, num_tokens, output_dim), zeros at padding."""
        outputs = self._padded(inputs, mask) if inputs.is_cpu else self._packed(inputs, mask)
        return outputs.masked_fill(~mask.unsqueeze(-1), 0.0)

    def _packed(self, inputs: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        rows = LongestFirst.of(mask)
        outputs, _ = self._module(rows.pack(inputs))
        return rows.pad(outputs, inputs.size(1))

    def _padded(self, inputs: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        # A nan at padding would spoil the weights' gradients, through steps that count for nothing.
        steps = inputs.masked_fill(~mask.unsqueeze(-1), 0.0).transpose(0, 1)
        turned = turned_round(mask.sum(dim=1), len(steps)) if self._module.bidirectional else None
        for layer in range(self._module.num_layers):
            if layer > 0:
                steps = torch.nn.functional.dropout(steps, self._module.dropout, self.training)
            suffixes = (f"l{layer}",) if turned is None else (f"l{layer}", f"l{layer}_reverse")
            weights = [
                LayerWeights(*(getattr(self._module, f"{name}_{suffix}") for name in _NAMES)) for suffix in suffixes
            ]
            steps = torch.cat(self._run_layer(steps, turned, weights), dim=-1)
        return steps.transpose(0, 1)

    def _run_layer(
        self, steps: torch.Tensor, turned: Optional[torch.Tensor], weights: List[LayerWeights]
    ) -> Tuple[torch.Tensor, ...]:
        """The states of each direction, (num_tokens, batch_size, hidden_size), for steps (num_tokens, batch_size, dim).

        With a second direction, `turned` is where that one reads.
        """
        raise NotImplementedError


@Seq2SeqEncoder.register("elmo::lstm")
class LstmEncoder(RecurrentEncoder):
    _layers = torch.nn.LSTM

    def _run_layer(
        self, steps: torch.Tensor, turned: Optional[torch.Tensor], weights: List[LayerWeights]
    ) -> Tuple[torch.Tensor, ...]:
        forward = self._run(steps, weights[0])
        if turned is None:
            return (forward,)
        return forward, gather_steps(self._run(gather_steps(steps, turned), weights[1]), turned)

    def _run(self, steps: torch.Tensor, weights: LayerWeights) -> torch.Tensor:
        zeros = steps.new_zeros(1, steps.size(1), self._module.hidden_size)
        return torch.lstm(steps, (zeros, zeros), weights, True, 1, 0.0, self.training, False, False)[0]


@Seq2SeqEncoder.register("elmo::gru")
class GruEncoder(RecurrentEncoder):
    _layers = torch.nn.GRU

    def _run_layer(
        self, steps: torch.Tensor, turned: Optional[torch.Tensor], weights: List[LayerWeights]
    ) -> Tuple[torch.Tensor, ...]:
        of_inputs, of_states, input_biases, state_biases = zip(*weights, strict=True)
        gates = torch.nn.functional.linear(steps, torch.cat(of_inputs), torch.cat(input_biases))
        return run_gru(gates.chunk(len(weights), dim=-1), torch.stack(of_states), torch.stack(state_biases), turned)


def turned_round(lengths: torch.Tensor, num_tokens: int) -> torch.Tensor:
    """For each position, (num_tokens, batch_size), the one it is swapped with when sentences are reversed."""
    places = torch.arange(num_tokens, device=lengths.device).unsqueeze(1)
    turned = lengths - 1 - places
    return torch.where(turned < 0, places, turned)


def gather_steps(steps: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    return steps.gather(0, places.unsqueeze(-1).expand(-1, -1, steps.size(-1)))
