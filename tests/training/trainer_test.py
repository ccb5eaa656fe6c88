import copy
import json
import logging
import os
import random
import signal
import subprocess
import sys
import time
from typing import Any, Dict, Iterator, List, Optional

import numpy
import pytest
import torch
from allennlp.commands.train import TrainModel, _train_worker
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.common.util import find_open_port, prepare_environment
from allennlp.data import Vocabulary
from allennlp.data.data_loaders import DataLoader
from allennlp.models import Model
from allennlp.nn import RegularizerApplicator
from allennlp.training import GradientDescentTrainer, Trainer, TrainerCallback

from elmo_plugin.training import checkpointer as checkpointer_module
from elmo_plugin.training import trainer as trainer_module
from elmo_plugin.training.checkpointer import AtomicCheckpointer
from elmo_plugin.training.trainer import (
    BiLmTrainer,
    EpochProgress,
    ScaledGradient,
    copied,
    num_targets,
    randomness_of,
    seed_all,
)

NUM_ROWS, NUM_STEPS, NUM_BATCHES, NUM_WORDS, DIM = 2, 3, 5, 7, 4


@pytest.fixture(autouse=True)
def do_not_wait_for_the_disk(monkeypatch):
    """These tests save hundreds of times; that files are flushed is for the checkpointer's tests to see."""
    monkeypatch.setattr(checkpointer_module.os, "fsync", lambda descriptor: None)


class Killed(BaseException):
    """Not an Exception, as a kill can't be handled either."""


class TinyModel(Model):
    """The least that carries a state: a recurrent layer, dropout, and a softmax. It draws from all three generators."""

    def __init__(self, dropout: float = 0.3, sparse: bool = False, carry_state: bool = True, **kwargs) -> None:
        super().__init__(Vocabulary(), **kwargs)
        with torch.random.fork_rng():
            torch.manual_seed(5)
            self.embedding = torch.nn.Embedding(NUM_WORDS, DIM, sparse=sparse)
            self.recurrent = torch.nn.RNN(DIM, DIM, batch_first=True)
            self.softmax = torch.nn.Linear(DIM, NUM_WORDS)
        self.dropout = torch.nn.Dropout(dropout)
        self.noise = 0.01 if dropout else 0.0
        self.carry_state = carry_state
        self.carried_state: Optional[torch.Tensor] = None
        self.evaluate_from_zeros = False
        self.sums = torch.zeros(2, dtype=torch.float64)
        self.initial_states: List[Any] = []

    def forward(self, inputs, targets, mask) -> Dict[str, torch.Tensor]:
        state = None if self.evaluate_from_zeros else self.carried_state
        self.initial_states.append(None if state is None else state.clone())
        outputs, final_state = self.recurrent(self.embedding(inputs), state)
        if self.carry_state:
            self.carried_state = final_state.detach()
        logits = self.softmax(self.dropout(outputs))
        nll = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none")
        nll = (nll * mask.flatten()).sum()
        self.sums += torch.stack([nll.detach().double(), mask.sum().double()])
        loss = nll / mask.sum().clamp(min=1)
        if self.training and self.noise:
            loss = loss * (1 + self.noise * (random.random() + numpy.random.rand()))
        return {"loss": loss}

    def reset_carried_state(self) -> None:
        self.carried_state = None

    def get_metrics(self, reset: bool = False) -> Dict[str, float]:
        nll, count = self.sums.tolist()
        if reset:
            self.sums = torch.zeros(2, dtype=torch.float64)
        return {"nll": nll / max(count, 1)}

    def metric_state(self) -> Dict[str, torch.Tensor]:
        return {"sums": self.sums}

    def load_metric_state(self, state: Dict[str, torch.Tensor]) -> None:
        self.sums = state["sums"].clone()


def make_batch(seed: int, num_rows: int = NUM_ROWS) -> Dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    words = torch.randint(NUM_WORDS, (num_rows, NUM_STEPS + 1), generator=generator)
    mask = torch.rand(num_rows, NUM_STEPS, generator=generator) < 0.8
    mask[0, 0] = True
    return {"inputs": words[:, :-1], "targets": words[:, 1:], "mask": mask}


