"""Sentences with a tag for every word, from the formats that part-of-speech corpora come in.

- CoNLL-U: ten columns separated by tabs; the tag is that of the XPOS or the UPOS column. Ranges (`1-2`) and empty nodes
  (`1.1`) aren't words and are skipped. Sentences with a word that has no tag (`_`) are left out.
- Tagged text: one sentence per line, `word_TAG` or `word/TAG` tokens. The tag follows the last separator.
- The Penn Treebank's `.pos` files: `word/TAG` tokens, noun phrases in square brackets, several lines per sentence. A
  blank line or a line of `=` ends it, and so does a full stop (the tag `.`), with the quotes and brackets that close
  after it. Of several tags (`JJ|NN`) the first one counts.

The treebank's escapes for a bracket (`-LRB-`) or a slash (`\\/`) are undone, since a biLM reads plain text.
"""

import logging
from collections import Counter, defaultdict
from itertools import chain, islice
from pathlib import Path
from typing import Dict, Iterable, Iterator, List, NamedTuple, Tuple

from allennlp.common.checks import ConfigurationError

from elmo_plugin.corpora import split_columns, unescape
from elmo_plugin.files import numbered_lines

logger = logging.getLogger(__name__)

COLUMNS = {"upos": 3, "xpos": 4}
FORMATS = ("auto", "conllu", "tagged", "treebank")

_NUM_COLUMNS = 10
_SUFFIXES = {".conllu": "conllu", ".pos": "treebank"}
_CLOSING_TAGS = ("''", ")", "-RRB-")
_NUM_LINES_TO_TELL = 100


class TaggedSentence(NamedTuple):
    tokens: List[str]
    tags: List[str]


def read_tagged(
    path: str, file_format: str = "auto", column: str = "xpos", encoding: str = "utf-8"
) -> Iterator[TaggedSentence]:
    """Streams a corpus: a file, or all NAME.conllu and NAME.pos files below a folder, plain or gzipped.

    `auto` decides by file names; where these don't tell, it assumes tagged text unless it finds the treebank's
    brackets.
    """
    if file_format not in FORMATS:
        raise ConfigurationError(f"the format must be one of {', '.join(FORMATS)}, not {file_format!r}")
    if column not in COLUMNS:
        raise ConfigurationError(f"the column must be one of {', '.join(COLUMNS)}, not {column!r}")
    num_sentences = 0
    for file_path in tagged_files(path):
        for sentence in _read_file(file_path, file_format, column, encoding):
            num_sentences += 1
            yield sentence
    if num_sentences == 0:
        raise ConfigurationError(f"{path}: this file has no tagged sentences")


def tagged_files(path: str) -> List[str]:
    """A file itself, or the files of a folder."""
    if not Path(path).is_dir():
        return [path]
    files = sorted(str(file) for file in Path(path).rglob("*") if _suffix(str(file)) in _SUFFIXES and file.is_file())
    if not files:
        raise ConfigurationError(
            f"{path}: this folder holds no file whose name ends with {' or '.join(_SUFFIXES)}, with .gz or without"
        )
    return files


def _read_file(path: str, file_format: str, column: str, encoding: str) -> Iterator[TaggedSentence]:
    lines = numbered_lines(path, skip_blank=False, encoding=encoding)
    if file_format == "auto":
        first_lines = list(islice(lines, _NUM_LINES_TO_TELL))
        lines = chain(first_lines, lines)
        file_format = _SUFFIXES.get(_suffix(path)) or _format_of_text(first_lines)
    if file_format == "conllu":
        return _read_conllu(path, lines, column)
    return _read_treebank(path, lines) if file_format == "treebank" else _read_tagged_lines(path, lines)


def _suffix(path: str) -> str:
    return Path(path.removesuffix(".gz")).suffix


def _format_of_text(lines: Iterable[Tuple[int, str]]) -> str:
    is_treebank = any(line.startswith(("[ ", "=====", "*x*")) for _, line in lines)
    return "treebank" if is_treebank else "tagged"


def _read_conllu(path: str, lines: Iterable[Tuple[int, str]], column: str) -> Iterator[TaggedSentence]:
    num_sentences = num_untagged = 0
    untagged = ""
    for rows in _conllu_rows(path, lines):
        tags = [fields[COLUMNS[column]] for _, fields in rows]
        num_sentences += 1
        if "_" in tags:
            number, fields = rows[tags.index("_")]
            untagged = untagged or f"{path}:{number}: the word {fields[1]!r} has no tag in the column {column}"
            num_untagged += 1
        else:
            yield TaggedSentence([_one_token(fields[1]) for _, fields in rows], tags)
    if num_untagged and num_untagged == num_sentences:
        raise ConfigurationError(f"{untagged}, and no sentence has all; try the other of {' and '.join(COLUMNS)}")
    if num_untagged:
        logger.warning("%s: left out %d of %d sentences; %s", path, num_untagged, num_sentences, untagged)


