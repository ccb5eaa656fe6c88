import copy
import logging

import pytest
import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.modules.elmo import Elmo as AllenNlpElmo
from allennlp.modules.elmo import batch_to_ids

from elmo_plugin.bilm import BiLm, BiLmSource
from elmo_plugin.bilm.cache import LayerCache, NoCache, RamCache
from elmo_plugin.elmo import Elmo
from elmo_plugin.text import ContextualEmbedder

IDS = batch_to_ids([["The", "cat", "sat"], ["Hello"]])


def make_elmo(files, **arguments):
    return Elmo(BiLmSource.from_files(*files), **{"dropout": 0.0, **arguments})


@pytest.mark.parametrize("layer_norm", [False, "legacy"])
def test_vectors_equal_allennlps_elmo(bilm_files, layer_norm):
    elmo = make_elmo(bilm_files, placements=("input", "output"), layer_norm=layer_norm)
    reference = AllenNlpElmo(*bilm_files, num_output_representations=2, dropout=0.0, do_layer_norm=bool(layer_norm))
    for index, mix in enumerate(elmo.mixes.values()):
        for layer, parameter in enumerate(mix.scalar_parameters):
            parameter.data.fill_(0.3 * layer + index)
            getattr(reference, f"scalar_mix_{index}").scalar_parameters[layer].data.fill_(0.3 * layer + index)
    expected = reference(IDS)
    placed = elmo.embed(IDS)
    for vectors, theirs in zip((placed["input"], placed["output"]), expected["elmo_representations"], strict=True):
        # AllenNLP's padding isn't zero with its layer norm; a mask follows it anyway.
        torch.testing.assert_close(vectors, theirs * expected["mask"].unsqueeze(-1), atol=1e-5, rtol=0)


def test_the_bilm_runs_once_for_all_placements(bilm_files, monkeypatch):
    elmo = make_elmo(bilm_files, placements=("input", "output", "integrated"))
    calls = []
    original = elmo.bilm.forward
    monkeypatch.setattr(elmo.bilm, "forward", lambda ids: calls.append(1) or original(ids))
    assert set(elmo.embed(IDS)) == {"input", "output", "integrated"}
    assert len(calls) == 1


def test_each_placement_has_weights_of_its_own(bilm_files):
    elmo = make_elmo(bilm_files, placements=("input", "output"))
    elmo.mixes["output"].gamma.data.fill_(2.0)
    placed = elmo.embed(IDS)
    torch.testing.assert_close(2.0 * placed["input"], placed["output"])


@pytest.mark.parametrize("layers, index", [("top", 2), ("tokens", 0), ([0.0, 1.0, 0.0], 1)])
def test_one_layer_can_be_taken_alone(bilm_files, layers, index):
    elmo = make_elmo(bilm_files, layers=layers)
    expected = elmo.bilm(IDS).layers[index, 1, 1:2]
    torch.testing.assert_close(elmo.embed(IDS)["input"][1, :1], expected)


def test_a_frozen_bilm_gets_no_gradient_and_runs_without_its_dropout(bilm_files):
    elmo = Elmo(BiLmSource.from_files(*bilm_files, dropout=0.5), dropout=0.0).train()
    assert torch.equal(elmo.embed(IDS)["input"], elmo.embed(IDS)["input"])
    elmo.embed(IDS)["input"].sum().backward()
    assert {name for name, parameter in elmo.named_parameters() if parameter.grad is not None} == {
        "mixes.input.gamma",
        *(f"mixes.input.scalar_parameters.{index}" for index in range(3)),
    }


def test_requires_grad_tunes_every_parameter_of_the_bilm(bilm_files):
    elmo = make_elmo(bilm_files, requires_grad=True)
    elmo.embed(IDS)["input"].pow(2).sum().backward()
    assert all(parameter.grad is not None for parameter in elmo.parameters())


def test_dropout_acts_on_the_vectors_in_training_only(bilm_files):
    elmo = make_elmo(bilm_files, dropout=0.5)
    assert (elmo.train().embed(IDS)["input"][0] == 0).any()
    assert not (elmo.eval().embed(IDS)["input"][0] == 0).any()


def test_padding_is_zero(bilm_files):
    assert (make_elmo(bilm_files, layer_norm=True).embed(IDS)["input"][1, 1:] == 0).all()


def test_further_leading_dimensions_are_kept(bilm_files):
    elmo = make_elmo(bilm_files)
    documents = torch.stack([IDS, IDS.flip(0)])
    vectors = elmo.embed(documents)["input"]
    assert vectors.shape == (2, 2, 3, elmo.get_output_dim())
    torch.testing.assert_close(vectors[1, 1], elmo.embed(IDS)["input"][0])


