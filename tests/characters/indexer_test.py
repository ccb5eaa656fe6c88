import pytest
import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import Batch, Instance, Token, TokenIndexer, Vocabulary
from allennlp.data.fields import ListField, TextField
from allennlp.modules.elmo import batch_to_ids

from elmo_plugin.characters import ElmoCharactersIndexer

SENTENCES = [["A", "café", "\U0001f600"], ["x" * 60], ["<S>", "b"]]


def as_tensor(sentences, indexer):
    fields = [TextField([Token(word) for word in sentence], {"elmo": indexer}) for sentence in sentences]
    batch = Batch([Instance({"text": field}) for field in fields])
    batch.index_instances(Vocabulary())
    return batch.as_tensor_dict()["text"]["elmo"]["elmo_tokens"]


def test_a_padded_batch_equals_allennlps():
    torch.testing.assert_close(as_tensor(SENTENCES, ElmoCharactersIndexer()), batch_to_ids(SENTENCES))


def test_width_comes_from_the_config():
    indexer = TokenIndexer.from_params(Params({"type": "elmo::characters", "max_characters_per_token": 12}))
    assert as_tensor(SENTENCES, indexer).shape == (3, 3, 12)


def test_an_empty_sentence_is_all_padding():
    ids = as_tensor([["a", "b"], []], ElmoCharactersIndexer())
    assert (ids[0] > 0).all() and (ids[1] == 0).all()


def test_a_list_of_sentences_is_padded_in_both_dimensions():
    field = ListField([TextField([Token(w) for w in s], {"elmo": ElmoCharactersIndexer()}) for s in SENTENCES])
    field.index(Vocabulary())
    tensor = field.as_tensor(field.get_padding_lengths())["elmo"]["elmo_tokens"]
    assert tensor.shape == (3, 3, 50)


def test_a_bad_width_is_a_configuration_error():
    with pytest.raises(ConfigurationError, match="max_characters_per_token is 1"):
        ElmoCharactersIndexer(max_characters_per_token=1)
