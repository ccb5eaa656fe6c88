import io
import json
import os

import h5py
import numpy
import pytest
import torch
from allennlp.common.checks import ConfigurationError
from allennlp.modules.elmo import _ElmoBiLm, batch_to_ids

from elmo_plugin import ElmoEmbedder
from elmo_plugin.bilm import BiLm
from elmo_plugin.embedding import embedder_api

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


@pytest.mark.parametrize("look_ahead, num_read", [(1, 5), (3, 15)])
def test_sentences_are_read_a_bounded_number_of_batches_ahead(embedder, look_ahead, num_read):
    read = []
    sentences = (read.append(number) or ["word"] for number in range(100))
    next(embedder.embed_sentences(sentences, batch_size=5, look_ahead=look_ahead))
    assert len(read) == num_read


def test_long_sentences_are_read_less_far_ahead(embedder, monkeypatch):
    monkeypatch.setattr(embedder_api, "MAX_TOKENS_AHEAD", 10)
    read = []
    sentences = (read.append(number) or ["word"] * 4 for number in range(100))
    next(embedder.embed_sentences(sentences))
    assert len(read) == 3


def batches_of(embedder, monkeypatch, sentences, **arguments):
    batches = []
    original = embedder._embed_together
    monkeypatch.setattr(embedder, "_embed_together", lambda b: batches.append([len(s) for s in b]) or original(b))
    for vectors, sentence in zip(embedder.embed_sentences(sentences, **arguments), sentences, strict=True):
        assert vectors.shape[1] == len(sentence)
    return batches


def test_sentences_of_about_the_same_length_run_together(embedder, monkeypatch):
    sentences = [["word"] * length for length in (1, 9, 2, 8, 1, 9)]
    assert batches_of(embedder, monkeypatch, sentences, batch_size=2) == [[9, 9], [8, 2], [1, 1]]


def test_a_batch_has_a_budget_of_tokens_and_a_longer_sentence_goes_alone(embedder, monkeypatch):
    monkeypatch.setattr(embedder_api, "MAX_TOKENS_AHEAD", 10)
    sentences = [["word"] * length for length in (3, 2, 30, 3, 4, 0, 3)]
    assert batches_of(embedder, monkeypatch, sentences) == [[30], [3, 2], [4, 3], [3, 0]]


def test_carried_states_follow_the_given_order(bilm_files, monkeypatch):
    sentences = [["a"], ["b"] * 3, ["c"] * 2]
    embedder, one_by_one = (ElmoEmbedder(*bilm_files, stateful=True) for _ in range(2))
    for vectors, sentence in zip(embedder.embed_sentences(sentences, batch_size=1), sentences, strict=True):
        numpy.testing.assert_allclose(vectors, one_by_one.embed_sentence(sentence), atol=1e-6)
    assert batches_of(embedder, monkeypatch, sentences, batch_size=2) == [[1, 3], [2]]


def test_a_very_long_sentence_is_embedded_whole(embedder):
    sentence = [f"w{number}" for number in range(2000)]
    (vectors,) = embedder.embed_sentences([sentence])
    assert vectors.shape == (3, 2000, 16)
    # The forward direction's first half can't know about the second.
    half = embedder.embed_sentence(sentence[:1000])
    numpy.testing.assert_allclose(vectors[:, :1000, :8], half[:, :, :8], atol=1e-5)


def test_every_item_comes_with_the_vectors_of_its_own_tokens(embedder):
    items = list(enumerate(SENTENCES))
    pairs = list(embedder.embed_items(iter(items), lambda item: item[1], batch_size=3))
    assert [item for item, _ in pairs] == items
    for (_, tokens), vectors in pairs:
        numpy.testing.assert_allclose(vectors, embedder.embed_sentence(tokens), rtol=0, atol=1e-5)


@pytest.mark.parametrize("arguments", [{"batch_size": 0}, {"look_ahead": 0}])
def test_batches_of_nothing_are_refused(embedder, arguments):
    with pytest.raises(ValueError, match="at least 1"):
        next(embedder.embed_sentences([["a"]], **arguments))


def test_precision_is_by_choice(bilm_files, embedder):
    rounded = ElmoEmbedder(*bilm_files, precision="int8").embed_sentence(SENTENCES[0])
    exact = embedder.embed_sentence(SENTENCES[0])
    assert 0 < numpy.abs(rounded - exact).mean() < 0.1 * numpy.abs(exact).mean()


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
        ("a\na/b\n", {"use_sentence_keys": True}, "line 2 can't be its own key, since 'a' is another line's"),
        ("a\n", {"output_format": "mean"}, "not 'mean'"),
    ],
)
def test_a_bad_line_is_named_and_no_file_is_left(embedder, tmp_path, text, arguments, message):
    with pytest.raises(ConfigurationError, match=message):
        embedder.embed_file(io.StringIO(text), str(tmp_path / "out.hdf5"), **arguments)
    assert list(tmp_path.glob("*.hdf5*")) == list(tmp_path.glob(".*")) == []


def test_without_arguments_it_is_the_bilm_that_ships():
    shipped = BiLm.load("wiki-base")
    torch.testing.assert_close(ElmoEmbedder().bilm.state_dict(), shipped.state_dict())


@pytest.mark.parametrize("way", ["one name", "by place", "by keyword"])
def test_a_bilm_is_named_by_one_string_or_as_in_allennlp_0_9(bilm_files, way):
    options_file, weight_file = bilm_files
    embedder = {
        "one name": lambda: ElmoEmbedder(os.path.dirname(options_file)),
        "by place": lambda: ElmoEmbedder(options_file, weight_file, -1),
        "by keyword": lambda: ElmoEmbedder(options_file=options_file, weight_file=weight_file, cuda_device=-1),
    }[way]()
    torch.testing.assert_close(embedder.bilm.state_dict(), BiLm.load(*bilm_files).state_dict(), rtol=0, atol=0)


def test_a_bilm_that_is_there_already_is_used_as_it_is(bilm_files):
    bilm = BiLm.load(*bilm_files)
    assert ElmoEmbedder(bilm=bilm).bilm is bilm
