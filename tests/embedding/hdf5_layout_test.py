import json

import h5py
import numpy
import pytest
from allennlp.common.checks import ConfigurationError

from elmo_plugin.embedding.hdf5_layout import VectorWriter, check_sentence_key, select_layers

LAYERS = numpy.arange(24, dtype=numpy.float32).reshape(3, 2, 4)


@pytest.fixture
def output(tmp_path):
    with h5py.File(tmp_path / "out.hdf5", "w") as file:
        yield file


def store(output, sentences, **arguments):
    writer = VectorWriter(**arguments)
    for index, sentence in enumerate(sentences):
        writer.write(output, index, sentence, numpy.full(2, index))
    writer.write_index(output)


@pytest.mark.parametrize(
    "choice, expected", [("all", LAYERS), ("top", LAYERS[2]), ("average", LAYERS.mean(axis=0)), (0, LAYERS[0])]
)
def test_layers_are_chosen_by_name_or_index(choice, expected):
    numpy.testing.assert_array_equal(select_layers(LAYERS, choice), expected)


@pytest.mark.parametrize("choice, message", [("mean", "not 'mean'"), (3, "layers are 0 to 2"), (-1, "no layer -1")])
def test_layers_that_are_not_there_are_refused(choice, message):
    with pytest.raises(ConfigurationError, match=message):
        select_layers(LAYERS, choice)


def test_line_indices_are_the_keys_and_a_repeated_sentence_has_its_last_one_in_the_index(output):
    store(output, ["a b", "c", "a b"])
    assert set(output) == {"0", "1", "2", "sentence_to_index"}
    assert json.loads(output["sentence_to_index"][0]) == {"a b": "2", "c": "1"}


def test_forgotten_sentences_leave_no_index(output):
    store(output, ["a b"], forget_sentences=True)
    assert set(output) == {"0"}


def test_a_sentence_is_found_by_itself_whatever_slashes_and_points_it_has(output):
    sentences = ["and / or", "see http://a.b//c .", "/ first", "..", "./x", "é ü", "last /"]
    store(output, sentences, use_sentence_keys=True)
    assert [int(output[sentence][0]) for sentence in sentences] == list(range(len(sentences)))


def test_a_repeated_sentence_is_stored_once_under_its_own_key(output):
    store(output, ["a//b", "a//b", "c", "c"], use_sentence_keys=True)
    assert int(output["a//b"][0]) == 0 and int(output["c"][0]) == 2


@pytest.mark.parametrize(
    "sentences, message",
    [
        (["a", "a/b"], "line 2 can't be its own key, since 'a' is another line's"),
        (["a/b", "a"], "line 2 .* it is the beginning of another line's path"),
        (["a//b", "a/b"], "line 2 .* the same path as 'a/b'"),
        (["a/b", "a//b"], "line 2 .* the same path as 'a/b'"),
        (["."], "line 1 .* isn't a name in HDF5"),
        (["sentence_to_index"], "line 1 .* the index has this name"),
    ],
)
def test_sentences_that_would_take_each_others_place_are_refused(output, sentences, message):
    with pytest.raises(ConfigurationError, match=message):
        store(output, sentences, use_sentence_keys=True)


def test_a_repeated_sentence_is_refused_where_its_vectors_differ(output):
    with pytest.raises(ConfigurationError, match="line 2 .* twice, with different vectors"):
        store(output, ["a", "a"], use_sentence_keys=True, unique_keys=True)


@pytest.mark.parametrize("sentence", ["", "/", ".", "a\0b"])
def test_what_can_be_no_key_at_all_is_refused(sentence):
    with pytest.raises(ConfigurationError, match="Leave out --use-sentence-keys"):
        check_sentence_key(0, sentence)
