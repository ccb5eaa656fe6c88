"""What a frozen biLM need not compute twice: its layers for a sentence are the same in every epoch.

A cache is asked for the layers of a batch. Sentences it knows, by their characters, come from its store; only the
others are run through the biLM, and are kept while the store has room. Nothing is ever evicted: training cycles through
its data, so the least recently used sentence is exactly the one that comes next.

Only the biLM's own layers are kept. What follows them is learned (the mix), random (dropout) or depends on the batch
(the original's layer norm).
"""

import hashlib
import json
import logging
import os
import zlib
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Tuple, Union

import numpy
import torch
from allennlp.common import Registrable
from allennlp.common.checks import ConfigurationError
from allennlp.common.util import is_distributed

from elmo_plugin.bilm.bilm import BiLm, BiLmOutput
from elmo_plugin.bilm.frozen import Snapshot, are_frozen
from elmo_plugin.bilm.layer_store import LayerStore

logger = logging.getLogger(__name__)

_BYTES_A_MEGABYTE = 2**20
_KEY_BYTES = 16
# Part of every key on disk: raise it when the entries' layout or the biLM's arithmetic changes.
_LAYOUT = 1


class LayerCache(Registrable):
    """The layers of a biLM by sentence: `{"type": "ram"}` by default, `"disk"` or `"none"`.

    It steps aside, and the biLM is simply run, where the same sentence may get different vectors the next time: if the
    biLM has a parameter that requires a gradient, runs with dropout, or is stateful. If the biLM's weights change, what
    was computed with the old ones is forgotten; see `Snapshot` for which changes are noticed.

    Entries are on the host. With a GPU, the host waits for a batch's character ids, and for nothing else: what is found
    goes to the GPU in one copy, what the biLM computes stays there, and only what is to be kept comes back, once.

    - `megabytes`: the most that entries may take; 0 turns the cache off. A token of the published size takes 10 KB. If
      the data don't fit, as many sentences are kept as do; the log says what size would hold them all.
    - `float16`: keep two bytes per number, and with them about three decimal digits.
    """

    default_implementation = "ram"
    is_forgetful = False
    """Whether entries are gone when the process ends."""
    path = "RAM"
    """Where the entries are."""

    def __init__(self, megabytes: float, float16: bool) -> None:
        if megabytes < 0:
            raise ConfigurationError(f"a cache's megabytes must be 0 (off) or more, not {megabytes}")
        self.megabytes = megabytes
        self.float16 = float16
        self.is_full = False
        self._opened: Union[LayerStore, _Memory, None] = None
        self._snapshot: Optional[Snapshot] = None
        self._precision = ""
        self._key_of_weights = b""  # what sets a biLM's sentences apart from others' in the same store
        self._num_asked = self._num_missing = 0
        self._num_bytes_refused = 0
        self._has_suggested_a_size = False
        self._computed: List[Tuple[bytes, List[int]]] = []  # batches of character ids, compressed, and their shapes

    def run(self, bilm: BiLm, character_ids: torch.Tensor) -> BiLmOutput:
        """What `bilm(character_ids)` gives, in the precision of its weights."""
        if not (bilm.is_repeatable and are_frozen(bilm.parameters())):
            return bilm(character_ids)
        if self.megabytes == 0:
            return self._compute(bilm, character_ids, character_ids)
        self._notice_weights(bilm)
        packing = _Packing.of(bilm, self.float16)
        sentences = _Sentences.of(character_ids, self._key_of_weights)
        entries = self.store.get(sentences.keys)
        missing = [row for row, key in enumerate(sentences.keys) if key not in entries]
        self._num_asked += len(sentences.keys)
        self._num_missing += len(missing)
        with torch.no_grad():
            if not entries:
                output = self._compute(bilm, character_ids, sentences.ids)
                self._keep(output.layers, sentences, missing, packing)
                return BiLmOutput(output.layers.to(packing.dtype), output.mask)
            found = [entries.get(key) for key in sentences.keys]
            layers = packing.unpack(found, character_ids.size(1) + 2, character_ids.device)
            if missing:
                rows = torch.tensor(missing).to(character_ids.device, non_blocking=True)
                longest = int(sentences.lengths[missing].max())
                computed = self._compute(bilm, character_ids[rows, :longest], sentences.ids[missing, :longest]).layers
                self._keep(computed, sentences, missing, packing)
                layers[:, rows, : longest + 2] = computed.to(packing.dtype)
        lengths = (character_ids > 0).any(dim=-1).sum(dim=-1, keepdim=True)
        return BiLmOutput(layers, torch.arange(layers.size(2), device=lengths.device) < lengths + 2)

    def report(self) -> None:
        """Logs how much is cached and how much was found since the last report; and once, if the data don't fit, the
        size that would hold them.
        """
        if self._num_asked:
            num_found = self._num_asked - self._num_missing
            logger.info("%s: %d of %d sentences came from it", self, num_found, self._num_asked)
        if self._num_bytes_refused and not self._has_suggested_a_size:
            logger.warning(
                "%s is too small for these data: with 'megabytes' of %d it would hold them all%s. Sentences that it "
                "doesn't hold are run through the biLM each time.",
                self,
                (self.store.num_bytes + self._num_bytes_refused) // _BYTES_A_MEGABYTE + 1,
                "" if self.float16 else ", with 'float16' at half of it",
            )
            self._has_suggested_a_size = True
        self._num_asked = self._num_missing = self._num_bytes_refused = 0

    def _keep(self, layers: torch.Tensor, sentences: "_Sentences", rows: List[int], packing: "_Packing") -> None:
        """Keeps layers, (num_layers, num_rows, num_steps, dim), of the sentences in `rows`, while there is room."""
        lengths = (sentences.lengths[rows] + 2).tolist()
        if not self.is_full:
            # Shape: (num_rows, num_steps, entry_dim)
            packed = packing.pack(layers)
            named = zip((sentences.keys[row] for row in rows), packed, lengths, strict=True)
            self.is_full = not self._put({key: _bytes_of(entry[:length]) for key, entry, length in named})
        if self.is_full:
            self._num_bytes_refused += sum(lengths) * packing.entry_dim * packing.stored_as.itemsize

    def _put(self, entries: Dict[bytes, memoryview]) -> bool:
        try:
            return self.store.put(entries, self.megabytes * _BYTES_A_MEGABYTE)
        except OSError as error:
            logger.warning("can't write to %s any more; going on without it: %s", self, error)
            return False

    def _notice_weights(self, bilm: BiLm) -> None:
        if self._snapshot is None or bilm.precision != self._precision or not self._snapshot.is_of(bilm.parameters()):
            self._snapshot, self._precision = Snapshot(bilm.parameters()), bilm.precision
            self._opened, self._computed, self.is_full = None, [], False
            if not self.is_forgetful:
                stored_as = "float16" if self.float16 else "as computed"
                self._key_of_weights = fingerprint(bilm, f"layout {_LAYOUT}, {stored_as}")

    def __str__(self) -> str:
        size = f"{self.store.num_bytes / _BYTES_A_MEGABYTE:,.1f} of {self.megabytes:,.0f} MB{', full' * self.is_full}"
        return f"biLM cache in {self.path} ({size}; {len(self.store):,} sentences)"

    def __getstate__(self) -> Dict[str, Any]:
        return {**self.__dict__, "_opened": None, "_snapshot": None, "is_full": False, "_computed": []}

    # ---- Resuming ----

    def _compute(self, bilm: BiLm, character_ids: torch.Tensor, on_host: torch.Tensor) -> BiLmOutput:
        """Runs the biLM, and notes what was run, by the same ids `on_host`, if later results depend on it: a sentence's
        layers and a word's vector depend, in their last bits, on the batch where they were first met.
        """
        num_words = len(bilm.token_cache)
        output = bilm(character_ids)
        if len(bilm.token_cache) > num_words or (self.is_forgetful and not self.is_full):
            ids = on_host.to("cpu", torch.int16).contiguous().numpy().tobytes()
            self._computed.append((zlib.compress(ids, level=1), list(character_ids.shape)))
        return output

    @property
    def is_in_use(self) -> bool:
        """Whether it serves a run that has begun, even in another process."""
        return bool(self._computed)

    def state_dict(self) -> Dict[str, Any]:
        """What it takes to fill another process's caches with exactly the same vectors, so that training resumes
        exactly.
        """
        character_ids = numpy.frombuffer(b"".join(ids for ids, _ in self._computed), dtype=numpy.uint8)
        return {
            "character_ids": torch.from_numpy(character_ids.copy()),
            "batches": [[len(ids), *shape] for ids, shape in self._computed],
        }

    def load_state_dict(self, state: Dict[str, Any], bilm: BiLm) -> None:
        """Runs what was run before through the biLM again."""
        device = next(bilm.parameters()).device
        start = 0
        for num_bytes, *shape in state["batches"]:
            ids = zlib.decompress(state["character_ids"][start : start + num_bytes].numpy().tobytes())
            start += num_bytes
            batch = torch.frombuffer(bytearray(ids), dtype=torch.int16).view(shape).long()
            with torch.no_grad():
                if self.is_forgetful:
                    self.run(bilm, batch.to(device))
                else:
                    self._compute(bilm, batch.to(device), batch)

    # ---- Where entries are ----

    @property
    def store(self) -> Union[LayerStore, "_Memory"]:
        """Entries by key; opened when it is first needed."""
        if self._opened is None:
            self._opened = self._open()
        return self._opened

    def _open(self) -> Union[LayerStore, "_Memory"]:
        raise NotImplementedError


