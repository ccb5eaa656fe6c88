"""What a frozen biLM need not compute twice: its layers for a sentence are the same in every epoch.

A cache is asked for the layers of a batch. Sentences it knows, by their characters, come from its store; only the
others are run through the biLM, and are kept as long as the store has room. Nothing is ever evicted: training goes over
its data in circles, and there the sentence that was used least recently is the very one that comes next.

Only the biLM's own layers are kept. What follows them is learned (the mix), random (dropout) or depends on the batch
(the original's layer norm).
"""

import hashlib
import json
import logging
import os
import weakref
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import lmdb
import torch
from allennlp.common import Registrable
from allennlp.common.checks import ConfigurationError

from elmo_plugin.bilm.bilm import BiLm, BiLmOutput

logger = logging.getLogger(__name__)

_BYTES_A_MEGABYTE = 2**20
_KEY_BYTES = 16
# Part of every key on disk: to be raised when the entries' layout or the biLM's arithmetic changes.
_LAYOUT = 1


class LayerCache(Registrable):
    """The layers of a biLM by sentence: `{"type": "ram"}` by default, `"disk"` or `"none"`.

    It steps aside, and the biLM is simply run, where the same sentence may give other vectors the next time: if the
    biLM has a parameter that requires a gradient, runs with dropout, or is stateful. If the biLM's weights change, what
    was computed with the old ones is forgotten. (A write through a parameter's `.data` is a change that isn't seen.)

    On a GPU the host has to wait for a batch's character ids and copies the layers back and forth, which costs far less
    than the biLM but isn't free.

    - `megabytes`: the most that entries may take; 0 turns the cache off. A token of the published size takes 10 KB.
    - `float16`: keep half the bytes a number, and with them about three decimal digits.
    """

    default_implementation = "ram"

    def __init__(self, megabytes: float, float16: bool) -> None:
        if megabytes < 0:
            raise ConfigurationError(f"a cache's megabytes must be 0 (off) or more, not {megabytes}")
        self.megabytes = megabytes
        self.float16 = float16
        self.is_full = False
        self._weights: Optional[Tuple] = None
        self._num_asked = self._num_missing = 0

    def run(self, bilm: BiLm, character_ids: torch.Tensor) -> BiLmOutput:
        """What `bilm(character_ids)` gives, in the precision of its weights."""
        if self.megabytes == 0 or not is_frozen(bilm):
            return bilm(character_ids)
        self._notice_weights(bilm)
        packing = _Packing.of(bilm)
        sentences = _Sentences.of(character_ids, self._key_of_weights(bilm))
        entries = self._get(sentences.keys, packing)
        missing = [row for row, key in enumerate(sentences.keys) if key not in entries]
        self._num_asked += len(sentences.keys)
        self._num_missing += len(missing)
        if missing:
            computed = self._compute(bilm, character_ids, sentences, missing, packing)
            if not self.is_full:
                self._admit(computed)
            entries = {**entries, **computed}
        layers = packing.unpack([entries[key] for key in sentences.keys], character_ids.size(1) + 2)
        steps = torch.arange(layers.size(2), device=character_ids.device)
        mask = steps < sentences.lengths.to(steps.device).unsqueeze(1) + 2
        return BiLmOutput(layers.to(character_ids.device), mask)

    def report(self) -> None:
        """Logs how much is cached and of how much use it was since the last report."""
        if self._num_asked:
            num_found = self._num_asked - self._num_missing
            logger.info("%s: %d of %d sentences came from it", self, num_found, self._num_asked)
        self._num_asked = self._num_missing = 0

    def _compute(
        self,
        bilm: BiLm,
        character_ids: torch.Tensor,
        sentences: "_Sentences",
        rows: List[int],
        packing: "_Packing",
    ) -> Dict[bytes, torch.Tensor]:
        """The entries of the sentences in `rows`: views into one tensor."""
        if len(rows) < len(sentences.keys):
            longest = int(sentences.lengths[rows].max())
            character_ids = character_ids[rows, :longest]
        with torch.no_grad():
            # Shape: (num_rows, num_steps, entry_dim)
            packed = packing.pack(bilm(character_ids).layers, torch.float16 if self.float16 else None)
        lengths = sentences.lengths[rows].tolist()
        return {
            sentences.keys[row]: packed[index, : length + 2]
            for index, (row, length) in enumerate(zip(rows, lengths, strict=True))
        }

    def _admit(self, entries: Dict[bytes, torch.Tensor]) -> None:
        if not self._put(entries):
            logger.info("%s is full; sentences beyond these are run through the biLM each time", self)
            self.is_full = True

    def _notice_weights(self, bilm: BiLm) -> None:
        weights = (
            bilm.precision,
            *((id(weight), weight._version, weight.data_ptr()) for weight in bilm.parameters()),
        )
        if weights != self._weights:
            self._forget()
            self._weights = weights
            self.is_full = False

    def _size(self, num_bytes: int, num_sentences: int) -> str:
        megabytes = num_bytes / _BYTES_A_MEGABYTE
        return f"{megabytes:,.1f} of {self.megabytes:,.0f} MB{', full' * self.is_full}; {num_sentences:,} sentences"

    def __getstate__(self) -> Dict[str, Any]:
        return {**self.__dict__, "_weights": None, "is_full": False}

    # ---- What a store has to do ----

    def _get(self, keys: List[bytes], packing: "_Packing") -> Dict[bytes, torch.Tensor]:
        """The entries there are."""
        raise NotImplementedError

    def _put(self, entries: Dict[bytes, torch.Tensor]) -> bool:
        """Keeps entries, first come, as long as they fit. Whether they all did."""
        raise NotImplementedError

    def _forget(self) -> None:
        """The weights are other ones."""
        raise NotImplementedError

    def _key_of_weights(self, bilm: BiLm) -> bytes:
        """What sets this biLM's sentences apart from others' in the same store."""
        return b""


