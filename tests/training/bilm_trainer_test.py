import copy
import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from typing import Any, Dict, Optional

import pytest
import torch
from allennlp.commands.train import TrainModel, _train_worker
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.common.util import find_open_port, prepare_environment
from allennlp.data import Vocabulary
from allennlp.models import Model
from allennlp.training import TrainerCallback
from tiny_training import (
    DIM,
    NUM_BATCHES,
    NUM_ROWS,
    NUM_STEPS,
    NUM_WORDS,
    JumpingLoader,
    KillAt,
    Killed,
    ReplayedLoader,
    TinyModel,
    disturb_generators,
    do_not_wait_for_the_disk,  # noqa: F401
    make_trainer,
    train,
    train_killed,
)
from torch.utils._pytree import tree_map_only

from elmo_plugin.training import bilm_trainer as trainer_module
from elmo_plugin.training.bilm_trainer import BiLmTrainer, Speed, num_targets
from elmo_plugin.training.checkpointer import AtomicCheckpointer

KILLS = [(0, 4), (0, NUM_BATCHES), (1, 1), (2, None)]


@pytest.mark.parametrize("loader", [JumpingLoader, ReplayedLoader])
def test_a_recovered_run_is_the_same_as_one_that_was_not_killed(tmp_path, loader):
    expected = train(tmp_path / "whole", loader=loader)
    assert len(expected["metrics"]) == 3
    for epoch, batch in KILLS:
        folder = tmp_path / f"{epoch}_{batch}"
        assert train_killed(folder, KillAt(epoch, batch), loader=loader) == expected, (epoch, batch)


@pytest.mark.parametrize(
    "config",
    [
        {"num_gradient_accumulation_steps": 2},
        {"loss_multiplier": 20.0, "validate_from_zeros": False, "use_amp": True},
    ],
)
def test_a_recovered_run_is_the_same_with(tmp_path, config):
    """With what concerns the state or this trainer alone; trainer_test.py has the rest."""
    expected = train(tmp_path / "whole", **config)
    for epoch, batch in [(0, 2), (0, None), (1, 1), (1, 3)]:
        actual = train_killed(tmp_path / f"{epoch}_{batch}", KillAt(epoch, batch), **config)
        assert actual == expected, (epoch, batch)


def test_the_state_is_carried_within_an_epoch_only(tmp_path):
    model = TinyModel(dropout=0.0)
    make_trainer(tmp_path, model=model, num_epochs=2, loader=JumpingLoader()).train()
    carried = [state is not None for state in model.initial_states]
    assert carried == 2 * [False, *(NUM_BATCHES - 1) * [True]]


def test_the_state_flows_in_order_through_accumulated_batches(tmp_path):
    model = TinyModel(dropout=0.0)
    make_trainer(tmp_path, model=model, num_epochs=1, loader=JumpingLoader(), num_gradient_accumulation_steps=2).train()
    assert [state is not None for state in model.initial_states] == [False, *(NUM_BATCHES - 1) * [True]]


def test_validation_leaves_the_state_of_training_alone_and_starts_from_zeros(tmp_path):
    model = TinyModel(dropout=0.0)
    trainer = make_trainer(tmp_path, model=model)
    model.carried_state = training_state = torch.full((1, NUM_ROWS, DIM), 0.5)
    trainer._validate(epoch=0)
    assert model.carried_state is training_state
    # Two batches from zeros, then two of which the second goes on from the first.
    assert [state is not None for state in model.initial_states] == [False, False, False, True]
    assert not model.evaluate_from_zeros


def test_validation_leaves_the_state_of_training_alone_when_it_fails(tmp_path):
    trainer = make_trainer(tmp_path)
    trainer.model.carried_state = training_state = torch.zeros(1, NUM_ROWS, DIM)
    trainer._validation_data_loader.batches[0]["inputs"] = torch.full((3, NUM_STEPS), NUM_WORDS)
    with pytest.raises(IndexError):
        trainer._validate(epoch=0)
    assert trainer.model.carried_state is training_state
    assert not trainer.model.evaluate_from_zeros


def test_both_held_out_figures_are_reported(tmp_path):
    metrics = make_trainer(tmp_path, num_epochs=1, model=TinyModel(dropout=0.0)).train()
    model = TinyModel(dropout=0.0)
    model.load_state_dict(torch.load(tmp_path / "best.th"))
    model.eval()
    loader = JumpingLoader(num_batches=2, first_seed=100, num_rows=3)
    for from_zeros, prefix in ((True, "validation_from_zeros_"), (False, "validation_")):
        loader.set_position(0, 0)
        model.reset_carried_state()
        model.evaluate_from_zeros = from_zeros
        losses = [model(**batch)["loss"].item() for batch in loader]
        assert metrics[prefix + "loss"] == pytest.approx(sum(losses) / 2)
        assert metrics[prefix + "nll"] == pytest.approx(model.get_metrics(reset=True)["nll"])
    assert metrics["validation_loss"] != metrics["validation_from_zeros_loss"]


