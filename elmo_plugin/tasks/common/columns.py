"""Files with one word per line, in columns, and a blank line after each sentence; and where those of CoNLL-2012 are."""

from pathlib import Path
from typing import Callable, Iterator, List, NamedTuple, Optional

from allennlp.common.checks import ConfigurationError

from elmo_plugin.corpora import split_columns
from elmo_plugin.files import numbered_lines

SUFFIXES = ("gold_conll", "gold_conll.gz")


class Row(NamedTuple):
    """A line of a sentence."""

    file_path: str
    line_number: int
    line: str
    columns: List[str]

    @property
    def place(self) -> str:
        return f"{self.file_path}, line {self.line_number}"


def sentence_rows(
    file_path: str,
    is_separator: Callable[[List[str]], bool] = lambda columns: False,
    encoding: Optional[str] = None,
) -> Iterator[List[Row]]:
    """The rows of each sentence. Besides blank lines, those that are separators by their columns end a sentence."""
    rows: List[Row] = []
    for line_number, line in numbered_lines(file_path, skip_blank=False, encoding=encoding):
        columns = split_columns(line)
        if columns and not is_separator(columns):
            rows.append(Row(file_path, line_number, line, columns))
        elif rows:
            yield rows
            rows = []
    if rows:
        yield rows


def find_files(path: str) -> List[str]:
    """A file is itself; a folder is all `*gold_conll` files in it and below it, gzipped or not, in order; a URL is
    itself.
    """
    if "://" in path or Path(path).is_file():
        return [path]
    if not Path(path).is_dir():
        raise ConfigurationError(f"there is no file or folder {path}")
    files = sorted(file for file in Path(path).rglob("*") if file.is_file() and file.name.endswith(SUFFIXES))
    if not files:
        raise ConfigurationError(f"the folder {path} holds no file whose name ends with {' or '.join(SUFFIXES)}")
    return [str(file) for file in files]
