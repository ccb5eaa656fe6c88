"""A tiny language model and its batches, trained, killed and recovered in milliseconds."""

import copy
import json
import random
from typing import Any, Dict, Iterator, List, Optional

import numpy
import pytest
import torch
from allennlp.common import Params
from allennlp.data import Vocabulary
from allennlp.data.data_loaders import DataLoader
from allennlp.models import Model
from allennlp.training import Trainer, TrainerCallback
from allennlp.training.metrics import Metric

from elmo_plugin.training import ResumableTrainer, checkpointer

NUM_ROWS, NUM_STEPS, NUM_BATCHES, NUM_WORDS, DIM = 2, 3, 5, 7, 4


class Killed(BaseException):
    """Not an Exception, as a kill can't be handled either."""


class MeanNll(Metric):
    def __init__(self) -> None:
        self.reset()

    def __call__(self, nll: torch.Tensor, count: torch.Tensor) -> None:
        self.sums = self.sums + torch.stack([nll.double(), count.double()])

    def get_metric(self, reset: bool = False) -> float:
        nll, count = self.sums.tolist()
        if reset:
            self.reset()
        return nll / max(count, 1)

    def reset(self) -> None:
        self.sums = torch.zeros(2, dtype=torch.float64)


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
        self.mean_nll = MeanNll()
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
        self.mean_nll(nll.detach(), mask.sum())
        loss = nll / mask.sum().clamp(min=1)
        if self.training and self.noise:
            loss = loss * (1 + self.noise * (random.random() + numpy.random.rand()))
        return {"loss": loss}

    def reset_carried_state(self) -> None:
        self.carried_state = None

    def get_metrics(self, reset: bool = False) -> Dict[str, float]:
        return {"nll": self.mean_nll.get_metric(reset)}


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


@TrainerCallback.register("kill_after")
class KillAfter(TrainerCallback):
    """Ends the run as soon as the first epoch has come to a batch: for a config, where processes are started by one."""

    def __init__(self, serialization_dir: str, num_batches: int) -> None:
        super().__init__(serialization_dir)
        self.num_batches = num_batches

    def on_batch(self, trainer, batch_inputs, batch_outputs, batch_metrics, epoch, batch_number, is_training, **kwargs):
        if is_training and batch_number == self.num_batches:
            raise Killed()


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
) -> ResumableTrainer:
    config = copy.deepcopy(config)
    checkpoints = {"type": "elmo::atomic", "save_every_num_batches": 1, **config.pop("checkpointer", {})}
    trainer = Trainer.from_params(
        Params(
            {
                "type": "elmo::bilm",
                "optimizer": {"type": "adagrad", "lr": 0.2, "initial_accumulator_value": 1.0},
                "num_epochs": 3,
                "seed": 11,
                "grad_norm": 10.0,
                "cuda_device": -1,
                "checkpointer": checkpoints,
                **config,
            }
        ),
        model=model or TinyModel(carry_state=config.get("type", "elmo::bilm") == "elmo::bilm"),
        data_loader=loader() if isinstance(loader, type) else loader,
        validation_data_loader=loader(num_batches=2, first_seed=100, num_rows=3) if isinstance(loader, type) else None,
        serialization_dir=str(folder),
    )
    if kill is not None:
        trainer._callbacks.append(kill)  # a config can't name it
    return trainer


@pytest.fixture(autouse=True)
def do_not_wait_for_the_disk(monkeypatch):
    """These tests save hundreds of times; that files are flushed is for the checkpointer's tests to see."""
    monkeypatch.setattr(checkpointer.os, "fsync", lambda descriptor: None)


def outcome(trainer: ResumableTrainer, folder) -> Dict[str, Any]:
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
        "optimizer": repr(trainer.optimizer.state_dict()["state"]),
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