@LayerCache.register("none")
class NoCache(LayerCache):
    """Runs the biLM every time."""

    def __init__(self) -> None:
        super().__init__(megabytes=0, float16=False)


@LayerCache.register("ram")
class RamCache(LayerCache):
    """Entries in this process's memory. In distributed training each process has its own, of this size.

    They aren't saved with the model, nor copied or pickled with it.
    """

    def __init__(self, megabytes: float = 1024, float16: bool = False) -> None:
        super().__init__(megabytes, float16)
        self._entries: Dict[bytes, torch.Tensor] = {}
        self._num_bytes = 0

    def _get(self, keys: List[bytes], packing: "_Packing") -> Dict[bytes, torch.Tensor]:
        return {key: self._entries[key] for key in keys if key in self._entries}

    def _put(self, entries: Dict[bytes, torch.Tensor]) -> bool:
        for key, entry in entries.items():
            if self._num_bytes + entry.nbytes > self.megabytes * _BYTES_A_MEGABYTE:
                return False
            # A copy of its own: a view would keep its whole batch.
            self._entries[key] = entry.clone()
            self._num_bytes += entry.nbytes
        return True

    def _forget(self) -> None:
        self._entries = {}
        self._num_bytes = 0

    def __getstate__(self) -> Dict[str, Any]:
        return {**super().__getstate__(), "_entries": {}, "_num_bytes": 0}

    def __str__(self) -> str:
        return f"biLM cache in RAM ({self._size(self._num_bytes, len(self._entries))})"


@LayerCache.register("disk")
class DiskCache(LayerCache):
    """Entries in an LMDB store in the folder `path`, on a local disk. It outlives the run, whenever that is killed; any
    number of processes may use it at once, and with different biLMs: an entry is found only by the very weights and
    options that made it. `megabytes` bounds the file; once it is full, only deleting the folder makes room.
    """

    def __init__(self, path: str, megabytes: float = 16384, float16: bool = False) -> None:
        super().__init__(megabytes, float16)
        self.path = path
        self._environment: Optional[lmdb.Environment] = None
        self._process_id = 0
        self._fingerprint: Optional[bytes] = None

    def _get(self, keys: List[bytes], packing: "_Packing") -> Dict[bytes, torch.Tensor]:
        entries = {}
        dtype = torch.float16 if self.float16 else packing.dtype
        with self._begin() as transaction:
            for key in set(keys):
                value = transaction.get(key)
                if value is not None:
                    # Copied, since the buffer ends with the transaction.
                    entries[key] = torch.frombuffer(bytearray(value), dtype=dtype).view(-1, packing.entry_dim)
        return entries

    def _put(self, entries: Dict[bytes, torch.Tensor]) -> bool:
        try:
            with self._begin(write=True) as transaction:
                for key, entry in entries.items():
                    transaction.put(key, _bytes_of(entry), overwrite=False)
        except lmdb.MapFullError:
            return False
        except lmdb.Error as error:
            logger.warning("can't write to the cache in %s any more, and go on without: %s", self.path, error)
            return False
        return True

    def _forget(self) -> None:
        self._fingerprint = None

    def _key_of_weights(self, bilm: BiLm) -> bytes:
        if self._fingerprint is None:
            self._fingerprint = fingerprint(bilm, f"layout {_LAYOUT}, {'float16' if self.float16 else 'as computed'}")
        return self._fingerprint

    def _begin(self, write: bool = False) -> lmdb.Transaction:
        environment = self._open()
        try:
            return environment.begin(write=write, buffers=True)
        except lmdb.MapResizedError:
            environment.set_mapsize(0)  # a process with more megabytes has made the file larger; 0 takes its size
            return environment.begin(write=write, buffers=True)

    def _open(self) -> lmdb.Environment:
        if self._environment is None or self._process_id != os.getpid():
            self._environment = _open_environment(self.path, int(self.megabytes * _BYTES_A_MEGABYTE))
            self._process_id = os.getpid()
        return self._environment

    def __getstate__(self) -> Dict[str, Any]:
        return {**super().__getstate__(), "_environment": None}

    def __str__(self) -> str:
        environment = self._open()
        statistics = environment.stat()
        num_bytes = environment.info()["last_pgno"] * statistics["psize"]
        return f"biLM cache in {self.path} ({self._size(num_bytes, statistics['entries'])} of any biLM)"


