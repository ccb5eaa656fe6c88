"""The parts of `make demo`; the whole of it takes longer than a test may."""

import json
import os
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from demo import run as demo


@pytest.fixture
def runs(tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "RUNS", tmp_path)
    for name in ("ELMO_BILM", "ELMO_TRAIN_FRACTION", "OMP_NUM_THREADS"):
        monkeypatch.setenv(name, "1")
    return tmp_path


def test_a_command_gets_the_variables_before_it_and_leaves_a_log(runs):
    with pytest.raises(SystemExit) as exit_:
        demo.run("ELMO_TRAIN_FRACTION=0.25 allennlp --version", "version")

    assert exit_.value.code == 0
    assert os.environ["ELMO_TRAIN_FRACTION"] == "0.25"
    assert "2.10.1" in (runs / "version.log").read_text()


def test_a_command_that_fails_names_its_log(runs, capsys):
    with pytest.raises(SystemExit):
        demo.run("allennlp no-such-command", "wrong")

    assert str(runs / "wrong.log") in capsys.readouterr().err
    assert "no-such-command" in (runs / "wrong.log").read_text()


def test_scores_are_those_of_the_last_epoch_by_variant_and_size_whatever_ends_first(runs, monkeypatch):
    def pretend(command, name):
        variant, num_sentences = name.split("_")
        time.sleep(0.001 * (300 - int(num_sentences)))
        (runs / name).mkdir()
        for epoch in range(11):  # the tenth comes after the second, but not in the alphabet
            f1 = (int(num_sentences) + (variant == "elmo") + epoch) / 1000
            (runs / name / f"metrics_epoch_{epoch}.json").write_text(json.dumps({"validation_f1": f1}))

    monkeypatch.setattr(demo, "run", pretend)

    with ThreadPoolExecutor(6) as pool:
        scores = demo.train(pool)

    assert scores == {
        "baseline": pytest.approx([6.0, 11.0, 21.0]),
        "elmo": pytest.approx([6.1, 11.1, 21.1]),
    }


def test_trainings_run_in_processes_of_one_thread(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "2")  # so that it is put back
    monkeypatch.delenv("OMP_NUM_THREADS")

    with demo.workers() as pool:
        threads, process = pool.submit(os.getenv, "OMP_NUM_THREADS").result(), pool.submit(os.getpid).result()

    assert threads == "1"
    assert process != os.getpid()
