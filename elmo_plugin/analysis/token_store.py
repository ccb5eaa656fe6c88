"""A biLM's vectors of a corpus on disk: written once, in pieces that survive a kill, and read through a memory map.

A folder holds

- `vectors.bin`: a matrix (num_tokens, num_layers, dim) of float16 or float32, in the order of the text
- `sentences.txt`: the sentences, one per line, tokens separated by blanks
- `lengths.bin`: the number of tokens of each sentence, int32
- `store.json`: sizes, and what it was built from; it appears last, so a folder with it is complete

Until then `progress.npz` says how much of the files is good. Building continues from there, and the files end up the
same, byte for byte, as without the interruption; it refuses a folder that was started with another biLM, text or choice
of layers.
"""

import hashlib
import os
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence

import numpy
from allennlp.common import Tqdm
from allennlp.common.checks import ConfigurationError

from elmo_plugin.embedding import ElmoEmbedder
from elmo_plugin.files import PathOrStr, read_json, remove_leftovers, write_json
from elmo_plugin.progress import LOCK_NAME, Record, only_process

VECTORS, SENTENCES, LENGTHS = "vectors.bin", "sentences.txt", "lengths.bin"
FILES = (VECTORS, SENTENCES, LENGTHS)
STORE, PROGRESS = "store.json", "progress.npz"
DTYPES = ("float16", "float32")

_LENGTH = numpy.dtype(numpy.int32)
_SENTENCES_PER_COMMIT = 1024
_BYTES_PER_BLOCK = 64 * 2**20


class Block(NamedTuple):
    """A run of whole sentences: their first number, where each begins within the block, and the tokens' vectors."""

    first_sentence: int
    starts: numpy.ndarray
    # Shape: (num_tokens, num_layers, dim), float32
    vectors: numpy.ndarray