@LayerCache.register("none")
class NoCache(LayerCache):
    """Runs the biLM every time."""

    def __init__(self) -> None:
        super().__init__(megabytes=0, float16=False)


@LayerCache.register("ram")
class RamCache(LayerCache):
    """Entries in this process's memory, by default in up to a quarter of the machine's. In distributed training each
    process has its own, of this size, or of its share of the quarter.

    They aren't saved with the model, nor copied or pickled with it.
    """

    is_forgetful = True

    def __init__(self, megabytes: Optional[float] = None, float16: bool = False) -> None:
        super().__init__(_quarter_of_memory() if megabytes is None else megabytes, float16)

    def _open(self) -> "_Memory":
        return _Memory()


class _Memory:
    """What `LayerStore` does, in this process's memory."""

    def __init__(self) -> None:
        self._entries: Dict[bytes, bytearray] = {}
        self.num_bytes = 0

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, keys: Iterable[bytes]) -> Dict[bytes, bytearray]:
        return {key: self._entries[key] for key in keys if key in self._entries}

    def put(self, entries: Dict[bytes, memoryview], max_bytes: float) -> bool:
        for key, entry in entries.items():
            if self.num_bytes + entry.nbytes > max_bytes:
                return False
            self._entries[key] = bytearray(entry)
            self.num_bytes += entry.nbytes
        return True


