import argparse
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from allennlp.common.checks import ConfigurationError

from elmo_plugin.analysis import runs as runs_module
from elmo_plugin.analysis.runs import (
    Busy,
    Cell,
    Run,
    RunFailed,
    Runs,
    capped,
    changes_from,
    experiment_hash,
    lower_case_words,
    overrides_from,
    seeded,
    summary,
    train_on,
    train_or_raise,
    validate_on,
)


@pytest.fixture
def runs(tmp_path, fake_training):
    return Runs(tmp_path / "runs", say=lambda text: None)


# ---- What is trained ----


def test_a_cap_holds_for_training_and_not_for_validation():
    config = {"data_loader": {"batch_size": 2}, "trainer": {"num_epochs": 75, "patience": 5}}
    changed = capped(3, 10)(config)
    assert changed["data_loader"] == {"batch_size": 2, "batches_per_epoch": 10}
    assert changed["validation_data_loader"] == {"batch_size": 2}
    assert changed["trainer"] == {"num_epochs": 3, "patience": None}


def test_a_cap_counts_updates_where_gradients_are_accumulated():
    config = {"data_loader": {}, "trainer": {"num_gradient_accumulation_steps": 4}}
    assert capped(3, 10)(config)["data_loader"]["batches_per_epoch"] == 40


def test_a_fraction_of_the_training_set_leaves_validation_whole():
    changed = train_on(0.1, seed=3)({"dataset_reader": {"type": "elmo::ner"}})
    assert changed["dataset_reader"] == {
        "type": "elmo::fraction",
        "reader": {"type": "elmo::ner"},
        "fraction": 0.1,
        "seed": 3,
    }
    assert changed["validation_dataset_reader"] == {"type": "elmo::ner"}


def test_a_fraction_of_the_validation_set_leaves_training_whole():
    config = {"dataset_reader": {"type": "elmo::sst"}, "validation_dataset_reader": {"type": "elmo::sst", "phrases": 0}}
    changed = validate_on(0.5)(config)
    assert changed["dataset_reader"] == config["dataset_reader"]
    assert changed["validation_dataset_reader"]["reader"] == {"type": "elmo::sst", "phrases": 0}


def test_the_whole_training_set_is_no_change():
    config = {"dataset_reader": {"type": "elmo::ner"}}
    assert train_on(1.0, seed=3)(config) == config == validate_on(1.0)(config)


def test_words_are_lower_cased_wherever_they_are_indexed_and_characters_are_not():
    indexers = {"tokens": {"type": "single_id"}, "elmo": {"type": "elmo::characters"}}
    changed = lower_case_words({"dataset_reader": {"reader": {"token_indexers": indexers}}, "list": [indexers]})
    expected = {"tokens": {"type": "single_id", "lowercase_tokens": True}, "elmo": {"type": "elmo::characters"}}
    assert changed == {"dataset_reader": {"reader": {"token_indexers": expected}}, "list": [expected]}


def test_variables_reach_the_config(tmp_path):
    path = tmp_path / "config.jsonnet"
    path.write_text("{train_data_path: std.extVar('ELMO_NER_TRAIN'), random_seed: 0}")
    config = Cell("cell", str(path), environment={"ELMO_NER_TRAIN": "train.txt"}, changes=[seeded(7)]).resolve()
    assert config == {"train_data_path": "train.txt", "random_seed": 7, "numpy_seed": 7, "pytorch_seed": 7}


def test_a_config_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ConfigurationError, match="cell: there is no config .*missing.jsonnet"):
        Cell("cell", str(tmp_path / "missing.jsonnet")).resolve()


def test_an_override_that_hits_nothing_is_an_error(make_cell):
    with pytest.raises(ConfigurationError, match="model.widht.size"):
        make_cell(overrides={"model.widht.size": 3}).resolve()


def test_a_name_that_is_no_folder_is_refused():
    with pytest.raises(ValueError, match="a/b"):
        Cell("a/b", "config.jsonnet")


# ---- Fingerprints ----


def test_another_override_has_another_hash(make_cell):
    changed = make_cell(overrides={"trainer.num_epochs": 4})
    assert (
        experiment_hash(changed.resolve())
        != experiment_hash(make_cell().resolve())
        == experiment_hash(make_cell().resolve())
    )