class TokenStore:
    """A complete folder, open for reading."""

    def __init__(self, folder: PathOrStr) -> None:
        self.folder = Path(folder)
        path = self.folder / STORE
        if not path.is_file():
            begun = (self.folder / PROGRESS).exists()
            raise ConfigurationError(
                f"{self.folder} {'is not complete yet: name its text to continue' if begun else 'holds no index'}"
            )
        try:
            self._open(read_json(path, "remove its folder and build it again"))
        except (KeyError, TypeError, ValueError, OSError, RecursionError) as error:
            raise ConfigurationError(
                f"{path} doesn't go with {', '.join(FILES)} beside it, or one of them is damaged "
                f"({type(error).__name__}: {error}); remove the folder and build it again"
            ) from error

    def _open(self, description: Dict[str, Any]) -> None:
        self.identity: Dict[str, Any] = description["identity"]
        self.layers: List[int] = self.identity["layers"]
        shape = (description["num_tokens"], len(self.layers), description["dim"])
        if self.identity["dtype"] not in DTYPES:
            raise ValueError(f"vectors are kept as one of {', '.join(DTYPES)}, not {self.identity['dtype']!r}")
        dtype = numpy.dtype(self.identity["dtype"])
        size = os.path.getsize(self.folder / VECTORS)
        if size != int(numpy.prod(shape)) * dtype.itemsize:
            raise ValueError(f"{VECTORS} has {size} bytes, but {STORE} describes {shape} of {dtype}")
        self.vectors = numpy.memmap(self.folder / VECTORS, dtype=dtype, mode="r", shape=shape)
        # Shape: (num_sentences + 1,), the row at which each sentence begins
        lengths = numpy.frombuffer((self.folder / LENGTHS).read_bytes(), dtype=_LENGTH)
        self.offsets = numpy.concatenate([[0], lengths.cumsum(dtype=numpy.int64)])
        if self.offsets[-1] != len(self.vectors) or (lengths < 1).any():
            raise ValueError(f"{LENGTHS} has the lengths of {self.offsets[-1]} tokens, and there are {shape[0]}")
        # Where each line begins. Shape: (num_sentences + 1,)
        text = numpy.memmap(self.folder / SENTENCES, dtype=numpy.uint8, mode="r")
        ends = [
            start + numpy.flatnonzero(text[start : start + _BYTES_PER_BLOCK] == ord("\n"))
            for start in range(0, len(text), _BYTES_PER_BLOCK)
        ]
        self._line_starts = numpy.concatenate([[-1], *ends]) + 1
        if len(self._line_starts) != len(self.offsets) or self._line_starts[-1] != len(text):
            raise ValueError(f"{SENTENCES} has {len(self._line_starts) - 1} whole lines for {len(lengths)} sentences")

    def __len__(self) -> int:
        """The number of tokens."""
        return len(self.vectors)

    @property
    def num_sentences(self) -> int:
        return len(self.offsets) - 1

    def sentence(self, number: int) -> List[str]:
        """The tokens of a sentence, without reading the text before it."""
        with open(self.folder / SENTENCES, "rb") as file:
            file.seek(self._line_starts[number])
            return self._tokens(number, file.readline())

    def sentences(self) -> Iterator[List[str]]:
        """All sentences, streamed."""
        with open(self.folder / SENTENCES, "rb") as file:
            for number, line in enumerate(islice(file, self.num_sentences)):
                yield self._tokens(number, line)

    def _tokens(self, number: int, line: bytes) -> List[str]:
        num_tokens = self.offsets[number + 1] - self.offsets[number]
        try:
            tokens = line.decode("utf-8").split()
            if len(tokens) != num_tokens:
                raise ValueError(f"it has {len(tokens)} tokens, and was indexed with {num_tokens}")
        except ValueError as error:
            raise ConfigurationError(
                f"{self.folder / SENTENCES}:{number + 1}: this line is damaged ({error}); remove the folder and build "
                "it again"
            ) from error
        return tokens

    def blocks(self) -> Iterator[Block]:
        """The whole store in runs of sentences of bounded size."""
        row_bytes = self.vectors.shape[1] * self.vectors.shape[2] * 4
        rows_per_block = max(1, _BYTES_PER_BLOCK // row_bytes)
        first = 0
        while first < self.num_sentences:
            # As many sentences as fit, but at least one.
            last = int(numpy.searchsorted(self.offsets, self.offsets[first] + rows_per_block, side="right")) - 1
            last = max(last, first + 1)
            rows = slice(self.offsets[first], self.offsets[last])
            starts = self.offsets[first:last] - self.offsets[first]
            yield Block(first, starts, self.vectors[rows].astype(numpy.float32))
            first = last


def build(
    folder: PathOrStr,
    embedder: ElmoEmbedder,
    sentences: Iterable[List[str]],
    source: Any,
    layers: Optional[Sequence[int]] = None,
    dtype: str = "float16",
    batch_size: int = 64,
    progress: str = "indexing",
) -> TokenStore:
    """The store of `sentences` in `folder`: opened if it is complete, continued if it was started, else built.

    `source` distinguishes this corpus from others, in JSON's types, for example by `file_identity`. `layers` are all of
    the biLM's unless given. Sentences without tokens are left out.
    """
    if dtype not in DTYPES:
        raise ConfigurationError(f"vectors are kept as one of {', '.join(DTYPES)}, not {dtype!r}")
    folder = Path(folder)
    layers = list(range(embedder.num_layers)) if layers is None else list(layers)
    for layer in layers:
        if not 0 <= layer < embedder.num_layers:
            raise ConfigurationError(f"the biLM has the layers 0 to {embedder.num_layers - 1}, not {layer}")
    identity = {"bilm": embedder.fingerprint(), "source": source, "layers": layers, "dtype": dtype}
    try:
        with only_process(folder):
            if not (folder / STORE).exists():
                _write(folder, embedder, sentences, identity, batch_size, progress)
    except OSError as error:
        reason = f"{error.filename}: {error.strerror}" if error.filename else error.strerror or error
        raise ConfigurationError(
            f"{folder} wasn't completed ({reason}); what is there is kept, and the same command continues from it"
        ) from error
    store = TokenStore(folder)
    for name, value in identity.items():
        if store.identity.get(name) != value:
            raise ConfigurationError(
                f"{folder} was built from another {name}: {store.identity.get(name)!r} there, {value!r} here; give "
                "another folder, or remove this one"
            )
    return store


def file_identity(path: str) -> Dict[str, Any]:
    """A file's name and a digest of its bytes."""
    with open(path, "rb") as file:
        return {"name": os.path.basename(path), "digest": hashlib.file_digest(file, "blake2b").hexdigest()[:32]}


def _write(
    folder: Path,
    embedder: ElmoEmbedder,
    sentences: Iterable[List[str]],
    identity: Dict[str, Any],
    batch_size: int,
    description: str,
) -> None:
    record = Record(folder / PROGRESS, identity, f"remove {folder} to start over")
    num_done = _begin_or_continue(folder, record) // _LENGTH.itemsize
    to_do = islice((sentence for sentence in sentences if sentence), num_done, None)
    with ExitStack() as stack:
        files = {name: stack.enter_context(open(folder / name, "ab")) for name in FILES}
        bar = stack.enter_context(Tqdm.tqdm(desc=description, unit=" sentences", initial=num_done))
        while piece := list(islice(to_do, _SENTENCES_PER_COMMIT)):
            for sentence, vectors in zip(piece, embedder.embed_apart(piece, batch_size), strict=True):
                # Shape: (num_tokens, num_layers, dim)
                rows = vectors[identity["layers"]].transpose(1, 0, 2).astype(identity["dtype"])
                files[VECTORS].write(_finite(rows, sentence).tobytes())
                bar.update()
            files[SENTENCES].write("".join(map(_line, piece)).encode("utf-8"))
            files[LENGTHS].write(numpy.array([len(sentence) for sentence in piece], dtype=_LENGTH).tobytes())
            for file in files.values():
                file.flush()
                os.fsync(file.fileno())
            record.save(num_bytes=[files[name].tell() for name in FILES])
    lengths = numpy.fromfile(folder / LENGTHS, dtype=_LENGTH)
    if not len(lengths):
        raise ConfigurationError(f"there are no sentences to index in {folder}")
    sizes = {"num_tokens": int(lengths.sum(dtype=numpy.int64)), "dim": embedder.dim}
    write_json(folder / STORE, {"identity": identity, **sizes})
    record.path.unlink()


def _begin_or_continue(folder: Path, record: Record) -> int:
    """Cuts the files to what is known to be good. Returns the good size of the file of lengths."""
    for path in (record.path, folder / STORE):
        remove_leftovers(path)
    if not record.path.exists():
        strangers = sorted(entry.name for entry in folder.iterdir() if entry.name != LOCK_NAME)
        if strangers:
            raise ConfigurationError(f"{folder} holds other files ({strangers[0]}); give a new or empty folder")
        record.save(num_bytes=[0] * len(FILES))
    try:
        good = dict(zip(FILES, (record.load() or {})["num_bytes"].tolist(), strict=True))
    except (KeyError, TypeError, ValueError) as error:
        raise record.damaged(error) from error
    for name, num_bytes in good.items():
        with open(folder / name, "ab") as file:
            if file.tell() < num_bytes:
                raise ConfigurationError(
                    f"{folder / name} is shorter than {record.path} says; remove the folder and start over"
                )
            file.truncate(num_bytes)
    return good[LENGTHS]


def _finite(rows: numpy.ndarray, sentence: List[str]) -> numpy.ndarray:
    if not numpy.isfinite(rows).all():
        raise ConfigurationError(
            f"the vectors of {' '.join(sentence)!r} don't fit {rows.dtype}; keep them as float32, if the biLM is sound"
        )
    return rows


def _line(sentence: List[str]) -> str:
    line = " ".join(sentence)
    if line.split() != sentence:
        raise ValueError(f"tokens can't hold white space: {sentence}")
    return line + "\n"
