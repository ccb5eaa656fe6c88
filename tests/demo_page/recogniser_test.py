from pathlib import Path

import pytest

from elmo_plugin.demo_page import recogniser
from elmo_plugin.demo_page.task_models import open_tasks


@pytest.fixture
def runs(monkeypatch, tmp_path):
    """Trains nothing, and counts how often it was asked to."""
    runs = []

    def train(run: Path) -> None:
        runs.append(run)
        run.mkdir()
        (run / "model.tar.gz").write_text("weights")

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(recogniser, "_train", train)
    return runs


def test_it_is_trained_once_and_kept_in_the_users_cache(runs, tmp_path):
    told = []
    archive = recogniser.recogniser_archive(told.append)
    assert archive == recogniser.recogniser_archive(told.append)
    assert Path(archive).read_text() == "weights" and Path(archive).is_relative_to(tmp_path / "cache" / "elmo-plugin")
    assert len(runs) == len(told) == 1 and "under a minute" in told[0]


def test_training_that_fails_leaves_nothing_behind(runs, tmp_path, monkeypatch):
    def fail(run: Path) -> None:
        run.mkdir()
        raise KeyboardInterrupt

    monkeypatch.setattr(recogniser, "_train", fail)
    with pytest.raises(KeyboardInterrupt):
        recogniser.recogniser_archive(print)
    assert list((tmp_path / "cache" / "elmo-plugin").iterdir()) == []


def test_another_biLM_or_config_has_another_recogniser(runs, tmp_path, monkeypatch):
    first = recogniser.recogniser_archive(print)
    config = tmp_path / "other.jsonnet"
    config.write_text("{}")
    monkeypatch.setattr(recogniser, "_CONFIG", config)
    assert recogniser.recogniser_archive(print) != first


def test_its_sentences_are_those_of_the_demo(root):
    data = root / "fixtures" / "data" / "demo"
    parts = [(data / f"entities.{part}.conll").read_text() for part in ("train", "dev")]
    assert recogniser._SENTENCES.read_text() == "".join(parts)


def test_it_finds_names_it_was_not_trained_on(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (task,) = open_tasks([recogniser.recogniser_archive(print)])
    sentence = "Ada Lovelace met Charles Babbage in London."
    ((shown,),) = task.predict({"sentence": sentence})
    found = {sentence[mark.start : mark.end] for mark in shown.marks}
    assert {"Ada Lovelace", "Charles Babbage", "London"} <= found