def test_another_content_of_a_data_file_has_another_hash(tmp_path):
    path = tmp_path / "train.txt"
    path.write_text("one")
    config = {"train_data_path": str(path)}
    before = experiment_hash(config)
    path.write_text("two")
    assert experiment_hash(config) != before


def test_another_content_of_a_folder_or_glob_has_another_hash(tmp_path):
    (tmp_path / "train").mkdir()
    (tmp_path / "train" / "a.txt").write_text("one")
    configs = [{"path": str(tmp_path / "train")}, {"path": str(tmp_path / "train" / "*.txt")}]
    before = [experiment_hash(config) for config in configs]
    (tmp_path / "train" / "b.txt").write_text("two")
    assert all(experiment_hash(config) != old for config, old in zip(configs, before, strict=True))


def test_another_biLM_of_the_same_name_has_another_hash(tmp_path, monkeypatch):
    weights = tmp_path / "weights.hdf5"
    weights.write_text("one")
    monkeypatch.setitem(runs_module.PRETRAINED, "some-bilm", ("options.json", str(weights)))
    config = {"bilm": {"type": "pretrained", "name": "some-bilm"}}
    before = experiment_hash(config)
    weights.write_text("two")
    assert experiment_hash(config) != before


# ---- Training ----


def test_a_run_is_read_from_its_metrics_files(runs, make_cell):
    run = runs.train(make_cell())
    assert [tuple(point) for point in run.curve] == [(0, 4, 0.1), (1, 8, 0.2), (2, 12, pytest.approx(0.3))]
    assert (run.metric, run.best_epoch, run.updates, run.seconds) == ("f1", 2, 12, 3.5)
    assert run.best == run.metrics()["f1"] == pytest.approx(0.3)
    assert summary(run) == "f1 0.3 after epoch 3; 12 updates, 0:00:04"


def test_a_finished_cell_is_not_trained_again(runs, make_cell, fake_training):
    first = runs.train(make_cell())
    assert runs.train(make_cell()) == first and fake_training == ["force"]


def test_the_same_experiment_under_another_name_is_not_trained_again(runs, make_cell, fake_training):
    assert runs.train(make_cell("first")) == runs.train(make_cell("second")) and fake_training == ["force"]


def test_a_changed_override_is_trained_in_another_folder(runs, make_cell, fake_training):
    first = runs.train(make_cell())
    second = runs.train(make_cell(overrides={"trainer.num_epochs": 2}))
    assert first.folder != second.folder and fake_training == ["force", "force"]


def test_an_interrupted_cell_is_resumed(runs, make_cell, fake_training, deadly_file):
    deadly_file.touch()
    with pytest.raises(RunFailed):
        runs.train(make_cell())
    assert runs.find(make_cell()) is None
    deadly_file.unlink()
    run = runs.train(make_cell())
    assert fake_training == ["force", "recover"]
    assert len(run.curve) == 3 and run.seconds == pytest.approx(1.5 + 2.5)  # what both processes took


def test_a_failure_shows_the_end_of_the_log_and_the_others_go_on(
    runs, make_cell, make_config, deadly_file, monkeypatch
):
    good = Cell("good", make_config("good"))
    runs.train(good)
    deadly_file.touch()
    trained, failures = runs.train_all([make_cell("bad"), good])
    assert list(trained) == ["good"] and "no space left on device" in failures["bad"]


def test_what_cannot_be_resolved_is_a_failure_too(runs, make_cell):
    trained, failures = runs.train_all([Cell("bad", "missing.jsonnet"), make_cell()])
    assert list(trained) == ["cell"] and "missing.jsonnet" in failures["bad"]


def test_where_none_may_be_missing_a_failure_is_raised(runs, make_cell):
    with pytest.raises(ConfigurationError, match="1 of 2 trainings failed, the first of them bad: .*missing.jsonnet"):
        train_or_raise(runs, [Cell("bad", "missing.jsonnet"), make_cell()])


