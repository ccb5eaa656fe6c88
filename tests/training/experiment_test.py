"""The biLM's experiments from their fixture configs: train, evaluate, export, tune, and use as an embedder's biLM."""

import json
import math

import pytest
import torch
from allennlp.commands import train
from allennlp.commands.evaluate import evaluate_from_archive
from allennlp.models.archival import load_archive
from allennlp.modules.elmo import Elmo as AllenNlpElmo
from allennlp.modules.elmo import batch_to_ids
from contract import logging_as_before

from elmo_plugin.bilm import BiLm
from elmo_plugin.commands.bilm_export import export

FIXTURES = "fixtures/bilm_training"


def train_model_from_file(config_file, folder):
    with logging_as_before():
        return train.train_model_from_file(config_file, folder)


def metrics_of(folder):
    return json.loads((folder / "metrics.json").read_text())


@pytest.fixture(autouse=True)
def from_the_root(root, monkeypatch):
    monkeypatch.chdir(root)


@pytest.fixture(scope="module")
def trained(root, tmp_path_factory):
    folder = tmp_path_factory.mktemp("bilm")
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.chdir(root)
        train_model_from_file(f"{FIXTURES}/small.jsonnet", folder / "run")
    return folder / "run"


@pytest.fixture(scope="module")
def exported(trained, tmp_path_factory):
    folder = tmp_path_factory.mktemp("exported")
    export(str(trained / "model.tar.gz"), str(folder))
    return folder


def test_training_reports_perplexity_both_ways_and_the_speed(trained):
    metrics = metrics_of(trained)
    forward, backward = metrics["validation_forward_perplexity"], metrics["validation_backward_perplexity"]
    assert metrics["validation_perplexity"] == pytest.approx((forward + backward) / 2)
    assert metrics["validation_exp_mean_loss_perplexity"] == pytest.approx(math.sqrt(forward * backward))
    assert metrics["validation_from_zeros_perplexity"] > 1 and metrics["training_tokens_per_second"] > 0


def test_evaluate_gives_the_perplexity_of_training(trained):
    metrics = evaluate_from_archive(trained / "model.tar.gz", "fixtures/data/demo/heldout.txt")
    assert metrics["perplexity"] == pytest.approx(metrics_of(trained)["validation_perplexity"], rel=1e-5)


def test_an_exported_bilm_gives_the_same_vectors_here_and_in_allennlp(trained, exported):
    ids = batch_to_ids([["the", "cat", "will", "swim"], ["Ada"]])
    bilm = load_archive(trained / "model.tar.gz").model.bilm.eval()
    files = str(exported / "options.json"), str(exported / "weights.hdf5")
    assert torch.equal(BiLm.load(*files)(ids).layers, bilm(ids).layers)
    elmo = AllenNlpElmo(*files, num_output_representations=1, dropout=0.0, scalar_mix_parameters=[-9e10, -9e10, 1])
    expected = elmo(ids)["elmo_representations"][0]
    torch.testing.assert_close(
        bilm(ids).layers[-1, :, 1:-1] * (ids > 0).any(-1, keepdim=True), expected, atol=1e-5, rtol=0
    )


def test_an_archive_serves_as_an_embedders_bilm_without_export(trained, exported):
    from_archive = BiLm.load(str(trained / "model.tar.gz"))
    from_files = BiLm.load(str(exported))
    torch.testing.assert_close(from_archive.state_dict(), from_files.state_dict())


def test_tuning_from_an_archive_goes_on_from_its_weights_and_words(trained, tmp_path, monkeypatch):
    monkeypatch.setenv("ELMO_BILM", str(trained / "model.tar.gz"))
    before = metrics_of(trained)["validation_perplexity"]
    model = train_model_from_file(f"{FIXTURES}/finetune.jsonnet", tmp_path / "run")
    assert metrics_of(tmp_path / "run")["validation_perplexity"] < before
    assert model.vocab.get_vocab_size("bilm_words") == load_archive(
        trained / "model.tar.gz"
    ).model.vocab.get_vocab_size("bilm_words")


@pytest.mark.parametrize("config", ["finetune", "continue"])
def test_training_goes_on_from_a_folder_with_its_softmax(config, trained, tmp_path, monkeypatch):
    export(str(trained / "model.tar.gz"), str(tmp_path / "exported"), softmax=True)
    monkeypatch.setenv("ELMO_BILM", str(tmp_path / "exported"))
    train_model_from_file(f"{FIXTURES}/{config}.jsonnet", tmp_path / "run")
    assert metrics_of(tmp_path / "run")["validation_perplexity"] < metrics_of(trained)["validation_perplexity"]


def test_tuning_from_files_fits_the_softmax_first_and_leaves_the_bilm_alone(exported, tmp_path, monkeypatch):
    monkeypatch.setenv("ELMO_BILM", str(exported))
    fitted = train_model_from_file(f"{FIXTURES}/fit_softmax.jsonnet", tmp_path / "fitted")
    bilm = BiLm.load(str(exported))
    torch.testing.assert_close(fitted.bilm.state_dict(), bilm.state_dict())

    monkeypatch.setenv("ELMO_BILM", str(tmp_path / "fitted" / "model.tar.gz"))
    train_model_from_file(f"{FIXTURES}/finetune.jsonnet", tmp_path / "tuned")
    before, after = (metrics_of(tmp_path / name)["validation_perplexity"] for name in ("fitted", "tuned"))
    assert after < before


def test_the_tuned_archive_does_not_need_the_one_it_came_from(trained, tmp_path, monkeypatch):
    source = tmp_path / "source.tar.gz"
    source.write_bytes((trained / "model.tar.gz").read_bytes())
    monkeypatch.setenv("ELMO_BILM", str(source))
    train_model_from_file(f"{FIXTURES}/finetune.jsonnet", tmp_path / "run")
    source.unlink()
    metrics = evaluate_from_archive(tmp_path / "run" / "model.tar.gz", "fixtures/data/demo/heldout.txt")
    assert metrics["perplexity"] == pytest.approx(metrics_of(tmp_path / "run")["validation_perplexity"], rel=1e-5)
