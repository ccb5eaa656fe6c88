"""Trainer "elmo::bilm": carried state, exact resume, tokens per second."""

import hashlib
import inspect
import logging
import os
import random
import time
from contextlib import contextmanager
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple, Union

import numpy
import torch
import torch.distributed as dist
from allennlp.common import Lazy
from allennlp.common.checks import ConfigurationError
from allennlp.data.data_loaders.data_loader import DataLoader, TensorDict
from allennlp.models.model import Model
from allennlp.nn.util import dist_reduce_sum, get_text_field_mask, move_to_device
from allennlp.training import util as training_util
from allennlp.training.callbacks import TrainerCallback
from allennlp.training.callbacks.confidence_checks import ConfidenceChecksCallback
from allennlp.training.checkpointer import Checkpointer
from allennlp.training.gradient_descent_trainer import GradientDescentTrainer
from allennlp.training.metric_tracker import MetricTracker
from allennlp.training.trainer import Trainer

from elmo_plugin.bilm.language_model import BiLmLanguageModel
from elmo_plugin.training.checkpointer import AtomicCheckpointer, link_atomically, save_atomically

logger = logging.getLogger(__name__)

SECONDS_BETWEEN_READINGS = 1.0


def _with_config_keys_of(parent_constructor: Callable) -> Callable[[Callable], Callable]:
    """Gives a constructor that passes its keyword arguments on the parameters of both. AllenNLP reads a config's keys
    and types from them, and by itself looks no further than `__init__` of the class above. Unknown keys are refused.
    """

    def decorate(constructor: Callable) -> Callable:
        named = [p for p in inspect.signature(constructor).parameters.values() if p.kind != p.VAR_KEYWORD]
        own = {parameter.name: parameter for parameter in named}
        inherited = inspect.signature(parent_constructor).parameters.values()  # bound: without cls
        theirs = [p for p in inherited if p.name not in own and p.kind != p.VAR_KEYWORD]
        parameters = [p.replace(kind=p.KEYWORD_ONLY) for p in [*theirs, *named[1:]]]
        constructor.__signature__ = inspect.Signature([named[0], *parameters])  # type: ignore[attr-defined]
        return constructor

    return decorate


