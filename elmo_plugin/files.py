"""Files in and out: text that may be gzipped, read line by line; and output that appears only when it is complete."""

import functools
import gzip
import io
import json
import os
import re
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, Callable, Iterator, Optional, Tuple, Union

from elmo_plugin.errors import ConfigurationError

PathOrStr = Union[str, "os.PathLike[str]"]

GZIP_MAGIC = b"\x1f\x8b"
_OTHER_MAGIC = {"zip": rb"PK\x03\x04", "bzip2": rb"BZh[1-9]1AY&SY", "xz": rb"\xfd7zXZ\x00", "7-zip": rb"7z\xbc\xaf"}
_LINES_PER_PROGRESS_UPDATE = 4096
# A line is held whole, and so is what becomes of it, which may take ten times as much. The text8 corpus is one line of
# 100 MB; a file that is JSON as a whole is often one line, too.
MAX_LINE_BYTES = 2**28
MAX_TEXT_BYTES = 2**30


def read_lines(
    path: str, skip_blank: bool = True, advance: Callable[[int], Any] = lambda num_bytes: None
) -> Iterator[str]:
    """The lines of a plain or gzipped UTF-8 file.

    Lines end at a newline byte only, so that a character such as U+2028 inside a sentence is white space and doesn't
    end a line. `advance` is called from time to time with the number of further bytes read.
    """
    return (line for _, line in _lines(path, path, skip_blank, advance))


def numbered_lines(
    file_path: str, skip_blank: bool = True, encoding: Optional[str] = None
) -> Iterator[Tuple[int, str]]:
    """The same lines, of a path or URL, with their numbers from 1. For `encoding` see `decoded_lines`.

    A file inside of a zip or tar file is named as AllenNLP does it: `snli_1.0.zip!snli_1.0/snli_1.0_dev.txt`.
    """
    return _lines(_local_path(file_path), file_path, skip_blank, lambda num_bytes: None, encoding)


def _local_path(file_path: str) -> str:
    from allennlp.common.file_utils import cached_path  # takes seconds, and is there already where data is read

    is_inside = "!" in file_path and not os.path.exists(file_path)
    return str(cached_path(file_path, extract_archive=is_inside))


def read_text(file_path: str, encoding: Optional[str] = None) -> str:
    """The whole of a plain or gzipped file, a path or URL."""
    path = _local_path(file_path)
    lines, num_characters = [], 0
    for number, line in _lines(path, file_path, False, lambda num_bytes: None, encoding, MAX_TEXT_BYTES):
        lines.append(line)
        num_characters += len(line)
        if num_characters > MAX_TEXT_BYTES:
            raise _too_long(file_path, number, "MAX_TEXT_BYTES", MAX_TEXT_BYTES)
    return "".join(lines)


def parse_json(text: str, place: str) -> Any:
    """The value of a piece of JSON; `place` is for errors."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"{place}: not JSON ({error})") from error


def strings_in(value: Any) -> Iterator[str]:
    """All strings in a piece of JSON, apart from keys."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from strings_in(item)


