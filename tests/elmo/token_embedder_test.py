import torch
from allennlp.common import Params
from allennlp.modules import TokenEmbedder
from allennlp.modules.elmo import batch_to_ids
from allennlp.modules.token_embedders.elmo_token_embedder import ElmoTokenEmbedder as AllenNlpElmoTokenEmbedder

from elmo_plugin.bilm.cache import NoCache

IDS = batch_to_ids([["The", "cat"], ["Hello"]])


def from_config(files, **arguments):
    params = {"type": "elmo::token_embedder", "bilm": files._asdict(), "dropout": 0.0, **arguments}
    return TokenEmbedder.from_params(Params(params))


def test_vectors_equal_allennlps_token_embedder(bilm_files):
    embedder = from_config(bilm_files)
    reference = AllenNlpElmoTokenEmbedder(*bilm_files, dropout=0.0)
    assert embedder.get_output_dim() == reference.get_output_dim()
    torch.testing.assert_close(embedder(IDS), reference(IDS), atol=1e-5, rtol=0)


def test_a_projection_changes_the_width(bilm_files):
    embedder = from_config(bilm_files, projection_dim=3)
    assert embedder(IDS).shape == (2, 2, 3) and embedder.get_output_dim() == 3


def test_the_cache_is_chosen_here_too(bilm_files):
    assert isinstance(from_config(bilm_files, cache="none").elmo.cache, NoCache)