@Trainer.register("elmo::bilm", constructor="from_partial_objects")
class BiLmTrainer(GradientDescentTrainer):
    """Trains a language model on windows that follow one another. It has all config keys of AllenNLP's trainer, and

    - Carried state. `model.carried_state` goes from window to window, also through the batches accumulated for a step,
      and starts from zeros in each epoch. Validation has a state of its own and leaves that of training alone.
    - Held-out figures twice: with carried state, and from zeros at each sentence, as the biLM starts when it embeds.
      Names of the latter begin with `from_zeros_`, and `validation_metric` may be one of them. They cost a second pass
      over the validation data; `validate_from_zeros: false` saves it. Where nothing is carried there is only one pass.
    - Exact resume. Whatever is random about a batch follows from (`seed`, rank, epoch, batch), and a checkpoint holds
      the carried state, the position and the sums behind the metrics. One process that is killed and recovered ends
      with the same parameters and metrics as one that wasn't, on the CPU bit by bit (with as many threads). A loader
      that offers `set_position(epoch, batch)` jumps to where training stopped; with any other, batches are replayed.
      In `distributed`, a run recovered within an epoch carries on from zeros, and the log says so.
    - `loss_multiplier` multiplies the gradient of the loss (and of any regularization) before it is clipped; the loss
      that is reported stays as it is. bilm-tf multiplies by the length of its windows, 20.
    - `tokens_per_second`, in the progress bar and in the metrics: positions predicted, padding aside. A position counts
      once, though both directions predict at it.
    - `use_amp` on the CPU too, in bfloat16, which needs no gradient scaling.

    `seed` is torch's (`pytorch_seed` in the config) unless given; the checkpointer is `elmo::atomic` unless configured.
    The model has to offer what `BiLmLanguageModel` does: `carry_state`, `carried_state`, `reset_carried_state()`,
    `evaluate_from_zeros`, `metric_state()` and `load_metric_state(state)`.

    Differs from AllenNLP's trainer also in: in mixed precision, accumulated gradients are averaged as they are without
    it (AllenNLP sums them) and the gradient scaler's state is saved; `best.th` is replaced in one step and up to date
    after a recovery; a run that had run out of patience when it was killed doesn't go on; unknown config keys are
    refused.
    """

    model: BiLmLanguageModel
    _metric_tracker: "_HeldOutTracker"

    def __init__(
        self,
        model: Model,
        optimizer: torch.optim.Optimizer,
        data_loader: DataLoader,
        patience: Optional[int] = None,
        validation_metric: Union[str, List[str]] = "-loss",
        cuda_device: Optional[Union[int, torch.device]] = None,
        use_amp: bool = False,
        callbacks: Optional[List[TrainerCallback]] = None,
        loss_multiplier: float = 1.0,
        seed: Optional[int] = None,
        validate_from_zeros: bool = True,
        **kwargs,
    ) -> None:
        if not hasattr(model, "carried_state"):
            raise ConfigurationError(
                f"trainer elmo::bilm trains models that carry a state, such as elmo::bilm; {type(model).__name__} has "
                "none. Take the trainer gradient_descent for it."
            )
        if loss_multiplier <= 0:
            raise ConfigurationError(f"trainer elmo::bilm: loss_multiplier has to be above 0, got {loss_multiplier}")
        on_cpu = not torch.cuda.is_available() if cuda_device is None else cuda_device in (-1, torch.device("cpu"))
        resume = _Resume(self)
        super().__init__(
            model,
            optimizer,
            data_loader,
            patience=patience,
            validation_metric=validation_metric,
            cuda_device=cuda_device,
            use_amp=use_amp and not on_cpu,  # AllenNLP's own is for GPUs only
            callbacks=[resume, *(callbacks or [])],
            **kwargs,
        )
        self._use_amp_on_cpu = use_amp and on_cpu
        self._loss_multiplier = loss_multiplier
        self._seed = torch.initial_seed() if seed is None else seed
        self._validate_from_zeros = validate_from_zeros
        self._metric_tracker = _HeldOutTracker(validation_metric, patience)
        if self._checkpointer is not None:
            if not isinstance(self._checkpointer, AtomicCheckpointer):
                logger.warning("A kill may leave a broken checkpoint: the checkpointer isn't of type elmo::atomic.")
            self._checkpointer = _SilentCheckpointer(self._checkpointer)  # type: ignore[assignment]
        self._resume = resume
        self._progress = EpochProgress()
        self._batch_in_epoch = 0  # counts each of the batches that are accumulated for a step
        self._last_metrics: Dict[str, Any] = {}

    @classmethod
    @_with_config_keys_of(GradientDescentTrainer.from_partial_objects)
    def from_partial_objects(
        cls,
        checkpointer: Optional[Lazy[Checkpointer]] = Lazy(AtomicCheckpointer),
        loss_multiplier: float = 1.0,
        seed: Optional[int] = None,
        validate_from_zeros: bool = True,
        **kwargs,
    ) -> Trainer:
        """What a config builds: see AllenNLP's trainer for the other keys."""
        return super().from_partial_objects(
            checkpointer=checkpointer,
            loss_multiplier=loss_multiplier,
            seed=seed,
            validate_from_zeros=validate_from_zeros,
            **kwargs,
        )

    # ---- Training ----

    def train(self) -> Dict[str, Any]:
        metrics = super().train()
        self.model.reset_carried_state()  # whatever the model reads next, it isn't the next window
        # A run that was killed after its last epoch has nothing left to train or measure.
        return metrics if "epoch" in metrics else {**self._last_metrics, **metrics}

    def _train_epoch(self, epoch: int) -> Dict[str, float]:
        can_jump = hasattr(self.data_loader, "set_position")
        is_past = self._epochs_completed < self._start_after_epochs_completed
        if is_past and can_jump:
            return {}
        # What the loader draws, it draws from here: the same when an epoch is replayed.
        seed_all(self._seed, self._global_rank, epoch)
        if is_past:
            return super()._train_epoch(epoch)

        self._start_epoch(epoch)
        if can_jump:
            self.data_loader.set_position(epoch, self._batch_in_epoch)  # type: ignore[attr-defined]
            # Nothing is left for AllenNLP's loop to skip.
            self._batches_in_epoch_completed = self._start_after_batches_in_epoch_completed
            self._start_after_batches_in_epoch_completed = 0
        metrics = super()._train_epoch(epoch)
        self._start_after_batches_in_epoch_completed = 0
        if "loss" not in metrics:  # the checkpoint was the epoch's very last, and AllenNLP takes the epoch for past
            metrics.update(self.model.get_metrics(reset=True))
        return {**metrics, **self._progress.metrics(reduce=dist_reduce_sum)}

    def _start_epoch(self, epoch: int) -> None:
        """Takes up what a checkpoint left, in the first epoch trained after it, and starts afresh in any other."""
        state, self._resume.state = self._resume.state, None
        self._batch_in_epoch = 0
        self._progress = EpochProgress()
        self.model.reset_carried_state()
        if state is not None:
            self._should_validate_this_epoch = state["should_validate_this_epoch"]
            if hasattr(self.data_loader, "set_position"):
                self._total_batches_completed = state["total_batches_completed"]
            self._end_confidence_checks()
            if self._start_after_batches_in_epoch_completed > 0:
                self._take_up_epoch(epoch, state)

    def _take_up_epoch(self, epoch: int, state: Dict[str, Any]) -> None:
        num_steps = self._start_after_batches_in_epoch_completed
        self._batch_in_epoch = num_steps * self._num_gradient_accumulation_steps
        logger.info("Resuming epoch %d after %d batches.", epoch, self._batch_in_epoch)
        self.model.load_metric_state(move_to_device(state["metric_state"], self.cuda_device))
        if self._distributed:
            logger.warning(
                "Recovered in the middle of epoch %d: in distributed training the LSTMs' carried state isn't saved and "
                "starts from zeros here. The loss and tokens per second of this epoch count from here too.",
                epoch,
            )
        else:
            self.model.carried_state = move_to_device(state["carried_state"], self.cuda_device)
            self._progress.load_state_dict(state["progress"])

    def _end_confidence_checks(self) -> None:
        """The checks watch the first batch of the run, and would wait for it in vain, remembering every module call."""
        for callback in self._callbacks:
            if isinstance(callback, ConfidenceChecksCallback) and hasattr(callback, "_verification"):
                callback._verification.destroy_hooks()

    @property
    def _global_rank(self) -> int:
        return dist.get_rank() if self._distributed else 0

    def batch_outputs(self, batch: TensorDict, for_training: bool) -> Dict[str, torch.Tensor]:
        with torch.autocast("cpu", torch.bfloat16, enabled=self._use_amp_on_cpu):
            if not for_training:
                return super().batch_outputs(batch, for_training)
            self._progress.count(batch)
            key = (self._seed, self._global_rank, self._epochs_completed, self._batch_in_epoch)
            with randomness_of(*key, device=self.cuda_device):
                outputs = super().batch_outputs(batch, for_training)
        factor = self._loss_multiplier
        if self._scaler is not None:  # AllenNLP divides the loss by the number of accumulated batches only without one
            factor /= self._num_batches_in_step()
        self._batch_in_epoch += 1
        outputs["loss"] = ScaledGradient.apply(outputs["loss"], factor)
        return outputs

    def _num_batches_in_step(self) -> int:
        """How many batches the present step accumulates: the last of an epoch may have fewer than the others."""
        num_steps = self._num_gradient_accumulation_steps
        first = self._batch_in_epoch - self._batch_in_epoch % num_steps
        try:
            return min(num_steps, len(self.data_loader) - first)
        except TypeError:  # a loader without a length
            return num_steps

    # ---- Validation ----

    def _validation_loss(self, epoch: int) -> Tuple[float, Optional[float], int]:
        training_state = self.model.carried_state
        self._metric_tracker.from_zeros = {}
        try:
            if self._validate_from_zeros and self.model.carry_state:
                self.model.evaluate_from_zeros = True
                results = self._validation_pass(epoch)
                self.model.evaluate_from_zeros = False
                if self.model.carried_state is None:  # sentences, not windows: they start from zeros anyway
                    return results
                self._metric_tracker.from_zeros = self._reduced_metrics(*results)
            return self._validation_pass(epoch)
        finally:
            self.model.evaluate_from_zeros = False
            self.model.carried_state = training_state

    def _validation_pass(self, epoch: int) -> Tuple[float, Optional[float], int]:
        """Both passes, and those of a recovered run, see the same batches in the same order."""
        self.model.reset_carried_state()
        seed_all(self._seed, self._global_rank, epoch, "validation")
        set_position = getattr(self._validation_data_loader, "set_position", None)
        if set_position is not None:
            set_position(epoch, 0)
        return super()._validation_loss(epoch)

    def _reduced_metrics(self, loss: float, reg_loss: Optional[float], num_batches: int) -> Dict[str, float]:
        loss, num_batches = dist_reduce_sum(loss), dist_reduce_sum(num_batches)
        if reg_loss is not None:
            reg_loss = dist_reduce_sum(reg_loss)
        return training_util.get_metrics(self.model, loss, reg_loss, None, None, num_batches, reset=True)

    # ---- Saving and recovering ----

    def resume_state(self) -> Dict[str, Any]:
        """What a checkpoint has to hold, beside what AllenNLP saves, for training to go on exactly."""
        return {
            "seed": self._seed,
            "total_batches_completed": self._total_batches_completed,
            "should_validate_this_epoch": self._should_validate_this_epoch,
            "carried_state": None if self._distributed else copied(self.model.carried_state),
            "metric_state": copied(self.model.metric_state()),
            "progress": self._progress.state_dict(),
            "last_metrics": self._last_metrics,
            "grad_scaler": None if self._scaler is None else self._scaler.state_dict(),
        }

    def _maybe_restore_checkpoint(self) -> None:
        super()._maybe_restore_checkpoint()
        state = self._resume.state
        if state is None:
            return
        if state["seed"] != self._seed:
            logger.info("Going on with the seed of the checkpoint, %d, in place of %d.", state["seed"], self._seed)
        self._seed = state["seed"]
        self._last_metrics = state["last_metrics"]
        if self._scaler is not None:
            self._scaler.load_state_dict(state["grad_scaler"])
        if self._start_after_batches_in_epoch_completed == 0:
            self._finish_epoch(best_model_is_due=state["should_validate_this_epoch"])
        if self._best_model_filename is not None:  # the folder may have been moved
            self._best_model_filename = os.path.join(
                self._serialization_dir, os.path.basename(self._best_model_filename)
            )

    def _finish_epoch(self, best_model_is_due: bool) -> None:
        """Does what AllenNLP does after saving the checkpoint of an epoch: the run may have been killed before that."""
        is_sharded = self._ddp_wrapped_model is not None and self._ddp_wrapped_model.is_sharded
        if best_model_is_due and self._metric_tracker.is_best_so_far() and not is_sharded:
            self._best_model_filename = os.path.join(self._serialization_dir, "best.th")
            if self._primary:
                self._save_best_model(self._best_model_filename, self._start_after_epochs_completed)
        if self._metric_tracker.should_stop_early():
            logger.info("The recovered run had run out of patience. Training no further.")
            self._num_epochs = self._start_after_epochs_completed

    def _save_best_model(self, path: str, epochs_completed: int) -> None:
        if self._moving_average is None:
            self._save_model_state(path, epochs_completed)
            return
        self._moving_average.assign_average_value()
        try:
            self._save_model_state(path, epochs_completed)
        finally:
            self._moving_average.restore()

    def _save_model_state(self, path: str, epochs_completed: Optional[int] = None) -> None:
        """Replaces `best.th`, at the end of an epoch, in one step; by a link to the epoch's checkpoint if possible."""
        if self._checkpointer is not None and self._moving_average is None:
            source = self._checkpointer._model_state_path(epochs_completed or self._epochs_completed, 0)
            if (self._checkpointer.find_latest_checkpoint() or ("",))[0] == source:
                try:
                    return link_atomically(source, path)
                except OSError:  # not all file systems have links
                    pass
        model = self.model if self._ddp_wrapped_model is None else self._ddp_wrapped_model
        save_atomically(model.state_dict(), path)


