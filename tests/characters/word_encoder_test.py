import pytest
import torch
from allennlp.common import Params
from allennlp.modules import TokenEmbedder

PARAMS = {
    "embedding": {"num_embeddings": 30, "embedding_dim": 4},
    "encoder": {"type": "cnn", "embedding_dim": 4, "num_filters": 5, "ngram_filter_sizes": [2, 3]},
}


def build(type_name, dropout=0.0):
    return TokenEmbedder.from_params(Params({**PARAMS, "type": type_name, "dropout": dropout}).duplicate())


@pytest.fixture
def pair():
    """Ours, and AllenNLP's with the same weights."""
    ours, theirs = build("elmo::character_encoding"), build("character_encoding")
    theirs.load_state_dict(ours.state_dict())
    return ours, theirs


@pytest.fixture
def words():
    """Two sentences of words from a few, the second with padding."""
    torch.manual_seed(0)
    types = torch.randint(1, 30, (4, 6))
    types[1, 4:] = 0
    types[3] = 0
    return types[torch.tensor([[0, 1, 0, 2], [2, 2, 3, 3]])]


def test_the_vectors_are_allennlps(pair, words):
    ours, theirs = (embedder(words) for embedder in pair)
    torch.testing.assert_close(ours, theirs)


def test_so_are_the_gradients(pair, words):
    weights = torch.randn(2, 4, pair[0].get_output_dim())
    for embedder in pair:
        (embedder(words) * weights).sum().backward()
    for own, their in zip(pair[0].parameters(), pair[1].parameters(), strict=True):
        torch.testing.assert_close(own.grad, their.grad)


def test_each_word_is_encoded_once(pair, words):
    seen = []
    pair[0]._encoder._module.register_forward_hook(lambda module, inputs, output: seen.append(len(output)))
    pair[0](words)
    assert seen == [4]  # padding counts as one


def test_dropout_is_not_the_same_for_the_same_words(words):
    torch.manual_seed(0)
    vectors = build("elmo::character_encoding", dropout=0.5).train()(words)
    assert not torch.equal(vectors[0, 0] == 0, vectors[0, 2] == 0)


def test_a_batch_without_words_has_no_vectors(pair):
    assert pair[0](torch.zeros(2, 0, 6, dtype=torch.long)).shape == (2, 0, pair[0].get_output_dim())
