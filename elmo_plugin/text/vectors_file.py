"""Files of word vectors as they are distributed: on each line a word and its numbers, separated by spaces.

GloVe's, fastText's and word2vec's text files, and Senna's two files side by side. Plain, gzipped or zipped; a file in a
zip that holds several is named as in AllenNLP, `(glove.6B.zip)#glove.6B.100d.txt`.
"""

import io
import itertools
import os
import zipfile
from contextlib import contextmanager
from typing import Container, Iterator, List, NamedTuple, Optional, Tuple

import numpy
from allennlp.common.checks import ConfigurationError
from allennlp.common.file_utils import cached_path
from allennlp.modules.token_embedders.embedding import parse_embeddings_file_uri

from elmo_plugin.files import decoded_lines

_LINES_PER_BLOCK = 4096
_LARGEST = float(numpy.finfo(numpy.float16).max)

_Line = Tuple[int, str]


class Vectors(NamedTuple):
    """Some words of a file."""

    words: List[str]
    vectors: numpy.ndarray  # (num_words, dim), float32


def read_vectors(path: str, dim: Optional[int] = None, only: Optional[Container[str]] = None) -> Iterator[Vectors]:
    """All vectors of a file, some thousand at a time. `dim` is the number of dimensions that it has to have; without
    it, that of the first vector. With `only`, lines that begin with other words are passed over.

    A word may hold spaces. A first line of two counts, as word2vec and fastText write it, is skipped. Anything but a
    word and `dim` numbers raises ConfigurationError, naming the line.
    """
    with _open(path) as file:
        lines: Iterator[_Line] = ((number, line.rstrip(" \t\r\n")) for number, line in decoded_lines(file, path))
        lines = (line for line in lines if line[1])
        first = next(lines, None)
        if first is not None and _is_header(first[1], path, dim):
            first = next(lines, None)
        if first is None:
            raise ConfigurationError(
                f"{path} holds no word vectors; expected lines of a word and {dim or 'its'} numbers"
            )
        dim = dim or max(1, len(_fields(first[1])) - 1)
        lines = itertools.chain([first], lines)
        if only is not None:
            lines = (line for line in lines if line[1].partition(" ")[0] in only)
        while block := list(itertools.islice(lines, _LINES_PER_BLOCK)):
            yield _parse(block, path, dim)


@contextmanager
def _open(path: str) -> Iterator[io.BufferedReader]:
    outer, inner = parse_embeddings_file_uri(path)
    try:
        local = str(cached_path(outer))
    except FileNotFoundError as error:
        raise ConfigurationError(f"there is no file of word vectors {outer}") from error
    if os.path.isdir(local):
        raise ConfigurationError(f"{outer} is a folder; expected a file of word vectors")
    if not zipfile.is_zipfile(local):
        with open(local, "rb") as file:
            yield file
        return
    try:
        with zipfile.ZipFile(local) as archive:
            names = [name for name in archive.namelist() if not name.endswith("/")]
            if inner is None and len(names) == 1:
                inner = names[0]
            if inner not in names:
                raise ConfigurationError(
                    f"{outer} holds {len(names)} files ({', '.join(names)}); name the one with the vectors, such as "
                    f"({outer})#{names[0] if names else 'vectors.txt'}"
                )
            with archive.open(inner) as member:
                yield io.BufferedReader(member)  # type: ignore[arg-type]
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, OSError) as error:
        raise ConfigurationError(f"{outer}: the zip file can't be unpacked ({error}); fetch it again") from error


def _is_header(line: str, path: str, dim: Optional[int]) -> bool:
    """Whether this is word2vec's first line: how many words and how many dimensions."""
    fields = line.split(" ")
    if dim == 1 or len(fields) != 2 or not all(field.isdecimal() and len(field) < 10 for field in fields):
        return False
    if dim is not None and int(fields[1]) != dim:
        raise ConfigurationError(
            f"{path}, line 1: the vectors have {fields[1]} dimensions, but the embedding_dim is {dim}; set it "
            "(ELMO_WORD_VECTORS_DIM) to what the file has"
        )
    return True


def _parse(lines: List[_Line], path: str, dim: int) -> Vectors:
    words, numbers = zip(*(_split(line, path, dim) for line in lines), strict=True)
    try:
        vectors = numpy.loadtxt(numbers, dtype=numpy.float32, delimiter=" ", comments=None, ndmin=2)
    except ValueError:
        vectors = numpy.empty((0, 0), dtype=numpy.float32)  # reported below
    # Stored in half precision too, where larger numbers would be infinite.
    if vectors.shape != (len(words), dim) or not (numpy.abs(vectors) <= _LARGEST).all():
        for (line_number, _), row in zip(lines, numbers, strict=True):
            _check_numbers(row, f"{path}, line {line_number}")
    return Vectors(list(words), vectors)


def _split(line: _Line, path: str, dim: int) -> Tuple[str, str]:
    """The word, and its numbers separated by spaces."""
    word, _, numbers = line[1].partition(" ")
    if numbers.count(" ") == dim - 1:
        return word, numbers
    fields = _fields(line[1])
    # The words of GloVe that hold spaces are like '. . .' and 'at name@domain.com': a number would be a dimension.
    if len(fields) <= dim or any(_is_number(field) for field in fields[1:-dim]):
        raise ConfigurationError(
            f"{path}, line {line[0]}: expected a word and {dim} numbers, got {len(fields) - 1} after {fields[0]!r}; "
            "set the embedding_dim (ELMO_WORD_VECTORS_DIM) to what the file has, or correct the line"
        )
    return " ".join(fields[:-dim]), " ".join(fields[-dim:])


def _fields(line: str) -> List[str]:
    return [field for field in line.replace("\t", " ").split(" ") if field]


def _check_numbers(numbers: str, place: str) -> None:
    for field in numbers.split(" "):
        if not _is_number(field) or not abs(float(field)) <= _LARGEST:
            raise ConfigurationError(
                f"{place}: {field!r} isn't a number that a word vector can have; the file must be text, with a word "
                "and its numbers on each line"
            )


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True