def test_the_best_epoch_can_be_chosen_from_zeros(tmp_path):
    trainer = make_trainer(tmp_path, validation_metric="-from_zeros_nll")
    metrics = trainer.train()
    by_epoch = [json.loads((tmp_path / f"metrics_epoch_{epoch}.json").read_text()) for epoch in range(3)]
    figures = [m["validation_from_zeros_nll"] for m in by_epoch]
    assert metrics["best_epoch"] == figures.index(min(figures))


@pytest.mark.parametrize("arguments", [{"model": TinyModel(carry_state=False)}, {"validate_from_zeros": False}])
def test_there_is_one_figure_where_nothing_is_carried_or_only_one_is_wanted(tmp_path, arguments):
    trainer = make_trainer(tmp_path, num_epochs=1, **arguments)
    metrics = trainer.train()
    assert "validation_nll" in metrics and "validation_from_zeros_nll" not in metrics
    assert trainer._validation_data_loader.num_given == 2


def test_the_loss_multiplier_multiplies_gradients_and_leaves_the_loss(tmp_path):
    gradients, losses = [], []
    for multiplier in (1.0, 20.0):
        trainer = make_trainer(
            tmp_path / str(multiplier),
            loss_multiplier=multiplier,
            grad_norm=False,
            num_epochs=1,
            loader=JumpingLoader(1),
        )
        losses.append(trainer.train()["training_loss"])
        gradients.append([parameter.grad for parameter in trainer.model.parameters()])
    assert losses[0] == losses[1]
    for once, multiplied in zip(*gradients, strict=True):
        torch.testing.assert_close(20 * once, multiplied)


def test_gradients_are_clipped_after_they_are_multiplied(tmp_path):
    trainer = make_trainer(tmp_path, loss_multiplier=1e6, num_epochs=1, loader=JumpingLoader(1))
    trainer.train()
    norm = torch.linalg.vector_norm(torch.stack([p.grad.norm() for p in trainer.model.parameters()]))
    assert norm.item() == pytest.approx(10.0, rel=1e-4)


def test_tokens_per_second_count_real_targets_and_survive_a_recovery(tmp_path):
    num_tokens = sum(int(batch["mask"].sum()) for batch in JumpingLoader().batches)
    with pytest.raises(Killed):
        make_trainer(tmp_path, KillAt(0, 3), num_epochs=1).train()
    trainer = make_trainer(tmp_path, num_epochs=1)
    metrics = trainer.train()
    assert trainer._speed.state_dict()["num_tokens"] == num_tokens
    assert metrics["training_tokens_per_second"] > 0


def test_tokens_per_second_is_shown_with_each_batch(tmp_path):
    seen = []

    class Watching(TrainerCallback):
        def on_batch(self, trainer, batch_inputs, batch_outputs, batch_metrics, *args, **kwargs):
            seen.append("tokens_per_second" in batch_metrics)

    make_trainer(tmp_path, Watching(""), num_epochs=1, loader=JumpingLoader()).train()
    assert seen == NUM_BATCHES * [True]


def test_tokens_per_second_counts_the_time_of_all_processes(monkeypatch):
    clock = iter([100.0, 104.0])
    monkeypatch.setattr(trainer_module.time, "perf_counter", lambda: next(clock))
    speed = Speed()
    speed.load_state_dict({"num_tokens": 60, "seconds": 6.0})
    speed.count({"mask": torch.ones(4, 10, dtype=torch.bool)})
    assert speed.reading() == 10.0


def test_targets_of_sentences_include_one_boundary_each():
    token_ids = torch.tensor([[[2, 3], [4, 0], [0, 0]], [[5, 0], [0, 0], [0, 0]]])
    assert num_targets({"tokens": {"elmo": {"elmo_tokens": token_ids}}}).item() == 3 + 2


def test_a_checkpoint_does_not_hold_on_to_the_memory_that_the_carried_state_is_a_part_of(tmp_path):
    trainer = make_trainer(tmp_path)
    whole = torch.arange(20.0).view(4, 5)
    trainer.model.carried_state = [whole[:, -1]]
    (copy,) = trainer._rank_state()["carried_state"]
    assert torch.equal(copy, whole[:, -1])
    assert copy.untyped_storage().nbytes() == 4 * 4


def test_an_unknown_config_key_is_refused(tmp_path):
    with pytest.raises(ConfigurationError, match="loss_multiplyer"):
        make_trainer(tmp_path, loss_multiplyer=20)


