"""Files of predicates and their arguments, in the columns of CoNLL-2012 (OntoNotes)."""

import re
from dataclasses import dataclass
from typing import Iterator, List, NamedTuple, Optional, Sequence, Tuple

from allennlp.common.checks import ConfigurationError

from elmo_plugin.files import numbered_lines
from elmo_plugin.tasks.common.conll2012 import find_files
from elmo_plugin.tasks.common.spans import Span, spans_to_tags

PREDICATE = "V"
CONTINUATION = "C-"

# The columns before the arguments: document, part, word number, word, part of speech, parse, lemma of the predicate,
# its frameset, sense, speaker, named entity. The column after them is coreference.
_NUM_COLUMNS_BEFORE = 11
_WORD, _PART_OF_SPEECH, _FRAMESET = 3, 4, 7

_BETWEEN_COLUMNS = re.compile(r"[ \t]+")
_BRACKETS = re.compile(r"(?:\(([^()*]+))?\*(\))?")


class Frame(NamedTuple):
    """A predicate, by the number of its word, and the tags of its arguments, in BIO."""

    predicate_index: int
    tags: List[str]


class Sentence(NamedTuple):
    words: List[str]
    parts_of_speech: List[str]
    frames: List[Frame]
    place: str  # the file and the line where it begins


class BracketError(ValueError):
    """Brackets that don't fit, at the word `index`."""

    def __init__(self, message: str, index: int) -> None:
        super().__init__(message)
        self.index = index


@dataclass
class _Rows:
    """The lines of one sentence, split into columns."""

    file_path: str
    first_line: int
    rows: List[List[str]]

    def column(self, number: int) -> List[str]:
        return [row[number] for row in self.rows]

    def error(self, message: str, index: int = 0) -> ConfigurationError:
        return ConfigurationError(f"{self.file_path}, line {self.first_line + index}: {message}")


def read_sentences(path: str) -> Iterator[Sentence]:
    """The sentences of a file, or of all `*gold_conll` files (gzipped or not) in a folder and those below it."""
    num_sentences = 0
    for file_path in find_files(path):
        for rows in _row_groups(file_path):
            num_sentences += 1
            yield _sentence(rows)
    if num_sentences == 0:
        raise ConfigurationError(f"{path} holds no sentence")


def brackets_to_tags(brackets: Sequence[str]) -> List[str]:
    """`(ARG0* *) (V*)` -> `B-ARG0 I-ARG0 B-V`. Raises BracketError where they don't fit."""
    spans: List[Span] = []
    opened: Optional[Tuple[int, str]] = None
    for index, bracket in enumerate(brackets):
        match = _BRACKETS.fullmatch(bracket)
        if match is None:
            raise BracketError(f"expected '*', '(LABEL*', '*)' or '(LABEL*)', got {bracket!r}", index)
        label, closes = match.groups()
        if label is not None:
            if opened is not None:
                raise BracketError(f"{bracket!r} opens an argument inside of ({opened[1]}, which is still open", index)
            opened = (index, label)
        if closes:
            if opened is None:
                raise BracketError(f"{bracket!r} closes an argument, but none is open", index)
            spans.append(Span(opened[0], index + 1, opened[1]))
            opened = None
    if opened is not None:
        raise BracketError(f"the argument ({opened[1]} is never closed", opened[0])
    return spans_to_tags(spans, len(brackets), "BIO")


def _row_groups(file_path: str) -> Iterator[_Rows]:
    rows: List[List[str]] = []
    line_number = 0
    for line_number, line in numbered_lines(file_path, skip_blank=False):
        text = line.strip(" \t\r\n")
        if text and not text.startswith(("#begin document", "#end document")):
            rows.append(_BETWEEN_COLUMNS.split(text))
        elif rows:
            yield _Rows(file_path, line_number - len(rows), rows)
            rows = []
    if rows:
        yield _Rows(file_path, line_number - len(rows) + 1, rows)


def _sentence(rows: _Rows) -> Sentence:
    num_columns = len(rows.rows[0])
    if num_columns <= _NUM_COLUMNS_BEFORE:
        raise rows.error(
            f"expected the {_NUM_COLUMNS_BEFORE} columns of CoNLL-2012, one for each predicate and one for "
            f"coreference, got {num_columns}"
        )
    for index, row in enumerate(rows.rows):
        if len(row) != num_columns:
            raise rows.error(f"expected {num_columns} columns as in the sentence's first line, got {len(row)}", index)
    return Sentence(
        words=rows.column(_WORD),
        parts_of_speech=rows.column(_PART_OF_SPEECH),
        frames=_frames(rows, range(_NUM_COLUMNS_BEFORE, num_columns - 1)),
        place=f"{rows.file_path}:{rows.first_line}",
    )


def _frames(rows: _Rows, argument_columns: range) -> List[Frame]:
    frames: List[Frame] = []
    with_frameset = [index for index, frameset in enumerate(rows.column(_FRAMESET)) if frameset != "-"]
    for place, number in enumerate(argument_columns):
        try:
            tags = brackets_to_tags(rows.column(number))
        except BracketError as error:
            raise rows.error(f"column {number + 1}: {error}", error.index) from error
        # The k-th column belongs to the k-th frameset. A file without framesets still has the brackets.
        if len(with_frameset) == len(argument_columns):
            predicate_index = with_frameset[place]
        elif f"B-{PREDICATE}" in tags:
            predicate_index = tags.index(f"B-{PREDICATE}")
        else:
            raise rows.error(
                f"column {number + 1} marks no predicate, (V*), and the sentence has {len(with_frameset)} framesets "
                f"for {len(argument_columns)} such columns, so that they don't tell which word it is either"
            )
        frames.append(Frame(predicate_index, tags))
    return frames
