"""Words in context: the sentences that a visitor has typed, and the words picked in them."""

from collections import Counter
from typing import Iterable, List, NamedTuple, Sequence

from elmo_plugin.analysis.marked_sentence import MarkedSentence
from elmo_plugin.demo_page.texts import MAX_CHARACTERS, TextError, check_text, words_of

MAX_OCCURRENCES = 12


class Pick(NamedTuple):
    """A word, by the numbers of its sentence and of its position there."""

    sentence: int
    place: int


def read_sentences(text: str, max_characters: int = MAX_CHARACTERS) -> List[List[str]]:
    """The words of each line."""
    text = check_text(text, "Sentences", max_characters)
    return [words_of(line) for line in text.splitlines() if line.strip()]


def suggested_picks(sentences: Sequence[Sequence[str]]) -> List[Pick]:
    """Every occurrence of the word that most sentences share, the longest if there are several; none if they share
    none.
    """
    in_sentences = Counter(word for words in sentences for word in {word.lower() for word in words})
    shared = [word for word, count in in_sentences.items() if count > 1 and word.isalpha()]
    best = max(shared, key=lambda word: (in_sentences[word], len(word), word), default=None)
    return [
        Pick(number, place)
        for number, words in enumerate(sentences)
        for place, word in enumerate(words)
        if word.lower() == best
    ]


def occurrences(sentences: Sequence[List[str]], picks: Iterable[Pick]) -> List[MarkedSentence]:
    """The picked words in their sentences, in the order of the text."""
    chosen = [MarkedSentence(list(sentences[pick.sentence]), pick.place) for pick in sorted(picks)]
    if not 2 <= len(chosen) <= MAX_OCCURRENCES:
        raise TextError(f"Pick 2 to {MAX_OCCURRENCES} words to compare; {len(chosen)} are picked.")
    return chosen
