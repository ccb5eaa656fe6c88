"""Token vectors of words seen before, so that a word goes through the character CNN once rather than once per batch."""

from typing import Callable, Dict, Iterable, List, Optional

import torch

from elmo_plugin.bilm.frozen import Snapshot, are_frozen
from elmo_plugin.errors import ConfigurationError

_BYTES_PER_KEY = 400
"""About what a word's characters take as a key, with its share of the dictionary."""


class TokenCache:
    """Holds the vectors of up to `megabytes` of word types, keyed by all of their character ids; 0 holds none.

    Words are admitted as they come, until it is full: frequent ones come early. It empties itself when a weight behind
    the vectors changes. It is neither copied nor pickled with the module it belongs to.
    """

    def __init__(self, megabytes: float = 64.0) -> None:
        if megabytes < 0:
            raise ConfigurationError(f"a biLM's token_cache_megabytes has to be at least 0, got {megabytes}")
        self.megabytes = megabytes
        self._rows: Dict[bytes, int] = {}
        self._vectors: Optional[torch.Tensor] = None
        self._snapshot: Optional[Snapshot] = None

    def __reduce__(self):
        return TokenCache, (self.megabytes,)

    def __len__(self) -> int:
        return len(self._rows)

    def clear(self) -> None:
        self._rows, self._vectors, self._snapshot = {}, None, None

    def vectors(
        self,
        types: torch.Tensor,
        compute: Callable[[torch.Tensor], torch.Tensor],
        weights: Iterable[torch.Tensor],
    ) -> torch.Tensor:
        """The vectors, (num_types, dim), of distinct words' character ids, (num_types, num_characters).

        `compute` gives those of words not held, from `weights`. It gives all of them where vectors may not be kept:
        while the weights train, on a GPU, and under autocast, whose vectors are less exact.
        """
        weights = list(weights)
        is_exact = types.is_cpu and not torch.is_autocast_enabled("cpu")
        if not is_exact or not are_frozen(weights) or self.megabytes == 0:
            return compute(types)
        self._forget_if_changed(weights)
        keys = _keys(types)
        rows = torch.tensor([self._rows.get(key, -1) for key in keys], dtype=torch.long)
        missing = (rows < 0).nonzero().squeeze(1)
        if self._vectors is None or len(missing) == len(types):
            computed = compute(types)
            self._admit(keys, computed)
            return computed
        vectors = self._vectors.index_select(0, rows.clamp(min=0))
        if len(missing) > 0:
            computed = compute(types[missing])
            vectors[missing] = computed
            self._admit([keys[place] for place in missing.tolist()], computed)
        return vectors

    def _forget_if_changed(self, weights: List[torch.Tensor]) -> None:
        if self._snapshot is None or not self._snapshot.is_of(weights):
            self.clear()
            self._snapshot = Snapshot(weights)

    def _admit(self, keys: List[bytes], computed: torch.Tensor) -> None:
        if self._vectors is None:
            capacity = int(self.megabytes * 2**20) // (computed.size(1) * computed.element_size() + _BYTES_PER_KEY)
            # Memory that isn't touched isn't taken. It outlives an inference mode that may be on at the moment.
            with torch.inference_mode(False):
                self._vectors = torch.empty(capacity, computed.size(1), dtype=computed.dtype)
        begin = len(self._rows)
        num_admitted = min(len(keys), len(self._vectors) - begin)
        self._vectors[begin : begin + num_admitted] = computed[:num_admitted].detach()
        self._rows.update(zip(keys[:num_admitted], range(begin, begin + num_admitted), strict=True))


def _keys(types: torch.Tensor) -> List[bytes]:
    rows = types.to(torch.int16).numpy()  # ids go up to 261
    width = rows.shape[1] * rows.itemsize
    data = rows.tobytes()
    return [data[start : start + width] for start in range(0, len(data), width)]
