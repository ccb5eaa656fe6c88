"""Files of predicates and their arguments, in the columns of CoNLL-2012 (OntoNotes)."""

import logging
import re
from typing import Iterator, List, NamedTuple, Optional, Sequence, Tuple

from allennlp.common.checks import ConfigurationError

from elmo_plugin.tasks.common.columns import Row, find_files, sentence_rows
from elmo_plugin.tasks.common.reader import Notes, some
from elmo_plugin.tasks.common.spans import Span, spans_to_tags

logger = logging.getLogger(__name__)

PREDICATE = "V"
CONTINUATION = "C-"

# The columns before the arguments: document, part, word number, word, part of speech, parse, lemma of the predicate,
# its frameset, sense, speaker, named entity. The column after them is coreference.
_NUM_COLUMNS_BEFORE = 11
_WORD, _PART_OF_SPEECH, _FRAMESET = 3, 4, 7

_BRACKETS = re.compile(r"((?:\([^()*]+)*)\*(\)*)")


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


def read_sentences(path: str, encoding: str = "utf-8") -> Iterator[Sentence]:
    """The sentences of a file, or of all `*gold_conll` files (gzipped or not) in a folder and its subfolders.

    Two things are left out and counted in a warning at the end: columns that don't say whose arguments they hold, which
    in OntoNotes are empty ones; and arguments inside another one of the same predicate, see `without_nested`.
    """
    num_columns = num_frames = 0
    notes = Notes(logger)
    groups = (rows for file_path in find_files(path) for rows in sentence_rows(file_path, _is_separator, encoding))
    for rows in some(groups, f"{path} holds no sentence"):
        sentence = _sentence(rows, notes)
        num_columns += len(rows[0].columns) - _NUM_COLUMNS_BEFORE - 1
        num_frames += len(sentence.frames)
        yield sentence
    if num_columns and not num_frames:
        raise ConfigurationError(f"{path}: no column of arguments marks a predicate, (V*), and no word has a frameset")
    notes.log(path)


def brackets_to_tags(brackets: Sequence[str]) -> List[str]:
    """`(ARG0* *) (V*)` -> `B-ARG0 I-ARG0 B-V`. Raises BracketError where they don't fit."""
    return spans_to_tags(without_nested(brackets_to_spans(brackets)), len(brackets), "BIO")


def brackets_to_spans(brackets: Sequence[str]) -> List[Span]:
    """`(ARG0* (R-ARG1*) *)` -> 1:2 and 0:3. As in srl-eval, the last to open closes first. `-` counts as `*`."""
    spans: List[Span] = []
    opened: List[Tuple[int, str]] = []
    for index, bracket in enumerate(brackets):
        match = _BRACKETS.fullmatch("*" if bracket == "-" else bracket)
        if match is None:
            raise BracketError(f"expected '*', '(LABEL*', '*)' or '(LABEL*)', got {bracket!r}", index)
        labels, closing = match.groups()
        opened += [(index, label) for label in labels.split("(")[1:]]
        for _ in closing:
            if not opened:
                raise BracketError(f"{bracket!r} closes an argument, but none is open", index)
            start, label = opened.pop()
            spans.append(Span(start, index + 1, label))
    if opened:
        start, label = opened[-1]
        raise BracketError(f"the argument ({label} is never closed", start)
    return spans


def without_nested(spans: Sequence[Span]) -> List[Span]:
    """Those that one tag per word can express: of nested arguments the outer one, except for those around V.

    A flat tagger can find only one of them; the outer one is a phrase of the predicate itself, and the inner one is
    usually a piece of it (`C-ARG1` inside `ARG1`). srl-eval would count every argument that is left out here as missed.
    """
    predicates = [span for span in spans if span.type == PREDICATE]
    kept: List[Span] = []
    # They come in the order of closing, so of two with the same words the outer one is the last.
    for span in [*predicates, *reversed(spans)]:
        if all(span.end <= other.start or other.end <= span.start for other in kept):
            kept.append(span)
    return sorted(kept)


def _is_separator(columns: List[str]) -> bool:
    return columns[0] in ("#begin", "#end") and columns[1:2] == ["document"]


def _column(rows: List[Row], number: int) -> List[str]:
    return [row.columns[number] for row in rows]


def _sentence(rows: List[Row], notes: Notes) -> Sentence:
    num_columns = len(rows[0].columns)
    if num_columns <= _NUM_COLUMNS_BEFORE:
        raise ConfigurationError(
            f"{rows[0].place}: expected the {_NUM_COLUMNS_BEFORE} columns of CoNLL-2012, one for each predicate and "
            f"one for coreference, got {num_columns}"
        )
    for row in rows:
        if len(row.columns) != num_columns:
            raise ConfigurationError(
                f"{row.place}: expected {num_columns} columns as in the sentence's first line, got {len(row.columns)}"
            )
    place = f"{rows[0].file_path}:{rows[0].line_number}"
    columns = [_arguments(rows, number) for number in range(_NUM_COLUMNS_BEFORE, num_columns - 1)]
    flat = [without_nested(spans) for spans in columns]
    frames = _frames(rows, columns, flat)
    note = "left out {} columns of arguments that mark no predicate, (V*), and have no frameset"
    notes.add(logging.WARNING, note, len(columns) - len(frames), place)
    num_nested = sum(map(len, columns)) - sum(map(len, flat))
    note = "left out {} arguments nested in others of the same predicate, of which the outer one is kept"
    notes.add(logging.WARNING, note, num_nested, place)
    return Sentence(_column(rows, _WORD), _column(rows, _PART_OF_SPEECH), frames, place)


def _arguments(rows: List[Row], number: int) -> List[Span]:
    try:
        return brackets_to_spans(_column(rows, number))
    except BracketError as error:
        raise ConfigurationError(f"{rows[error.index].place}: column {number + 1}: {error}") from error


def _frames(rows: List[Row], columns: List[List[Span]], flat: List[List[Span]]) -> List[Frame]:
    """`flat` are the columns' arguments without nested ones."""
    with_frameset = [index for index, frameset in enumerate(_column(rows, _FRAMESET)) if frameset != "-"]
    # The k-th column belongs to the k-th frameset. A file without framesets still has the brackets.
    have_framesets = len(with_frameset) == len(columns)
    frames = []
    for place, (spans, kept) in enumerate(zip(columns, flat, strict=True)):
        predicate_index = _predicate(spans, with_frameset[place] if have_framesets else None)
        if predicate_index is not None:
            frames.append(Frame(predicate_index, spans_to_tags(kept, len(rows), "BIO")))
    return frames


def _predicate(spans: List[Span], with_frameset: Optional[int]) -> Optional[int]:
    """The word with the frameset, unless V is elsewhere. V may have two pieces, `(V*) * (C-V*)`: "flip - flopped"."""
    verbs = [span for span in spans if span.type == PREDICATE]
    pieces = [span for span in spans if span.type == CONTINUATION + PREDICATE]
    if with_frameset is not None:
        if not verbs or any(span.start <= with_frameset < span.end for span in [*verbs, *pieces]):
            return with_frameset
    return min((span.start for span in verbs), default=None)