def test_a_model_without_state_is_refused(tmp_path):
    class Stateless(Model):
        pass

    with pytest.raises(ConfigurationError, match="Stateless has none"):
        BiLmTrainer(Stateless(Vocabulary()), data_loader=JumpingLoader(), cuda_device=-1)


def test_a_loss_multiplier_of_zero_is_refused(tmp_path):
    with pytest.raises(ConfigurationError, match="got 0"):
        make_trainer(tmp_path, loss_multiplier=0)


# ---- With the real model, reader and loader ----

RUN = """
import sys
from allennlp.commands.train import TrainModel
from allennlp.common import Params
from allennlp.common.util import prepare_environment
import elmo_plugin
params = Params.from_file(sys.argv[1])
prepare_environment(params)
TrainModel.from_params(params=params, serialization_dir=sys.argv[2], local_rank=0).run()
"""


def write_corpus(path, num_lines: int, seed: int, num_words: Optional[int] = None) -> str:
    words = "the a cat dog mouse saw chased ate small big and then".split()
    generator = random.Random(seed)
    lines = (" ".join(generator.choices(words, k=num_words or generator.randint(1, 9))) for _ in range(num_lines))
    path.write_text("".join(line + "\n" for line in lines))
    return str(path)


def bilm_config(tmp_path, **trainer) -> Dict[str, Any]:
    train_path = write_corpus(tmp_path / "train.txt", 40, seed=1)
    return {
        "dataset_reader": {"type": "elmo::bilm"},
        "train_data_path": train_path,
        "validation_data_path": write_corpus(tmp_path / "dev.txt", 6, seed=2),
        "vocabulary": {"type": "elmo::bilm", "data_path": train_path},
        "model": {
            "type": "elmo::bilm",
            "bilm": {
                "type": "random",
                "projection_dim": 4,
                "cell_dim": 6,
                "char_dim": 3,
                "filters": [[1, 3], [2, 4]],
                "num_highway": 1,
                "dropout": 0.1,
            },
            "softmax": {"type": "sampled", "num_samples": 6},
            "reset_probability": 0.3,
        },
        "data_loader": {"type": "elmo::windows", "batch_size": 3, "num_steps": 4},
        "validation_data_loader": {"type": "elmo::windows", "batch_size": 2, "num_steps": 4, "shuffle": False},
        "trainer": {
            "type": "elmo::bilm",
            "optimizer": {"type": "adagrad", "lr": 0.2, "initial_accumulator_value": 1.0},
            "grad_norm": 10.0,
            "loss_multiplier": 4.0,
            "num_epochs": 3,
            "cuda_device": -1,
            "validation_metric": "-perplexity",
            "checkpointer": {"type": "elmo::atomic", "save_every_num_batches": 2},
            **trainer,
        },
    }


def train_bilm(config: Dict[str, Any], folder, *callbacks: TrainerCallback) -> Dict[str, Any]:
    """Trains or recovers as `allennlp train` does. Gives what has to be the same after a recovery."""
    params = Params(config).duplicate()
    prepare_environment(params)
    train_loop = TrainModel.from_params(params=params, serialization_dir=str(folder), local_rank=0)
    train_loop.trainer._callbacks.extend(callbacks)
    train_loop.run()
    return result(folder)


def result(folder) -> Dict[str, Any]:
    latest = AtomicCheckpointer(folder).load_checkpoint()
    metrics = [json.loads(path.read_text()) for path in sorted(folder.glob("metrics_epoch_*.json"))]
    return {
        "parameters": {name: value.tolist() for name, value in latest.model_state.items()},
        "optimizer": tree_map_only(torch.Tensor, torch.Tensor.tolist, latest.trainer_state["optimizer"]["state"]),
        "best": {name: value.tolist() for name, value in torch.load(folder / "best.th").items()},
        "perplexities": [{k: v for k, v in m.items() if "perplexity" in k or "loss" in k} for m in metrics],
    }


def test_a_process_killed_at_any_moment_and_recovered_ends_with_equal_parameters(tmp_path):
    config = bilm_config(tmp_path)
    expected = train_bilm(config, tmp_path / "whole")

    folder = tmp_path / "killed"
    (tmp_path / "config.json").write_text(json.dumps(config))
    command = [sys.executable, "-c", RUN, str(tmp_path / "config.json"), str(folder)]
    # As many threads as in this process: sums over other numbers of threads round differently.
    environment = {**os.environ, "OMP_NUM_THREADS": str(torch.get_num_threads())}
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    try:
        while process.poll() is None and not list(folder.glob("training_state_*.th")):
            time.sleep(0.005)
        time.sleep(random.Random(os.getpid()).uniform(0.0, 0.5))
    finally:
        process.kill()
    assert process.wait() == -signal.SIGKILL, "the run ended before it could be killed"

    assert train_bilm(config, folder) == expected


