import logging
import os
import signal
from functools import partial

import pytest
import tiny_training
import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.nn import RegularizerApplicator
from allennlp.nn.regularizers import L2Regularizer
from allennlp.training import GradientDescentTrainer, Trainer
from tiny_training import (
    DIM,
    NUM_BATCHES,
    JumpingLoader,
    KillAt,
    Killed,
    ReplayedLoader,
    TinyModel,
    disturb_generators,
    do_not_wait_for_the_disk,  # noqa: F401
)

from elmo_plugin.training import checkpointer as checkpointer_module
from elmo_plugin.training import trainer as trainer_module
from elmo_plugin.training.checkpointer import AtomicCheckpointer
from elmo_plugin.training.progress import Losses
from elmo_plugin.training.trainer import TrainingDiverged

make_trainer = partial(tiny_training.make_trainer, type="elmo::resumable")
train = partial(tiny_training.train, type="elmo::resumable")
train_killed = partial(tiny_training.train_killed, type="elmo::resumable")

MOMENTUM = {"type": "inverted_triangular", "cool_down": 2, "warm_up": 2}
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
        {"optimizer": {"type": "sgd", "lr": 0.1, "momentum": 0.5}, "momentum_scheduler": MOMENTUM},
        {"learning_rate_scheduler": {"type": "noam", "model_size": 4, "warmup_steps": 5}},
        {"learning_rate_scheduler": {"type": "reduce_on_plateau", "patience": 0}, "validation_metric": "+loss"},
        {"callbacks": [{"type": "should_validate_callback", "validation_start": 1}]},
        {"callbacks": [{"type": "track_epoch_callback"}]},
        {"use_amp": True},
        {"grad_norm": False, "grad_clipping": 0.1},
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
    trainer._take_up(trainer._restore())
    assert trainer._scaler.get_scale() == 16.0


def test_mixed_precision_works_on_the_cpu(tmp_path):
    dtypes = set()

    class Watching(TinyModel):
        def forward(self, inputs, targets, mask):
            dtypes.add(self.softmax(torch.ones(1, DIM)).dtype)
            return super().forward(inputs, targets, mask)

    trainer = make_trainer(tmp_path, model=Watching(carry_state=False), use_amp=True, num_epochs=1)
    trainer.train()
    assert dtypes == {torch.bfloat16}
    assert {parameter.dtype for parameter in trainer.model.parameters()} == {torch.float32}


@pytest.mark.filterwarnings("ignore:Sparse invariant checks are implicitly disabled")  # by torch's Adagrad itself
def test_adagrad_takes_sparse_gradients_and_leaves_other_rows_alone(tmp_path):
    model = TinyModel(dropout=0.0, sparse=True, carry_state=False)
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


def test_the_regularization_loss_survives_a_recovery(tmp_path):
    def model():
        return TinyModel(carry_state=False, regularizer=RegularizerApplicator([("softmax", _l2())]))

    whole = make_trainer(tmp_path / "whole", model=model(), num_epochs=1).train()
    with pytest.raises(Killed):
        make_trainer(tmp_path / "killed", KillAt(0, 3), model=model(), num_epochs=1).train()
    recovered = make_trainer(tmp_path / "killed", model=model(), num_epochs=1).train()
    assert recovered["training_reg_loss"] == whole["training_reg_loss"] > 0
    assert recovered["training_loss"] == whole["training_loss"]


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
    (tmp_path / ".best.th.12.tmp").write_text("left behind by a kill")
    make_trainer(tmp_path, num_epochs=1).train()
    assert os.path.samefile(tmp_path / "best.th", tmp_path / "model_state_e1_b0.th")
    assert not list(tmp_path.glob("*.tmp"))


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


def test_the_checkpointer_is_atomic_unless_configured(tmp_path):
    trainer = Trainer.from_params(
        Params({"type": "elmo::resumable", "cuda_device": -1}),
        model=TinyModel(carry_state=False),
        data_loader=JumpingLoader(),
        serialization_dir=str(tmp_path),
    )
    assert isinstance(trainer._checkpointer, AtomicCheckpointer)


def test_another_checkpointer_is_warned_of(tmp_path, caplog):
    make_trainer(tmp_path, checkpointer={"type": "default"})
    assert "elmo::atomic" in caplog.text


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
    with pytest.raises(ConfigurationError, match="wasn't saved by a run of this config"):
        make_trainer(tmp_path).train()


def test_the_log_says_where_a_run_is_taken_up(tmp_path, caplog):
    with pytest.raises(Killed):
        make_trainer(tmp_path, KillAt(1, 4)).train()
    with caplog.at_level(logging.INFO, logger=trainer_module.__name__):
        make_trainer(tmp_path).train()
    assert "Resuming epoch 1 after 3 batches." in caplog.text


def _l2():
    return L2Regularizer(0.1)


@pytest.mark.parametrize("workers, is_exact", [((0, 4), True), ((1, None), True), ((1, 4), False), ((2, None), False)])
def test_workers_that_draw_by_themselves_are_warned_of(tmp_path, caplog, workers, is_exact):
    loader = JumpingLoader()
    loader.num_workers, loader.max_instances_in_memory = workers
    make_trainer(tmp_path, loader=loader)
    assert ("resume isn't exact" not in caplog.text) == is_exact


# ---- Faults ----


