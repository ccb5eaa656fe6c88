"""Bytes by key in a folder: files that only grow, for any number of processes at once.

A segment is two files: `N.entries`, one entry after the other, and `N.index`, a row for each with its key, its place
and a checksum of both. One process at a time adds to a segment, and holds a lock on its index; all read all segments.
An entry is written before its row, so that a process killed at any moment leaves no row without an entry.

Nothing is mapped into memory or unpickled. A file that is damaged, or truncated while it is being read, fails a check
and its segment is set aside.
"""

import fcntl
import logging
import os
import struct
import zlib
from itertools import count
from pathlib import Path
from typing import Dict, Iterable, List, NamedTuple, Optional, Set, Tuple

from elmo_plugin.errors import ConfigurationError

logger = logging.getLogger(__name__)

_ROW = struct.Struct("<16sQII")  # key, where the entry begins, its length, checksum
_HEADER = b"elmo_plugin layers, version 1\n".ljust(_ROW.size)


class LayerStore:
    """Entries in the folder `path`, of keys of 16 bytes. What is in it stays; what one process adds is found by the
    others.
    """

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        self._segments: Dict[int, _Segment] = {}
        self._places: Dict[bytes, _Place] = {}
        self._own: Optional[_Segment] = None
        self._unsound: Set[int] = set()  # segments that couldn't even be renamed
        self._process_id = os.getpid()
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
        """How many bytes all segments take on disk."""
        return sum(
            entry.stat().st_size for entry in os.scandir(self.path) if entry.name.endswith((".index", ".entries"))
        )

    def get(self, keys: Iterable[bytes]) -> Dict[bytes, bytearray]:
        """The entries it has among these keys."""
        self._read_news()
        return {key: entry for key in set(keys) if (entry := self._read(key)) is not None}

    def put(self, entries: Dict[bytes, memoryview], max_bytes: float) -> bool:
        """Adds entries in order while the folder stays within `max_bytes`. Returns whether all of them fitted."""
        self._read_news()
        room = max_bytes - self.num_bytes - _ROW.size  # a segment's first has a header before it
        new = []
        for key, entry in entries.items():
            if key not in self._places:
                room -= entry.nbytes + _ROW.size
                if room < 0:
                    break
                new.append((key, entry))
        self._places.update(self._segment_to_write().add(new) if new else {})
        return room >= 0

    def _read(self, key: bytes) -> Optional[bytearray]:
        place = self._places.get(key)
        if place is None:
            return None
        entry = place.segment.read(place)
        if entry is None or _checksum(key, entry) != place.checksum:
            self._put_aside(place.segment, "an entry isn't what was written")
            return None
        return entry

    def _read_news(self) -> None:
        """Reads what any process has added to the folder since the last call."""
        if self._process_id != os.getpid():
            # A forked process takes over neither open files nor locks.
            self._segments, self._places, self._own, self._process_id = {}, {}, None, os.getpid()
        numbers = {int(path.stem) for path in self.path.glob("*.index") if path.stem.isdecimal()}
        for number in sorted(numbers - self._unsound):
            if number not in self._segments:
                self._segments[number] = _Segment(self.path, number)
            self._learn(self._segments[number])

    def _learn(self, segment: "_Segment") -> bool:
        try:
            self._places.update(segment.new_rows())
        except OSError as error:
            self._put_aside(segment, error)
            return False
        return True

    def _segment_to_write(self) -> "_Segment":
        """The first segment that no one else is writing to, or a new one."""
        while self._own is None:
            for number in count():
                segment = self._segments.get(number) or _Segment(self.path, number)
                if number not in self._unsound and segment.lock():
                    break
            if self._learn(segment):
                self._segments[number] = self._own = segment
        return self._own

    def _put_aside(self, segment: "_Segment", reason: object) -> None:
        log = logger.info if self._has_warned else logger.warning
        log("the biLM's cache in %s is damaged (%s); it is set aside as *.unsound and rebuilt", self.path, reason)
        self._has_warned = True
        if not segment.put_aside():
            self._unsound.add(segment.number)
        self._segments.pop(segment.number, None)
        self._places = {key: place for key, place in self._places.items() if place.segment is not segment}
        if self._own is segment:
            self._own = None


