import io
import json

import h5py
import numpy
import pytest
import torch
from allennlp.common.checks import ConfigurationError
from allennlp.modules.elmo import _ElmoBiLm, batch_to_ids

from elmo_plugin import ElmoEmbedder

SENTENCES = [["The", "cat", "sat", "."], ["Hello"], [], ["naïve", "\U0001f600"]]


@pytest.fixture
def embedder(bilm_files):
    return ElmoEmbedder(*bilm_files)


def test_a_sentence_is_a_float32_array_of_layers_tokens_and_features(embedder):
    vectors = embedder.embed_sentence(["I", "ate", "an", "apple"])
    assert vectors.shape == (3, 4, 16) and vectors.dtype == numpy.float32


def test_vectors_equal_allennlps(embedder, bilm_files):
    reference = _ElmoBiLm(*bilm_files)
    expected = torch.stack(reference(batch_to_ids([SENTENCES[0]]))["activations"])[:, 0, 1:-1]
    numpy.testing.assert_allclose(embedder.embed_sentence(SENTENCES[0]), expected.detach().numpy(), atol=1e-5)


def test_the_same_sentence_gives_the_same_vectors_twice(embedder):
    numpy.testing.assert_array_equal(embedder.embed_sentence(["a", "b"]), embedder.embed_sentence(["a", "b"]))


def test_carrying_states_is_by_choice(bilm_files):
    embedder = ElmoEmbedder(*bilm_files, stateful=True)
    assert not numpy.allclose(embedder.embed_sentence(["a", "b"]), embedder.embed_sentence(["a", "b"]))


def test_an_empty_sentence_has_no_vectors(embedder):
    assert embedder.embed_sentence([]).shape == (3, 0, 16)


def test_an_empty_batch_is_an_empty_list(embedder):
    assert embedder.embed_batch([]) == []


@pytest.mark.parametrize("batch_size", [1, 3, 64])
def test_sentences_come_back_in_their_order_for_any_batch_size(embedder, batch_size):
    many = list(embedder.embed_sentences(iter(SENTENCES * 2), batch_size))
    assert len(many) == 8
    for vectors, sentence in zip(many, SENTENCES * 2, strict=True):
        numpy.testing.assert_allclose(vectors, embedder.embed_sentence(sentence), atol=1e-6)


def test_sentences_are_read_no_more_than_a_batch_ahead(embedder):
    read = []
    sentences = (read.append(number) or ["word"] for number in range(100))
    next(embedder.embed_sentences(sentences, batch_size=5))
    assert len(read) == 5


def test_batch_to_embeddings_gives_tensors_and_a_mask(embedder):
    vectors, mask = embedder.batch_to_embeddings(SENTENCES)
    assert vectors.shape == (4, 3, 4, 16)
    assert mask.sum(dim=1).tolist() == [4, 1, 0, 2]
    assert (vectors[1, :, 1:] == 0).all()


def test_a_string_is_not_taken_for_a_list_of_tokens(embedder):
    with pytest.raises(ValueError, match="not the string 'The cat'"):
        embedder.embed_sentence("The cat")


@pytest.mark.parametrize(
    "output_format, expected", [("all", lambda v: v), ("top", lambda v: v[-1]), ("average", lambda v: v.mean(0))]
)
def test_a_file_is_embedded_line_by_line(embedder, tmp_path, output_format, expected):
    embedder.embed_file(io.StringIO("The cat\nHello\n"), str(tmp_path / "out.hdf5"), output_format, batch_size=1)
    with h5py.File(tmp_path / "out.hdf5") as file:
        assert set(file) == {"0", "1", "sentence_to_index"}
        numpy.testing.assert_allclose(file["0"][...], expected(embedder.embed_sentence(["The", "cat"])), atol=1e-6)
        assert json.loads(file["sentence_to_index"][0]) == {"The cat": "0", "Hello": "1"}


def test_sentences_can_be_forgotten_or_be_the_keys(embedder, tmp_path):
    embedder.embed_file(io.StringIO("a b\n"), str(tmp_path / "forgot.hdf5"), forget_sentences=True)
    embedder.embed_file(
        io.StringIO("a b\n"), str(tmp_path / "keys.hdf5"), forget_sentences=True, use_sentence_keys=True
    )
    assert set(h5py.File(tmp_path / "forgot.hdf5")) == {"0"} and set(h5py.File(tmp_path / "keys.hdf5")) == {"a b"}


@pytest.mark.parametrize(
    "text, arguments, message",
    [
        ("a\n\nb\n", {}, "line 2 of the input is blank"),
        ("a\nb/c\n", {"use_sentence_keys": True}, 'line 2 can\'t be its own key, since it holds a "/"'),
        ("a\na\n", {"use_sentence_keys": True}, "line 2 .* stands in the file twice"),
        ("a\n", {"output_format": "mean"}, "not 'mean'"),
    ],
)
def test_a_bad_line_is_named_and_no_file_is_left(embedder, tmp_path, text, arguments, message):
    with pytest.raises(ConfigurationError, match=message):
        embedder.embed_file(io.StringIO(text), str(tmp_path / "out.hdf5"), **arguments)
    assert list(tmp_path.glob("*.hdf5*")) == list(tmp_path.glob(".*")) == []
