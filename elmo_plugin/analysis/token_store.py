"""A biLM's vectors of a corpus on disk: written once, in pieces that survive a kill, and read by memory map.

A folder holds

- `vectors.bin`: a matrix (num_tokens, num_layers, dim) of float16 or float32, in the order of the text
- `sentences.txt`: the sentences, one a line, tokens separated by blanks
- `lengths.bin`: the number of tokens of each sentence, int32
- `store.json`: sizes, and what it was built from; it appears last, so a folder with it is complete

Until then `progress.json` says how much of the files is good. Building goes on from there, and refuses a folder that
was begun from another biLM, text or choice of layers.
"""

import hashlib
import json
import os
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence

import numpy
from allennlp.common import Tqdm
from allennlp.common.checks import ConfigurationError
from filelock import FileLock, Timeout

from elmo_plugin.bilm.cache import fingerprint
from elmo_plugin.embedding import ElmoEmbedder
from elmo_plugin.files import PathOrStr, replacing

VECTORS, SENTENCES, LENGTHS = "vectors.bin", "sentences.txt", "lengths.bin"
FILES = (VECTORS, SENTENCES, LENGTHS)
STORE, PROGRESS, LOCK = "store.json", "progress.json", ".lock"
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
                f"{self.folder} {'is not complete yet: name its text to go on' if begun else 'holds no index'}"
            )
        description = _read_json(path)
        self.identity: Dict[str, Any] = description["identity"]
        self.layers: List[int] = self.identity["layers"]
        shape = (description["num_tokens"], len(self.layers), description["dim"])
        dtype = numpy.dtype(self.identity["dtype"])
        size = os.path.getsize(self.folder / VECTORS)
        if size != int(numpy.prod(shape)) * dtype.itemsize:
            raise ConfigurationError(
                f"{self.folder / VECTORS} has {size} bytes, but {path} describes {shape} of {dtype}; remove the folder "
                "and build it again"
            )
        self.vectors = numpy.memmap(self.folder / VECTORS, dtype=dtype, mode="r", shape=shape)
        # Shape: (num_sentences + 1,), the row at which each sentence begins
        lengths = numpy.fromfile(self.folder / LENGTHS, dtype=_LENGTH)
        self.offsets = numpy.concatenate([[0], lengths.cumsum(dtype=numpy.int64)])
        self._line_starts: Optional[numpy.ndarray] = None

    def __len__(self) -> int:
        """The number of tokens."""
        return len(self.vectors)

    @property
    def num_sentences(self) -> int:
        return len(self.offsets) - 1

    def sentence(self, number: int) -> List[str]:
        """The tokens of a sentence, without reading the text before it."""
        if self._line_starts is None:
            text = numpy.memmap(self.folder / SENTENCES, dtype=numpy.uint8, mode="r")
            self._line_starts = numpy.concatenate([[0], numpy.flatnonzero(text == ord("\n")) + 1])
        with open(self.folder / SENTENCES, "rb") as file:
            file.seek(self._line_starts[number])
            return file.readline().decode("utf-8").split()

    def sentences(self) -> Iterator[List[str]]:
        """All sentences, streamed."""
        with open(self.folder / SENTENCES, encoding="utf-8", newline="\n") as file:
            for line in file:
                yield line.split()

    def blocks(self, layer: Optional[int] = None) -> Iterator[Block]:
        """The whole store in runs of sentences of bounded size, with all layers or one, given by its number."""
        chosen = slice(None) if layer is None else slice(self.layers.index(layer), self.layers.index(layer) + 1)
        row_bytes = self.vectors.shape[1] * self.vectors.shape[2] * 4
        rows_per_block = max(1, _BYTES_PER_BLOCK // row_bytes)
        first = 0
        while first < self.num_sentences:
            # As many sentences as fit, and one at least.
            last = int(numpy.searchsorted(self.offsets, self.offsets[first] + rows_per_block, side="right")) - 1
            last = max(last, first + 1)
            rows = slice(self.offsets[first], self.offsets[last])
            starts = self.offsets[first:last] - self.offsets[first]
            yield Block(first, starts, self.vectors[rows, chosen].astype(numpy.float32))
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
    """The store of `sentences` in `folder`: opened if it is complete, continued if it was begun, else built.

    `source` is whatever tells this corpus from another, in JSON's types; `file_identity` makes some. `layers` are all
    of the biLM's unless given. Sentences without tokens are left out.
    """
    if dtype not in DTYPES:
        raise ConfigurationError(f"vectors are kept as one of {', '.join(DTYPES)}, not {dtype!r}")
    folder = Path(folder)
    layers = list(range(embedder.bilm.num_layers)) if layers is None else list(layers)
    for layer in layers:
        if not 0 <= layer < embedder.bilm.num_layers:
            raise ConfigurationError(f"the biLM has the layers 0 to {embedder.bilm.num_layers - 1}, not {layer}")
    identity = {"bilm": fingerprint(embedder.bilm).hex(), "source": source, "layers": layers, "dtype": dtype}
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(folder / LOCK, timeout=0):
            if not (folder / STORE).exists():
                _write(folder, embedder, sentences, identity, batch_size, progress)
    except Timeout as error:
        raise ConfigurationError(f"{folder} is being built by another process; wait for it") from error
    except OSError as error:
        reason = f"{error.filename}: {error.strerror}" if error.filename else error.strerror or error
        raise ConfigurationError(
            f"{folder} wasn't completed ({reason}); what is there is kept, and the same command goes on from it"
        ) from error
    _check_identity(folder / STORE, identity)
    return TokenStore(folder)


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
    num_done = _begin_or_continue(folder, identity) // _LENGTH.itemsize
    to_do = islice((sentence for sentence in sentences if sentence), num_done, None)
    with ExitStack() as stack:
        files = {name: stack.enter_context(open(folder / name, "ab")) for name in FILES}
        bar = stack.enter_context(Tqdm.tqdm(desc=description, unit=" sentences", initial=num_done))
        while piece := list(islice(to_do, _SENTENCES_PER_COMMIT)):
            for sentence, vectors in zip(piece, embedder.embed_sentences(piece, batch_size), strict=True):
                # Shape: (num_tokens, num_layers, dim)
                rows = vectors[identity["layers"]].transpose(1, 0, 2).astype(identity["dtype"])
                files[VECTORS].write(_finite(rows, sentence).tobytes())
                bar.update()
            files[SENTENCES].write("".join(map(_line, piece)).encode("utf-8"))
            files[LENGTHS].write(numpy.array([len(sentence) for sentence in piece], dtype=_LENGTH).tobytes())
            for file in files.values():
                file.flush()
                os.fsync(file.fileno())
            good = {name: file.tell() for name, file in files.items()}
            _write_json(folder / PROGRESS, {"identity": identity, "bytes": good})
    lengths = numpy.fromfile(folder / LENGTHS, dtype=_LENGTH)
    if not len(lengths):
        raise ConfigurationError(f"there is no sentence to index in {folder}")
    sizes = {"num_tokens": int(lengths.sum(dtype=numpy.int64)), "dim": embedder.bilm.get_output_dim()}
    _write_json(folder / STORE, {"identity": identity, **sizes})
    (folder / PROGRESS).unlink()


def _begin_or_continue(folder: Path, identity: Dict[str, Any]) -> int:
    """Cuts the files to what is known to be good. Returns the good size of the file of lengths."""
    path = folder / PROGRESS
    if not path.exists():
        strangers = sorted(entry.name for entry in folder.iterdir() if entry.name != LOCK)
        if strangers:
            raise ConfigurationError(f"{folder} holds other files ({strangers[0]}); give a new or an empty folder")
        _write_json(path, {"identity": identity, "bytes": dict.fromkeys(FILES, 0)})
    _check_identity(path, identity)
    good = _read_json(path)["bytes"]
    for name in FILES:
        with open(folder / name, "ab") as file:
            if file.tell() < good[name]:
                raise ConfigurationError(
                    f"{folder / name} is shorter than {path} says; remove the folder and begin anew"
                )
            file.truncate(good[name])
    return good[LENGTHS]


def _check_identity(path: Path, identity: Dict[str, Any]) -> None:
    recorded = _read_json(path)["identity"]
    different = [name for name, value in identity.items() if recorded.get(name) != value]
    if different:
        name = different[0]
        raise ConfigurationError(
            f"{path.parent} was built from another {name}: {recorded.get(name)!r} there, {identity[name]!r} here; give "
            "another folder, or remove this one"
        )


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


def _read_json(path: Path) -> Dict[str, Any]:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ConfigurationError(f"{path} isn't JSON ({error}); remove its folder and build it again") from error


def _write_json(path: Path, content: Dict[str, Any]) -> None:
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
