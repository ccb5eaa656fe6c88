"""Work that survives an interruption: one process at a time in its folder, and one record of how far it has come."""

import json
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Dict, Iterator, Optional

import numpy
from filelock import FileLock, Timeout

from elmo_plugin.errors import ConfigurationError
from elmo_plugin.files import PathOrStr, replacing

LOCK_NAME = ".lock"
_IDENTITY = "identity"


@contextmanager
def only_process(folder: PathOrStr) -> Iterator[None]:
    """Creates `folder` if necessary, and keeps other processes out of it until the block ends."""
    lock_file = Path(folder) / LOCK_NAME
    try:
        lock_file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"can't create the folder {folder}: {error.strerror}") from error
    refusal = ConfigurationError(f"another process is at work in {folder}; wait for it, or end it")
    lock = FileLock(lock_file, timeout=0)
    try:
        lock.acquire()
    except Timeout as error:
        raise refusal from error
    try:
        if not lock_file.exists():  # its holder has just removed the folder, and another process may have made it again
            raise refusal
        yield
    finally:
        lock.release()


class Record:
    """How far some work has come: arrays in one file, which is replaced as a whole and needs no pickle.

    `identity`, in JSON's types, is what the work is made from. Continuing from the record of other work is refused.
    `remedy` says how to start over.
    """

    def __init__(self, path: PathOrStr, identity: Dict[str, Any], remedy: str) -> None:
        self.path = Path(path)
        self._identity = json.loads(json.dumps(identity))
        self._remedy = remedy

    def load(self) -> Optional[Dict[str, numpy.ndarray]]:
        """What was saved last; None if nothing was."""
        if not self.path.exists():
            return None
        try:
            with open(self.path, "rb") as file, numpy.load(file, allow_pickle=False) as arrays:
                saved = {name: arrays[name] for name in arrays.files}
            identity = dict(json.loads(saved.pop(_IDENTITY).item()))
        except Exception as error:  # whatever a damaged file makes numpy, zipfile and json raise
            raise self.damaged(error) from error
        self._check(identity)
        return saved

    def save(self, **arrays: Any) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(self.path) as temporary, open(temporary, "wb") as file:
            contents: Dict[str, Any] = {_IDENTITY: json.dumps(self._identity, sort_keys=True), **arrays}
            numpy.savez(file, **contents)

    def damaged(self, reason: object) -> ConfigurationError:
        """The error for a record that doesn't hold what it should."""
        return ConfigurationError(f"{self.path} can't be read ({reason}); {self._remedy}")

    def _check(self, begun: Dict[str, Any]) -> None:
        for name in sorted(self._identity.keys() | begun.keys()):
            if begun.get(name) != self._identity.get(name):
                raise ConfigurationError(
                    f"the work in {self.path.parent} was started with {name} {begun.get(name)!r}, and this is "
                    f"{self._identity.get(name)!r}; continue with what it was started with, or {self._remedy}"
                )