@LayerCache.register("disk")
class DiskCache(LayerCache):
    """Entries in a `LayerStore` in the folder `path`, on a local disk. It outlives the run, even a killed one; any
    number of processes may use it at once, with different biLMs: an entry is found only with exactly the weights and
    options that made it. `megabytes` bounds its files; once it is full, only deleting the folder makes room. What is
    damaged in it is set aside and rebuilt.
    """

    def __init__(self, path: str, megabytes: float = 16384, float16: bool = False) -> None:
        super().__init__(megabytes, float16)
        self.path = path

    def _open(self) -> LayerStore:
        return LayerStore(self.path)


def _quarter_of_memory() -> float:
    """In megabytes, for one of the processes that train together."""
    num_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return num_bytes / 4 / _BYTES_A_MEGABYTE / (torch.distributed.get_world_size() if is_distributed() else 1)


def fingerprint(bilm: BiLm, context: str = "") -> bytes:
    """A digest of everything a biLM's vectors depend on apart from the sentence. It takes a second for the published
    size.
    """
    digest = hashlib.blake2b(digest_size=32)
    digest.update(json.dumps([context, bilm.precision, bilm.options.to_json()], sort_keys=True).encode())
    for name, weight in sorted(bilm.named_parameters()):
        digest.update(f"{name} {weight.dtype} {tuple(weight.shape)}".encode())
        digest.update(_bytes_of(weight.detach().cpu()))
    return digest.digest()


