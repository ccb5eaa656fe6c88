"""The example config through AllenNLP's command line, the way a user runs it."""

import json
import os
import shutil
import subprocess
import sys

import pytest
import torch
from allennlp.models.archival import load_archive

EXAMPLE = "training_configs/examples/simple_tagger_elmo.jsonnet"


def allennlp(*arguments, cwd, **environment):
    """Runs the `allennlp` command with every warning an error, and returns what it printed."""
    command = [sys.executable, "-W", "error", "-m", "allennlp", *map(str, arguments)]
    result = subprocess.run(
        command, cwd=cwd, env={**os.environ, "OMP_NUM_THREADS": "1", **environment}, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    return result.stdout + result.stderr


@pytest.fixture(scope="module")
def trained(root, tmp_path_factory):
    """A folder with the archive of the trained example; the biLM's files it was trained with are gone."""
    folder = tmp_path_factory.mktemp("example")
    shutil.copytree(root / "fixtures" / "bilm", folder / "bilm")
    bilm = {"ELMO_BILM": str(folder / "bilm")}
    overrides = json.dumps({"trainer.num_epochs": 2})
    log = allennlp("train", EXAMPLE, "-s", folder / "run", "-o", overrides, cwd=root, **bilm)
    shutil.rmtree(folder / "bilm")
    (folder / "log").write_text(log)
    return folder


def test_training_leaves_an_archive_and_no_warning(trained):
    assert (trained / "run" / "model.tar.gz").is_file()
    assert " - WARNING - " not in (trained / "log").read_text()


def test_evaluate_and_predict_work_without_the_bilms_files(trained, root):
    elsewhere = shutil.copy(trained / "run" / "model.tar.gz", trained / "moved.tar.gz")
    dev = root / "fixtures" / "data" / "demo" / "tagged.dev.txt"
    allennlp("evaluate", elsewhere, dev, "--output-file", trained / "metrics.json", cwd=root)
    in_training = json.loads((trained / "run" / "metrics.json").read_text())
    assert json.loads((trained / "metrics.json").read_text())["accuracy"] == pytest.approx(
        in_training["best_validation_accuracy"]
    )

    (trained / "in.jsonl").write_text('{"sentence": "the watch will turn."}\n{"tokens": ["Ada", "can", "swim"]}\n')
    allennlp(
        "predict",
        elsewhere,
        trained / "in.jsonl",
        "--output-file",
        trained / "out.jsonl",
        "--predictor",
        "elmo::sentence_tagger",
        "--silent",
        cwd=root,
    )
    first, second = map(json.loads, (trained / "out.jsonl").read_text().splitlines())
    assert first["words"] == ["the", "watch", "will", "turn", "."] and len(first["tags"]) == 5
    assert second["words"] == ["Ada", "can", "swim"]


def test_the_archive_holds_the_bilm_it_was_trained_with(trained, root):
    model = load_archive(trained / "run" / "model.tar.gz").model
    weights = torch.load(trained / "run" / "best.th")
    name = "text_field_embedder.token_embedder_elmo.elmo.bilm.forward_layers.0.state_weight"
    assert torch.equal(dict(model.named_parameters())[name], weights[name])
