"""HDF5 files that appear when they are complete, and that a full disk can't bring down the program with."""

import io
import os
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Callable, Iterator, NamedTuple, Optional

import h5py

from elmo_plugin.files import PathOrStr, replacing


class Hdf5Output(NamedTuple):
    """A file that is being written. `check` raises the OSError that was met on the way, if any."""

    file: h5py.File
    check: Callable[[], None]


@contextmanager
def new_hdf5_file(path: PathOrStr) -> Iterator[Hdf5Output]:
    """A new HDF5 file, which takes the name `path` when the block ends well and all its bytes are on the disk.

    When the disk is full, HDF5 fails at the write, again when the file is closed and again at the end of the program,
    where it may crash. So it isn't told: it writes into a sink that swallows everything from the first error on, and
    reports that error when asked. Whoever writes much asks now and then.
    """
    with replacing(path) as temporary, _Sink(temporary, str(path)) as sink:
        with h5py.File(sink, "w") as file:
            yield Hdf5Output(file, sink.check)
        sink.check()
        os.fsync(sink.fileno())


class _Sink(io.FileIO):
    def __init__(self, path: Path, name: str) -> None:
        super().__init__(path, "w+")
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
