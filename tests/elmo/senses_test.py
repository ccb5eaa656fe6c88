"""Whether the shipped biLM tells the senses of a word apart.

The sentences in senses.txt were written for this test by somebody who hadn't seen a vector: 12 words, 2 senses of each,
8 sentences a sense. The vectors are those of the top layer, as in the paper's own test of word senses.
"""

from itertools import product

import numpy
import pytest

from elmo_plugin import ElmoEmbedder


@pytest.fixture(scope="module")
def shares(root):
    """For each word, how often two sentences of one sense are nearer to each other than to one of the other sense."""
    lines = (root / "tests" / "elmo" / "senses.txt").read_text(encoding="utf-8").splitlines()
    words, senses, sentences = zip(*(line.split("\t") for line in lines), strict=True)
    tokens = [sentence.split() for sentence in sentences]
    vectors = [
        layers[-1, sentence.index(word)]
        for word, sentence, layers in zip(words, tokens, ElmoEmbedder().embed_sentences(tokens), strict=True)
    ]
    unit = numpy.stack([vector / numpy.linalg.norm(vector) for vector in vectors])
    cosines = unit @ unit.T
    found = {}
    for word in dict.fromkeys(words):
        rows = [row for row in range(len(words)) if words[row] == word]
        is_nearer = [
            cosines[row, same] > cosines[row, other]
            for row, same, other in product(rows, repeat=3)
            if row != same and senses[row] == senses[same] != senses[other]
        ]
        found[word] = numpy.mean(is_nearer)
    return found


def test_sentences_of_a_sense_are_nearer_than_those_of_another_more_often_than_not(shares):
    assert len(shares) == 12
    assert numpy.mean(list(shares.values())) > 0.54


def test_most_words_have_their_senses_apart(shares):
    assert sum(share > 0.5 for share in shares.values()) >= 9