def _bytes_of(tensor: torch.Tensor) -> memoryview:
    return tensor.contiguous().view(-1).view(torch.uint8).numpy().data


class _Sentences(NamedTuple):
    """A batch's sentences: their lengths, and a key for each, the same wherever it occurs and however it is padded."""

    keys: List[bytes]
    lengths: torch.Tensor  # (batch_size,), on the host
    ids: torch.Tensor  # the characters', on the host

    @classmethod
    def of(cls, character_ids: torch.Tensor, key_of_weights: bytes) -> "_Sentences":
        device_type = character_ids.device.type
        # Half precision gives other vectors, and other shapes other sentences.
        precision = str(torch.get_autocast_dtype(device_type)) if torch.is_autocast_enabled(device_type) else ""
        context = f"{precision} {character_ids.size(-1)}".encode()
        # All ids are below 262.
        on_host = character_ids.to(torch.int16).cpu()
        lengths = (on_host > 0).any(dim=-1).sum(dim=-1)
        keys = [
            hashlib.blake2b(
                b"\0".join((context, row[:length].tobytes())), digest_size=_KEY_BYTES, key=key_of_weights
            ).digest()
            for row, length in zip(on_host.numpy(), lengths.tolist(), strict=True)
        ]
        return cls(keys, lengths, on_host)


class _Packing(NamedTuple):
    """How a sentence's layers become one matrix: one row per token, with the token layer, whose two halves are equal,
    at half width.
    """

    num_layers: int
    projection_dim: int
    dtype: torch.dtype
    stored_as: torch.dtype

    @classmethod
    def of(cls, bilm: BiLm, float16: bool) -> "_Packing":
        dtype = next(bilm.parameters()).dtype
        return cls(bilm.num_layers, bilm.options.projection_dim, dtype, torch.float16 if float16 else dtype)

    @property
    def entry_dim(self) -> int:
        return (2 * self.num_layers - 1) * self.projection_dim

    def pack(self, layers: torch.Tensor) -> torch.Tensor:
        """(num_layers, batch_size, num_steps, 2 * projection_dim) -> (batch_size, num_steps, entry_dim) on the host."""
        packed = torch.cat([layers[0, ..., : self.projection_dim], *layers[1:]], dim=-1)
        return packed.to(self.stored_as).cpu()

    def unpack(self, entries: List[Optional[bytearray]], num_steps: int, device: torch.device) -> torch.Tensor:
        """The inverse, for entries of any lengths, on `device`; zeros for padding and for missing entries."""
        shape = (self.num_layers, len(entries), num_steps, 2 * self.projection_dim)
        dtype = self.dtype if device.type == "cpu" else self.stored_as
        # Memory that a GPU can copy from while the host goes on.
        layers = torch.zeros(shape, dtype=dtype, pin_memory=device.type == "cuda")
        for row, entry in enumerate(entries):
            if entry is not None:
                packed = torch.frombuffer(entry, dtype=self.stored_as).view(-1, self.entry_dim)
                length = len(packed)
                halves = layers[0, row, :length].view(length, 2, self.projection_dim)
                halves.copy_(packed[:, : self.projection_dim].unsqueeze(1))
                others = packed[:, self.projection_dim :].unflatten(1, (self.num_layers - 1, -1))
                layers[1:, row, :length] = others.transpose(0, 1)
        return layers.to(device, non_blocking=True).to(self.dtype)
