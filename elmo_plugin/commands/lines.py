"""Lines of a text file or of standard input, plain or gzipped, one at a time."""

import sys
from contextlib import nullcontext
from typing import Any, ContextManager, Iterator, cast

from allennlp.common.checks import ConfigurationError

from elmo_plugin.files import decoded_lines

STANDARD_INPUT = "-"


def name_of(path: str) -> str:
    return "standard input" if path == STANDARD_INPUT else path


def stripped_lines(path: str) -> Iterator[str]:
    """The lines without the white space around them, including blank ones."""
    with _open(path) as file:
        for _, line in decoded_lines(file, name_of(path)):
            yield line.strip()


def _open(path: str) -> ContextManager[Any]:
    if path == STANDARD_INPUT:
        return nullcontext(cast(Any, sys.stdin).buffer)
    try:
        return open(path, "rb")
    except OSError as error:
        raise ConfigurationError(f"can't read {path}: {error.strerror}") from error
