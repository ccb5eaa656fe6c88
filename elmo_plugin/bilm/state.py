"""The states of a biLM's LSTMs, which go from one window or batch to the next."""

from typing import List, NamedTuple

import torch
from torch.nn import functional

from elmo_plugin.bilm.lstm_cell import LstmState


class BiLmState(NamedTuple):
    """The LSTM states of both directions, one per layer."""

    forward: List[LstmState]
    backward: List[LstmState]

    def rows(self, num_rows: int) -> "BiLmState":
        """The states of the first `num_rows` rows; rows that it doesn't have start from zeros."""

        def resize(tensor: torch.Tensor) -> torch.Tensor:
            return functional.pad(tensor[:num_rows], (0, 0, 0, max(0, num_rows - tensor.size(0))))

        return self._map(resize)

    def followed_by(self, older: "BiLmState") -> "BiLmState":
        """These rows, followed by the rows of `older` that they don't cover."""
        return BiLmState(
            *(
                [
                    LstmState(*(torch.cat([new, old[new.size(0) :]]) for new, old in zip(mine, theirs, strict=True)))
                    for mine, theirs in zip(my_layers, their_layers, strict=True)
                ]
                for my_layers, their_layers in zip(self, older, strict=True)
            )
        )

    def detach(self) -> "BiLmState":
        return self._map(torch.Tensor.detach)

    def to(self, device: torch.device) -> "BiLmState":
        return self._map(lambda tensor: tensor.to(device))

    def _map(self, function) -> "BiLmState":
        return BiLmState(*([LstmState(*map(function, layer)) for layer in layers] for layers in self))


# Plain tuples of tensors, which a checkpoint may hold.
torch.serialization.add_safe_globals([LstmState, BiLmState])
