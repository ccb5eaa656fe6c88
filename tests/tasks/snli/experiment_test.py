import pytest
from allennlp.common import Params
from contract import check_experiment

import elmo_plugin.tasks.snli  # noqa: F401

INPUTS = [
    {"premise": "A girl paints.", "hypothesis": "A child is happy today, and sings."},
    {"premise": ["An", "old", "piper", "rests"], "hypothesis": ["Nobody", "rests"]},
    {"premise": "Three cooks share a joke about a boat.", "hypothesis": "Cooks!"},
]


@pytest.mark.parametrize("name", ["baseline", "elmo"])
def test_experiment_trains_evaluates_predicts_and_moves(name, root, tmp_path, monkeypatch):
    monkeypatch.chdir(root)
    experiment = check_experiment(f"fixtures/snli/{name}.jsonnet", tmp_path, INPUTS)
    assert 0 <= experiment.metrics["accuracy"] <= 1
    assert [len(output["premise_tokens"]) for output in experiment.predictions] == [4, 4, 9]


def test_baseline_and_elmo_differ_by_elmo_and_what_the_paper_adds(root, monkeypatch):
    monkeypatch.chdir(root)
    baseline, elmo = (Params.from_file(f"fixtures/snli/{name}.jsonnet").as_dict() for name in ("baseline", "elmo"))
    assert elmo["dataset_reader"]["token_indexers"].pop("elmo") == {"type": "elmo::characters"}
    contextual = elmo["model"]["text_embedder"].pop("contextual")
    assert contextual["placements"] == ["input", "output"] and contextual["layer_norm"] is True
    assert elmo["model"].pop("attention_dropout") == 0.5
    assert len(elmo["model"].pop("regularizer")["regexes"]) == 2
    assert elmo == baseline
