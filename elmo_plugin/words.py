"""Words and sentences by rule, for any of spaCy's languages, without a model to download.

AllenNLP's own `spacy` tokenizer and sentence splitter load a trained pipeline and fetch it from the network where it is
missing. All they need from it, the tokenizer's rules, comes with spaCy itself.
"""

import functools
import re
import sys
from typing import Iterable, Iterator, List, NamedTuple, Tuple, Union

import spacy
from spacy.tokenizer import Tokenizer
from spacy.tokens import Doc

from elmo_plugin.errors import ConfigurationError

# What spaCy's tokenizer of a language needs besides spaCy.
_EXTRA_PACKAGES = {
    "ja": "sudachipy sudachidict_core",
    "ko": "natto-py (and mecab-ko, which isn't a Python package)",
    "th": "pythainlp",
    "vi": "pyvi",
}

# spaCy takes affixes off a stretch without white space one by one and looks at all of the rest each time, which takes
# quadratic time on "(((((...". What is longer than any word or address is therefore taken in pieces of this length.
LONGEST_STRETCH = 1000

# ASCII white space only: in text that is already tokenised, a no-break space belongs to its token ("10 000").
_BETWEEN_SPACES = re.compile(r"[^ \t\n\r\f\v]+")


@functools.cache
def pipeline_of(language: str) -> spacy.Language:
    """The rules of a language, kept here once per language and process, so that a tokenizer is light to pickle."""
    try:
        pipeline = spacy.blank(language)
    except ImportError as error:
        raise ConfigurationError(_remedy(language, error)) from error
    pipeline.add_pipe("sentencizer")
    pipeline.max_length = sys.maxsize  # spaCy's limit is for its parser and its entity recogniser, which aren't used
    return pipeline


def _remedy(language: str, error: ImportError) -> str:
    if language in _EXTRA_PACKAGES:
        return (
            f"spaCy needs another package to tokenise the language '{language}'. Install it with "
            f"'pip install {_EXTRA_PACKAGES[language]}', or, if the text is already tokenised, set language to 'xx' "
            f"and split_on_spaces to true. spaCy says: {error}"
        )
    return (
        f"spaCy can't tokenise the language '{language}'. Set language to one of spaCy's codes, such as 'en', 'de' or "
        f"'fr' (a code, not the name of a model such as 'en_core_web_sm'), or to 'xx' for rules that suit most "
        f"languages. spaCy says: {error}"
    )


class Word(NamedTuple):
    """A word and its position: `text[word.start : word.end] == word.text`."""

    text: str
    start: int
    end: int
    starts_sentence: bool


def words_of(texts: Iterable[str], language: str = "en", split_on_spaces: bool = False) -> Iterator[List[Word]]:
    """The words of each text. White space is never a word; with `split_on_spaces` it alone separates words."""
    pipeline = pipeline_of(language)
    try:
        if split_on_spaces:
            yield from (_words_between_spaces(text, pipeline) for text in texts)
        else:
            documents = pipeline.pipe(_for_pipeline(text, pipeline) for text in texts)
            yield from (_words_by_rule(document) for document in documents)
    except UnicodeEncodeError as error:
        raise ValueError(
            f"A text holds half a character (the lone surrogate {error.object[error.start : error.end]!r}), which "
            "has no UTF-8 form. Decode its source again, for example with errors='replace'."
        ) from error


def sentences_of(words: Iterable[Word]) -> List[List[Word]]:
    """The words of a text, sentence by sentence."""
    sentences: List[List[Word]] = []
    for word in words:
        if word.starts_sentence:
            sentences.append([])
        sentences[-1].append(word)
    return sentences


def _for_pipeline(text: str, pipeline: spacy.Language) -> Union[str, Doc]:
    """A text for spaCy to tokenise, or the tokens of one that has long stretches without white space."""
    if not isinstance(pipeline.tokenizer, Tokenizer):
        return text
    tokens: List[Tuple[str, bool]] = []  # and whether a blank follows
    end = 0
    for stretch in re.finditer(rf"\S{{{LONGEST_STRETCH + 1},}}", text):
        tokens += _tokens(text[end : stretch.start()], pipeline.tokenizer)
        tokens += ((word, False) for word in _words_of_stretch(stretch.group(), pipeline.tokenizer))
        end = stretch.end()
    if end == 0:
        return text
    tokens += _tokens(text[end:], pipeline.tokenizer)
    return Doc(pipeline.vocab, words=[word for word, _ in tokens], spaces=[blank for _, blank in tokens])


def _tokens(text: str, tokenizer: Tokenizer) -> List[Tuple[str, bool]]:
    return [(token.text, bool(token.whitespace_)) for token in tokenizer(text)]


def _words_of_stretch(stretch: str, tokenizer: Tokenizer) -> Iterator[str]:
    """Each piece's words but for the last, with which the next piece begins. A word that fills its piece goes on."""
    begun: List[str] = []
    start = 0
    while start < len(stretch):
        piece = stretch[start : start + LONGEST_STRETCH]
        words = [token.text for token in tokenizer(piece)]
        is_last = start + len(piece) == len(stretch)
        if len(words) == 1 and not is_last:
            begun.append(piece[:-1])  # the next piece needs a letter before it, lest a bracket at its start be a prefix
            start += len(begun[-1])
            continue
        complete = words if is_last else words[:-1]
        yield "".join([*begun, complete[0]])
        yield from complete[1:]
        begun = []
        start += sum(map(len, complete))


def _words_by_rule(document: Doc) -> List[Word]:
    words: List[Word] = []
    starts_sentence = True
    for token in document:
        # White space may open a sentence, which then begins with the word that follows.
        starts_sentence = starts_sentence or bool(token.is_sent_start)
        if not token.is_space:
            words.append(Word(token.text, token.idx, token.idx + len(token), starts_sentence))
            starts_sentence = False
    return words


def _words_between_spaces(text: str, pipeline: spacy.Language) -> List[Word]:
    matches = list(_BETWEEN_SPACES.finditer(text))
    document = pipeline.get_pipe("sentencizer")(Doc(pipeline.vocab, words=[match.group() for match in matches]))
    return [
        Word(match.group(), match.start(), match.end(), bool(token.is_sent_start))
        for match, token in zip(matches, document, strict=True)
    ]