class Failing(TinyModel):
    """Its loss, or its parameters, stop being numbers at a batch."""

    def __init__(self, at: int, value: float, of: str = "loss") -> None:
        super().__init__(carry_state=False)
        self.at, self.value, self.of = at, value, of
        self.num_batches = 0

    def forward(self, **batch):
        output = super().forward(**batch)
        self.num_batches += self.training
        if self.num_batches == self.at and self.of == "loss":
            output["loss"] = output["loss"] * self.value
        elif self.num_batches == self.at:
            self.softmax.bias.data[0] = self.value
        return output


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_loss_that_is_no_number_stops_with_place_remedy_and_the_last_sound_checkpoint(tmp_path, value):
    trainer = make_trainer(tmp_path, model=Failing(at=NUM_BATCHES + 3, value=value))
    with pytest.raises(TrainingDiverged) as error:
        trainer.train()
    for part in ("batch 3 of epoch 1", "lower learning rate (it was 0.2)", "model_state_e1_b2.th"):
        assert part in str(error.value)
    checkpoint = AtomicCheckpointer(tmp_path).load_checkpoint()
    assert checkpoint.trainer_state["batches_in_epoch_completed"] == 2
    assert all(torch.isfinite(tensor).all() for tensor in checkpoint.model_state.values())


def test_parameters_that_are_no_numbers_are_never_saved(tmp_path):
    trainer = make_trainer(tmp_path, model=Failing(at=NUM_BATCHES, value=float("nan"), of="bias"), num_epochs=1)
    with pytest.raises(TrainingDiverged, match=r"batch 5 of epoch 0|softmax.bias is no longer finite"):
        trainer.train()
    assert not list(tmp_path.glob("*_e1_*")) and not (tmp_path / "best.th").exists()


def test_a_learning_rate_far_too_high_stops_with_a_sentence(tmp_path):
    optimizer = {"type": "sgd", "lr": 1e30}
    with pytest.raises(TrainingDiverged, match=r"it was 1e\+30"):
        make_trainer(tmp_path, optimizer=optimizer, grad_norm=False, num_epochs=30).train()


def test_losses_are_not_read_at_every_step_unless_a_callback_asks(tmp_path, monkeypatch):
    """Each reading lets the host wait for a GPU."""
    readings = []
    read = Losses._read
    monkeypatch.setattr(Losses, "_read", lambda self: (readings.append(len(self._unread)), read(self)))
    checkpointer = {"save_every_num_batches": None}
    make_trainer(tmp_path, num_epochs=1, loader=JumpingLoader(200), checkpointer=checkpointer).train()
    assert max(readings) > 10


def test_a_validation_metric_that_is_no_number_stops(tmp_path):
    class Silent(TinyModel):
        def get_metrics(self, reset=False):
            return {"nll": float("nan")}

    with pytest.raises(TrainingDiverged, match="validation metric is nan after epoch 0"):
        make_trainer(tmp_path, model=Silent(carry_state=False), validation_metric="-nll").train()


def test_an_empty_training_set_is_refused(tmp_path):
    with pytest.raises(ConfigurationError, match="the training set has no instances"):
        make_trainer(tmp_path, loader=JumpingLoader(0))


def test_an_empty_lazy_training_set_is_refused_by_name(tmp_path):
    class Lazy(JumpingLoader):
        data_path = "train.txt"

        def __len__(self):
            raise TypeError

    with pytest.raises(ConfigurationError, match="the training set has no instances: nothing was read from train.txt"):
        make_trainer(tmp_path, loader=Lazy(0)).train()


def test_an_empty_validation_set_is_refused(tmp_path):
    trainer = make_trainer(tmp_path)
    trainer._validation_data_loader.batches = []
    with pytest.raises(ConfigurationError, match="the validation set has no instances"):
        trainer.train()


def test_a_model_without_a_loss_is_refused(tmp_path):
    class Lossless(TinyModel):
        def forward(self, **batch):
            return {"logits": super().forward(**batch)["loss"]}

    with pytest.raises(ConfigurationError, match=r"Lossless gave no loss for a training batch, only \['logits'\]"):
        make_trainer(tmp_path, model=Lossless(carry_state=False)).train()


class SignalAt(KillAt):
    """Sends the process a signal in the midst of training or validation."""

    def __init__(self, epoch: int, batch: int, number: signal.Signals, is_training: bool = True) -> None:
        super().__init__(epoch, batch)
        self.number, self.is_training = number, is_training

    def on_batch(self, trainer, batch_inputs, batch_outputs, batch_metrics, epoch, batch_number, is_training, **kwargs):
        if (epoch, batch_number) == self.at and is_training == self.is_training:
            os.kill(os.getpid(), self.number)


@pytest.mark.parametrize("number, code", [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
@pytest.mark.parametrize("is_training, checkpoint", [(True, "e1_b1"), (False, "e1_b5")])
def test_a_signal_saves_the_state_of_the_moment(tmp_path, caplog, number, code, is_training, checkpoint):
    config = {"checkpointer": {"save_every_num_batches": None}}
    expected = train(tmp_path / "whole", **config)
    folder = tmp_path / "stopped"
    with pytest.raises(SystemExit) as stopped:
        make_trainer(folder, SignalAt(1, 1, number, is_training), **config).train()
    assert stopped.value.code == code
    assert f"Stopped by {number.name}" in caplog.text and f"model_state_{checkpoint}.th" in caplog.text
    assert not list(folder.glob("*.tmp"))
    disturb_generators()
    assert train(folder, **config) == expected


def test_a_signal_without_checkpoints_stops_too(tmp_path, caplog):
    trainer = tiny_training.make_trainer(tmp_path, SignalAt(0, 1, signal.SIGTERM), type="elmo::resumable")
    trainer._checkpointer = None
    with pytest.raises(SystemExit):
        trainer.train()
    assert "No checkpoint was saved" in caplog.text