def test_a_recovered_biLM_is_the_same_with_orthogonal_steps(tmp_path):
    optimizer = {"type": "elmo::muon", "matrices": ["_layers.*_weight$"], "matrices_lr": 0.01, "lr": 0.01}
    checkpointer = {"type": "elmo::atomic", "save_every_num_batches": 3}
    config = bilm_config(tmp_path, optimizer=optimizer, checkpointer=checkpointer)
    expected = train_bilm(config, tmp_path / "whole")
    with pytest.raises(Killed):
        train_bilm(config, tmp_path / "killed", KillAt(1, 4))
    assert train_bilm(config, tmp_path / "killed") == expected


@pytest.mark.parametrize("layout", ["windows", "sentences"])
def test_a_recovered_biLM_is_the_same_in_either_layout(tmp_path, layout):
    """The sentences go through AllenNLP's own loader, whose batches are replayed."""
    config = bilm_config(tmp_path, checkpointer={"type": "elmo::atomic", "save_every_num_batches": 3})
    if layout == "sentences":
        config["data_loader"] = config["validation_data_loader"] = {"batch_size": 3, "shuffle": True}
    expected = train_bilm(config, tmp_path / "whole")
    assert ("validation_from_zeros_perplexity" in expected["perplexities"][0]) == (layout == "windows")
    with pytest.raises(Killed):
        train_bilm(config, tmp_path / "killed", KillAt(1, 5))
    disturb_generators()
    assert train_bilm(config, tmp_path / "killed") == expected


def train_in_two_processes(config: Dict[str, Any], folder) -> Dict[str, Any]:
    folder.mkdir(exist_ok=True)
    address = ("127.0.0.1", find_open_port(), 2, [-1, -1])
    packages = ["elmo_plugin.training", "tiny_training"]
    multiprocessing.set_forkserver_preload(packages)  # imported once for all processes
    torch.multiprocessing.start_processes(
        _train_worker,
        args=(Params(config).duplicate(), str(folder), packages, False, 0, *address, False, None, Params({})),
        nprocs=2,
        start_method="forkserver",
    )
    return result(folder)


def test_two_processes_train_as_one_does_on_the_joint_batch(tmp_path):
    """With sentences as long as a window, both deal the same sentences to the same rows, in the same order."""
    config = bilm_config(tmp_path, num_epochs=2)
    config["train_data_path"] = write_corpus(tmp_path / "equal.txt", 24, seed=3, num_words=3)
    config["validation_data_path"] = write_corpus(tmp_path / "equal_dev.txt", 8, seed=4, num_words=3)
    config["model"].update({"softmax": {"type": "full"}, "dropout": 0.0, "reset_probability": 0.0})
    config["model"]["bilm"]["dropout"] = 0.0
    config["data_loader"] = {"type": "elmo::windows", "batch_size": 4, "num_steps": 4, "shuffle": False}
    config["validation_data_loader"] = dict(config["data_loader"])
    expected = train_bilm(config, tmp_path / "one")

    config["vocabulary"] = {"type": "from_files", "directory": str(tmp_path / "one" / "vocabulary")}
    config["data_loader"]["batch_size"] = config["validation_data_loader"]["batch_size"] = 2
    folder = tmp_path / "two"
    actual = train_in_two_processes(config, folder)
    assert json.loads((folder / "metrics_epoch_1.json").read_text())["training_tokens_per_second"] > 0
    for epoch in range(2):
        assert actual["perplexities"][epoch] == pytest.approx(expected["perplexities"][epoch], rel=1e-5)
    for name, value in expected["parameters"].items():
        torch.testing.assert_close(torch.tensor(actual["parameters"][name]), torch.tensor(value), rtol=1e-4, atol=1e-6)


def test_two_processes_recovered_within_an_epoch_go_on_exactly(tmp_path):
    """State is carried along and counted in each process by itself."""
    config = bilm_config(tmp_path, num_epochs=1)
    train_bilm(config, tmp_path / "one")
    config["vocabulary"] = {"type": "from_files", "directory": str(tmp_path / "one" / "vocabulary")}
    expected = train_in_two_processes(config, tmp_path / "whole")
    stopped = copy.deepcopy(config)
    stopped["trainer"]["callbacks"] = [{"type": "kill_after", "num_batches": 5}]
    with pytest.raises(torch.multiprocessing.ProcessExitedException):
        train_in_two_processes(stopped, tmp_path / "killed")
    assert train_in_two_processes(config, tmp_path / "killed") == expected
