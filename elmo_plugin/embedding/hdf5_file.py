"""HDF5 files that appear when they are complete, or grow piece by piece, and with which a full disk can't crash the
program.
"""

import io
import os
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, NamedTuple, Optional, Tuple

import h5py
import numpy

from elmo_plugin.files import PathOrStr, replacing


class Hdf5Output(NamedTuple):
    """A file that is being written. `check` raises the OSError that occurred while writing, if any."""

    file: h5py.File
    check: Callable[[], None]


@contextmanager
def new_hdf5_file(path: PathOrStr) -> Iterator[Hdf5Output]:
    """A new HDF5 file, which takes the name `path` when the block ends well."""
    with replacing(path) as temporary, _Sink(temporary, str(path), "w+") as sink:
        with h5py.File(sink, "w") as file:
            yield Hdf5Output(file, sink.check)
        sink.check()


class _Sink(io.FileIO):
    """What HDF5 writes into.

    When the disk is full, HDF5 fails at the write, again when the file is closed and again at the end of the program,
    where it may crash. So it isn't told: from the first error on everything is swallowed, and `check` reports the
    error. Whoever writes a lot calls it now and then.
    """

    def __init__(self, path: Path, name: str, mode: str) -> None:
        super().__init__(path, mode)
        self._name = name
        self._error: Optional[OSError] = None

    def check(self) -> None:
        if self._error is not None:
            raise OSError(self._error.errno, self._error.strerror, self._name)

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        num_written = 0
        try:
            while self._error is None and num_written < len(view):
                num_written += super().write(view[num_written:])  # a system call may write less than it was given
        except OSError as error:
            self._error = error
        return len(view)

    def truncate(self, size: Optional[int] = None) -> int:
        try:
            return super().truncate(size)
        except OSError as error:
            self._error = self._error or error
            return self.tell() if size is None else size


_PAGE = 512


class GrowingHdf5File(_Sink):
    """An HDF5 file that is written piece by piece, and can go back to the end of its last piece.

    A piece appends, but HDF5 also changes bytes of earlier pieces: its tables of contents. Those changes are held in
    memory. At the end of a piece the caller records `changes`, and only then makes them with `accept`. A process that
    is killed at any moment leaves a file that `restore` brings back to the last record.
    """

    def __init__(self, path: Path) -> None:
        path.touch()
        super().__init__(path, str(path), "r+")
        self._end = 0
        self._num_kept = 0  # bytes, of whole pages, that the current piece must leave alone
        self._pages: Dict[int, bytearray] = {}

    @contextmanager
    def piece(self) -> Iterator[Hdf5Output]:
        """Opens the file to append to it; when the block ends well, what was appended is on the disk."""
        if not self._end:
            super().truncate(0)  # what remains of a first piece that was never finished
        with h5py.File(self, "r+" if self._end else "w") as file:
            yield Hdf5Output(file, self.check)
        self.check()
        os.fsync(self.fileno())

    def reading(self) -> h5py.File:
        """Opens it for reading."""
        return h5py.File(self, "r")

    def changes(self) -> Dict[str, numpy.ndarray]:
        """What `restore` needs to bring the file to the end of this piece."""
        pages = numpy.frombuffer(b"".join(self._pages.values()), dtype=numpy.uint8)
        return {"size": numpy.array(self._end), "places": numpy.array([*self._pages], numpy.int64), "pages": pages}

    def restore(self, changes: Dict[str, numpy.ndarray]) -> None:
        self._end, contents = int(changes["size"]), changes["pages"].tobytes()
        if os.fstat(self.fileno()).st_size < self._end:
            raise OSError(f"it is shorter than the {self._end} bytes that were written")
        for number, place in enumerate(changes["places"].tolist()):
            self._pages[place] = bytearray(contents[number * _PAGE : (number + 1) * _PAGE])
        self.accept()

    def accept(self) -> None:
        """Makes the changes, and begins a new piece."""
        for place, page in self._pages.items():
            self.seek(place * _PAGE)
            super().write(page)
        super().truncate(self._end)
        self._num_kept = -(-self._end // _PAGE) * _PAGE
        super().truncate(self._num_kept)
        self._pages.clear()
        self.check()

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        start = self.tell()
        num_changed = min(len(view), max(0, self._num_kept - start))
        for place, in_page, in_data in _overlaps(start, num_changed):
            if place not in self._pages:
                self._pages[place] = self._read_page(place)
            self._pages[place][in_page] = view[in_data]
        self.seek(start + num_changed)
        super().write(view[num_changed:])
        self._end = max(self._end, start + len(view))
        return len(view)

    def _read_page(self, place: int) -> bytearray:
        self.seek(place * _PAGE)
        return bytearray(self.read(_PAGE))

    def readinto(self, buffer: Any) -> int:
        start = self.tell()
        num_read = super().readinto(buffer) or 0
        view = memoryview(buffer).cast("B")
        for place, in_page, in_data in _overlaps(start, num_read):
            if place in self._pages:
                view[in_data] = self._pages[place][in_page]
        return num_read

    def truncate(self, size: Optional[int] = None) -> int:
        self._end = self.tell() if size is None else size
        super().truncate(max(self._end, self._num_kept))
        return self._end


def _overlaps(start: int, length: int) -> Iterator[Tuple[int, slice, slice]]:
    """The pages that a run of bytes covers: its number, and the parts of the page and of the bytes that overlap."""
    for place in range(start // _PAGE, (start + length - 1) // _PAGE + 1 if length else 0):
        first, last = max(start, place * _PAGE), min(start + length, (place + 1) * _PAGE)
        yield place, slice(first - place * _PAGE, last - place * _PAGE), slice(first - start, last - start)