class ReplayedLoader(DataLoader):
    """Shuffles in place as AllenNLP's own loader does, and draws once more in the middle of an epoch."""

    def __init__(self, num_batches: int = NUM_BATCHES, first_seed: int = 0, num_rows: int = NUM_ROWS) -> None:
        self.batches = [make_batch(first_seed + i, num_rows) for i in range(num_batches)]
        self.num_given = 0

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[Dict[str, torch.Tensor]]:
        random.shuffle(self.batches)
        for index, batch in enumerate(list(self.batches)):
            self.num_given += 1
            yield {**batch, "targets": (batch["targets"] + random.randint(0, index)) % NUM_WORDS}

    def index_with(self, vocab) -> None:
        pass

    def iter_instances(self) -> Iterator:
        return iter(())

    def set_target_device(self, device) -> None:
        pass


class JumpingLoader(ReplayedLoader):
    """Like `elmo::windows`: the epoch's number decides the order, and it can start anywhere."""

    epoch, first_batch = -1, 0

    def set_position(self, epoch: int, batch: int) -> None:
        self.epoch, self.first_batch = epoch, batch

    def __iter__(self) -> Iterator[Dict[str, torch.Tensor]]:
        order = random.Random(self.epoch).sample(self.batches, len(self.batches))
        for batch in order[self.first_batch :]:
            self.num_given += 1
            yield batch


class KillAt(TrainerCallback):
    """Ends the run after the given step of the given epoch, or at the end of the epoch (before its checkpoint)."""

    def __init__(self, epoch: int, batch: Optional[int]) -> None:
        super().__init__(serialization_dir="")
        self.at = (epoch, batch)

    def on_batch(self, trainer, batch_inputs, batch_outputs, batch_metrics, epoch, batch_number, is_training, **kwargs):
        if is_training and (epoch, batch_number) == self.at:
            raise Killed()

    def on_epoch(self, trainer, metrics, epoch, **kwargs) -> None:
        if (epoch, None) == self.at:
            raise Killed()


def make_trainer(
    folder, kill: Optional[TrainerCallback] = None, loader=JumpingLoader, model=None, **config
) -> BiLmTrainer:
    config = copy.deepcopy(config)
    checkpointer = {"type": "elmo::atomic", "save_every_num_batches": 1, **config.pop("checkpointer", {})}
    trainer = Trainer.from_params(
        Params(
            {
                "type": "elmo::bilm",
                "optimizer": {"type": "adagrad", "lr": 0.2, "initial_accumulator_value": 1.0},
                "num_epochs": 3,
                "seed": 11,
                "grad_norm": 10.0,
                "cuda_device": -1,
                "checkpointer": checkpointer,
                **config,
            }
        ),
        model=model or TinyModel(),
        data_loader=loader() if isinstance(loader, type) else loader,
        validation_data_loader=loader(num_batches=2, first_seed=100, num_rows=3) if isinstance(loader, type) else None,
        serialization_dir=str(folder),
    )
    if kill is not None:
        trainer._callbacks.append(kill)
    return trainer


def outcome(trainer: BiLmTrainer, folder) -> Dict[str, Any]:
    """Everything that has to be the same: the parameters, the best ones, the optimizer, the metrics of each epoch."""
    metrics = {}
    for path in sorted(folder.glob("metrics_epoch_*.json")):
        metrics[path.name] = {
            name: value
            for name, value in json.loads(path.read_text()).items()
            if not any(part in name for part in ("duration", "memory", "tokens_per_second"))
        }
    return {
        "parameters": {name: value.tolist() for name, value in trainer.model.state_dict().items()},
        "best": {name: value.tolist() for name, value in torch.load(folder / "best.th").items()},
        "optimizer": [state["sum"].tolist() for state in trainer.optimizer.state_dict()["state"].values()],
        "metrics": metrics,
    }


def train(folder, **kwargs) -> Dict[str, Any]:
    trainer = make_trainer(folder, **kwargs)
    trainer.train()
    return outcome(trainer, folder)


def train_killed(folder, kill: TrainerCallback, **kwargs) -> Dict[str, Any]:
    with pytest.raises(Killed):
        make_trainer(folder, kill, **kwargs).train()
    disturb_generators()
    return train(folder, **kwargs)


def disturb_generators() -> None:
    """A new process has other states than the one that was killed."""
    random.seed(99)
    numpy.random.seed(99)
    torch.manual_seed(99)


