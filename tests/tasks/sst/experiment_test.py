import pytest
from allennlp.commands.train import train_model
from allennlp.common import Params
from contract import check_experiment

import elmo_plugin.tasks.common.fraction
import elmo_plugin.tasks.sst  # noqa: F401

INPUTS = [
    {"sentence": "The puppets (all of them) are wonderful, from start to finish."},
    {"tokens": ["Dull"]},
    {"sentence": "Unseen words only: \u6771\u4eac!"},
]


@pytest.fixture(autouse=True)
def in_root(root, monkeypatch):
    monkeypatch.chdir(root)
    monkeypatch.setenv("ELMO_SST_TRAIN", "fixtures/data/sst/train.txt")
    monkeypatch.setenv("ELMO_SST_DEV", "fixtures/data/sst/dev.txt")
    monkeypatch.setenv("ELMO_ABLATION", "fraction_baseline")
    monkeypatch.setenv("ELMO_TRAIN_FRACTION", "0.5")


@pytest.mark.parametrize("name", ["baseline", "elmo"])
def test_the_fixture_is_trained_evaluated_predicted_from_and_moved(name, tmp_path):
    experiment = check_experiment(f"fixtures/sst/{name}.jsonnet", tmp_path, INPUTS)
    assert 0 <= experiment.metrics["accuracy"] <= 1
    assert [len(prediction["tokens"]) for prediction in experiment.predictions] == [15, 1, 6]
    for prediction in experiment.predictions:
        assert prediction["label"] == max(prediction["probabilities"], key=prediction["probabilities"].get)


def config(name: str) -> dict:
    return Params.from_file(name).as_dict(quiet=True)


def test_baseline_and_elmo_differ_by_elmo_alone():
    baseline, elmo = config("fixtures/sst/baseline.jsonnet"), config("fixtures/sst/elmo.jsonnet")
    for reader in ("dataset_reader", "validation_dataset_reader"):
        assert elmo[reader]["token_indexers"].pop("elmo") == {"type": "elmo::characters"}
    assert elmo["model"]["text_embedder"].pop("contextual")["placements"] == ["input", "output"]
    assert elmo["model"].pop("regularizer") == {"regexes": [["scalar_parameters", {"type": "l2", "alpha": 0.001}]]}
    assert elmo == baseline


def test_validation_is_on_whole_sentences_with_and_without_a_fraction():
    whole = config("training_configs/sst/baseline.jsonnet")
    part = config("training_configs/sst/ablation.jsonnet")
    expected = {**whole["dataset_reader"], "phrases": False}
    assert whole["dataset_reader"]["phrases"] is True
    assert whole["validation_dataset_reader"] == part["validation_dataset_reader"] == expected
    assert part["dataset_reader"] == {"type": "elmo::fraction", "fraction": 0.5, "reader": whole["dataset_reader"]}


def test_a_model_is_trained_on_a_fraction_of_the_phrases(tmp_path):
    part = config("training_configs/sst/ablation.jsonnet")
    readers = {key: part[key] for key in ("dataset_reader", "validation_dataset_reader")}
    train_model(Params({**config("fixtures/sst/baseline.jsonnet"), **readers}), str(tmp_path / "run"))
    assert (tmp_path / "run" / "model.tar.gz").is_file()
