"""Words in context: how similar a biLM finds the words that a visitor has picked, and what is near them in a corpus."""

from collections import Counter
from typing import Iterable, List, NamedTuple, Sequence

import numpy

from elmo_plugin.analysis.marked_sentence import MarkedSentence
from elmo_plugin.analysis.neighbours import TokenNeighbour, candidate_mask, nearest_tokens
from elmo_plugin.analysis.similarity import similarities
from elmo_plugin.analysis.token_store import TokenStore
from elmo_plugin.demo_page.texts import MAX_CHARACTERS, TextError, check_text, words_of
from elmo_plugin.embedding import ElmoEmbedder

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


def compare(embedder: ElmoEmbedder, chosen: Sequence[MarkedSentence]) -> numpy.ndarray:
    """The cosines between the words at each layer, (num_layers, num_words, num_words)."""
    return similarities(embedder, chosen)


def neighbours(
    embedder: ElmoEmbedder, store: TokenStore, chosen: Sequence[MarkedSentence], num_neighbours: int = 5
) -> List[List[TokenNeighbour]]:
    """For each word the sentences of the index that hold the nearest tokens, at the layer that the index has."""
    (layer,) = store.layers
    embedded = embedder.embed_sentences(sentence.tokens for sentence in chosen)
    vectors = numpy.stack([layers[layer, sentence.place] for layers, sentence in zip(embedded, chosen, strict=True)])
    return nearest_tokens(store, vectors, candidate_mask(store, chosen), num_neighbours)
