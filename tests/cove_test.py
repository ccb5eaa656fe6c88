import argparse

import numpy
import pytest
import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import Token, Vocabulary
from allennlp.data.fields import TextField
from torch.testing import assert_close

from elmo_plugin.commands import arguments as shared
from elmo_plugin.cove import DIM, Cove, CoveEmbedder
from elmo_plugin.text import ContextualEmbedder, WordIndexer

SENTENCES = [["the", "cat", "sat"], ["the"], ["nowhere", "cat"]]


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """Random weights in the layout of the published file, and the LSTM they are the state of."""
    torch.manual_seed(0)
    lstm = torch.nn.LSTM(DIM, DIM, num_layers=2, bidirectional=True, batch_first=True)
    file = tmp_path_factory.mktemp("cove") / "wmtlstm.pth"
    torch.save(lstm.state_dict(), file)
    return str(file), lstm


@pytest.fixture(scope="module")
def glove(tmp_path_factory):
    vectors = numpy.random.default_rng(0).integers(-8, 9, (3, DIM)) / 8  # exact in half precision, too
    file = tmp_path_factory.mktemp("glove") / "glove.txt"
    rows = zip(("the", "cat", "sat"), vectors, strict=True)
    file.write_text("".join(f"{word} {' '.join(map(str, vector))}\n" for word, vector in rows), encoding="utf-8")
    known = dict(zip(("the", "cat", "sat"), torch.tensor(vectors, dtype=torch.float32), strict=True))
    return str(file), known


@pytest.fixture
def expected(published, glove):
    """What torch's own LSTM gives for a sentence: (num_tokens, 600)."""

    def run(sentence):
        words = torch.stack([glove[1].get(word, torch.zeros(DIM)) for word in sentence])
        with torch.no_grad():
            return published[1](words.unsqueeze(0))[0][0]

    return run


@pytest.fixture
def vocab():
    return Vocabulary({"cove": {"the": 1}})


def build(published, glove, vocab, serialization_dir=None, **config):
    words = {"type": "elmo::word_vectors", "embedding_dim": DIM, "vocab_namespace": "cove", "missing": "zeros"}
    config = {
        "type": "cove",
        "words": {**words, "pretrained_file": glove[0]},
        "pretrained_file": published[0],
        **config,
    }
    return ContextualEmbedder.from_params(Params(config), vocab=vocab, serialization_dir=serialization_dir).eval()


def index(vocab, sentences):
    fields = [
        TextField([Token(w) for w in sentence], {"cove": WordIndexer(namespace="cove")}) for sentence in sentences
    ]
    for field in fields:
        field.index(vocab)
    longest = max(map(len, sentences))
    tensors = [field.as_tensor({"cove___tokens": longest}) for field in fields]
    return fields[0].batch_tensors(tensors)


def test_the_top_layer_is_that_of_the_published_lstm(published, glove, vocab, expected):
    cove = build(published, glove, vocab, placements=["input", "output"])
    vectors = cove(index(vocab, SENTENCES))
    assert vectors.keys() == {"input", "output"} and cove.get_output_dim() == 2 * DIM
    for row, sentence in enumerate(SENTENCES):
        assert_close(vectors["input"][row, : len(sentence)], expected(sentence))
        assert not vectors["input"][row, len(sentence) :].any()


def test_nothing_but_the_mix_is_trained(published, glove, vocab):
    cove = build(published, glove, vocab, layers="all", gamma=True)
    trained = {name for name, parameter in cove.named_parameters() if parameter.requires_grad}
    assert trained == {"mixes.input.gamma", *(f"mixes.input.scalar_parameters.{layer}" for layer in range(3))}
    cove.train()(index(vocab, SENTENCES))["input"].sum().backward()


def test_an_archive_needs_neither_file(published, glove, vocab, tmp_path):
    (tmp_path / "vocabulary").mkdir()
    cove = build(published, glove, vocab, str(tmp_path))
    torch.save(cove.state_dict(), tmp_path / "best.th")
    words = {"type": "elmo::word_vectors", "embedding_dim": DIM, "vocab_namespace": "cove", "missing": "zeros"}
    params = Params({"type": "cove", "words": words})
    loaded = ContextualEmbedder.from_params(params, vocab=vocab, serialization_dir=str(tmp_path)).eval()
    loaded.load_state_dict(torch.load(tmp_path / "best.th", weights_only=True))
    text = index(vocab, SENTENCES)
    assert_close(loaded(text)["input"], cove(text)["input"], rtol=0, atol=0)


def test_without_its_file_it_is_refused(glove, vocab):
    with pytest.raises(ConfigurationError, match="CoVe needs its weights: set 'pretrained_file'"):
        build((None, None), glove, vocab)


def test_a_file_that_is_not_coves_is_refused_by_name(glove, vocab, tmp_path):
    torch.save(torch.nn.LSTM(DIM, DIM, bidirectional=True).state_dict(), tmp_path / "other.pth")
    with pytest.raises(ConfigurationError, match=r"other.pth isn't CoVe's: for weight_ih_l1 expected.*got nothing"):
        build((str(tmp_path / "other.pth"), None), glove, vocab)
    (tmp_path / "text.pth").write_text("no weights")
    with pytest.raises(ConfigurationError, match="text.pth isn't a file of torch's weights"):
        build((str(tmp_path / "text.pth"), None), glove, vocab)
    with pytest.raises(ConfigurationError, match="there is no file of CoVe's weights nowhere.pth"):
        build(("nowhere.pth", None), glove, vocab)


def test_a_text_without_its_indexer_is_refused(published, glove, vocab):
    with pytest.raises(ConfigurationError, match="CoVe reads the token indexer 'cove'.*\"elmo::words\""):
        build(published, glove, vocab)({})


def test_other_widths_of_word_vectors_are_refused(published, vocab):
    words = {"type": "elmo::word_vectors", "embedding_dim": 4, "vocab_namespace": "cove"}
    with pytest.raises(ConfigurationError, match="of 300 dimensions, not of 4"):
        ContextualEmbedder.from_params(
            Params({"type": "cove", "words": words, "pretrained_file": published[0]}), vocab=vocab
        )


def test_the_embedder_gives_three_layers_to_the_probes(published, glove, expected):
    embedder = CoveEmbedder(published[0], glove[0])
    layers = list(embedder.embed_sentences([*SENTENCES, []], batch_size=2))
    assert [vectors.shape for vectors in layers] == [(3, len(sentence), 2 * DIM) for sentence in [*SENTENCES, []]]
    for sentence, vectors in zip(SENTENCES, layers, strict=False):
        assert_close(torch.from_numpy(vectors[2]), expected(sentence))
    assert_close(torch.from_numpy(layers[1][0, 0]), torch.cat([glove[1]["the"]] * 2))
    assert (embedder.num_layers, embedder.dim) == (3, 2 * DIM)


def test_the_flags_open_it_in_place_of_a_bilm(published, glove):
    parser = argparse.ArgumentParser()
    shared.add_bilm_arguments(parser)
    shared.add_cove_arguments(parser)
    opened = shared.open_embedder(parser.parse_args(["--cove", published[0], "--word-vectors", glove[0]]))
    assert isinstance(opened, CoveEmbedder)
    assert opened.fingerprint() == CoveEmbedder(published[0], glove[0]).fingerprint()
    with pytest.raises(ConfigurationError, match="name them with --word-vectors"):
        shared.open_embedder(parser.parse_args(["--cove", published[0]]))


def test_it_is_registered():
    assert ContextualEmbedder.by_name("cove") is Cove