def test_a_config_builds_it_as_a_contextual_embedder(bilm_files):
    params = {
        "type": "elmo",
        "bilm": bilm_files._asdict(),
        "placements": ["input", "output"],
        "layer_norm": "legacy",
        "layers": [0, 0.5, 0.5],
    }
    elmo = ContextualEmbedder.from_params(Params(params))
    assert isinstance(elmo, Elmo) and elmo.placements == ("input", "output")


@pytest.fixture
def runs(monkeypatch):
    """The sizes of the batches that biLMs are run on."""
    sizes = []
    original = BiLm.forward
    monkeypatch.setattr(BiLm, "forward", lambda bilm, ids: sizes.append(len(ids)) or original(bilm, ids))
    return sizes


@pytest.mark.parametrize("layer_norm", [False, True, "legacy"])
def test_a_frozen_bilm_runs_once_a_sentence_and_the_mix_is_learned_all_the_same(bilm_files, runs, layer_norm):
    plain, cached = (
        make_elmo(bilm_files, layer_norm=layer_norm, cache=cache).train() for cache in (NoCache(), RamCache())
    )
    for ids in (IDS[1:], IDS, IDS):
        expected = plain.embed(ids)["input"]
        runs.clear()
        vectors = cached.embed(ids)["input"]
        torch.testing.assert_close(vectors, expected, atol=1e-6, rtol=0)
        for elmo, given in ((plain, expected), (cached, vectors)):
            elmo.zero_grad()
            given.pow(2).sum().backward()
        for own, other in zip(cached.mixes.parameters(), plain.mixes.parameters(), strict=True):
            torch.testing.assert_close(own.grad, other.grad, atol=1e-4, rtol=1e-4)
    assert runs == []


def test_a_model_that_only_predicts_caches_nothing(bilm_files, runs):
    elmo = make_elmo(bilm_files).eval()
    elmo.embed(IDS)
    elmo.embed(IDS)
    assert runs == [2, 2]
    elmo.train().embed(IDS)
    elmo.eval().embed(IDS)
    assert runs == [2, 2, 2]


def test_a_bilm_that_is_tuned_is_not_cached(bilm_files, runs):
    elmo = make_elmo(bilm_files, requires_grad=True)
    for _ in range(2):
        elmo.embed(IDS)["input"].sum().backward()
    assert runs == [2, 2]


def test_the_cache_is_no_part_of_the_models_state(bilm_files):
    elmo, warm = make_elmo(bilm_files), make_elmo(bilm_files)
    warm.embed(IDS)
    assert warm.state_dict().keys() == elmo.state_dict().keys()
    assert copy.deepcopy(warm).cache.store._entries == {} != warm.cache.store._entries


def test_an_epochs_use_of_the_cache_is_logged(bilm_files, caplog):
    elmo = make_elmo(bilm_files).train()
    with caplog.at_level(logging.INFO, "elmo_plugin.bilm.cache"):
        elmo.embed(IDS)
        elmo.embed(IDS)
        elmo.eval()
    assert [record.message.rpartition(": ")[2] for record in caplog.records] == ["2 of 4 sentences came from it"]


@pytest.mark.parametrize("config, kind", [("none", NoCache), ({"megabytes": 5}, RamCache), (None, RamCache)])
def test_a_config_chooses_the_cache(bilm_files, config, kind):
    params = {"type": "elmo", "bilm": bilm_files._asdict(), "cache": config}
    assert type(ContextualEmbedder.from_params(Params(params)).cache) is kind


def test_the_library_of_configs_has_a_knob_for_it(root, tmp_path):
    (tmp_path / "change.jsonnet").write_text(
        f"(import '{root}/training_configs/lib/elmo.libsonnet').cache({{ megabytes: 5, float16: true }})"
    )
    change = Params.from_file(str(tmp_path / "change.jsonnet")).as_dict()
    cache = LayerCache.from_params(Params(change["model"]["text_embedder"]["contextual"]["cache"]))
    assert (type(cache), cache.megabytes, cache.float16) == (RamCache, 5, True)


def test_text_without_character_ids_is_refused_with_the_remedy(bilm_files):
    with pytest.raises(ConfigurationError, match='add "elmo": {"type": "elmo::characters"}'):
        make_elmo(bilm_files)({"tokens": {"tokens": torch.ones(1, 2, dtype=torch.long)}})


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"placements": []}, "placements must be"),
        ({"placements": ["a", "a"]}, "different names"),
        ({"layers": "last"}, "not 'last'"),
    ],
)
def test_impossible_arguments_are_refused(bilm_files, arguments, message):
    with pytest.raises(ConfigurationError, match=message):
        make_elmo(bilm_files, **arguments)
