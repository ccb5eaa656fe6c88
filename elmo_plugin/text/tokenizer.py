"""AllenNLP's tokenizer and sentence splitter by the rules of `elmo_plugin.words`."""

from typing import Any, Dict, Iterable, Iterator, List, Optional

from allennlp.data.tokenizers import SentenceSplitter, Token, Tokenizer

from elmo_plugin.words import Word, pipeline_of, sentences_of, words_of


@Tokenizer.register("elmo::spacy")
class RuleBasedTokenizer(Tokenizer):
    """Splits text into words, and into sentences, by spaCy's rules for a language. White space is no token.

    language: spaCy's code of the language. "xx" has rules that suit most languages.
    split_on_spaces: the text is already tokenised, with white space between tokens.
    start_tokens, end_tokens: put before and after the words of each text, or of each sentence in `tokenize_sentences`.

    A token knows its position: `text[token.idx : token.idx_end] == token.text`. Start and end tokens have none.
    """

    def __init__(
        self,
        language: str = "en",
        split_on_spaces: bool = False,
        start_tokens: Optional[List[str]] = None,
        end_tokens: Optional[List[str]] = None,
    ) -> None:
        pipeline_of(language)  # an unknown language is refused here rather than at the first text
        self._language = language
        self._split_on_spaces = split_on_spaces
        self._start_tokens = list(start_tokens or [])
        self._end_tokens = list(end_tokens or [])

    def tokenize(self, text: str) -> List[Token]:
        return self.batch_tokenize([text])[0]

    def batch_tokenize(self, texts: List[str]) -> List[List[Token]]:
        return [self._tokens(words) for words in self._words(texts)]

    def tokenize_sentences(self, text: str) -> List[List[Token]]:
        """The tokens of each sentence. Offsets are those in the whole text."""
        return [self._tokens(sentence) for sentence in sentences_of(next(self._words([text])))]

    def split_sentences(self, text: str) -> List[str]:
        """The sentences as they are in the text, without the white space around them. An empty text has none."""
        return self.batch_split_sentences([text])[0]

    def batch_split_sentences(self, texts: List[str]) -> List[List[str]]:
        return [
            [text[sentence[0].start : sentence[-1].end] for sentence in sentences_of(words)]
            for text, words in zip(texts, self._words(texts), strict=True)
        ]

    def _words(self, texts: Iterable[str]) -> Iterator[List[Word]]:
        return words_of(texts, self._language, self._split_on_spaces)

    def _tokens(self, words: List[Word]) -> List[Token]:
        tokens = [Token(word.text, word.start, word.end) for word in words]
        return [Token(text) for text in self._start_tokens] + tokens + [Token(text) for text in self._end_tokens]

    def _to_params(self) -> Dict[str, Any]:
        return {
            "type": "elmo::spacy",
            "language": self._language,
            "split_on_spaces": self._split_on_spaces,
            "start_tokens": self._start_tokens,
            "end_tokens": self._end_tokens,
        }


@SentenceSplitter.register("elmo::spacy")
class RuleBasedSentenceSplitter(SentenceSplitter):
    """Splits text into sentences as `RuleBasedTokenizer` does."""

    def __init__(self, language: str = "en") -> None:
        self._tokenizer = RuleBasedTokenizer(language)

    def split_sentences(self, text: str) -> List[str]:
        return self._tokenizer.split_sentences(text)

    def batch_split_sentences(self, texts: List[str]) -> List[List[str]]:
        return self._tokenizer.batch_split_sentences(texts)
