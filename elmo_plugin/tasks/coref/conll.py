"""Documents with their coreference, in the columns of CoNLL-2012: read and written.

    #begin document (nw/wsj/00/wsj_0001); part 000
    nw/wsj/00/wsj_0001  0  0  Ada  NNP  ...  Speaker#1  *  (0
    nw/wsj/00/wsj_0001  0  1  Byron  NNP  ...  Speaker#1  *  0)

    #end document

A mention of the cluster 0 opens with `(0` and closes with `0)`; one of a single word is `(0)`. Several brackets at one
word are separated by `|`, and a word with none has `-` (in some files `_` or `*`). A blank line ends a sentence.
"""

import re
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from allennlp.common.checks import ConfigurationError

from elmo_plugin.corpora import split_columns
from elmo_plugin.files import numbered_lines

NO_SPEAKER = "-"
NO_MENTION = ("-", "_", "*")

Clusters = List[List["Mention"]]

_WORD_COLUMN, _SPEAKER_COLUMN = 3, 9
_MIN_COLUMNS = 5  # document, part, number, word; and the coreference, which is last
_MIN_COLUMNS_WITH_SPEAKER = 12
_BEGIN = re.compile(r"#begin document \((?P<id>.*)\)(?:; part (?P<part>\d{1,9}))?\s*$")
_BRACKET = re.compile(r"(?P<open>\()?(?P<cluster>[^()|\s]+)(?P<close>\))?$")


class Mention(NamedTuple):
    """The words `first` to `last`, the latter included, counted from the beginning of the document."""

    first: int
    last: int


@dataclass
class Document:
    """A document, or a part of one."""

    id: str = ""
    part: int = 0
    sentences: List[List[str]] = field(default_factory=list)
    speakers: List[List[str]] = field(default_factory=list)  # of each word
    clusters: Clusters = field(default_factory=list)  # in the order in which the official scorer finds them


def read_documents(file_path: str, encoding: str = "utf-8") -> Iterator[Document]:
    """The documents of a plain or gzipped file. Errors name the line."""
    parser: Optional[_Parser] = None
    line_number = 0
    for line_number, line in numbered_lines(file_path, skip_blank=False, encoding=encoding):
        place = f"{file_path}, line {line_number}"
        if line.startswith("#begin document"):
            if parser is not None:
                raise ConfigurationError(f"{place}: a document begins here, but the one before has no '#end document'")
            parser = _Parser(line, place)
        elif line.startswith("#end document"):
            if parser is None:
                raise ConfigurationError(f"{place}: a document ends here, but none has begun")
            yield parser.finish(place)
            parser = None
        elif parser is not None:
            parser.add(line, place)
        elif line.strip():
            raise ConfigurationError(f"{place}: expected '#begin document (name); part 000', got {line.strip()!r}")
    if parser is not None:
        raise ConfigurationError(f"{file_path}, line {line_number}: the file ends, but its last document doesn't")


def format_document(
    document_id: str, part: int, sentences: Sequence[Sequence[str]], clusters: Sequence[Sequence[Sequence[int]]]
) -> str:
    """A document as the official scorer reads it: its name, part, the word's number, the word, and the coreference."""
    column = coreference_column(sum(map(len, sentences)), clusters)
    lines = [f"#begin document ({document_id}); part {part:03d}"]
    word_number = 0
    for sentence in sentences:
        for number, word in enumerate(sentence):
            lines.append(f"{document_id}\t{part}\t{number}\t{word}\t{column[word_number]}")
            word_number += 1
        lines.append("")
    return "\n".join([*lines, "#end document"]) + "\n"