KILLS = [(0, 1), (0, 4), (0, NUM_BATCHES), (0, None), (1, 1), (1, 3), (2, NUM_BATCHES), (2, None)]


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
        {"checkpointer": {"save_every_num_batches": 3, "keep_most_recent_by_count": 1}},
        {"checkpointer": {"save_completed_epochs": False, "save_every_num_batches": 2}},
        {"moving_average": {"type": "exponential", "decay": 0.9}},
        {"learning_rate_scheduler": {"type": "noam", "model_size": 4, "warmup_steps": 5}},
        {"callbacks": [{"type": "should_validate_callback", "validation_start": 1}]},
        {"loss_multiplier": 20.0, "validate_from_zeros": False, "use_amp": True},
        {"patience": 1, "num_epochs": 6, "validation_metric": "+loss"},
    ],
)
def test_a_recovered_run_is_the_same_with(tmp_path, config):
    expected = train(tmp_path / "whole", **config)
    for epoch, batch in [(0, 2), (0, None), (1, 1), (1, 3)]:
        actual = train_killed(tmp_path / f"{epoch}_{batch}", KillAt(epoch, batch), **config)
        assert actual == expected, (epoch, batch)


def test_a_recovered_run_is_the_same_wherever_in_saving_it_was_killed(tmp_path, monkeypatch):
    """Stops before each renaming in turn: model state, training state, best model."""
    config = {"num_epochs": 2, "checkpointer": {"save_every_num_batches": 2}}
    expected = train(tmp_path / "whole", **config)
    replace = os.replace
    num_kills = 0
    while True:
        folder = tmp_path / str(num_kills)
        allowed = num_kills

        def stop_at(source, destination):
            nonlocal allowed
            if allowed == 0:
                raise Killed()
            allowed -= 1
            replace(source, destination)

        with monkeypatch.context() as patch:
            patch.setattr(checkpointer_module.os, "replace", stop_at)
            try:
                make_trainer(folder, **config).train()
            except Killed:
                num_kills += 1
            else:
                break
        disturb_generators()
        assert train(folder, **config) == expected, num_kills
    assert num_kills >= 2 * 2 * (NUM_BATCHES // 2 + 1)


def test_a_run_recovered_twice_is_the_same(tmp_path):
    expected = train(tmp_path / "whole")
    for epoch, batch in [(0, 3), (2, 1)]:
        with pytest.raises(Killed):
            make_trainer(tmp_path / "twice", KillAt(epoch, batch)).train()
        disturb_generators()
    assert train(tmp_path / "twice") == expected


def test_a_finished_run_gives_the_same_metrics_when_recovered(tmp_path):
    metrics = make_trainer(tmp_path).train()
    assert make_trainer(tmp_path).train() == metrics


def test_a_run_out_of_patience_does_not_go_on_when_recovered(tmp_path):
    config = {"patience": 1, "num_epochs": 6, "validation_metric": "+loss"}
    expected = train(tmp_path, **config)
    assert len(expected["metrics"]) < 6
    assert train(tmp_path, **config) == expected


def test_the_best_model_is_loaded_at_the_end_also_when_recovered_after_the_first_epoch(tmp_path):
    """The checkpoint of the first epoch is saved before there is a best model, and so doesn't name one."""
    config = {"validation_metric": "+loss"}  # the first epoch is the best
    expected = train(tmp_path / "whole", **config)
    assert expected["parameters"] == expected["best"]
    folder = tmp_path / "recovered"
    make_trainer(folder, num_epochs=1, **config).train()
    os.remove(folder / "best.th")
    assert train(folder, **config) == expected


def test_the_loader_jumps_to_where_the_run_was_killed(tmp_path):
    with pytest.raises(Killed):
        make_trainer(tmp_path, KillAt(1, 4)).train()
    trainer = make_trainer(tmp_path, checkpointer={"save_every_num_batches": 1})
    trainer.train()
    assert trainer.data_loader.num_given == (NUM_BATCHES - 3) + NUM_BATCHES


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
    model.eval()
    with torch.no_grad():
        trainer._validation_loss(epoch=0)
    assert model.carried_state is training_state
    # Two batches from zeros, then two of which the second goes on from the first.
    assert [state is not None for state in model.initial_states] == [False, False, False, True]
    assert not model.evaluate_from_zeros


def test_validation_leaves_the_state_of_training_alone_when_it_fails(tmp_path):
    trainer = make_trainer(tmp_path)
    trainer.model.carried_state = training_state = torch.zeros(1, NUM_ROWS, DIM)
    trainer._validation_data_loader.batches[0]["inputs"] = torch.full((3, NUM_STEPS), NUM_WORDS)
    with pytest.raises(IndexError):
        trainer._validation_loss(epoch=0)
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


@pytest.mark.parametrize("num_batches", [4, 5])
def test_accumulated_gradients_are_averaged_with_and_without_a_scaler(tmp_path, num_batches):
    """AllenNLP's own mixed precision sums them. A scaler that is switched off runs on the CPU."""
    outcomes = []
    for use_scaler in (False, True):
        trainer = make_trainer(
            tmp_path / str(use_scaler),
            num_gradient_accumulation_steps=3,
            num_epochs=1,
            grad_norm=False,
            loader=JumpingLoader(num_batches),
        )
        trainer._scaler = torch.amp.GradScaler("cpu", enabled=False) if use_scaler else None
        trainer.train()
        outcomes.append(list(trainer.model.parameters()))
    for one, other in zip(*outcomes, strict=True):
        torch.testing.assert_close(one, other)


def test_the_state_of_the_gradient_scaler_is_saved(tmp_path):
    def with_scaler(kill=None):
        trainer = make_trainer(tmp_path, kill, loader=JumpingLoader())
        trainer._scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2)
        return trainer

    with pytest.raises(Killed):
        with_scaler(KillAt(0, 4)).train()
    trainer = with_scaler()
    trainer._maybe_restore_checkpoint()
    assert trainer._scaler.get_scale() == 16.0


