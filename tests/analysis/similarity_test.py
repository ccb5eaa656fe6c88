import argparse

import numpy
import pytest
from allennlp.common.checks import ConfigurationError

from elmo_plugin.analysis import similarity
from elmo_plugin.analysis.marked_sentence import parse_marked
from elmo_plugin.embedding import ElmoEmbedder

TEXTS = ["They sat on the [bank] of the river .", "The [bank] raised its rates .", "He left [town] ."]


@pytest.fixture
def embedder(bilm_files):
    return ElmoEmbedder(*bilm_files)


def run(embedder, sentences=None, sentences_file=None):
    arguments = argparse.Namespace(sentences=sentences, sentences_file=sentences_file, batch_size=2)
    return similarity.Similarity().run(arguments, lambda: embedder)


def test_the_numbers_are_cosines_between_the_marked_words(embedder):
    sentences = [parse_marked(text) for text in TEXTS]
    cosines = similarity.similarities(embedder, sentences, batch_size=2)
    first, second = (embedder.embed_sentence(s.tokens)[2, s.place] for s in sentences[:2])
    expected = first @ second / numpy.linalg.norm(first) / numpy.linalg.norm(second)
    assert cosines[2, 0, 1] == pytest.approx(expected, abs=1e-5)
    numpy.testing.assert_allclose(cosines, cosines.transpose(0, 2, 1), atol=1e-6)
    numpy.testing.assert_allclose(numpy.diagonal(cosines, axis1=1, axis2=2), 1, atol=1e-5)


def test_at_the_token_layer_a_word_is_equal_to_itself_and_above_it_is_not(embedder):
    cosines = similarity.similarities(embedder, [parse_marked(text) for text in TEXTS])
    assert cosines[0, 0, 1] == pytest.approx(1, abs=1e-5)
    assert cosines[0, 0, 2] < 0.999 and cosines[1, 0, 1] < 0.999


def test_sentences_come_from_arguments_and_from_a_file(embedder, tmp_path):
    (tmp_path / "more.txt").write_text("\n".join(TEXTS[1:]) + "\n\n")
    report = run(embedder, TEXTS[:1], str(tmp_path / "more.txt"))
    assert [sentence["place"] for sentence in report.results["sentences"]] == [4, 1, 2]
    assert "1  They sat on the [bank] of the river ." in report.table
    assert list(report.results["cosines"]) == ["biLM, token layer", "biLM, layer 1", "biLM, layer 2"]


def test_a_line_without_a_mark_is_named(embedder, tmp_path):
    (tmp_path / "more.txt").write_text("The [bank] .\n\nThe bank .\n")
    with pytest.raises(ConfigurationError, match=r"more.txt:3: exactly one word"):
        run(embedder, sentences_file=str(tmp_path / "more.txt"))


def test_too_few_sentences_are_refused(embedder):
    with pytest.raises(ConfigurationError, match="takes 2 to 40 sentences, but 1 were given"):
        run(embedder, TEXTS[:1])