class _Resume(TrainerCallback):
    """Takes part in AllenNLP's training loop for the trainer: its state is the trainer's own part of a checkpoint, and
    it corrects the metrics of a batch, which AllenNLP counts from where the run was recovered.
    """

    def __init__(self, trainer: BiLmTrainer) -> None:
        super().__init__(serialization_dir="")
        self.trainer: BiLmTrainer = trainer
        self.state: Optional[Dict[str, Any]] = None  # loaded, and not yet taken up

    def on_batch(
        self,
        trainer: GradientDescentTrainer,
        batch_inputs: List[TensorDict],
        batch_outputs: List[Dict[str, Any]],
        batch_metrics: Dict[str, Any],
        epoch: int,
        batch_number: int,
        is_training: bool,
        is_primary: bool = True,
        batch_grad_norm: Optional[float] = None,
        **kwargs,
    ) -> None:
        if is_training:
            reg_losses = [output["reg_loss"] for output in batch_outputs if "reg_loss" in output]
            self.trainer._progress.add(batch_metrics["batch_loss"], reg_losses)
            batch_metrics.update(self.trainer._progress.metrics())

    def on_epoch(
        self,
        trainer: GradientDescentTrainer,
        metrics: Dict[str, Any],
        epoch: int,
        is_primary: bool = True,
        **kwargs,
    ) -> None:
        self.trainer._last_metrics = dict(metrics)

    def state_dict(self) -> Dict[str, Any]:
        return self.trainer.resume_state()

    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        if "seed" not in state_dict:
            raise ConfigurationError(
                "The checkpoint wasn't saved by the trainer elmo::bilm. Recover with the config the run began with."
            )
        self.state = state_dict