def test_mixed_precision_works_on_the_cpu(tmp_path):
    dtypes = set()

    class Watching(TinyModel):
        def forward(self, inputs, targets, mask):
            dtypes.add(self.softmax(torch.ones(1, DIM)).dtype)
            return super().forward(inputs, targets, mask)

    trainer = make_trainer(tmp_path, model=Watching(), use_amp=True, num_epochs=1)
    trainer.train()
    assert dtypes == {torch.bfloat16}
    assert {parameter.dtype for parameter in trainer.model.parameters()} == {torch.float32}


@pytest.mark.filterwarnings("ignore:Sparse invariant checks are implicitly disabled")  # by torch's Adagrad itself
def test_adagrad_takes_sparse_gradients_and_leaves_other_rows_alone(tmp_path):
    model = TinyModel(dropout=0.0, sparse=True)
    before = model.embedding.weight.detach().clone()
    loader = JumpingLoader(1)
    used = loader.batches[0]["inputs"].unique()
    trainer = make_trainer(tmp_path, model=model, num_epochs=1, grad_norm=False, loader=loader)
    trainer.train()
    changed = (model.embedding.weight != before).any(dim=1).nonzero().flatten()
    assert model.embedding.weight.grad.is_sparse
    assert set(changed.tolist()) <= set(used.tolist()) and len(changed) > 0
    # With an accumulator that starts at 1 a step is about the learning rate times the gradient.
    gradient = model.embedding.weight.grad.to_dense()
    expected = before - 0.2 * gradient / (1 + gradient**2).sqrt()
    torch.testing.assert_close(model.embedding.weight.detach(), expected)


def test_tokens_per_second_count_real_targets_and_survive_a_recovery(tmp_path):
    num_tokens = sum(int(batch["mask"].sum()) for batch in JumpingLoader().batches)
    with pytest.raises(Killed):
        make_trainer(tmp_path, KillAt(0, 3), num_epochs=1).train()
    trainer = make_trainer(tmp_path, num_epochs=1)
    metrics = trainer.train()
    assert trainer._progress.state_dict()["num_tokens"] == num_tokens
    assert metrics["training_tokens_per_second"] > 0


def test_tokens_per_second_is_shown_with_each_batch(tmp_path):
    seen = []

    class Watching(TrainerCallback):
        def on_batch(self, trainer, batch_inputs, batch_outputs, batch_metrics, *args, **kwargs):
            seen.append("tokens_per_second" in batch_metrics)

    make_trainer(tmp_path, Watching(""), num_epochs=1, loader=JumpingLoader()).train()
    assert seen == NUM_BATCHES * [True]


