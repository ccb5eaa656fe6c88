"""Whether the shipped biLM tells the senses of a word apart.

The sentences in senses.txt were written for this test by somebody who hadn't seen a vector: 12 words, 2 senses of each,
8 sentences a sense. The vectors are those of the top layer, as in the paper's own test of word senses.
"""

from typing import Dict, NamedTuple

import numpy
import pytest

from elmo_plugin import ElmoEmbedder

NUM_SHUFFLES = 200


class Occurrences(NamedTuple):
    """A word in its 16 sentences."""

    vectors: numpy.ndarray  # of length 1, (num_sentences, dim)
    is_first_sense: numpy.ndarray  # (num_sentences,)


@pytest.fixture(scope="module")
def occurrences(root) -> Dict[str, Occurrences]:
    lines = (root / "tests" / "elmo" / "senses.txt").read_text(encoding="utf-8").splitlines()
    words, senses, sentences = zip(*(line.split("\t") for line in lines), strict=True)
    tokens = [sentence.split() for sentence in sentences]
    layers = list(ElmoEmbedder().embed_sentences(tokens))
    found = {}
    for word in dict.fromkeys(words):
        rows = [row for row in range(len(words)) if words[row] == word]
        vectors = numpy.stack([layers[row][-1, tokens[row].index(word)] for row in rows])
        is_first_sense = numpy.array([senses[row] == senses[rows[0]] for row in rows])
        found[word] = Occurrences(vectors / numpy.linalg.norm(vectors, axis=1, keepdims=True), is_first_sense)
    return found


def share_nearer(vectors: numpy.ndarray, is_first_sense: numpy.ndarray) -> float:
    """How often two sentences of one sense are nearer to each other than the first is to one of the other sense."""
    cosines = vectors @ vectors.T
    is_same = is_first_sense[:, None] == is_first_sense
    is_other_sentence = ~numpy.eye(len(vectors), dtype=bool)
    # Shape: (sentence, a second one, a third one)
    compared = (is_same & is_other_sentence)[:, :, None] & ~is_same[:, None, :]
    return (cosines[:, :, None] > cosines[:, None, :])[compared].mean()


def mean_share(occurrences: Dict[str, Occurrences], shuffle=lambda senses: senses) -> float:
    return numpy.mean([share_nearer(word.vectors, shuffle(word.is_first_sense)) for word in occurrences.values()])


def test_sentences_of_a_sense_are_nearer_than_those_of_another_far_more_often_than_by_chance(occurrences):
    assert len(occurrences) == 12
    rng = numpy.random.default_rng(0)
    by_chance = [mean_share(occurrences, rng.permutation) for _ in range(NUM_SHUFFLES)]
    assert numpy.mean(by_chance) == pytest.approx(0.5, abs=0.01)
    # Five standard deviations: by chance, that would be one time in some millions.
    assert mean_share(occurrences) > numpy.mean(by_chance) + 5 * numpy.std(by_chance)


def test_that_holds_for_nearly_every_word(occurrences):
    assert sum(share_nearer(*word) > 0.5 for word in occurrences.values()) >= 10


def test_a_sentence_is_nearer_to_the_mean_of_its_sense_than_to_that_of_the_other(occurrences):
    """The paper's way to tell senses: nearest average, of the sentences but the one in question."""
    is_right = []
    for vectors, is_first_sense in occurrences.values():
        for row, vector in enumerate(vectors):
            others = numpy.arange(len(vectors)) != row
            means = [vectors[others & (is_first_sense == sense)].mean(axis=0) for sense in (True, False)]
            first, second = (vector @ mean / numpy.linalg.norm(mean) for mean in means)
            is_right.append((first > second) == is_first_sense[row])
    assert numpy.mean(is_right) > 0.6