def coreference_column(num_words: int, clusters: Sequence[Sequence[Sequence[int]]]) -> List[str]:
    """The brackets at each word. Longer mentions open first and close last."""
    opening: List[List[Tuple[int, str]]] = [[] for _ in range(num_words)]
    closing: List[List[Tuple[int, str]]] = [[] for _ in range(num_words)]
    for number, cluster in enumerate(clusters):
        for first, last in cluster:
            if not 0 <= first <= last < num_words:
                raise ValueError(f"the mention {first}..{last} isn't within the document's {num_words} words")
            if first == last:
                opening[first].append((0, f"({number})"))
            else:
                opening[first].append((first - last, f"({number}"))
                closing[last].append((last - first, f"{number})"))
    rows = zip(opening, closing, strict=True)
    return ["|".join(bracket for _, bracket in [*sorted(opens), *sorted(closes)]) or "-" for opens, closes in rows]


class _Parser:
    """Takes a document's lines one by one."""

    def __init__(self, line: str, place: str) -> None:
        match = _BEGIN.match(line)
        if match is None:
            raise ConfigurationError(f"{place}: expected '#begin document (name); part 000', got {line.strip()!r}")
        self._document = Document(match["id"], int(match["part"] or 0))
        self._num_words = 0
        self._in_sentence = False
        # By cluster: the words where mentions that are still open began, with the places of their brackets.
        self._open: Dict[str, List[Tuple[int, str]]] = defaultdict(list)
        self._mentions: Dict[str, List[Mention]] = {}

    def add(self, line: str, place: str) -> None:
        columns = split_columns(line)
        if not columns:
            self._in_sentence = False
            return
        if len(columns) < _MIN_COLUMNS:
            raise ConfigurationError(
                f"{place}: expected {_MIN_COLUMNS} columns or more, with the word in the fourth and the coreference in "
                f"the last, got {len(columns)}: {line.strip()!r}"
            )
        if not self._in_sentence:
            self._document.sentences.append([])
            self._document.speakers.append([])
            self._in_sentence = True
        has_speaker = len(columns) >= _MIN_COLUMNS_WITH_SPEAKER
        self._document.sentences[-1].append(columns[_WORD_COLUMN])
        self._document.speakers[-1].append(columns[_SPEAKER_COLUMN] if has_speaker else NO_SPEAKER)
        if columns[-1] not in NO_MENTION:
            brackets = [_parse_bracket(bracket, place) for bracket in columns[-1].split("|")]
            # The official scorer looks at one-word mentions first, and it matters which cluster it found last.
            for bracket in sorted(brackets, key=lambda bracket: bracket["close"] is None):
                self._mentions.setdefault(bracket["cluster"], [])
            for bracket in brackets:
                self._add_bracket(bracket, place)
        self._num_words += 1

    def _add_bracket(self, match: "re.Match[str]", place: str) -> None:
        cluster = match["cluster"]
        if match["open"]:
            self._open[cluster].append((self._num_words, place))
        if match["close"]:
            if not self._open[cluster]:
                raise ConfigurationError(f"{place}: {match[0]!r} closes a mention of {cluster} that was never opened")
            # Of two open mentions of a cluster, the last to open is the first to close, as in the official scorer.
            first, _ = self._open[cluster].pop()
            self._mentions[cluster].append(Mention(first, self._num_words))

    def finish(self, place: str) -> Document:
        for cluster, still_open in self._open.items():
            if still_open:
                _, opened = still_open[-1]
                raise ConfigurationError(f"{opened}: the mention '({cluster}' that opens here never closes")
        if not self._num_words:
            raise ConfigurationError(f"{place}: the document {self._document.id} ends, but holds no word")
        self._document.clusters = [sorted(mentions) for mentions in self._mentions.values()]
        return self._document


def _parse_bracket(bracket: str, place: str) -> "re.Match[str]":
    match = _BRACKET.match(bracket)
    if match is None or not (match["open"] or match["close"]):
        raise ConfigurationError(
            f"{place}: {bracket!r} isn't a mention's bracket; expected '(0', '0)', '(0)', several of them "
            "separated by '|', or '-'"
        )
    return match