def is_frozen(bilm: BiLm) -> bool:
    """Whether a sentence gives the same vectors each time, and whether it would be noticed if it no longer did: torch
    doesn't count the changes of weights that were made in inference mode.
    """
    drops = bilm.training and bilm.dropout.p > 0
    can_change = any(weight.requires_grad or weight.is_inference() for weight in bilm.parameters())
    return not (bilm.stateful or drops or can_change)


def fingerprint(bilm: BiLm, context: str = "") -> bytes:
    """A digest of everything a biLM's vectors depend on but the sentence. It takes a second for the published size."""
    digest = hashlib.blake2b(digest_size=32)
    digest.update(json.dumps([context, bilm.precision, bilm.options.to_json()], sort_keys=True).encode())
    for name, weight in sorted(bilm.named_parameters()):
        digest.update(f"{name} {weight.dtype} {tuple(weight.shape)}".encode())
        digest.update(_bytes_of(weight.detach().cpu()))
    return digest.digest()


def _bytes_of(tensor: torch.Tensor) -> memoryview:
    return tensor.contiguous().view(-1).view(torch.uint8).numpy().data


class _Sentences(NamedTuple):
    """A batch's sentences: their lengths, and for each a key, the same wherever it stands and however it is padded."""

    keys: List[bytes]
    lengths: torch.Tensor  # (batch_size,), on the host

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
        return cls(keys, lengths)


class _Packing(NamedTuple):
    """How a sentence's layers become one matrix: a row a token, with the token layer, whose two halves are the same, at
    half width.
    """

    num_layers: int
    projection_dim: int
    dtype: torch.dtype

    @classmethod
    def of(cls, bilm: BiLm) -> "_Packing":
        return cls(bilm.num_layers, bilm.options.projection_dim, next(bilm.parameters()).dtype)

    @property
    def entry_dim(self) -> int:
        return (2 * self.num_layers - 1) * self.projection_dim

    def pack(self, layers: torch.Tensor, dtype: Optional[torch.dtype]) -> torch.Tensor:
        """(num_layers, batch_size, num_steps, 2 * projection_dim) -> (batch_size, num_steps, entry_dim) on the host."""
        return torch.cat([layers[0, ..., : self.projection_dim], *layers[1:]], dim=-1).to("cpu", dtype or self.dtype)

    def unpack(self, entries: List[torch.Tensor], num_steps: int) -> torch.Tensor:
        """The inverse, for entries of any lengths, with zeros for padding."""
        layers = torch.zeros(self.num_layers, len(entries), num_steps, 2 * self.projection_dim, dtype=self.dtype)
        for row, entry in enumerate(entries):
            length = entry.size(0)
            halves = layers[0, row, :length].view(length, 2, self.projection_dim)
            halves.copy_(entry[:, : self.projection_dim].unsqueeze(1))
            others = entry[:, self.projection_dim :].unflatten(1, (self.num_layers - 1, -1))
            layers[1:, row, :length] = others.transpose(0, 1)
        return layers


# By process and path: LMDB refuses to open a folder twice in one process, which two models with one cache would do.
_environments: "weakref.WeakValueDictionary[Tuple[int, str], lmdb.Environment]" = weakref.WeakValueDictionary()


def _open_environment(path: str, num_bytes: int) -> lmdb.Environment:
    name = (os.getpid(), os.path.realpath(path))
    if name in _environments:
        return _environments[name]
    for (process_id, _), inherited in list(_environments.items()):
        if process_id != os.getpid():
            inherited.close()  # in this process alone: a forked one has to open the store for itself
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
        # If the machine crashes the last batches may be lost, but the store stays whole.
        _environments[name] = environment = lmdb.open(path, map_size=num_bytes, metasync=False, readahead=False)
    except (lmdb.Error, OSError) as error:
        raise ConfigurationError(
            f"can't open the biLM's cache in {path!r} ({error}); give a folder that can be written to, on a local disk"
        ) from error
    return environment
