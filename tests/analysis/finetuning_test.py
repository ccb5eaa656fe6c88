import argparse
import json
import math
from pathlib import Path

import pytest
import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader
from allennlp.models import Model
from allennlp.models.archival import archive_model

from elmo_plugin.analysis import finetuning
from elmo_plugin.analysis.finetuning import Finetuning, Perplexity, Tuned, measure, measured_once, table, tune
from elmo_plugin.analysis.runs import Runs
from elmo_plugin.training import BiLmVocabulary


@pytest.fixture(scope="module")
def language_model(tmp_path_factory, root):
    """The archive of a tiny language model that was never trained."""
    folder = tmp_path_factory.mktemp("language_model")
    config = {
        "dataset_reader": {"type": "elmo::bilm"},
        "model": {
            "type": "elmo::bilm",
            "bilm": {"type": "random", "projection_dim": 8, "cell_dim": 16, "filters": [[1, 4], [2, 6]]},
        },
    }
    vocab = BiLmVocabulary.from_corpus(data_path=str(root / "fixtures/data/demo/heldout.txt"))
    torch.manual_seed(0)
    model = Model.from_params(Params(config).duplicate()["model"], vocab=vocab)
    torch.save(model.state_dict(), folder / "best.th")
    vocab.save_to_files(folder / "vocabulary")
    (folder / "config.json").write_text(json.dumps(config))
    return archive_model(folder)


@pytest.fixture
def heldout(root):
    """The part of a config that says what to measure on."""
    return {
        "dataset_reader": {"type": "elmo::bilm"},
        "validation_data_path": str(root / "fixtures/data/demo/heldout.txt"),
        "validation_data_loader": {"type": "elmo::windows", "batch_size": 8, "num_steps": 20, "shuffle": False},
        "trainer": {"cuda_device": -1},
    }


def test_an_untrained_language_model_knows_little_more_than_the_number_of_words(language_model, heldout, root):
    words = (root / "fixtures/data/demo/heldout.txt").read_text().split()
    num_words = len(set(words)) + 3
    perplexity = measure(language_model, heldout)
    for value in perplexity:
        assert 0.5 * num_words < value < 1.5 * num_words
    assert perplexity.carried != perplexity.from_zeros


def test_what_was_measured_is_not_measured_again(language_model, heldout, tmp_path, monkeypatch):
    first = measured_once(tmp_path, language_model, heldout)
    monkeypatch.setattr(finetuning, "measure", lambda *_: pytest.fail("measured again"))
    assert measured_once(tmp_path, language_model, heldout) == first


def test_a_model_without_a_softmax_is_refused(monkeypatch, heldout):
    archive = argparse.Namespace(model=torch.nn.Linear(1, 1))
    monkeypatch.setattr(finetuning, "load_archive", lambda *_, **__: archive)
    with pytest.raises(ConfigurationError, match="model.tar.gz holds a Linear, which has no softmax"):
        measure("model.tar.gz", heldout)


@pytest.fixture
def configs(tmp_path, make_config) -> Path:
    """Stand-ins for training_configs/bilm, whose perplexities the fake training makes up."""
    folder = tmp_path / "bilm"
    for name in ("fit_softmax", "finetune"):
        text = Path(make_config(name, folder)).read_text().replace("+f1", "-perplexity")
        archive = "std.extVar('ELMO_BILM')" if name == "finetune" else "''"
        config = f"{text} + {{archive: {archive}, task: std.extVar('ELMO_FINETUNE_TASK')}}"
        (folder / f"{name}.jsonnet").write_text(config)
    return folder


@pytest.fixture
def perplexities(monkeypatch):
    """The fake training writes no perplexity from zeros."""
    monkeypatch.setattr(finetuning, "_perplexity", lambda run: Perplexity(run.best, math.inf))


def test_a_biLM_without_a_softmax_gets_one_first(tmp_path, configs, fake_training, perplexities):
    runs = Runs(tmp_path / "runs")
    tuned = tune(runs, "ner", None, configs)
    assert len(fake_training) == 2
    finetune = next((tmp_path / "runs").glob("ner-finetune-*"))
    config = json.loads((finetune / "experiment.json").read_text())
    fitted = next((tmp_path / "runs").glob("ner-fit_softmax-*"))
    assert config["archive"] == str(fitted / "run" / "model.tar.gz") and config["task"] == "ner"
    assert tuned.archive == str(finetune / "run" / "model.tar.gz")


def test_a_language_model_is_measured_and_tuned_as_it_is(tmp_path, configs, fake_training, perplexities, monkeypatch):
    before = Perplexity(90.0, 95.0)
    monkeypatch.setattr(finetuning, "measure", lambda archive, config: before)
    tuned = tune(Runs(tmp_path / "runs"), "ner", "model.tar.gz", configs)
    assert len(fake_training) == 1 and tuned.before == before


def test_a_learning_rate_is_that_of_tuning_alone(tmp_path, configs, fake_training, perplexities):
    for name in ("fit_softmax", "finetune"):
        path = configs / f"{name}.jsonnet"
        path.write_text(path.read_text() + " + {trainer+: {optimizer: {lr: 0.2}}}")
    tune(Runs(tmp_path / "runs"), "ner", None, configs, learning_rate=0.05)
    rates = {
        path.parent.name.split("-")[1]: json.loads(path.read_text())["trainer"]["optimizer"]["lr"]
        for path in (tmp_path / "runs").glob("*/experiment.json")
    }
    assert rates == {"fit_softmax": 0.2, "finetune": 0.05}


def test_the_table_has_both_perplexities_and_the_papers():
    tuned = [Tuned("sst", Perplexity(200.0, 210.0), Perplexity(100.0, 110.0), "model.tar.gz")]
    assert table(tuned).splitlines()[2].split() == ["sst", *"200.0 100.0 210.0 110.0 131.5 -> 78.6".split()]


def test_the_command_writes_json_table_and_picture(tmp_path, configs, fake_training, perplexities):
    parser = argparse.ArgumentParser()
    Finetuning().add_arguments(parser)
    flags = ["--tasks", "ner", "sst", "--configs", str(configs), "--runs", str(tmp_path / "runs")]
    arguments = parser.parse_args(flags)
    arguments.archive = None
    report = Finetuning().run(arguments, lambda: None)
    report.write(tmp_path / "out", "finetuning")
    assert sorted(path.suffix for path in (tmp_path / "out").iterdir()) == [".json", ".png", ".txt"]
    assert set(report.results) == {"ner", "sst"}


def test_squads_contexts_and_questions_can_be_tuned_on_apart(root, monkeypatch):
    monkeypatch.chdir(root)
    monkeypatch.setenv("ELMO_BILM", "any.tar.gz")
    monkeypatch.setenv("ELMO_SQUAD_TRAIN", "fixtures/data/squad/train.json")
    monkeypatch.setenv("ELMO_SQUAD_DEV", "fixtures/data/squad/dev.json")
    texts = {}
    for task in ("squad", "squad_contexts", "squad_questions"):
        monkeypatch.setenv("ELMO_FINETUNE_TASK", task)
        params = Params.from_file("training_configs/bilm/finetune.jsonnet")
        reader = DatasetReader.from_params(params["dataset_reader"])
        texts[task] = [" ".join(words) for words in reader.sentences(params["validation_data_path"])]
    assert all(text.endswith("?") for text in texts["squad_questions"])
    assert not any(text.endswith("?") for text in texts["squad_contexts"])
    assert sorted(texts["squad_contexts"] + texts["squad_questions"]) == sorted(texts["squad"])
