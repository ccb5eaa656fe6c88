"""Files of the CoNLL shared tasks on named entities, and similar ones: one token per line, a blank line after each
sentence.
"""

import logging
import re
from collections import Counter
from itertools import chain
from typing import Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from allennlp.common.checks import ConfigurationError

from elmo_plugin.tasks.common.columns import Row, sentence_rows
from elmo_plugin.tasks.common.spans import OUTSIDE, Span, chunks, irregular_tags, tags_to_spans

logger = logging.getLogger(__name__)

DOCUMENT_START = "-DOCSTART-"

_TAG = re.compile(r"O|[BIUL]-.+")


class Sentence(NamedTuple):
    words: List[str]
    tags: List[str]
    line_numbers: List[int]


def read_sentences(
    file_path: str, token_column: Optional[int] = None, tag_column: Optional[int] = None, encoding: str = "utf-8"
) -> Iterator[Sentence]:
    """The sentences of a file. The columns that hold tokens and tags are detected unless they are given."""
    groups = _row_groups(file_path, tag_column, encoding)
    first_groups = _up_to_two_words(groups)
    if not first_groups:
        raise ConfigurationError(
            f"{file_path} holds no sentence: every line of it is blank, a {DOCUMENT_START} or a comment"
        )
    detected = _detected_columns(first_groups[-1])
    token_column, tag_column = (
        found if given is None else given for given, found in zip((token_column, tag_column), detected, strict=True)
    )
    for rows in chain(first_groups, groups):
        yield Sentence(
            [_cell(row, token_column, "token_column") for row in rows],
            [_cell(row, tag_column, "tag_column") for row in rows],
            [row.line_number for row in rows],
        )


def _row_groups(file_path: str, tag_column: Optional[int], encoding: str) -> Iterator[List[Row]]:
    """The rows of each sentence, without comments before it. All have the same number of columns."""
    num_columns = 0
    for rows in sentence_rows(file_path, lambda columns: columns[0] == DOCUMENT_START, encoding):
        while rows and _is_comment(rows[0].columns, num_columns, -1 if tag_column is None else tag_column):
            del rows[0]
        if rows:
            num_columns = num_columns or len(rows[0].columns)
            yield [_with_columns(row, num_columns) for row in rows]


def _is_comment(columns: List[str], num_columns: int, tag_column: int) -> bool:
    """Whether a line where a sentence could begin is a comment: a hash is also a token, and hashtags begin with one."""
    if not columns[0].startswith("#"):
        return False
    if len(columns) != num_columns:
        return num_columns > 0 or not _TAG.fullmatch(columns[-1])
    return columns[0] == "#" and not _TAG.fullmatch(columns[tag_column])


def _with_columns(row: Row, num_columns: int) -> Row:
    """The row, which must have this many."""
    if len(row.columns) == num_columns > 1:
        return row
    # Where tabs are the separators, spaces may belong to a token.
    cells = [cell.strip() for cell in row.line.split("\t")]
    if len(cells) == num_columns > 1 and all(cells):
        return row._replace(columns=cells)
    expected = "a token and its tag" if num_columns < 2 else f"{num_columns} columns as in the lines before"
    raise ConfigurationError(
        f"{row.place}: expected {expected}, separated by spaces or tabs; got {len(row.columns)}: {row.line.strip()!r}"
    )


def _up_to_two_words(groups: Iterator[List[Row]]) -> List[List[Row]]:
    """The first groups, up to one long enough to show whether words are numbered."""
    first_groups = []
    for rows in groups:
        first_groups.append(rows)
        if len(rows) > 1:
            break
    return first_groups


def _detected_columns(rows: List[Row]) -> Tuple[int, int]:
    num_columns = len(rows[0].columns)
    first_column = [row.columns[0] for row in rows]
    numberings = [[str(number + start) for number in range(len(rows))] for start in (0, 1)]
    if len(rows) < 2 or num_columns < 3 or first_column not in numberings:
        return 0, -1
    return 1, 2 if num_columns == 4 else -1


def _cell(row: Row, column: int, argument: str) -> str:
    try:
        return row.columns[column]
    except IndexError:
        raise ConfigurationError(
            f"{row.place}: the reader's {argument} is {column}, but there are {len(row.columns)} columns"
        ) from None


class EntityFinder:
    """Finds the entities of a file's sentences as conlleval does, and counts the tags that deviate from their scheme.

    Which ones do is known only at the end: to conlleval, BIO and IOB1 are the same, and a file's scheme is taken to be
    the one it follows more closely.
    """

    def __init__(self, file_scheme: Optional[str] = None) -> None:
        self._schemes: Sequence[str] = () if file_scheme is None else (file_scheme,)
        self._num_irregular: Counter = Counter()  # by scheme
        self._first_irregular: Dict[str, int] = {}
        self._num_sentences = self._num_entities = 0

    @property
    def scheme(self) -> str:
        """The scheme of the sentences so far."""
        return min(self._schemes, key=lambda scheme: self._num_irregular[scheme], default="any")

    def find(self, sentence: Sentence) -> List[Span]:
        """Raises TagError for a letter that isn't the scheme's, and in BIOUL also for one in the wrong position."""
        self._schemes = self._schemes or _possible_schemes(sentence.tags)
        for scheme in self._schemes:
            if scheme == "BIOUL":
                tags_to_spans(sentence.tags, scheme)
            for index, _ in irregular_tags(sentence.tags, scheme):
                self._num_irregular[scheme] += 1
                self._first_irregular.setdefault(scheme, sentence.line_numbers[index])
        entities = chunks(sentence.tags)
        self._num_sentences += 1
        self._num_entities += len(entities)
        return entities

    def log(self, file_path: str) -> None:
        scheme = self.scheme
        logger.info("%s: %d sentences with %d entities", file_path, self._num_sentences, self._num_entities)
        if self._num_irregular[scheme]:
            logger.warning(
                "%s: %d of %d entities don't begin as in %s, the first at line %d. They were read as conlleval "
                "does: B begins an entity, and so does I after O and after another type.",
                *(file_path, self._num_irregular[scheme], self._num_entities, scheme, self._first_irregular[scheme]),
            )


def _possible_schemes(tags: Sequence[str]) -> Sequence[str]:
    """An entity in BIOUL has a U or an L; without an entity, there is no telling."""
    if all(tag == OUTSIDE for tag in tags):
        return ()
    return ("BIOUL",) if any(tag[:2] in ("U-", "L-") for tag in tags) else ("BIO", "IOB1")
