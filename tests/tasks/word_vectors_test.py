"""Word vectors in the experiments: whatever a file has is found at test time, from the archive alone."""

import json
import shutil

import pytest
import torch
from allennlp.commands.evaluate import evaluate_from_archive
from allennlp.commands.train import train_model, train_model_from_file
from allennlp.common import Params
from allennlp.data import Batch
from allennlp.models import load_archive
from contract import logging_as_before

TASKS = ("coref", "ner", "snli", "squad", "srl", "sst")


@pytest.fixture(autouse=True)
def at_the_root(root, monkeypatch):
    monkeypatch.chdir(root)


@pytest.fixture
def vectors_file(tmp_path, monkeypatch):
    file = tmp_path / "vectors.txt"
    file.write_text("ada 1 2 3 4\nxanadu 5 6 7 8\n0 4 3 2 1\n", encoding="utf-8")
    monkeypatch.setenv("ELMO_WORD_VECTORS", str(file))
    monkeypatch.setenv("ELMO_WORD_VECTORS_DIM", "4")
    return file


@pytest.mark.parametrize("config", ["baseline", "elmo"])
@pytest.mark.parametrize("task", TASKS)
def test_every_experiment_takes_the_whole_file_along(task, config, vectors_file):
    params = Params.from_file(f"fixtures/{task}/{config}.jsonnet").as_dict(quiet=True)
    assert params["dataset_reader"]["token_indexers"]["tokens"]["type"] == "elmo::words"
    embedder = params["model"]["text_embedder"]["words"]["token_embedders"]["tokens"]
    assert embedder["type"] == "elmo::word_vectors" and embedder["pretrained_file"] == str(vectors_file)


def vectors_of(archive, *words):
    instance = archive.dataset_reader.text_to_instance(list(words))
    archive.dataset_reader.apply_token_indexers(instance)
    batch = Batch([instance])
    batch.index_instances(archive.model.vocab)
    model = getattr(archive.model, "members", [archive.model])[-1].eval()
    embedder = model.text_embedder.words.token_embedder_tokens
    return embedder(batch.as_tensor_dict()["tokens"]["tokens"]["tokens"])[0]


def test_an_archive_and_an_ensemble_of_two_know_words_that_training_did_not_have(vectors_file, tmp_path):
    overrides = {"trainer.num_epochs": 1, "model.text_embedder.words.token_embedders.tokens.trainable": False}
    archives = [tmp_path / str(seed) / "model.tar.gz" for seed in range(2)]
    for seed, archive in enumerate(archives):
        with logging_as_before():
            train_model_from_file("fixtures/ner/baseline.jsonnet", archive.parent, {**overrides, "pytorch_seed": seed})
    vectors_file.unlink()
    expected = torch.tensor([[1.0, 2, 3, 4], [5, 6, 7, 8], [4, 3, 2, 1]])
    assert torch.equal(vectors_of(load_archive(archives[0]), "Ada", "Xanadu", "1,984"), expected)

    config = {
        "dataset_reader": Params.from_file(archives[0].parent / "config.json")["dataset_reader"].as_dict(),
        "vocabulary": {"type": "from_files", "directory": str(archives[0])},
        "model": {"type": "elmo::ensemble", "archives": list(map(str, archives))},
        "trainer": {"type": "no_op"},
        "train_data_path": "nothing is read",
        "data_loader": {"batch_size": 1, "max_instances_in_memory": 1},
    }
    with logging_as_before():
        train_model(Params(config), str(tmp_path / "ensemble"))
    for archive in archives:
        shutil.rmtree(archive.parent)
    ensemble = load_archive(tmp_path / "ensemble" / "model.tar.gz")
    assert torch.equal(vectors_of(ensemble, "Ada", "Xanadu", "1,984"), expected)
    # The two have one and the same table.
    assert len(list((tmp_path / "ensemble" / "vocabulary" / ".word_vectors").iterdir())) == 2


def test_an_archive_of_earlier_configs_is_evaluated_as_before(vectors_file, tmp_path):
    """Those had AllenNLP's indexer, embedding and trainer in the place of the plugin's."""
    config = Params.from_file("fixtures/ner/baseline.jsonnet").as_dict(quiet=True)
    config["dataset_reader"]["token_indexers"]["tokens"] = {"type": "single_id", "lowercase_tokens": True}
    embedder = {"type": "embedding", "embedding_dim": 4, "pretrained_file": str(vectors_file), "trainable": False}
    config["model"]["text_embedder"]["words"]["token_embedders"]["tokens"] = embedder
    config["trainer"] = {"optimizer": "adam", "num_epochs": 1, "checkpointer": {"type": "elmo::atomic"}}
    with logging_as_before():
        train_model(Params(config), str(tmp_path / "run"))
    vectors_file.unlink()
    metrics = evaluate_from_archive(tmp_path / "run" / "model.tar.gz", "fixtures/data/ner/dev.txt")
    expected = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert metrics["f1"] == expected["best_validation_f1"]
    assert metrics["loss"] == pytest.approx(expected["best_validation_loss"], rel=1e-5)
    assert torch.equal(vectors_of(load_archive(tmp_path / "run" / "model.tar.gz"), "Ada")[0], torch.arange(1.0, 5))
