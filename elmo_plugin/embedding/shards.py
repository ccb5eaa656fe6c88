"""The shards of an embedding job: consecutive lines of its text, each embedded into a file of its own.

A shard's file depends on its lines alone, so that shards can be made in any order, by any process, and any number of
times. It appears under its name when it is complete.
"""

import hashlib
import json
import shutil
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path
from typing import Callable, Dict, Iterable, Iterator, List, NamedTuple, Set

import h5py
import numpy
from allennlp.common.checks import ConfigurationError
from filelock import FileLock, Timeout

from elmo_plugin.embedding.embedder_api import ElmoEmbedder
from elmo_plugin.embedding.hdf5_layout import OUTPUT_FORMATS, select_layers
from elmo_plugin.files import replacing

_SENTENCES = "sentences"
_DIGEST = "digest"


class Shard(NamedTuple):
    """Consecutive sentences, and the index of the first one's line."""

    number: int
    first_line: int
    sentences: List[str]

    def digest(self) -> str:
        return hashlib.blake2b("\n".join(self.sentences).encode("utf-8"), digest_size=16).hexdigest()

    def __str__(self) -> str:
        return f"lines {self.first_line + 1} to {self.first_line + len(self.sentences)}"


def cut(sentences: Iterable[str], shard_size: int) -> Iterator[Shard]:
    """Shards of `shard_size` sentences; the last may be smaller."""
    remaining = iter(sentences)
    for number in count():
        stretch = list(islice(remaining, shard_size))
        if not stretch:
            return
        yield Shard(number, number * shard_size, stretch)


@dataclass(frozen=True)
class ShardWriter:
    """Embeds shards. What it is made of, with the biLM, decides the vectors to the last bit."""

    output_format: str = "all"
    batch_size: int = 64
    float16: bool = False

    def __post_init__(self) -> None:
        if self.output_format not in OUTPUT_FORMATS:
            raise ConfigurationError(
                f"the output format is one of {', '.join(OUTPUT_FORMATS)}, not {self.output_format!r}"
            )
        if self.batch_size < 1:
            raise ConfigurationError(f"the batch size has to be at least 1, got {self.batch_size}")

    def write(
        self,
        embedder: ElmoEmbedder,
        shard: Shard,
        file: h5py.File,
        check: Callable[[], object] = lambda: None,
        advance: Callable[[int], object] = lambda num_sentences: None,
    ) -> None:
        """Writes the vectors of `shard`, keyed by line index, and its sentences. After each one `check` may raise what
        went wrong with the file, and `advance` is told.
        """
        # A multiplication's last bits depend on what is multiplied beside it. Without the words of other shards, these
        # vectors are the same to the bit whoever makes them, and in whatever order.
        embedder.bilm.token_cache.clear()
        vectors = embedder.embed_sentences((sentence.split() for sentence in shard.sentences), self.batch_size)
        for line, layers in enumerate(vectors, start=shard.first_line):
            file.create_dataset(str(line), data=self._encode(layers, line))
            check()
            advance(1)
        file[_SENTENCES] = json.dumps(shard.sentences)
        file.attrs[_DIGEST] = shard.digest()

    def _encode(self, layers: numpy.ndarray, line: int) -> numpy.ndarray:
        vectors = select_layers(layers, self.output_format)
        if not self.float16:
            return vectors
        with numpy.errstate(over="ignore"):
            halves = vectors.astype(numpy.float16)
        if not numpy.isfinite(halves).all():
            raise ConfigurationError(
                f"line {line + 1} has a number that is too large for float16 ({abs(vectors).max():.6g}); leave out "
                "--float16"
            )
        return halves


def read_shard(path: Path) -> "ShardContents":
    """Opens a finished shard."""
    return ShardContents(h5py.File(path, "r"))


class ShardContents:
    """A finished shard's file, to be used in a `with`."""

    def __init__(self, file: h5py.File) -> None:
        self.file = file
        self.digest: str = file.attrs[_DIGEST]

    def sentences(self) -> List[str]:
        return json.loads(self.file[_SENTENCES][()])

    def __enter__(self) -> "ShardContents":
        return self

    def __exit__(self, *unused) -> None:
        self.file.close()


class ShardFolder:
    """The finished shards of a job: a folder beside its output, with a record of what the job was started with."""

    def __init__(self, output_file: str) -> None:
        self.path = Path(f"{output_file}.partial")
        self._record_file = self.path / "job.json"

    def shard_file(self, number: int) -> Path:
        return self.path / f"{number:08d}.hdf5"

    def states_file(self, number: int) -> Path:
        """Where the states that are carried on behind a shard are kept."""
        return self.path / f"states-{number:08d}.pt"

    def finished(self) -> Set[int]:
        return {int(path.stem) for path in self.path.glob("[0-9]*.hdf5")}

    @contextmanager
    def opened(self, record: Dict[str, object], resume: bool) -> Iterator[None]:
        """Creates the folder, or goes on with the one that is there if `resume`; nobody else can use it meanwhile.

        It is removed at the end if the block ended well, or if there is nothing in it worth keeping.
        """
        try:
            self.path.mkdir(exist_ok=True)
        except OSError as error:
            raise ConfigurationError(f"can't create the folder {self.path}: {error.strerror}") from error
        lock = FileLock(str(self.path / ".lock"), timeout=0)
        try:
            lock.acquire()
        except Timeout as error:
            raise ConfigurationError(f"another process is at work in {self.path}; wait for it, or end it") from error
        is_done = False
        try:
            self._begin(record, resume)
            yield
            is_done = True
        finally:
            if is_done or not self.finished():
                shutil.rmtree(self.path, ignore_errors=True)
            lock.release()

    def _begin(self, record: Dict[str, object], resume: bool) -> None:
        if self.finished() and not resume:
            raise ConfigurationError(
                f"{self.path} holds the finished part of a run that was interrupted: go on with it by --resume, or "
                "delete the folder to start anew"
            )
        if self.finished():
            self._check_record(record)
        for leftover in (*self.path.glob(".*.tmp"), *self.path.glob("merged.hdf5")):
            leftover.unlink()
        with replacing(self._record_file) as temporary:
            temporary.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")

    def _check_record(self, record: Dict[str, object]) -> None:
        begun = json.loads(self._record_file.read_text(encoding="utf-8"))
        for name in record.keys() | begun.keys():
            if begun.get(name) != record.get(name):
                raise ConfigurationError(
                    f"the run in {self.path} was started with {name} {begun.get(name)!r}, and this one has "
                    f"{record.get(name)!r}: resume it with what it was started with, or delete the folder to start anew"
                )
