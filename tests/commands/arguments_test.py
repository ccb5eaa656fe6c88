import argparse
import os

import numpy
import pytest
from allennlp.common.checks import ConfigurationError

from elmo_plugin.bilm import BiLm
from elmo_plugin.commands import arguments as shared
from elmo_plugin.embedding import ElmoEmbedder


def parse(*words):
    parser = argparse.ArgumentParser()
    shared.add_bilm_arguments(parser)
    return parser.parse_args(words)


def test_the_two_files_are_opened(bilm_files):
    embedder = shared.open_embedder(parse("--options-file", bilm_files[0], "--weight-file", bilm_files[1]))
    expected = ElmoEmbedder(*bilm_files).embed_sentence(["a", "word"])
    numpy.testing.assert_array_equal(embedder.embed_sentence(["a", "word"]), expected)


def test_one_flag_names_a_bilm_of_any_kind(bilm_files):
    embedder = shared.open_embedder(parse("--bilm", os.path.dirname(bilm_files[0])))
    expected = ElmoEmbedder(*bilm_files).embed_sentence(["a", "word"])
    numpy.testing.assert_array_equal(embedder.embed_sentence(["a", "word"]), expected)


def test_without_flags_the_shipped_bilm_is_opened():
    assert shared.open_embedder(parse()).bilm.options == BiLm.load("wiki-base").options


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--options-file", "a"], "options file .a. needs its weight file beside it"),
        (["--weight-file", "a"], "weight file .a. needs its options file beside it"),
        (["--bilm", "a", "--options-file", "b", "--weight-file", "c"], "a and b name two biLMs"),
        (["--bilm", "nowhere.tar.gz"], "there is no biLM 'nowhere.tar.gz'"),
    ],
)
def test_flags_that_name_no_single_bilm_are_refused(words, message):
    with pytest.raises(ConfigurationError, match=message):
        shared.open_embedder(parse(*words))
