"""Words and sentences by rule, for any of spaCy's languages, without a model to download.

AllenNLP's own `spacy` tokenizer and sentence splitter load a trained pipeline and fetch it from the network where it is
missing. What they need of it, the tokenizer's rules, comes with spaCy itself.
"""

import functools
import re
import sys
from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Optional

import spacy
from allennlp.common.checks import ConfigurationError
from allennlp.data.tokenizers import SentenceSplitter, Token, Tokenizer
from spacy.tokens import Doc

# What spaCy's tokenizer of a language needs besides spaCy.
_EXTRA_PACKAGES = {
    "ja": "sudachipy sudachidict_core",
    "ko": "natto-py (and mecab-ko, which isn't a Python package)",
    "th": "pythainlp",
    "vi": "pyvi",
}

# ASCII white space only: in text that is already tokenised, a no-break space belongs to its token ("10 000").
_BETWEEN_SPACES = re.compile(r"[^ \t\n\r\f\v]+")


@functools.cache
def _pipeline(language: str) -> spacy.Language:
    """The rules of a language. Kept here, one for each language and process, so that a tokenizer is light to pickle."""
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


class _Word(NamedTuple):
    token: Token
    starts_sentence: bool


@Tokenizer.register("elmo::spacy")
class RuleBasedTokenizer(Tokenizer):
    """Splits text into words, and into sentences, by spaCy's rules for a language. White space is no token.

    language: spaCy's code of the language. "xx" has rules that suit most languages.
    split_on_spaces: the text is already tokenised, with white space between tokens.
    start_tokens, end_tokens: put before and after the words of each text, or of each sentence in `tokenize_sentences`.

    A token knows its place: `text[token.idx : token.idx_end] == token.text`. Start and end tokens have none.
    """

    def __init__(
        self,
        language: str = "en",
        split_on_spaces: bool = False,
        start_tokens: Optional[List[str]] = None,
        end_tokens: Optional[List[str]] = None,
    ) -> None:
        _pipeline(language)  # an unknown language is refused here rather than at the first text
        self._language = language
        self._split_on_spaces = split_on_spaces
        self._start_tokens = list(start_tokens or [])
        self._end_tokens = list(end_tokens or [])

    def tokenize(self, text: str) -> List[Token]:
        return self.batch_tokenize([text])[0]

    def batch_tokenize(self, texts: List[str]) -> List[List[Token]]:
        return [self._add_boundaries([word.token for word in words]) for words in self._words(texts)]

    def tokenize_sentences(self, text: str) -> List[List[Token]]:
        """The tokens of each sentence. Offsets are those in the whole text."""
        return [self._add_boundaries(tokens) for tokens in self._sentences(next(self._words([text])))]

    def split_sentences(self, text: str) -> List[str]:
        """The sentences as they stand in the text, without the white space around them. An empty text has none."""
        return self.batch_split_sentences([text])[0]

    def batch_split_sentences(self, texts: List[str]) -> List[List[str]]:
        return [
            [text[sentence[0].idx : sentence[-1].idx_end] for sentence in self._sentences(words)]
            for text, words in zip(texts, self._words(texts), strict=True)
        ]

    def _words(self, texts: Iterable[str]) -> Iterator[List[_Word]]:
        """The words of each text, each with whether a sentence begins there."""
        pipeline = _pipeline(self._language)
        try:
            if self._split_on_spaces:
                yield from (_words_between_spaces(text, pipeline) for text in texts)
            else:
                yield from (_words_by_rule(document) for document in pipeline.pipe(texts))
        except UnicodeEncodeError as error:
            raise ValueError(
                f"A text holds half a character (the lone surrogate {error.object[error.start : error.end]!r}), which "
                "has no UTF-8 form. Decode its source anew, for example with errors='replace'."
            ) from error

    @staticmethod
    def _sentences(words: List[_Word]) -> List[List[Token]]:
        sentences: List[List[Token]] = []
        for token, starts_sentence in words:
            if starts_sentence:
                sentences.append([])
            sentences[-1].append(token)
        return sentences

    def _add_boundaries(self, tokens: List[Token]) -> List[Token]:
        return [Token(text) for text in self._start_tokens] + tokens + [Token(text) for text in self._end_tokens]

    def _to_params(self) -> Dict[str, Any]:
        return {
            "type": "elmo::spacy",
            "language": self._language,
            "split_on_spaces": self._split_on_spaces,
            "start_tokens": self._start_tokens,
            "end_tokens": self._end_tokens,
        }


def _words_by_rule(document: Doc) -> List[_Word]:
    words: List[_Word] = []
    starts_sentence = True
    for token in document:
        # White space may open a sentence, which then begins with the word that follows.
        starts_sentence = starts_sentence or bool(token.is_sent_start)
        if not token.is_space:
            words.append(_Word(Token(token.text, token.idx, token.idx + len(token)), starts_sentence))
            starts_sentence = False
    return words


def _words_between_spaces(text: str, pipeline: spacy.Language) -> List[_Word]:
    matches = list(_BETWEEN_SPACES.finditer(text))
    document = pipeline.get_pipe("sentencizer")(Doc(pipeline.vocab, words=[match.group() for match in matches]))
    return [
        _Word(Token(match.group(), match.start(), match.end()), bool(token.is_sent_start))
        for match, token in zip(matches, document, strict=True)
    ]


@SentenceSplitter.register("elmo::spacy")
class RuleBasedSentenceSplitter(SentenceSplitter):
    """Splits text into sentences as `RuleBasedTokenizer` does."""

    def __init__(self, language: str = "en") -> None:
        self._tokenizer = RuleBasedTokenizer(language)

    def split_sentences(self, text: str) -> List[str]:
        return self._tokenizer.split_sentences(text)

    def batch_split_sentences(self, texts: List[str]) -> List[List[str]]:
        return self._tokenizer.batch_split_sentences(texts)