class _Place(NamedTuple):
    segment: "_Segment"
    start: int
    length: int
    checksum: int


class _Segment:
    """One pair of files."""

    def __init__(self, folder: Path, number: int) -> None:
        self.number = number
        self._files = [folder / f"{number}.index", folder / f"{number}.entries"]
        self._descriptors: List[int] = []
        self._num_read = 0  # bytes of the index
        self._end = 0  # of the last entry that has a row

    def __del__(self) -> None:
        for descriptor in self._descriptors:
            os.close(descriptor)

    def _open(self) -> Tuple[int, int]:
        while len(self._descriptors) < len(self._files):
            file = self._files[len(self._descriptors)]
            try:
                self._descriptors.append(os.open(file, os.O_RDWR | os.O_CREAT, 0o666))
            except PermissionError:
                self._descriptors.append(os.open(file, os.O_RDONLY))  # others' cache can still be read
        index, entries = self._descriptors
        return index, entries

    def lock(self) -> bool:
        """Whether this process may write to it, now and until it ends."""
        try:
            fcntl.flock(self._open()[0], fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except IsADirectoryError:
            pass  # whoever reads it will notice, too
        return True

    def new_rows(self) -> Dict[bytes, _Place]:
        """The places of the entries that came since the last call. Raises OSError if the files aren't as they were
        written.
        """
        index, entries = self._open()
        size = os.fstat(index).st_size
        if size < self._num_read:
            raise OSError("its index was cut short")
        if self._num_read == 0 and size >= _ROW.size:
            if _read_fully(index, 0, _ROW.size) != _HEADER:
                raise OSError("its index doesn't begin as one does")
            self._num_read = _ROW.size
        num_new = (size - self._num_read) // _ROW.size  # the last row may still be on its way
        if num_new <= 0:
            return {}
        rows = _read_fully(index, self._num_read, num_new * _ROW.size)
        places = {key: _Place(self, *place) for key, *place in _ROW.iter_unpack(rows or b"")}
        end = max((place.start + place.length for place in places.values()), default=0)
        if end > os.fstat(entries).st_size:
            raise OSError("its entries were cut short")
        self._num_read += num_new * _ROW.size
        self._end = max(self._end, end)
        return places

    def read(self, place: _Place) -> Optional[bytearray]:
        return _read_fully(self._open()[1], place.start, place.length)

    def add(self, new: List[Tuple[bytes, memoryview]]) -> Dict[bytes, _Place]:
        index, entries = self._open()
        places, end = {}, self._end
        for key, entry in new:
            _write_fully(entries, end, entry)
            places[key] = _Place(self, end, entry.nbytes, _checksum(key, entry))
            end += entry.nbytes
        rows = b"".join(_ROW.pack(key, *place[1:]) for key, place in places.items())
        rows = rows if self._num_read else _HEADER + rows
        _write_fully(index, self._num_read, memoryview(rows))
        self._num_read += len(rows)
        self._end = end
        return places

    def put_aside(self) -> bool:
        """Renames both files. Returns whether their names are free now."""
        for file in self._files:
            try:
                os.replace(file, f"{file}.unsound")
            except OSError:
                pass  # it is gone already, or may not be touched
        return not any(map(os.path.lexists, self._files))


def _checksum(key: bytes, entry: "bytearray | memoryview") -> int:
    return zlib.crc32(entry, zlib.crc32(key))


def _read_fully(descriptor: int, start: int, length: int) -> Optional[bytearray]:
    """This many bytes, or None if the file doesn't have them."""
    content = bytearray(length)
    view, num_read = memoryview(content), 0
    while num_read < length:
        num_more = os.preadv(descriptor, [view[num_read:]], start + num_read)
        if num_more == 0:
            return None
        num_read += num_more
    return content


def _write_fully(descriptor: int, start: int, content: memoryview) -> None:
    while content.nbytes:
        num_written = os.pwrite(descriptor, content, start)
        content, start = content[num_written:], start + num_written
