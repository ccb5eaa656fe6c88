import json
from unittest import mock

import pytest
import torch
from allennlp.commands import main as run_allennlp
from allennlp.commands.train import train_model_from_file
from allennlp.common import Params
from allennlp.models import load_archive
from contract import check_experiment, logging_as_before
from torch.testing import assert_close

import elmo_plugin.tasks.squad  # noqa: F401
from elmo_plugin.tasks.squad.metrics import evaluate, read_predictions

INPUTS = [
    {"passage": "The boat left Sel at noon. It was red.", "question": "When did the boat leave?", "id": "q1"},
    {"passage": ["Ida", "built", "it", "."], "question": ["Who", "built", "it", "?"]},
    {"passage": "Goats!", "question": "What does the keeper, who lives at the cape, have?"},
]


@pytest.mark.parametrize("name", ["baseline", "elmo"])
def test_experiment_trains_evaluates_predicts_and_moves(name, root, tmp_path, monkeypatch):
    monkeypatch.chdir(root)
    experiment = check_experiment(f"fixtures/squad/{name}.jsonnet", tmp_path, INPUTS)
    assert 0 <= experiment.metrics["em"] <= experiment.metrics["f1"] <= 1
    for output in experiment.predictions:
        for answer in [output, *output["n_best"]]:
            assert output["passage"][answer["start"] : answer["end"]] == answer["answer"] != ""
    assert [output["id"] for output in experiment.predictions] == ["q1", "", ""]


def test_baseline_and_elmo_differ_by_elmo_only(root, monkeypatch):
    monkeypatch.chdir(root)
    baseline, elmo = (Params.from_file(f"fixtures/squad/{name}.jsonnet").as_dict() for name in ("baseline", "elmo"))
    assert elmo["dataset_reader"]["token_indexers"].pop("elmo") == {"type": "elmo::characters"}
    contextual = elmo["model"]["text_embedder"].pop("contextual")
    assert contextual["placements"] == ["input", "output"] and contextual["dropout"] == 0.5
    assert "layer_norm" not in contextual
    assert elmo == baseline


# Nothing at random, so that two runs can be compared.
STEADY = {
    "model.dropout": 0.0,
    "data_loader": {"batch_size": 3},
    "trainer.num_epochs": 4,
    "trainer.validation_metric": "-loss",
    "trainer.moving_average.decay": 0.6,
}


def train(folder):
    with logging_as_before():
        train_model_from_file("fixtures/squad/baseline.jsonnet", folder, json.dumps(STEADY))
    return load_archive(folder / "model.tar.gz").model.state_dict()


def test_archive_holds_the_average_of_the_weights(root, tmp_path, monkeypatch):
    monkeypatch.chdir(root)
    archived = train(tmp_path / "run")
    (last,) = (tmp_path / "run").glob("training_state_e4_b*.th")
    average = torch.load(last, weights_only=True)["moving_average"]
    # The best epoch is the last: the loss has only just begun to fall.
    assert json.loads((tmp_path / "run" / "metrics.json").read_text())["best_epoch"] == 3
    for name, value in average["shadows"].items():
        assert_close(archived[name], value, rtol=0, atol=0)
    raw = dict(average["parameters"])
    assert any(not torch.equal(archived[name], raw[name]) for name in raw)


def test_predictions_on_a_file_score_as_the_model_says(root, tmp_path, monkeypatch):
    monkeypatch.chdir(root)
    train(tmp_path / "run")
    data, outputs = "fixtures/data/squad/dev.json", tmp_path / "out.jsonl"
    arguments = [str(tmp_path / "run" / "model.tar.gz"), data, "--output-file", str(outputs), "--use-dataset-reader"]
    with mock.patch("sys.argv", ["allennlp", "predict", *arguments, "--batch-size", "2", "--silent"]):
        run_allennlp()
    scores = evaluate(data, read_predictions(str(outputs)))
    reported = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert scores["exact_match"] == pytest.approx(100 * reported["best_validation_em"])
    assert scores["f1"] == pytest.approx(100 * reported["best_validation_f1"])


def test_the_authors_24_epochs_are_trained_without_stopping_early(root, monkeypatch):
    monkeypatch.chdir(root)
    for name in ("SQUAD_TRAIN", "SQUAD_DEV"):
        monkeypatch.setenv(f"ELMO_{name}", "anything")
    trainer = Params.from_file("training_configs/squad/elmo.jsonnet")["trainer"]
    assert trainer["num_epochs"] == 24 and "patience" not in trainer
