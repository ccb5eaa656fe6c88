"""Bytes by key in a folder, for any number of processes at once: each call that adds entries adds one file.

A file begins with a row for each of its entries: key, place, and a checksum of both key and entry. It appears when it
is complete and never changes, so that nothing has to be locked, and a process killed at any moment leaves no half of
it. Nothing is mapped into memory or unpickled: a file that is damaged, or truncated while it is being read, fails a
check and is set aside.
"""

import logging
import os
import struct
import time
import uuid
import zlib
from pathlib import Path
from typing import Dict, Iterable, NamedTuple, Optional

from elmo_plugin.errors import ConfigurationError
from elmo_plugin.files import replacing

logger = logging.getLogger(__name__)

_ENDING = ".layers"
_MAGIC = b"elmo_plugin layers, 2\n\n\n"
_HEADER = struct.Struct(f"<{len(_MAGIC)}sQ")  # and the number of entries
_ROW = struct.Struct("<16sQII")  # key, where the entry begins, its length, checksum
_MANY_FILES = 1000


class _Place(NamedTuple):
    file_name: str
    start: int
    length: int
    checksum: int


class LayerStore:
    """Entries in the folder `path`, of keys of 16 bytes. What is in it stays; what one process adds is found by the
    others.
    """

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        self._places: Dict[bytes, _Place] = {}
        self._sizes: Dict[str, int] = {}  # of the files known so far; 0 for those set aside
        self._changed_at: Optional[int] = None
        self._next_look = 0.0  # by time.monotonic()
        self._has_warned = False
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._read_news()
        except OSError as error:
            raise ConfigurationError(
                f"can't open the biLM's cache in {path!r} ({error}); give a folder that can be written to, on a local "
                "disk"
            ) from error

    def __len__(self) -> int:
        return len(self._places)

    @property
    def num_bytes(self) -> int:
        """How many bytes all entries take on disk."""
        return sum(self._sizes.values())

    def get(self, keys: Iterable[bytes]) -> Dict[bytes, bytearray]:
        """The entries it has among these keys."""
        self._read_news()
        return {key: entry for key in set(keys) if (entry := self._read(key)) is not None}

    def put(self, entries: Dict[bytes, memoryview], max_bytes: float) -> bool:
        """Adds entries in order while the folder stays within `max_bytes`. Returns whether all of them fitted."""
        self._read_news()
        room = max_bytes - self.num_bytes - _HEADER.size
        new = {}
        for key, entry in entries.items():
            if key not in self._places:
                room -= entry.nbytes + _ROW.size
                if room < 0:
                    break
                new[key] = entry
        if new:
            self._write(new)
        return room >= 0

    def _write(self, entries: Dict[bytes, memoryview]) -> None:
        rows, start = [], _HEADER.size + len(entries) * _ROW.size
        for key, entry in entries.items():
            rows.append(_ROW.pack(key, start, entry.nbytes, _checksum(key, entry)))
            start += entry.nbytes
        name = f"{uuid.uuid4().hex}{_ENDING}"
        # Not flushed: what a power cut damages is noticed, and computed again.
        with replacing(self.path / name, flush=False) as temporary, open(temporary, "wb") as file:
            file.writelines([_HEADER.pack(_MAGIC, len(rows)), *rows, *entries.values()])
        self._learn(name)

    def _read(self, key: bytes) -> Optional[bytearray]:
        place = self._places.get(key)
        if place is None:
            return None
        entry = bytearray(place.length)
        try:
            with open(self.path / place.file_name, "rb", buffering=0) as file:
                file.seek(place.start)
                file.readinto(entry)
            if _checksum(key, entry) != place.checksum:
                raise ValueError("an entry isn't what was written")
        except (OSError, ValueError) as error:
            self._set_aside(place.file_name, error)
            return None
        return entry

    def _read_news(self) -> None:
        """Learns about the files that any process has added since the last call. Where there are many,
        listing them takes a twentieth of the time at most, and what others add is found a little later.
        """
        try:
            changed_at = os.stat(self.path).st_mtime_ns
        except FileNotFoundError:  # deleted in the meantime
            return
        started = time.monotonic()
        if changed_at == self._changed_at or started < self._next_look:
            return
        # Within a tick of the clock several changes have the same time.
        self._changed_at = changed_at if time.time_ns() - changed_at > 10**9 else None
        for name in sorted(set(os.listdir(self.path)) - self._sizes.keys()):
            if name.endswith(_ENDING) and not name.startswith("."):
                self._learn(name)
        finished = time.monotonic()
        if len(self._sizes) > _MANY_FILES:
            self._next_look = finished + 20 * (finished - started)

    def _learn(self, name: str) -> None:
        """Reads a file's rows."""
        try:
            with open(self.path / name, "rb") as file:
                size = os.fstat(file.fileno()).st_size
                magic, num_rows = _HEADER.unpack(file.read(_HEADER.size))
                if magic != _MAGIC or num_rows > size // _ROW.size:
                    raise ValueError("a file doesn't begin as it should")
                rows = _ROW.iter_unpack(file.read(num_rows * _ROW.size))
                places = {key: _Place(name, *place) for key, *place in rows}
            if any(place.start + place.length > size for place in places.values()):
                raise ValueError("a file was cut short")
        except (OSError, ValueError, struct.error) as error:
            self._set_aside(name, error)
            return
        self._sizes[name] = size
        self._places.update(places)

    def _set_aside(self, name: str, reason: Exception) -> None:
        log = logger.info if self._has_warned else logger.warning
        log("the biLM's cache in %s is damaged (%s); it is set aside as *.unsound and rebuilt", self.path, reason)
        self._has_warned = True
        self._sizes[name] = 0
        self._places = {key: place for key, place in self._places.items() if place.file_name != name}
        try:
            os.replace(self.path / name, self.path / f"{name}.unsound")
        except OSError:
            pass  # it is gone already, or may not be touched


def _checksum(key: bytes, entry: "bytearray | memoryview") -> int:
    return zlib.crc32(entry, zlib.crc32(key))
