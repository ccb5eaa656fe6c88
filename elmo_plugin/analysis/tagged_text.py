"""Sentences with a tag for every word, from the formats that part-of-speech corpora come in.

- CoNLL-U: ten columns separated by tabs; the tag is that of the XPOS or the UPOS column. Ranges (`1-2`) and empty nodes
  (`1.1`) are no words of their own and passed over.
- Tagged text: one sentence a line, `word_TAG` or `word/TAG` tokens. The tag stands behind the last separator. The
  treebank's ways to write a bracket (`-LRB-`) or a slash (`\\/`) are undone, since a biLM reads plain text.
"""

from collections import Counter, defaultdict
from typing import Dict, Iterable, Iterator, List, NamedTuple

from allennlp.common.checks import ConfigurationError

from elmo_plugin.files import numbered_lines

COLUMNS = {"upos": 3, "xpos": 4}
FORMATS = ("auto", "conllu", "tagged")

_NUM_COLUMNS = 10
_BRACKETS = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"}


class TaggedSentence(NamedTuple):
    tokens: List[str]
    tags: List[str]


def read_tagged(path: str, file_format: str = "auto", column: str = "xpos") -> Iterator[TaggedSentence]:
    """Streams a corpus. `auto` takes NAME.conllu and NAME.conllu.gz for CoNLL-U, others for tagged text."""
    if file_format not in FORMATS:
        raise ConfigurationError(f"the format must be one of {', '.join(FORMATS)}, not {file_format!r}")
    if column not in COLUMNS:
        raise ConfigurationError(f"the column must be one of {', '.join(COLUMNS)}, not {column!r}")
    is_conllu = path.removesuffix(".gz").endswith(".conllu") if file_format == "auto" else file_format == "conllu"
    sentences = _read_conllu(path, column) if is_conllu else _read_tagged_lines(path)
    num_sentences = 0
    for sentence in sentences:
        num_sentences += 1
        yield sentence
    if num_sentences == 0:
        raise ConfigurationError(f"{path}: there is no tagged sentence in this file")


def _read_conllu(path: str, column: str) -> Iterator[TaggedSentence]:
    sentence = TaggedSentence([], [])
    for number, line in numbered_lines(path, skip_blank=False):
        line = line.rstrip("\r\n")
        if not line.strip():
            if sentence.tokens:
                yield sentence
            sentence = TaggedSentence([], [])
        elif not line.startswith("#"):
            fields = line.split("\t")
            if len(fields) != _NUM_COLUMNS:
                raise ConfigurationError(
                    f"{path}:{number}: a line of CoNLL-U has {_NUM_COLUMNS} columns separated by tabs, but this has "
                    f"{len(fields)}"
                )
            if fields[0].isdigit():
                tag = fields[COLUMNS[column]]
                if tag == "_":
                    raise ConfigurationError(
                        f"{path}:{number}: the word {fields[1]!r} has no tag in the column {column}; try the other of "
                        f"{' and '.join(COLUMNS)}"
                    )
                sentence.tokens.append(_one_token(fields[1]))
                sentence.tags.append(tag)
    if sentence.tokens:
        yield sentence


def _one_token(form: str) -> str:
    """A word with blanks inside ("20 000") is one word with one tag; the blanks go, so that it stays one token."""
    return "".join(form.split()) or form


def _read_tagged_lines(path: str) -> Iterator[TaggedSentence]:
    separator = ""
    for number, line in numbered_lines(path, skip_blank=False):
        sentence = TaggedSentence([], [])
        for token in line.split():
            separator = separator or _separator(token, path, number)
            word, _, tag = token.rpartition(separator)
            if not word or not tag:
                raise ConfigurationError(
                    f"{path}:{number}: {token!r} isn't 'word{separator}TAG', the form that this file begins with"
                )
            sentence.tokens.append(_plain(word))
            sentence.tags.append(tag)
        if sentence.tokens:
            yield sentence


def _separator(token: str, path: str, number: int) -> str:
    """What parts words and tags in a file: the last of the two separators in its first token."""
    places: Dict[str, int] = {separator: token.rfind(separator) for separator in "_/"}
    separator = max(places, key=lambda candidate: places[candidate])
    if places[separator] < 0:
        raise ConfigurationError(
            f"{path}:{number}: {token!r} is neither 'word_TAG' nor 'word/TAG'; is the file CoNLL-U under another name? "
            "Then give its format"
        )
    return separator


def _plain(word: str) -> str:
    return _BRACKETS.get(word, word.replace("\\/", "/"))


class MajorityTags(NamedTuple):
    """The most frequent tags of a training set: each word's, that of words seen once, and that of all words."""

    of_word: Dict[str, str]
    of_rare_words: str
    of_all: str

    def guess(self, word: str) -> str:
        """A word that training didn't have is taken for one of those it had once."""
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
