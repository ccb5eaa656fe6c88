from typing import Dict

import pytest
import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import Batch, Instance, Token, Vocabulary
from allennlp.data.fields import ListField, TextField
from allennlp.data.token_indexers import SingleIdTokenIndexer
from allennlp.modules.text_field_embedders import BasicTextFieldEmbedder
from allennlp.modules.token_embedders import Embedding

from elmo_plugin.text import ContextualEmbedder, PlacedTextEmbedder


class Positions(ContextualEmbedder):
    """A contextual embedder without any biLM: a token's id and its place, times a factor a placement."""

    def __init__(self, *placements: str) -> None:
        super().__init__()
        self.placements = placements
        self.indexers = ("positions",)

    def get_output_dim(self) -> int:
        return 2

    def forward(self, text) -> Dict[str, torch.Tensor]:
        assert set(text) == {"positions"}
        ids = text["positions"]["tokens"].float()
        place = torch.arange(ids.size(-1)).float().expand_as(ids)
        return {name: torch.stack([ids, place], dim=-1) * (index + 1) for index, name in enumerate(self.placements)}


@pytest.fixture
def words():
    return BasicTextFieldEmbedder({"words": Embedding(embedding_dim=3, num_embeddings=10)})


@pytest.fixture
def text():
    return {
        "words": {"tokens": torch.tensor([[2, 3], [4, 0]])},
        "positions": {"tokens": torch.tensor([[2, 3], [4, 0]])},
    }


def test_the_input_is_the_word_vector_with_the_contextual_one_beside_it(words, text):
    embedder = PlacedTextEmbedder(words, Positions("input", "output"))
    embedded = embedder(text)
    assert embedded.input.shape == (2, 2, 5) and embedder.input_dim == 5
    assert torch.equal(embedded.input[..., :3], embedded.words)
    assert torch.equal(embedded.input[0, 1, 3:], torch.tensor([3.0, 1.0]))


def test_an_output_placement_is_added_where_the_task_asks(words, text):
    embedder = PlacedTextEmbedder(words, Positions("output"))
    embedded = embedder(text)
    encoded = torch.randn(2, 2, 7)
    assert embedder.input_dim == 3 and embedder.enhanced_dim(7) == 9
    assert torch.equal(embedded.enhance(encoded), torch.cat([encoded, embedded.placed["output"]], dim=-1))


def test_a_baseline_is_left_alone(words, text):
    del text["positions"]
    embedder = PlacedTextEmbedder(words)
    embedded = embedder(text)
    encoded = torch.randn(2, 2, 7)
    assert embedded.input is embedded.words and embedded.enhance(encoded) is encoded
    assert embedder.input_dim == 3 and embedder.enhanced_dim(7) == 7


def test_word_vectors_may_be_absent(text):
    del text["words"]
    embedder = PlacedTextEmbedder(contextual=Positions("input"))
    assert embedder(text).input.shape == (2, 2, 2) and embedder(text).words.shape == (2, 2, 0)


def test_nothing_at_all_to_embed_with_is_refused():
    with pytest.raises(ConfigurationError, match="nothing is left"):
        PlacedTextEmbedder(contextual=Positions("output"))


def test_a_placement_the_task_does_not_have_is_refused(words):
    with pytest.raises(ConfigurationError, match="no placement 'attention' here; this model has 'input', 'output'"):
        PlacedTextEmbedder(words, Positions("attention")).check_placements(("input", "output"))


def test_the_batch_is_not_changed(words, text):
    names = set(text)
    PlacedTextEmbedder(words, Positions("input"))(text)
    assert set(text) == names


def test_a_list_of_sentences_is_embedded_with_a_wrapping_dimension(words):
    indexers = {"words": SingleIdTokenIndexer(), "positions": SingleIdTokenIndexer()}
    document = ListField(
        [TextField([Token(word) for word in sentence.split()], indexers) for sentence in ("a b c", "d")]
    )
    batch = Batch([Instance({"text": document})])
    batch.index_instances(Vocabulary())
    embedded = PlacedTextEmbedder(words, Positions("input"))(batch.as_tensor_dict()["text"], num_wrapping_dims=1)
    assert embedded.input.shape == (1, 2, 3, 5)
    assert embedded.mask.tolist() == [[[True, True, True], [True, False, False]]]


def test_none_is_the_default_type_of_a_contextual_embedder():
    assert ContextualEmbedder.from_params(Params({})).placements == ()