class EpochProgress:
    """What has been trained of an epoch, across recoveries. Tokens are counted on the device, and seldom read."""

    def __init__(self) -> None:
        self._loss_sum = 0.0
        self._reg_loss_sum: Optional[float] = None
        self._num_batches = 0
        self._num_tokens: Union[int, torch.Tensor] = 0
        self._seconds_before = 0.0  # of the process that was recovered
        self._started: Optional[float] = None
        self._read_at = 0.0
        self._tokens_per_second = 0.0

    def count(self, batch: TensorDict) -> None:
        """Counts a batch that is about to be trained on."""
        if self._started is None:
            self._started = time.perf_counter()
        self._num_tokens = self._num_tokens + num_targets(batch)

    def add(self, loss: float, reg_losses: List[torch.Tensor]) -> None:
        """Adds the results of a step."""
        self._num_batches += 1
        self._loss_sum += loss
        if reg_losses:
            self._reg_loss_sum = (self._reg_loss_sum or 0.0) + sum(r.item() for r in reg_losses) / len(reg_losses)

    @property
    def seconds(self) -> float:
        return self._seconds_before + (0.0 if self._started is None else time.perf_counter() - self._started)

    def metrics(self, reduce: Optional[Callable[[float], float]] = None) -> Dict[str, float]:
        """The means so far. With `reduce`, at the end of an epoch, over all ranks."""
        is_last = reduce is not None
        reduce = reduce or (lambda value: value)
        num_batches = max(reduce(self._num_batches), 1)
        metrics = {"loss": reduce(self._loss_sum) / num_batches}
        if self._reg_loss_sum is not None:
            metrics["reg_loss"] = reduce(self._reg_loss_sum) / num_batches
        if is_last or self.seconds - self._read_at >= SECONDS_BETWEEN_READINGS or not self._read_at:
            self._read_at = self.seconds
            self._tokens_per_second = reduce(float(self._num_tokens)) / max(self._read_at, 1e-9)
        metrics["tokens_per_second"] = self._tokens_per_second
        return metrics

    def state_dict(self) -> Dict[str, Any]:
        return {
            "loss_sum": self._loss_sum,
            "reg_loss_sum": self._reg_loss_sum,
            "num_batches": self._num_batches,
            "num_tokens": int(self._num_tokens),
            "seconds": self.seconds,
        }

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        self._loss_sum = state["loss_sum"]
        self._reg_loss_sum = state["reg_loss_sum"]
        self._num_batches = state["num_batches"]
        self._num_tokens = state["num_tokens"]
        self._seconds_before = state["seconds"]


