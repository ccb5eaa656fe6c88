"""The vectors of a whole file, of which a few are looked up: compact on disk, and hardly any in memory."""

import hashlib
import tempfile
from pathlib import Path
from typing import IO, Any, Iterable, List, NamedTuple, Optional

import numpy

from elmo_plugin.errors import ConfigurationError
from elmo_plugin.files import PathOrStr, replacing

_KEY_BYTES = 8


def word_key(word: str) -> int:
    """A negative number computed from a word's letters, the same everywhere, by which a word is found instead of by its
    spelling.

    Of two million words, the chance that any two have the same one is below 1 in a million.
    """
    digest = hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=_KEY_BYTES).digest()
    return -1 - (int.from_bytes(digest, "little") >> 1)


class Found(NamedTuple):
    """Which of the words that were looked up have a vector, and those vectors."""

    is_found: numpy.ndarray  # (num_words,), bool
    vectors: numpy.ndarray  # (num_found, dim), float32


class VectorTable:
    """Vectors by `word_key`, in half precision, in a file that is mapped into memory: only the pages that are read take
    memory, and a file that is removed in the meantime remains readable.
    """

    def __init__(self, keys: numpy.ndarray, rows: numpy.ndarray, vectors: numpy.ndarray, digest: str) -> None:
        self._keys = keys  # sorted
        self._rows = rows  # where each key's vector is
        self._vectors = vectors
        self.digest = digest  # of all of it, so that the same table need not be kept twice

    def __len__(self) -> int:
        return len(self._keys)

    def find(self, keys: numpy.ndarray) -> Found:
        places = numpy.searchsorted(self._keys, keys).clip(max=len(self._keys) - 1)
        is_found = self._keys[places] == keys
        return Found(is_found, self._vectors[self._rows[places[is_found]]].astype(numpy.float32))

    def find_words(self, words: Iterable[str]) -> Found:
        return self.find(numpy.array([word_key(word) for word in words], dtype=numpy.int64))

    def save(self, folder: Path) -> None:
        """Writes the table to a folder that may hold others, unless it is there already."""
        folder.mkdir(parents=True, exist_ok=True)
        files = _Files(folder, self.digest)
        if not files.index.exists():
            with replacing(files.vectors) as temporary:
                self._vectors.tofile(temporary)
            with replacing(files.index) as temporary, open(temporary, "wb") as file:
                numpy.save(file, numpy.stack([self._keys, self._rows]))

    @classmethod
    def open(cls, folder: Path, digest: str, dim: int) -> "VectorTable":
        """A table in a folder, which may come from a stranger: a damaged one raises ConfigurationError."""
        try:
            bytes.fromhex(digest)  # which no path is
            files = _Files(folder, digest)
            keys, rows = numpy.load(files.index)
            vectors = numpy.memmap(files.vectors, dtype=numpy.float16, mode="r").reshape(-1, dim)
            if not len(keys) or not (0 <= rows.min() and rows.max() < len(vectors)):
                raise ValueError(f"{len(keys)} words don't match {len(vectors)} vectors")
        except Exception as error:  # depending on the damage, numpy raises almost anything
            raise ConfigurationError(
                f"the word vectors {digest!r} in {folder} are damaged ({error}); get the archive again, or train again"
            ) from error
        return cls(keys, rows, vectors, digest)


class _Files:
    def __init__(self, folder: Path, digest: str) -> None:
        self.index = folder / f"{digest}.index.npy"
        self.vectors = folder / f"{digest}.float16"


class TableBuilder:
    """Collects words and vectors into a table on disk: in a file without a name, in `folder` if that exists, or else
    where temporary files go.

        with TableBuilder(folder) as builder:
            builder.add(words, vectors)
            table = builder.finish()

    Of several vectors of one word the first counts.
    """

    def __init__(self, folder: Optional[PathOrStr] = None) -> None:
        self._file: IO[Any] = tempfile.TemporaryFile(dir=folder if folder and Path(folder).is_dir() else None)
        self._keys: List[numpy.ndarray] = []
        self._digest = hashlib.blake2b(digest_size=16)

    def __enter__(self) -> "TableBuilder":
        return self

    def __exit__(self, *_: Any) -> None:
        self._file.close()  # the mapped file stays

    def add(self, words: Iterable[str], vectors: numpy.ndarray) -> None:
        keys = numpy.array([word_key(word) for word in words], dtype=numpy.int64)
        half = vectors.astype(numpy.float16)
        self._keys.append(keys)
        self._digest.update(keys.tobytes())
        self._digest.update(half.tobytes())
        half.tofile(self._file)

    def finish(self) -> VectorTable:
        keys, first_rows = numpy.unique(numpy.concatenate(self._keys), return_index=True)
        num_rows = sum(map(len, self._keys))
        self._file.flush()
        vectors = numpy.memmap(self._file, dtype=numpy.float16, mode="r").reshape(num_rows, -1)
        return VectorTable(keys, first_rows, vectors, self._digest.hexdigest())
