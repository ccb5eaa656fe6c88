"""The states of a biLM's LSTMs, which go from one window or batch to the next."""

from typing import Iterable, List, NamedTuple

import torch
from torch.nn import functional

from elmo_plugin.bilm.lstm_cell import LstmState


class BiLmState(NamedTuple):
    """The LSTM states of both directions, one per layer."""

    forward: List[LstmState]
    backward: List[LstmState]

    @classmethod
    def from_tensors(cls, tensors: Iterable[torch.Tensor]) -> "BiLmState":
        """The inverse of `tensors`."""
        flat = list(tensors)
        layers = [LstmState(hidden, cell) for hidden, cell in zip(flat[::2], flat[1::2], strict=True)]
        half = len(layers) // 2
        return cls(layers[:half], layers[half:])

    def tensors(self) -> List[torch.Tensor]:
        """Each layer's hidden state and cell: the forward layers' first."""
        return [tensor for layers in self for layer in layers for tensor in layer]

    def rows(self, num_rows: int) -> "BiLmState":
        """The states of the first `num_rows` rows; rows that it doesn't have start from zeros."""
        return self.from_tensors(
            functional.pad(tensor[:num_rows], (0, 0, 0, max(0, num_rows - tensor.size(0)))) for tensor in self.tensors()
        )

    def followed_by(self, older: "BiLmState") -> "BiLmState":
        """These rows, followed by the rows of `older` that they don't cover."""
        pairs = zip(self.tensors(), older.tensors(), strict=True)
        return self.from_tensors(torch.cat([new, old[new.size(0) :]]) for new, old in pairs)

    def detach(self) -> "BiLmState":
        return self.from_tensors(tensor.detach() for tensor in self.tensors())

    def to(self, device: torch.device) -> "BiLmState":
        return self.from_tensors(tensor.to(device) for tensor in self.tensors())


# Plain tuples of tensors, which a checkpoint may hold.
torch.serialization.add_safe_globals([LstmState, BiLmState])