def read_json(path: PathOrStr, remedy: str, kind: type = dict) -> Any:
    """The JSON object, or what `kind` says, in a file. `remedy` is for the error."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
        if not isinstance(content, kind):
            raise ValueError(f"a {type(content).__name__} where a {kind.__name__} was expected")
    except OSError as error:
        raise ConfigurationError(f"{path} can't be read ({error.strerror or error}); {remedy}") from error
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"{path} isn't JSON as expected ({error}); {remedy}") from error
    return content


def check_encoding(encoding: str) -> None:
    """Refuses what Python doesn't know, and encodings whose lines don't end with the byte of a newline."""
    try:
        if b"a\n".decode(encoding) == "a\n":
            return
    except (LookupError, ValueError):
        pass
    raise ConfigurationError(
        f"{encoding!r} isn't an encoding that files can be read in; expected one of Python's that contains ASCII, such "
        "as utf-8, latin-1 or cp1252 (convert UTF-16 first, for example with iconv)"
    )


def _lines(
    path: str,
    name: str,
    skip_blank: bool,
    advance: Callable[[int], Any],
    encoding: Optional[str] = None,
    max_bytes: Optional[int] = None,
) -> Iterator[Tuple[int, str]]:
    num_bytes_told = 0
    if os.path.isdir(path):
        raise ConfigurationError(f"{name} is a folder; expected a file")
    with open(path, "rb") as file:
        for line_number, text in decoded_lines(file, name, encoding, max_bytes):
            if line_number % _LINES_PER_PROGRESS_UPDATE == 0:
                position = file.tell()
                advance(position - num_bytes_told)
                num_bytes_told = position
            if not skip_blank or (text and not text.isspace()):
                yield line_number, text
        advance(file.tell() - num_bytes_told)


def decoded_lines(
    file: io.BufferedReader, name: str, encoding: Optional[str] = None, max_bytes: Optional[int] = None
) -> Iterator[Tuple[int, str]]:
    """The lines of an open file or pipe, gzipped or not, with their numbers from 1. `name` is for errors.

    `encoding` is a reader's argument of that name; None is UTF-8 where there is no such argument. A line of more than
    `max_bytes`, by default MAX_LINE_BYTES, is refused.
    """
    line_number = 0
    longest = MAX_LINE_BYTES if max_bytes is None else max_bytes
    try:
        lines = iter(functools.partial(unzipped(file, name).readline, longest + 1), b"")
        for line_number, line in enumerate(lines, start=1):
            if len(line) > longest:
                raise _too_long(name, line_number, "MAX_LINE_BYTES", longest)
            text = line.decode(encoding or "utf-8")
            yield line_number, text.removeprefix("\ufeff") if line_number == 1 else text
    except UnicodeDecodeError as error:
        remedy = "Convert the file first, for example with iconv."
        if encoding is not None:
            remedy = "Set the reader's encoding to the file's own (latin-1, for example), or convert the file."
        raise ConfigurationError(
            f"{name}:{line_number}: this line isn't {(encoding or 'utf-8').upper()}: {error.reason} at byte "
            f"{error.start} of the line (0x{error.object[error.start]:02x}). {remedy}"
        ) from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ConfigurationError(
            f"{name}:{line_number + 1}: the gzip data is cut off or damaged here ({error}). "
            "Fetch or compress the file again."
        ) from error


def _too_long(name: str, line_number: int, limit: str, num_bytes: int) -> ConfigurationError:
    return ConfigurationError(
        f"{name}:{line_number}: more than {num_bytes:,} bytes would have to be held in memory here; break the text "
        f"into lines or files, or raise elmo_plugin.files.{limit}"
    )


def unzipped(file: io.BufferedReader, name: str) -> BinaryIO:
    """The content of an open file, gzipped or not. The content decides, since a downloaded file has another name in the
    cache.
    """
    start = file.peek(10)
    if start.startswith(GZIP_MAGIC):
        # The wrapper finds the ends of lines in C; GzipFile's own readline takes a call in Python for each.
        return io.BufferedReader(gzip.GzipFile(fileobj=file))
    if name.endswith(".gz"):
        raise ConfigurationError(f"{name}:1: the name ends in .gz, but the file doesn't start as gzip data does")
    for kind, magic in _OTHER_MAGIC.items():
        if re.match(magic, start):
            inside = f", or name the file inside of it for a reader, as {name}!FILE" if kind == "zip" else ""
            raise ConfigurationError(f"{name}: this is a {kind} file, not text; unpack it first{inside}")
    return file


class replacing:
    """A temporary path beside `path`, which takes its place when the block ends well and is removed when it doesn't.

    A reader sees what was there before or the whole new file, never a part; with `flush` even after a power cut.
    """

    def __init__(self, path: PathOrStr, flush: bool = True) -> None:
        self._path = Path(path)
        self._flush = flush
        self._temporary = self._path.with_name(f".{self._path.name}.{os.getpid()}.tmp")

    def __enter__(self) -> Path:
        return self._temporary

    def __exit__(self, error_type, error, traceback) -> None:
        try:
            if error_type is None:
                self._wait_for(self._temporary, os.O_RDWR)
                os.replace(self._temporary, self._path)
                with suppress(OSError):  # not every system can open or flush a folder
                    self._wait_for(self._path.parent, os.O_RDONLY)
        finally:
            self._temporary.unlink(missing_ok=True)

    def _wait_for(self, path: Path, flags: int) -> None:
        """Waits until a file's contents, or a folder's names, are on the disk."""
        if self._flush:
            descriptor = os.open(path, flags)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


def write_text(path: PathOrStr, text: str) -> None:
    """Writes a file of UTF-8 text, which appears when it is complete."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: PathOrStr, content: Any) -> None:
    """Writes a JSON file to be read by people too, which appears when it is complete."""
    write_text(path, json.dumps(content, indent=2) + "\n")


def remove_leftovers(path: PathOrStr) -> None:
    """Removes what killed processes left of `replacing(path)`, for whoever knows that nobody else is writing it."""
    for leftover in Path(path).parent.glob(f".{Path(path).name}.*.tmp"):
        leftover.unlink(missing_ok=True)