def test_progress_divides_tokens_by_the_time_of_all_processes(monkeypatch):
    clock = iter([100.0, *[104.0] * 5])
    monkeypatch.setattr(trainer_module.time, "perf_counter", lambda: next(clock))
    progress = EpochProgress()
    progress.load_state_dict(
        {"loss_sum": 6.0, "reg_loss_sum": None, "num_batches": 2, "num_tokens": 60, "seconds": 6.0}
    )
    progress.count({"mask": torch.ones(4, 10, dtype=torch.bool)})
    progress.add(3.0, [])
    assert progress.metrics() == {"loss": 3.0, "tokens_per_second": 10.0}


def test_targets_of_sentences_include_one_boundary_each():
    token_ids = torch.tensor([[[2, 3], [4, 0], [0, 0]], [[5, 0], [0, 0], [0, 0]]])
    assert num_targets({"tokens": {"elmo": {"elmo_tokens": token_ids}}}).item() == 3 + 2


def test_the_regularization_loss_survives_a_recovery(tmp_path):
    def model():
        return TinyModel(regularizer=RegularizerApplicator([("softmax", _l2())]))

    whole = make_trainer(tmp_path / "whole", model=model(), num_epochs=1).train()
    with pytest.raises(Killed):
        make_trainer(tmp_path / "killed", KillAt(0, 3), model=model(), num_epochs=1).train()
    recovered = make_trainer(tmp_path / "killed", model=model(), num_epochs=1).train()
    assert recovered["training_reg_loss"] == whole["training_reg_loss"] > 0
    assert recovered["training_loss"] == whole["training_loss"]


def _l2():
    from allennlp.nn.regularizers import L2Regularizer

    return L2Regularizer(0.1)


def test_the_confidence_checks_do_not_linger_after_a_recovery(tmp_path):
    with pytest.raises(Killed):
        make_trainer(tmp_path, KillAt(0, 3)).train()
    trainer = make_trainer(tmp_path)
    trainer.train()
    assert all(not module._forward_hooks for module in trainer.model.modules())


def test_the_best_model_is_never_missing(tmp_path, monkeypatch):
    removed = []
    remove = os.remove

    def watch(path, *args, **kwargs):
        removed.append(os.path.basename(path))
        remove(path, *args, **kwargs)

    monkeypatch.setattr(os, "remove", watch)
    make_trainer(tmp_path).train()
    assert removed and "best.th" not in removed


def test_the_best_model_shares_the_file_of_its_checkpoint(tmp_path):
    make_trainer(tmp_path, num_epochs=1).train()
    assert os.path.samefile(tmp_path / "best.th", tmp_path / "model_state_e1_b0.th")


def test_the_best_model_is_written_where_links_are_not_possible(tmp_path, monkeypatch):
    def refuse(*args, **kwargs):
        raise OSError("no links here")

    monkeypatch.setattr(os, "link", refuse)
    trainer = make_trainer(tmp_path, num_epochs=1)
    trainer.train()
    best = torch.load(tmp_path / "best.th")
    assert all(torch.equal(best[name], value) for name, value in trainer.model.state_dict().items())


def test_the_seed_decides_and_is_torchs_unless_given(tmp_path):
    torch.manual_seed(23)
    default = train(tmp_path / "default", seed=None)
    assert train(tmp_path / "23", seed=23) == default
    assert train(tmp_path / "24", seed=24) != default


def test_recovering_takes_the_seed_of_the_checkpoint(tmp_path):
    make_trainer(tmp_path, num_epochs=1, seed=1).train()
    trainer = make_trainer(tmp_path, num_epochs=2, seed=2)
    trainer.train()
    assert trainer._seed == 1


def test_seeding_depends_on_every_part_of_the_key():
    draws = set()
    for key in [(1, 0, 0, 0), (2, 0, 0, 0), (1, 1, 0, 0), (1, 0, 1, 0), (1, 0, 0, 1), (1, 0, 0), (10, 0, 0)]:
        seed_all(*key)
        draws.add((torch.rand(1).item(), numpy.random.rand(), random.random()))
    assert len(draws) == 7


def test_randomness_of_a_batch_leaves_the_generators_as_they_were():
    def draw():
        return torch.rand(1).item(), numpy.random.rand(), random.random()

    seed_all(1)
    expected = [draw(), draw()]
    seed_all(1)
    first = draw()
    with randomness_of(1, 2):
        within = draw()
    with randomness_of(1, 2):
        assert draw() == within
    assert [first, draw()] == expected