class ScaledGradient(torch.autograd.Function):
    """The identity, whose gradient is multiplied by a factor."""

    @staticmethod
    def forward(ctx, loss: torch.Tensor, factor: float) -> torch.Tensor:
        ctx.factor = factor
        return loss.view_as(loss)

    @staticmethod
    def backward(ctx, gradient: torch.Tensor) -> Tuple[torch.Tensor, None]:
        return gradient * ctx.factor, None


class _HeldOutTracker(MetricTracker):
    """Adds the figures of the second validation pass. AllenNLP shows the tracker the validation metrics before it does
    anything else with them, so here the additional ones reach the log, the files and the choice of the best epoch.
    """

    def __init__(self, metric_name: Union[str, List[str]], patience: Optional[int] = None) -> None:
        super().__init__(metric_name, patience)
        self.from_zeros: Dict[str, float] = {}

    def combined_score(self, metrics: Dict[str, float]) -> float:
        metrics.update((f"from_zeros_{name}", value) for name, value in self.from_zeros.items())
        return super().combined_score(metrics)


class _SilentCheckpointer:
    """A checkpointer that doesn't say when it has saved. Told so, AllenNLP's trainer would remove `best.th` and then
    link the checkpoint to that name, and a kill in between would leave none; not told, it calls `_save_model_state`.
    """

    def __init__(self, checkpointer: Checkpointer) -> None:
        self._checkpointer = checkpointer

    def maybe_save_checkpoint(self, *args, **kwargs) -> bool:
        self._checkpointer.maybe_save_checkpoint(*args, **kwargs)
        return False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._checkpointer, name)


