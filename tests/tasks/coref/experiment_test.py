import math

import pytest
from allennlp.commands import main as run_allennlp
from allennlp.common import Params
from contract import check_experiment

import elmo_plugin.tasks.coref  # noqa: F401  (registers it)
from elmo_plugin.tasks.coref.metrics import score_files

INPUTS = [
    {"document": "Ada Byron lives in Oslo. She likes it there, and Bo likes her."},
    {"sentences": [["Bo", "left"], ["He", "waved", "."]], "speakers": ["Cy", "Bo"], "genre": "bc"},
    {"document": "Unbekanntes – straße 東京 !"},
    {"sentences": [["Hm"]]},
]


@pytest.fixture(autouse=True)
def at_the_root(root, monkeypatch):
    monkeypatch.chdir(root)


@pytest.mark.parametrize("config", ["baseline", "elmo"])
def test_the_fixture_is_trained_evaluated_predicted_from_and_moved(config, tmp_path, monkeypatch):
    experiment = check_experiment(f"fixtures/coref/{config}.jsonnet", tmp_path, INPUTS)
    metrics = experiment.metrics
    assert math.isfinite(metrics["loss"])
    assert {"f1", "muc_f1", "b_cubed_f1", "ceaf_e_f1", "mention_recall"} <= metrics.keys()
    assert 0 <= metrics["mention_recall"] <= 1

    # Predictions written for the official scorer score the same as in `allennlp evaluate`.
    key_file, response_file = "fixtures/data/coref/dev.v4_gold_conll", str(tmp_path / "predictions.conll")
    arguments = [str(experiment.archive_file), key_file, "--use-dataset-reader", "--silent"]
    arguments += ["--predictor-args", '{"output_format": "conll"}', "--output-file", response_file]
    monkeypatch.setattr("sys.argv", ["allennlp", "predict", *arguments])
    run_allennlp()
    assert score_files(key_file, response_file).average_f1() == pytest.approx(metrics["f1"])


def test_the_baseline_and_elmo_differ_by_elmo_alone():
    baseline, elmo = (Params.from_file(f"fixtures/coref/{config}.jsonnet").as_dict() for config in ("baseline", "elmo"))
    del elmo["dataset_reader"]["token_indexers"]["elmo"]
    del elmo["model"]["text_embedder"]["contextual"]
    del elmo["model"]["regularizer"]
    assert elmo == baseline
