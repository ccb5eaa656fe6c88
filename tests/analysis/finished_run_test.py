import dataclasses
import json

import pytest
from allennlp.common.checks import ConfigurationError

from elmo_plugin.analysis.finished_run import Run, summary, write_record
from elmo_plugin.analysis.layer_weights import LayerWeights


def test_a_run_is_read_from_its_metrics_files(runs, make_cell):
    run = runs.train(make_cell())
    assert [tuple(point) for point in run.curve] == [(0, 4, 0.1), (1, 8, 0.2), (2, 12, pytest.approx(0.3))]
    assert (run.metric, run.best_epoch, run.updates, run.seconds) == ("f1", 2, 12, 3.5)
    assert run.best == run.metrics["f1"] == pytest.approx(0.3)
    assert summary(run) == "f1 0.3 after epoch 3; 12 updates, 0:00:04"


def test_metrics_of_another_kind_are_reported(runs, make_cell):
    run = runs.train(make_cell())
    path = run.folder / "run" / "metrics_epoch_1.json"
    path.write_text(json.dumps({"best_epoch": 0, "training_duration": "0:00:01"}))
    with pytest.raises(ConfigurationError, match=r"metrics_epoch_1.json has no validation_f1"):
        Run.read(run.folder)


def test_a_damaged_file_is_reported(runs, make_cell):
    run = runs.train(make_cell())
    (run.folder / "run" / "metrics_epoch_1.json").write_text("{")
    with pytest.raises(ConfigurationError, match="metrics_epoch_1.json isn't JSON"):
        Run.read(run.folder)


@pytest.mark.parametrize(
    "text, seconds",
    [("0:00:01.5", 1.5), ("1:02:03", 3723.0), ("2 days, 0:00:01", 172801.0), ("1 day, 0:00:00", 86400.0)],
)
def test_durations_are_read(runs, make_cell, text, seconds):
    run = runs.train(make_cell(overrides={"trainer.num_epochs": 1}))
    path = run.folder / "run" / "metrics_epoch_0.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "training_duration": text}))
    assert Run.read(run.folder).seconds == seconds


def test_where_a_value_is_passed(make_run):
    assert make_run(0.1, 0.5, 0.4).first_past(0.4).updates == 20
    assert make_run(0.1, 0.4).first_past(0.4) is None
    assert make_run(90.0, 80.0, larger_is_better=False).first_past(85.0).epoch == 1


# ---- Records ----


@pytest.fixture
def mixing_run(runs, make_cell):
    """A run whose model mixes three layers."""
    folder = runs.train(make_cell()).folder
    path = folder / "result.json"
    mix = {"mix": "mixes.input", "weights": [0.2, 0.5, 0.3], "gamma": 1.5, "fixed": False}
    path.write_text(json.dumps({**json.loads(path.read_text()), "layer_weights": [mix]}))
    return Run.read(folder)


def test_a_record_says_all_that_the_runs_own_files_say(mixing_run, tmp_path):
    path = tmp_path / "records" / "run.json"
    write_record(mixing_run.folder, path)
    recorded = Run.read_record(path)
    assert recorded == dataclasses.replace(mixing_run, folder=path)
    assert recorded.layer_weights == (LayerWeights("cell", "mixes.input", [0.2, 0.5, 0.3], 1.5),)


def test_layer_weights_of_another_kind_are_reported(mixing_run):
    path = mixing_run.folder / "result.json"
    path.write_text(path.read_text().replace("1.5", '"much"'))
    with pytest.raises(ConfigurationError, match="result.json has the layer_weights .*much"):
        Run.read(mixing_run.folder)


@pytest.mark.parametrize(
    "change, complaint",
    [
        (lambda record: record.pop("experiment.json"), "has no experiment.json"),
        (lambda record: record.update({"metrics_epoch_1.json": 3}), "has 3 for metrics_epoch_1.json"),
        (lambda record: record["metrics_epoch_2.json"].pop("best_epoch"), "has no best_epoch"),
    ],
)
def test_a_damaged_record_is_reported_with_what_to_remove(mixing_run, tmp_path, change, complaint):
    path = tmp_path / "run.json"
    write_record(mixing_run.folder, path)
    record = json.loads(path.read_text())
    change(record)
    path.write_text(json.dumps(record))
    with pytest.raises(ConfigurationError, match=f"run.json {complaint}; remove .*run.json to train again"):
        Run.read_record(path)