def test_a_scaled_gradient_leaves_the_value():
    value = torch.tensor(3.0, requires_grad=True)
    scaled = ScaledGradient.apply(value, 20.0)
    scaled.backward()
    assert scaled.item() == 3.0 and value.grad.item() == 20.0


def test_copies_do_not_hold_on_to_the_memory_they_are_a_part_of():
    whole = torch.arange(20.0).view(4, 5)
    (copy,) = copied([whole[:, -1]])
    assert torch.equal(copy, whole[:, -1])
    assert copy.untyped_storage().nbytes() == 4 * 4


def test_an_unknown_config_key_is_refused(tmp_path):
    with pytest.raises(ConfigurationError, match="loss_multiplyer"):
        make_trainer(tmp_path, loss_multiplyer=20)


def test_the_checkpointer_is_atomic_unless_configured(tmp_path):
    trainer = Trainer.from_params(
        Params({"type": "elmo::bilm", "cuda_device": -1}),
        model=TinyModel(),
        data_loader=JumpingLoader(),
        serialization_dir=str(tmp_path),
    )
    assert isinstance(trainer._checkpointer._checkpointer, AtomicCheckpointer)


def test_another_checkpointer_is_warned_of(tmp_path, caplog):
    make_trainer(tmp_path, checkpointer={"type": "default"})
    assert "elmo::atomic" in caplog.text


def test_a_model_without_state_is_refused(tmp_path):
    class Stateless(Model):
        pass

    with pytest.raises(ConfigurationError, match="Stateless has none"):
        BiLmTrainer(Stateless(Vocabulary()), torch.optim.SGD([torch.zeros(1)], lr=0.1), JumpingLoader(), cuda_device=-1)


def test_a_loss_multiplier_of_zero_is_refused(tmp_path):
    with pytest.raises(ConfigurationError, match="got 0"):
        make_trainer(tmp_path, loss_multiplier=0)


def test_a_checkpoint_of_another_trainer_is_refused(tmp_path):
    model = TinyModel()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    GradientDescentTrainer(
        model,
        optimizer,
        JumpingLoader(),
        num_epochs=1,
        cuda_device=-1,
        serialization_dir=str(tmp_path),
        checkpointer=AtomicCheckpointer(tmp_path),
    ).train()
    with pytest.raises(ConfigurationError, match="wasn't saved by the trainer elmo::bilm"):
        make_trainer(tmp_path).train()


def test_the_log_says_where_a_run_is_taken_up(tmp_path, caplog):
    with pytest.raises(Killed):
        make_trainer(tmp_path, KillAt(1, 4)).train()
    with caplog.at_level(logging.INFO, logger=trainer_module.__name__):
        make_trainer(tmp_path).train()
    assert "Resuming epoch 1 after 3 batches." in caplog.text


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
        "optimizer": [state["sum"].tolist() for state in latest.trainer_state["optimizer"]["state"].values()],
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

    folder = tmp_path / "two"
    folder.mkdir()
    config["vocabulary"] = {"type": "from_files", "directory": str(tmp_path / "one" / "vocabulary")}
    config["data_loader"]["batch_size"] = config["validation_data_loader"]["batch_size"] = 2
    address = ("127.0.0.1", find_open_port(), 2, [-1, -1])
    torch.multiprocessing.spawn(
        _train_worker,
        args=(Params(config), str(folder), ["elmo_plugin.training"], False, 0, *address, False, None, Params({})),
        nprocs=2,
    )
    actual = result(folder)
    assert json.loads((folder / "metrics_epoch_1.json").read_text())["training_tokens_per_second"] > 0
    for epoch in range(2):
        assert actual["perplexities"][epoch] == pytest.approx(expected["perplexities"][epoch], rel=1e-5)
    for name, value in expected["parameters"].items():
        torch.testing.assert_close(torch.tensor(actual["parameters"][name]), torch.tensor(value), rtol=1e-4, atol=1e-6)


def test_a_distributed_run_recovered_within_an_epoch_starts_from_zeros_and_says_so(tmp_path, caplog):
    with pytest.raises(Killed):
        make_trainer(tmp_path, KillAt(0, 4)).train()
    trainer = make_trainer(tmp_path)
    trainer._maybe_restore_checkpoint()
    assert trainer._resume.state["carried_state"] is not None
    trainer._distributed = True
    trainer._take_up_epoch(0, trainer._resume.state)
    assert trainer.model.carried_state is None
    assert "starts from zeros" in caplog.text
