import os
import signal
import subprocess
import sys
import threading
import time

import pytest
from allennlp.common.checks import ConfigurationError

from elmo_plugin.analysis import runs as runs_module
from elmo_plugin.analysis.cells import Cell, experiment_hash, lasting, seeded
from elmo_plugin.analysis.runs import Busy, RunFailed, Runs, train_or_raise


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
        train_or_raise(runs, {1: Cell("bad", "missing.jsonnet"), 2: make_cell()})


def test_checkpoints_go_when_a_run_is_finished(runs, make_cell):
    run = runs.train(make_cell())
    assert run.archive.exists() and not list(run.folder.rglob("*.th"))


def test_a_recorded_run_is_not_trained_again_where_its_folder_is_not(make_cell, fake_training, tmp_path):
    first = Runs(tmp_path / "here", records=tmp_path / "records").train(make_cell())
    elsewhere = Runs(tmp_path / "there", records=tmp_path / "records")
    assert elsewhere.find(make_cell()).curve == elsewhere.train(make_cell()).curve == first.curve
    assert fake_training == ["force"] and not (tmp_path / "there").exists()


def test_a_record_of_another_experiment_does_not_count(make_cell, fake_training, tmp_path):
    runs = Runs(tmp_path / "runs", records=tmp_path / "records")
    runs.train(make_cell())
    assert runs.find(make_cell(overrides={"trainer.num_epochs": 2})) is None


def test_a_run_whose_weights_are_needed_is_trained_although_it_is_recorded(make_cell, fake_training, tmp_path):
    Runs(tmp_path / "here", records=tmp_path / "records").train(make_cell())
    run = Runs(tmp_path / "there", records=tmp_path / "records").with_weights().train(make_cell())
    assert run.archive.exists() and fake_training == ["force", "force"]


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


def test_a_real_training_that_is_killed_goes_on_and_ends(root, tmp_path, monkeypatch):
    monkeypatch.chdir(root)
    runs = Runs(tmp_path / "runs")
    cell = Cell("ner", "fixtures/ner/baseline.jsonnet", changes=(lasting(12, 5), seeded(1)))
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


def test_layer_weights_are_read_from_the_best_model(tmp_path):
    import torch

    mix = "text_embedder.contextual.mixes.input"
    weights = {f"{mix}.scalar_parameters.{layer}": torch.zeros(1) for layer in range(2)}
    torch.save({**weights, f"{mix}.gamma": torch.tensor([2.0])}, tmp_path / "best.th")
    expected = {"mix": mix, "weights": [0.5, 0.5], "gamma": 2.0, "fixed": False}
    assert runs_module._layer_weights({}, tmp_path) == [expected]