def seed_all(*key: Union[int, str]) -> None:
    """Seeds torch, numpy and Python with a number that follows from the key, and from nothing else."""
    digest = hashlib.sha256(repr(key).encode()).digest()
    torch_seed = int.from_bytes(digest[:8], "little")
    # Where no GPU is in use, torch.manual_seed would take a millisecond to note who asked for one to be seeded.
    torch.default_generator.manual_seed(torch_seed)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(torch_seed)
    numpy.random.seed(int.from_bytes(digest[8:12], "little"))
    random.seed(int.from_bytes(digest[12:20], "little"))


@contextmanager
def randomness_of(*key: Union[int, str], device: torch.device = torch.device("cpu")) -> Iterator[None]:
    """Within, what is random follows from the key. Afterwards the generators go on as if nothing had happened: a loader
    that draws from them during an epoch draws the same when the epoch is replayed without its batches being trained.
    """
    python_state, numpy_state = random.getstate(), numpy.random.get_state()
    with torch.random.fork_rng(devices=[] if device.type == "cpu" else [device]):
        seed_all(*key)
        try:
            yield
        finally:
            random.setstate(python_state)
            numpy.random.set_state(numpy_state)


def num_targets(batch: TensorDict) -> torch.Tensor:
    """How many positions a batch predicts: those of its windows, or its sentences' words and one boundary each."""
    mask = batch.get("mask")
    if isinstance(mask, torch.Tensor):
        return mask.sum()
    words_mask = get_text_field_mask(batch["tokens"])  # type: ignore[arg-type]
    return words_mask.sum() + words_mask.size(0)


def copied(state: Any) -> Any:
    """The same structure on the CPU; its tensors have memory of their own, as a part of one is saved with the whole."""
    if isinstance(state, torch.Tensor):
        return state.detach().to("cpu", copy=True)
    if isinstance(state, dict):
        return {key: copied(value) for key, value in state.items()}
    if isinstance(state, tuple) and hasattr(state, "_fields"):
        return type(state)(*map(copied, state))
    if isinstance(state, (list, tuple)):
        return type(state)(map(copied, state))
    return state
