"""Every task's experiment, from its own config: killed and recovered, it ends as if it hadn't been."""

import copy
import json
import os
import random
import signal
import subprocess
import sys
import time
from typing import Any, Dict, Optional

import pytest
import torch
from allennlp.commands.train import TrainModel
from allennlp.common import Params
from allennlp.common.util import prepare_environment
from tiny_training import (
    KillAt,
    Killed,
    disturb_generators,
    do_not_wait_for_the_disk,  # noqa: F401
)

from elmo_plugin.training.checkpointer import AtomicCheckpointer

CHECKPOINTER = {"type": "elmo::atomic", "save_every_num_batches": 1}


@pytest.fixture(autouse=True)
def from_the_root(root, monkeypatch):
    monkeypatch.chdir(root)


def config_of(task: str, name: str = "elmo", **changes) -> Dict[str, Any]:
    config = Params.from_file(f"fixtures/{task}/{name}.jsonnet").as_dict(quiet=True)
    config["trainer"].update({"num_epochs": 2, "checkpointer": CHECKPOINTER})
    return {**config, **changes}


def train(config: Dict[str, Any], folder, kill: Optional[KillAt] = None) -> Dict[str, Any]:
    """Trains or recovers as `allennlp train` does. Gives what has to be the same after a recovery."""
    params = Params(config).duplicate()
    prepare_environment(params)
    train_loop = TrainModel.from_params(params=params, serialization_dir=str(folder), local_rank=0)
    if kill is not None:
        train_loop.trainer._callbacks.append(kill)
    train_loop.run()
    return result(folder)


def result(folder) -> Dict[str, Any]:
    latest = AtomicCheckpointer(folder).load_checkpoint()
    metrics = [json.loads(path.read_text()) for path in sorted(folder.glob("metrics_epoch_*.json"))]
    return {
        "parameters": {name: value.tolist() for name, value in latest.model_state.items()},
        "optimizer": repr(latest.trainer_state["optimizer"]),
        "best": {name: value.tolist() for name, value in torch.load(folder / "best.th").items()},
        "metrics": [{k: v for k, v in m.items() if "duration" not in k and "memory" not in k} for m in metrics],
    }


@pytest.mark.parametrize("task", ["coref", "ner", "snli", "squad", "srl", "sst"])
def test_a_recovered_experiment_is_the_same(tmp_path, task):
    config = config_of(task)
    expected = train(config, tmp_path / "whole")
    assert len(expected["metrics"]) == 2
    # In the midst of an epoch, and when the second is over but for its checkpoint.
    for epoch, batch in [(0, 2), (1, None)]:
        folder = tmp_path / f"{epoch}_{batch}"
        with pytest.raises(Killed):
            train(config, folder, KillAt(epoch, batch))
        disturb_generators()
        assert train(config, folder) == expected, (epoch, batch)


@pytest.mark.parametrize(
    "loader",
    [
        {"batch_size": 3, "shuffle": True},
        {"batch_size": 3, "shuffle": True, "max_instances_in_memory": 4},
        {"batch_size": 3, "shuffle": True, "num_workers": 1},
        {"batch_size": 2, "shuffle": True, "batches_per_epoch": 3},
        {"type": "simple", "batch_size": 3, "shuffle": True},
        {"batch_sampler": {"type": "bucket", "batch_size": 3, "padding_noise": 0.5, "sorting_keys": ["tokens"]}},
        {"batch_sampler": {"type": "max_tokens_sampler", "max_tokens": 30, "sorting_keys": ["tokens"]}},
    ],
)
def test_a_recovered_experiment_is_the_same_with_any_loader(tmp_path, loader):
    config = config_of("ner", "baseline", data_loader=loader, validation_data_loader={"batch_size": 5})
    expected = train(config, tmp_path / "whole")
    with pytest.raises(Killed):
        train(config, tmp_path / "killed", KillAt(1, 2))
    disturb_generators()
    assert train(config, tmp_path / "killed") == expected