def test_checkpoints_go_when_a_run_is_finished(runs, make_cell):
    run = runs.train(make_cell())
    assert run.archive.exists() and not list(run.folder.rglob("*.th"))


def test_two_processes_do_not_train_the_same_cell(runs, make_cell, fake_training):
    folder = runs._folder_of("cell", experiment_hash(make_cell().resolve()))
    folder.mkdir(parents=True)
    with runs_module._locked(folder):
        with pytest.raises(Busy):
            runs.train(make_cell())
        assert runs.train_all([make_cell()]) == ({}, {"cell": "another process is training it"})
    assert fake_training == []


def test_a_training_that_outlives_the_driver_keeps_the_lock(tmp_path):
    sleeper = [sys.executable, "-c", "input()"]
    with runs_module._locked(tmp_path) as lock:
        process = subprocess.Popen(sleeper, stdin=subprocess.PIPE, pass_fds=(lock,))
    with pytest.raises(Busy), runs_module._locked(tmp_path):
        pass
    process.communicate(b"\n")
    with runs_module._locked(tmp_path):
        pass


def test_an_interruption_ends_the_training(runs, make_cell, monkeypatch):
    processes = []

    def interrupted(process, *_):
        processes.append(process)
        raise KeyboardInterrupt

    monkeypatch.setattr(runs_module, "training_command", lambda *_, **__: [sys.executable, "-c", "input()"])
    monkeypatch.setattr(runs_module, "_wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        runs.train(make_cell())
    assert processes[0].returncode is not None


def test_where_no_cap_says_how_many_updates_there_were_the_optimizer_does(tmp_path):
    import torch

    for num_epochs in (1, 2):
        state = {"optimizer": {"state": {0: {"step": torch.tensor(7.0 * num_epochs)}}}}
        torch.save(state, tmp_path / f"training_state_e{num_epochs}_b0.th")
    assert runs_module._updates_per_epoch({"data_loader": {}, "trainer": {}}, tmp_path) == 7


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
def test_durations_are_read(text, seconds):
    assert runs_module._seconds(text, Path("metrics.json")) == seconds


def test_where_a_value_is_passed(make_run):
    assert make_run(0.1, 0.5, 0.4).first_past(0.4).updates == 20
    assert make_run(0.1, 0.4).first_past(0.4) is None
    assert make_run(90.0, 80.0, larger_is_better=False).first_past(85.0).epoch == 1


# ---- Arguments ----


def test_updates_need_epochs():
    with pytest.raises(ConfigurationError, match="--updates-per-epoch needs --epochs"):
        changes_from(argparse.Namespace(epochs=None, updates_per_epoch=3))


@pytest.mark.parametrize("text", ["{", "3"])
def test_wrong_overrides_are_refused(text):
    with pytest.raises(ConfigurationError, match="--overrides"):
        overrides_from(argparse.Namespace(overrides=text))


# ---- With AllenNLP ----


def test_a_real_training_that_is_killed_goes_on_and_ends(root, tmp_path, monkeypatch):
    monkeypatch.chdir(root)
    runs = Runs(tmp_path / "runs", say=lambda text: None)
    cell = Cell("ner", "fixtures/ner/baseline.jsonnet", changes=(capped(12, 5), seeded(1)))
    processes = []
    start = subprocess.Popen

    def watched(command, **options):
        processes.append(start(command, **options))
        return processes[-1]

    def kill_after_the_first_checkpoint():
        while not list((tmp_path / "runs").glob("*/run/training_state_e1_*.th")) and time.monotonic() < deadline:
            time.sleep(0.01)
        processes[0].send_signal(signal.SIGKILL)

    deadline = time.monotonic() + 300
    monkeypatch.setattr(subprocess, "Popen", watched)
    killer = threading.Thread(target=kill_after_the_first_checkpoint)
    killer.start()
    with pytest.raises(RunFailed, match=f"ended with -{int(signal.SIGKILL)}"):
        runs.train(cell)
    killer.join()
    run = runs.train(cell)
    assert "--recover" in (run.folder / "log.txt").read_text() and len(processes) == 2
    assert run.updates == 60 and len(run.curve) == 12 and run.best == max(point.value for point in run.curve)
    assert os.path.getsize(run.archive) > 0