def _conllu_rows(path: str, lines: Iterable[Tuple[int, str]]) -> Iterator[List[Tuple[int, List[str]]]]:
    """The numbers and the fields of each sentence's words."""
    rows: List[Tuple[int, List[str]]] = []
    for number, line in lines:
        line = line.rstrip("\r\n")
        if not line.strip():
            if rows:
                yield rows
            rows = []
        elif not line.startswith("#"):
            fields = line.split("\t")
            if len(fields) != _NUM_COLUMNS:
                raise ConfigurationError(
                    f"{path}:{number}: a line of CoNLL-U has {_NUM_COLUMNS} columns separated by tabs, but this has "
                    f"{len(fields)}"
                )
            if fields[0].isdigit():
                rows.append((number, fields))
    if rows:
        yield rows


def _one_token(form: str) -> str:
    """A word with blanks inside ("20 000") is one word with one tag; the blanks are removed, so that it stays one
    token.
    """
    return "".join(form.split()) or form


def _read_tagged_lines(path: str, lines: Iterable[Tuple[int, str]]) -> Iterator[TaggedSentence]:
    separator = ""
    for number, line in lines:
        sentence = TaggedSentence([], [])
        for token in split_columns(line):
            separator = separator or _separator(token, path, number)
            word, tag = _split(token, separator, path, number)
            sentence.tokens.append(unescape(word))
            sentence.tags.append(tag)
        if sentence.tokens:
            yield sentence


def _read_treebank(path: str, lines: Iterable[Tuple[int, str]]) -> Iterator[TaggedSentence]:
    sentence = TaggedSentence([], [])
    num_ambiguous = 0
    for number, line in lines:
        is_rule = line.startswith("===")
        if (is_rule or not line.strip()) and sentence.tokens:
            yield sentence
            sentence = TaggedSentence([], [])
        if is_rule or line.startswith("*x*"):  # the latter frames a copyright notice
            continue
        for token in split_columns(line):
            if token in ("[", "]"):
                continue
            word, tags = _split(token, "/", path, number)
            if "." in sentence.tags and tags not in _CLOSING_TAGS:
                yield sentence
                sentence = TaggedSentence([], [])
            tag = tags.split("|")[0] or tags
            num_ambiguous += tag != tags
            sentence.tokens.append(unescape(word))
            sentence.tags.append(tag)
    if sentence.tokens:
        yield sentence
    if num_ambiguous:
        logger.info("%s: %d words have several tags, of which the first was taken", path, num_ambiguous)


def _split(token: str, separator: str, path: str, number: int) -> Tuple[str, str]:
    word, _, tag = token.rpartition(separator)
    if not word or not tag:
        raise ConfigurationError(
            f"{path}:{number}: {token!r} isn't 'word{separator}TAG', the form that this file begins with"
        )
    return word, tag


def _separator(token: str, path: str, number: int) -> str:
    """What separates words and tags in a file: the last of the two separators in its first token."""
    places: Dict[str, int] = {separator: token.rfind(separator) for separator in "_/"}
    separator = max(places, key=lambda candidate: places[candidate])
    if places[separator] < 0:
        raise ConfigurationError(
            f"{path}:{number}: {token!r} is neither 'word_TAG' nor 'word/TAG'; is the file CoNLL-U under another name? "
            "Then give its format"
        )
    return separator


class MajorityTags(NamedTuple):
    """The most frequent tags of a training set: each word's, that of words seen once, and that of all words."""

    of_word: Dict[str, str]
    of_rare_words: str
    of_all: str

    def guess(self, word: str) -> str:
        """A word not seen in training is treated like those seen once."""
        return self.of_word.get(word, self.of_rare_words)


def majority_tags(sentences: Iterable[TaggedSentence]) -> MajorityTags:
    """Counts a training set; of equally frequent tags the first in the alphabet wins."""
    counts: Dict[str, Counter[str]] = defaultdict(Counter)
    for tokens, tags in sentences:
        for token, tag in zip(tokens, tags, strict=True):
            counts[token][tag] += 1
    total: Counter[str] = Counter()
    rare: Counter[str] = Counter()
    for of_word in counts.values():
        total.update(of_word)
        if of_word.total() == 1:
            rare.update(of_word)
    of_words = {word: _most_frequent(of_word) for word, of_word in counts.items()}
    return MajorityTags(of_words, _most_frequent(rare or total), _most_frequent(total))


def _most_frequent(counts: Counter[str]) -> str:
    return min(counts, key=lambda tag: (-counts[tag], tag))