def test_the_task_s_own_fraction_and_average_survive_too(tmp_path):
    config = config_of("squad", "baseline")
    config["validation_dataset_reader"] = copy.deepcopy(config["dataset_reader"])
    config["dataset_reader"] = {"type": "elmo::fraction", "reader": config["dataset_reader"], "fraction": 0.6}
    assert "moving_average" in config["trainer"]
    expected = train(config, tmp_path / "whole")
    with pytest.raises(Killed):
        train(config, tmp_path / "killed", KillAt(1, 1))
    disturb_generators()
    assert train(config, tmp_path / "killed") == expected


def allennlp_train(*arguments: str) -> subprocess.Popen:
    """As many threads as in this process: sums over other numbers of threads round differently."""
    environment = {**os.environ, "OMP_NUM_THREADS": str(torch.get_num_threads())}
    command = [sys.executable, "-m", "allennlp", "train", *arguments, "--include-package", "elmo_plugin"]
    return subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment, encoding="utf-8"
    )


def wait_for_a_checkpoint(process: subprocess.Popen, folder) -> None:
    while process.poll() is None and not list(folder.glob("training_state_*.th")):
        time.sleep(0.005)


def test_ner_killed_at_any_moment_and_recovered_by_the_command_is_the_same(tmp_path):
    config = config_of("ner")
    config["trainer"]["num_epochs"] = 40
    (tmp_path / "config.json").write_text(json.dumps(config))
    expected = train(config, tmp_path / "whole")

    folder = tmp_path / "killed"
    process = allennlp_train(str(tmp_path / "config.json"), "-s", str(folder))
    try:
        wait_for_a_checkpoint(process, folder)
        time.sleep(random.Random(os.getpid()).uniform(0.0, 0.5))
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == -signal.SIGKILL, "the run ended before it could be killed"
    recovered = allennlp_train(str(tmp_path / "config.json"), "-s", str(folder), "--recover")
    _, errors = recovered.communicate()
    assert recovered.returncode == 0, errors
    assert result(folder) == expected


@pytest.mark.parametrize("number, code", [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_command_that_is_told_to_stop_says_so_and_goes_on_with_recover(tmp_path, number, code):
    config = config_of("ner")
    config["trainer"]["num_epochs"] = 40
    (tmp_path / "config.json").write_text(json.dumps(config))
    folder = tmp_path / "stopped"
    process = allennlp_train(str(tmp_path / "config.json"), "-s", str(folder))
    try:
        wait_for_a_checkpoint(process, folder)
        process.send_signal(number)
        _, errors = process.communicate()
    finally:
        process.kill()
    assert process.returncode == code
    assert f"Stopped by {number.name}. The latest checkpoint is {folder}" in errors and "Traceback" not in errors
    assert not list(folder.glob("*.tmp"))
    assert train(config, folder) == train(config, tmp_path / "whole")


def lines_of(*sentences: str) -> str:
    """CoNLL-2003's columns for words with their tags: `Ada/B-PER sang/O`."""
    pairs = ([token.split("/") for token in sentence.split()] for sentence in sentences)
    return "\n".join("".join(f"{word} NNP B-NP {tag}\n" for word, tag in sentence) for sentence in pairs)


@pytest.mark.parametrize(
    "train_text, dev_text, changes",
    [
        (lines_of("Ada/B-PER", "sang/O", "Oslo/B-LOC"), lines_of("Ada/B-PER", "Rome/B-LOC"), {}),
        (lines_of("Ada/B-PER sang/O", "Bo/B-PER ran/O"), lines_of("Oslo/B-LOC slept/O"), {}),
        (
            lines_of("Ada/B-PER sang/O", "Bo/B-PER ran/O"),
            lines_of("Eve/B-PER sat/O"),
            {"vocabulary": {"min_count": {"tokens": 100}}},
        ),
    ],
    ids=["one-token sentences", "a label that only dev has", "all words unknown"],
)
def test_odd_data_train_to_the_end(tmp_path, train_text, dev_text, changes):
    (tmp_path / "train.txt").write_text(train_text)
    (tmp_path / "dev.txt").write_text(dev_text)
    paths = {"train_data_path": str(tmp_path / "train.txt"), "validation_data_path": str(tmp_path / "dev.txt")}
    metrics = train(config_of("ner", "baseline", **paths, **changes), tmp_path / "run")["metrics"][-1]
    assert 0 <= metrics["validation_f1"] <= 1
    assert all(0 <= metrics[f"{part}_loss"] < 1000 for part in ("training", "validation"))
