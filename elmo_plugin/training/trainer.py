"""Trainer "elmo::resumable": AllenNLP's gradient descent, for any model, that a kill doesn't change."""

import datetime
import logging
import math
import os
import re
import signal
import time
from contextlib import contextmanager, suppress
from itertools import islice
from typing import Any, Dict, Iterable, Iterator, List, Optional, Tuple, Union

import torch
import torch.distributed as dist
from allennlp.common import Lazy, Tqdm
from allennlp.common import util as common_util
from allennlp.common.checks import ConfigurationError
from allennlp.data.data_loaders import DataLoader, MultiProcessDataLoader, TensorDict
from allennlp.models.model import Model
from allennlp.nn.parallel import DdpAccelerator, TorchDdpAccelerator
from allennlp.nn.util import dist_reduce_sum
from allennlp.training import util as training_util
from allennlp.training.callbacks import ConsoleLoggerCallback, TrackEpochCallback, TrainerCallback
from allennlp.training.callbacks.confidence_checks import ConfidenceChecksCallback
from allennlp.training.checkpointer import Checkpointer
from allennlp.training.learning_rate_schedulers import LearningRateScheduler
from allennlp.training.metric_tracker import MetricTracker
from allennlp.training.momentum_schedulers import MomentumScheduler
from allennlp.training.moving_average import MovingAverage
from allennlp.training.optimizers import Optimizer
from allennlp.training.trainer import Trainer, TrainerCheckpoint

from elmo_plugin.bilm.cache import LayerCache
from elmo_plugin.files import remove_leftovers, replacing
from elmo_plugin.training.checkpointer import AtomicCheckpointer, read_state
from elmo_plugin.training.metric_state import load_metric_state, metric_state
from elmo_plugin.training.progress import Display, Losses
from elmo_plugin.training.randomness import randomness_of, seed_all
from elmo_plugin.training.stopping import StopSignals, stopped_by

logger = logging.getLogger(__name__)

# These don't read a batch's metrics, so none need to be fetched from the device for them.
_WITHOUT_BATCH_METRICS = (TrainerCallback, ConsoleLoggerCallback, ConfidenceChecksCallback)


class TrainingDiverged(RuntimeError):
    """The loss or the parameters are no longer numbers."""


@Trainer.register("elmo::resumable")
class ResumableTrainer(Trainer):
    """Trains any model as AllenNLP's trainer `gradient_descent` does, with its config keys and callbacks, and resumes
    exactly: a run that is killed and recovered ends with the same parameters and metrics as one that wasn't, on the CPU
    bit by bit (with as many threads).

    - All randomness of a batch follows from (`seed`, rank, epoch, batch), and the order of an epoch's batches from
      (`seed`, rank, epoch). `seed` is torch's (`pytorch_seed` in the config) unless given.
    - A checkpoint holds the position and the sums behind losses and metrics, in addition to what AllenNLP saves. The
      checkpointer is `elmo::atomic` unless configured otherwise.
    - A loader that offers `set_position(epoch, batch)` jumps to where training stopped. With AllenNLP's own, the
      earlier batches of that epoch are skipped; with any other, and with `batches_per_epoch`, those of all epochs.
      AllenNLP's loader has a different order in each run with several workers, or with one and
      `max_instances_in_memory`; the log says so.

    It stops with a message that says where, and keeps the checkpoints it has:

    - if the loss or a parameter is no longer a finite number. No such state is ever saved. On a GPU losses are read
      once a second and before saving, not at every step.
    - on SIGTERM or Ctrl-C, after the current step, whose state is saved; a second one stops at once.

    It also differs from AllenNLP's trainer in: `use_amp` works on the CPU too, in bfloat16, which needs no gradient
    scaling; in mixed precision, accumulated gradients are averaged as they are without it (AllenNLP sums them) and the
    gradient scaler's state is saved; `best.th` is replaced in one step, is up to date after a recovery, and is what the
    model holds at the end; a run that had run out of patience when it was killed doesn't go on; with `distributed`,
    `no_grad` and parameter groups see the names they see without it, and sharded models are refused; unknown config
    keys are refused.
    """

    def __init__(
        self,
        model: Model,
        data_loader: DataLoader,
        serialization_dir: str,
        validation_data_loader: Optional[DataLoader] = None,
        patience: Optional[int] = None,
        validation_metric: Union[str, List[str]] = "-loss",
        num_epochs: int = 20,
        cuda_device: Optional[Union[int, torch.device]] = None,
        grad_norm: Union[float, bool] = False,
        grad_clipping: Optional[float] = None,
        num_gradient_accumulation_steps: int = 1,
        use_amp: bool = False,
        grad_scaling: bool = True,
        no_grad: Optional[List[str]] = None,
        optimizer: Lazy[Optimizer] = Lazy(Optimizer.default),
        learning_rate_scheduler: Optional[Lazy[LearningRateScheduler]] = None,
        momentum_scheduler: Optional[Lazy[MomentumScheduler]] = None,
        moving_average: Optional[Lazy[MovingAverage]] = None,
        checkpointer: Optional[Lazy[Checkpointer]] = Lazy(AtomicCheckpointer),
        callbacks: Optional[List[Lazy[TrainerCallback]]] = None,
        enable_default_callbacks: bool = True,
        run_confidence_checks: bool = True,
        local_rank: int = 0,
        distributed: bool = False,
        world_size: int = 1,
        ddp_accelerator: Optional[DdpAccelerator] = None,
        seed: Optional[int] = None,
    ) -> None:
        super().__init__(serialization_dir, cuda_device, distributed, local_rank, world_size)
        if patience is not None and patience < 1:
            raise ConfigurationError(f"the trainer's patience has to be at least 1, or null, got {patience}")
        self.data_loader = data_loader
        self._validation_data_loader = validation_data_loader
        for loader in (data_loader, *([] if validation_data_loader is None else [validation_data_loader])):
            loader.set_target_device(self.cuda_device)
            if getattr(loader, "num_workers", 0) > (getattr(loader, "max_instances_in_memory", None) is None):
                logger.warning("A data loader's workers draw random numbers: resume isn't exact. Set num_workers to 0.")
        self._num_batches_in_step = num_gradient_accumulation_steps
        if self._num_steps_in_epoch() == 0:
            raise _empty("training", data_loader)

        # The names that AllenNLP's own callbacks look for: _pytorch_model, _scaler, _epochs_completed,
        # _total_batches_completed and _should_validate_this_epoch.
        self.model = model
        self._pytorch_model: torch.nn.Module = self._placed(no_grad or [], ddp_accelerator)
        self._use_amp = use_amp
        self._scaler: Optional[torch.amp.GradScaler] = None
        if use_amp and grad_scaling and self.cuda_device.type != "cpu":
            self._scaler = torch.amp.GradScaler(self.cuda_device.type)

        parameters = [[name, each] for name, each in model.named_parameters() if each.requires_grad]
        self.optimizer = optimizer.construct(model_parameters=parameters)
        common_util.log_frozen_and_tunable_parameter_names(model)
        length = {"num_epochs": num_epochs, "num_steps_per_epoch": self._num_steps_in_epoch()}
        self._learning_rate_scheduler = _constructed(learning_rate_scheduler, optimizer=self.optimizer, **length)
        self._momentum_scheduler = _constructed(momentum_scheduler, optimizer=self.optimizer)
        self._moving_average = _constructed(moving_average, parameters=parameters)
        self._grad_norm = grad_norm
        self._grad_clipping = grad_clipping

        self._num_epochs = num_epochs
        self._metric_tracker = MetricTracker(validation_metric, patience)
        self._checkpointer = _constructed(checkpointer, serialization_dir=self._serialization_dir)
        if self._checkpointer is not None and not isinstance(self._checkpointer, AtomicCheckpointer):
            logger.warning("A kill may leave a broken checkpoint: the checkpointer isn't of type elmo::atomic.")
        # Of any trainer, though their annotations name AllenNLP's own.
        self._callbacks: List[Any] = [
            each.construct(serialization_dir=self._serialization_dir) for each in callbacks or []
        ]
        defaults = {ConsoleLoggerCallback: enable_default_callbacks, ConfidenceChecksCallback: run_confidence_checks}
        for default, is_wanted in defaults.items():
            if is_wanted and not any(type(callback) is default for callback in self._callbacks):
                self._callbacks.append(default(self._serialization_dir))

        # Where the run is, as a checkpoint records it.
        self._seed = torch.initial_seed() if seed is None else seed
        self._epochs_completed = 0
        self._batches_in_epoch_completed = 0  # steps, in fact: a step may accumulate several batches
        self._total_batches_completed = 0
        self._should_validate_this_epoch = True
        self._has_best_model = False
        self._losses = Losses()
        self._trained: Optional[Dict[str, float]] = None  # the metrics of an epoch that is yet to be validated
        self._metrics: Dict[str, Any] = {"best_epoch": None}  # all of the last epoch's
        self._is_best = False  # whether that is the best so far
        self._stop = StopSignals()
        self._told_together: Optional[signal.Signals] = None  # the signal that any rank received

    def _placed(self, no_grad: List[str], accelerator: Optional[DdpAccelerator]) -> torch.nn.Module:
        """The model on its device, with its parameters frozen as configured, and wrapped if there are several
        processes.
        """
        for name, parameter in self.model.named_parameters():
            if any(re.search(pattern, name) for pattern in no_grad):
                parameter.requires_grad_(False)
        if not self._distributed:
            return self.model.to(self.cuda_device)
        accelerator = accelerator or TorchDdpAccelerator(cuda_device=self.cuda_device)
        self.model, wrapped = accelerator.wrap_model(self.model)
        if wrapped.is_sharded:
            raise ConfigurationError(
                f"the trainer {type(self).__name__} keeps a whole model in each process; "
                "train a sharded one with the trainer gradient_descent"
            )
        return wrapped.model

    def _num_steps_in_epoch(self) -> Optional[int]:
        try:
            return math.ceil(len(self.data_loader) / self._num_batches_in_step)
        except TypeError:  # a loader that reads as it goes
            return None

    # ---- The run ----

    def train(self) -> Dict[str, Any]:
        """Trains to the end, from the latest checkpoint if there is one. Returns the last epoch's metrics."""
        state = self._restore()
        for callback in self._callbacks:
            # The confidence checks watch the first batch of a run, which a recovered run doesn't have.
            if state is None or not isinstance(callback, ConfidenceChecksCallback):
                callback.on_start(self, is_primary=self._primary)
        if state is not None:
            self._take_up(state)
        finished = False
        try:
            with self._stop:
                self._train_epochs()
            self._load_best_model()
            finished = True
            return self._metrics
        finally:
            metrics, epoch = (self._metrics, self._epochs_completed - 1) if finished else (None, None)
            for callback in self._callbacks:
                callback.on_end(self, metrics=metrics, epoch=epoch, is_primary=self._primary)

    def _train_epochs(self) -> None:
        started, first_epoch = time.monotonic(), self._epochs_completed
        while self._epochs_completed < self._num_epochs:
            if self._metric_tracker.should_stop_early():
                logger.info("Ran out of patience. Stopping training.")
                break
            epoch = self._epochs_completed
            logger.info("Epoch %d/%d", epoch, self._num_epochs - 1)
            if self._trained is None:
                self._trained = self._train_epoch(epoch)
            can_validate = self._validation_data_loader is not None
            validated = self._validate(epoch) if can_validate and self._should_validate_this_epoch else {}
            elapsed = time.monotonic() - started
            self._finish_epoch(epoch, self._trained, validated, elapsed)
            num_done, num_left = epoch + 1 - first_epoch, self._num_epochs - epoch - 1
            if num_left:
                remaining = datetime.timedelta(seconds=int(elapsed / num_done * num_left))
                logger.info("Estimated training time remaining: %s", remaining)

    def _finish_epoch(self, epoch: int, trained: Dict[str, float], validated: Dict[str, float], elapsed: float) -> None:
        """Records the results, tells schedulers and callbacks, and saves: the best model comes last."""
        score: Optional[float] = None
        if validated:
            score = self._metric_tracker.combined_score(validated)
            if math.isnan(score):
                raise self._diverged(f"The validation metric is nan after epoch {epoch}")
            self._metric_tracker.add_metrics(validated)
        self._is_best = self._should_validate_this_epoch and self._metric_tracker.is_best_so_far()
        if self._is_best:
            self._metric_tracker.best_epoch_metrics = validated
        self._record(epoch, trained, validated, elapsed)
        for scheduler in self._schedulers():
            scheduler.step(score)
        for callback in self._callbacks:
            callback.on_epoch(self, metrics=self._metrics, epoch=epoch, is_primary=self._primary)
        self._epochs_completed += 1
        self._batches_in_epoch_completed = 0
        self._losses, self._trained = Losses(), None
        if self._checkpointer is not None:
            self._checkpointer.maybe_save_checkpoint(self, self._epochs_completed, 0)
        if self._is_best:
            self._save_best_model()
        if self._distributed:
            dist.barrier()

    def _record(self, epoch: int, trained: Dict[str, float], validated: Dict[str, float], elapsed: float) -> None:
        metrics = self._metrics
        for name, value in trained.items():
            if name.endswith("_memory_MB"):
                metrics[f"peak_{name}"] = max(metrics.get(f"peak_{name}", 0), value)
        metrics["training_duration"] = str(datetime.timedelta(seconds=elapsed))
        metrics["epoch"] = epoch
        metrics.update({f"training_{name}": value for name, value in trained.items()})
        metrics.update({f"validation_{name}": value for name, value in validated.items()})
        if self._is_best:
            metrics["best_epoch"] = epoch
            metrics.update({f"best_validation_{name}": value for name, value in validated.items()})
        if self._primary:
            with replacing(os.path.join(self._serialization_dir, f"metrics_epoch_{epoch}.json")) as temporary:
                common_util.dump_metrics(str(temporary), metrics)

    def _schedulers(self) -> List[Any]:
        return [each for each in (self._learning_rate_scheduler, self._momentum_scheduler) if each is not None]

    # ---- An epoch of training ----

    def _train_epoch(self, epoch: int) -> Dict[str, float]:
        self._pytorch_model.train()
        memory = _memory_in_use()
        first = self._batches_in_epoch_completed * self._num_batches_in_step
        if first:
            logger.info("Resuming epoch %d after %d batches.", epoch, first)
        steps = common_util.lazy_groups_of(self._training_batches(epoch, first), self._num_batches_in_step)
        bar = self._bar(steps, total=self._num_steps_in_epoch(), initial=self._batches_in_epoch_completed)
        display = self._display(bar)
        for batches in self._in_step_with_others(bar):
            outputs, grad_norm = self._train_step(epoch, batches)
            self._batches_in_epoch_completed += 1
            self._total_batches_completed += 1
            if display.is_due():
                display.show(self._batch_metrics())
            batch_grad_norm = grad_norm.item() if grad_norm is not None and display.is_watched else None
            place = (epoch, self._batches_in_epoch_completed)
            self._tell(batches, outputs, display.metrics, *place, is_training=True, batch_grad_norm=batch_grad_norm)
            if self._checkpointer is not None:
                self._checkpointer.maybe_save_checkpoint(self, epoch, self._batches_in_epoch_completed)
            self._stop_if_told()
        if not self._batches_in_epoch_completed:
            raise _empty("training", self.data_loader)
        self._refuse_divergence()
        return {**self._reduced_metrics(self._losses), **self._progress_metrics(final=True), **memory}

    def _training_batches(self, epoch: int, first: int) -> Iterator[TensorDict]:
        """The batches of an epoch from `first` on."""
        loader: Any = self.data_loader
        seed_all(self._seed, self._global_rank, epoch)
        if hasattr(loader, "set_position"):
            loader.set_position(epoch, first)
            return iter(loader)
        return islice(iter(loader), first, None)

    def _train_step(
        self, epoch: int, batches: List[TensorDict]
    ) -> Tuple[List[Dict[str, torch.Tensor]], Optional[torch.Tensor]]:
        self.optimizer.zero_grad()
        first = self._batches_in_epoch_completed * self._num_batches_in_step
        outputs = []
        for index, batch in enumerate(batches, start=first):
            with randomness_of(self._seed, self._global_rank, epoch, index, device=self.cuda_device), self._autocast():
                outputs.append(self._training_outputs(batch, share=1 / len(batches)))
            self._backward(outputs[-1])
        self._losses.add(
            [each["loss"] for each in outputs], [each["reg_loss"] for each in outputs if "reg_loss" in each]
        )
        grad_norm = self._limit_gradients()
        for scheduler in self._schedulers():
            scheduler.step_batch(self._total_batches_completed + 1)
        if self._scaler is None:
            self.optimizer.step()
        else:
            self._scaler.step(self.optimizer)
            self._scaler.update()
        if self._moving_average is not None:
            self._moving_average.apply(self._total_batches_completed + 1)
        return outputs, grad_norm

    def _training_outputs(self, batch: TensorDict, share: float) -> Dict[str, torch.Tensor]:
        """The model's outputs for a batch. The loss's gradient is scaled to the batch's share of the step."""
        outputs = self._pytorch_model(**batch)
        if "loss" not in outputs:
            raise ConfigurationError(
                f"{type(self.model).__name__} gave no loss for a training batch, only {list(outputs)}; "
                "does the training set have labels?"
            )
        penalty = self.model.get_regularization_penalty()
        if penalty is not None:
            outputs["reg_loss"] = penalty
            outputs["loss"] = outputs["loss"] + penalty
        outputs["loss"].register_hook(lambda gradient: gradient * share)
        return outputs

    def _backward(self, outputs: Dict[str, torch.Tensor]) -> None:
        was_called = False
        for callback in self._callbacks:
            was_called |= callback.on_backward(self, outputs, was_called)
        if not was_called:
            loss = outputs["loss"]
            (loss if self._scaler is None else self._scaler.scale(loss)).backward()

    def _limit_gradients(self) -> Optional[torch.Tensor]:
        """Clips the gradients, by norm and by value, as configured. Returns their norm if `grad_norm` is set."""
        parameters = [parameter for parameter in self.model.parameters() if parameter.grad is not None]
        if self._scaler is not None and (self._grad_norm or self._grad_clipping is not None):
            self._scaler.unscale_(self.optimizer)
        norm: Any = None
        if self._grad_norm:  # True asks for the norm alone
            norm = training_util.rescale_gradients(self.model, math.inf if self._grad_norm is True else self._grad_norm)
        if self._grad_clipping is not None:
            torch.nn.utils.clip_grad_value_(parameters, self._grad_clipping)
        return norm

    def _tell(self, *batch: Any, **more: Any) -> None:
        for callback in self._callbacks:
            callback.on_batch(self, *batch, is_primary=self._primary, **more)

    def _bar(self, items: Iterable, **settings) -> Any:
        return Tqdm.tqdm(items, disable=not self._primary, **settings)

    def _display(self, bar: Any) -> Display:
        """In distributed training metrics are read at every batch, since all ranks have to do so together."""
        on_batch = [type(callback).on_batch for callback in self._callbacks]
        is_watched = any(each not in [known.on_batch for known in _WITHOUT_BATCH_METRICS] for each in on_batch)
        return Display(bar, is_watched or self._distributed)

    def _autocast(self) -> torch.autocast:
        dtype = torch.bfloat16 if self.cuda_device.type == "cpu" else torch.float16
        return torch.autocast(self.cuda_device.type, dtype, enabled=self._use_amp)

    def _batch_metrics(self) -> Dict[str, float]:
        self._refuse_divergence()
        return {**self.model.get_metrics(), **self._losses.means(), **self._losses.last(), **self._progress_metrics()}

    def _progress_metrics(self, final: bool = False) -> Dict[str, float]:
        """What a subclass adds to an epoch's metrics: in the progress bar and, for all ranks together, at its end."""
        return {}

    def _reduced_metrics(self, losses: Losses) -> Dict[str, float]:
        """The model's metrics, which are reset, and the mean losses of all ranks."""
        return {**self.model.get_metrics(reset=True), **losses.means(reduce=dist_reduce_sum)}

    # ---- Validation ----

    def _validate(self, epoch: int) -> Dict[str, float]:
        logger.info("Validating")
        self._pytorch_model.eval()
        with torch.no_grad(), self._averaged_parameters():
            metrics = self._validation_metrics(epoch)
        self._stop_if_told()
        return metrics

    def _validation_metrics(self, epoch: int) -> Dict[str, float]:
        """The metrics of one pass. Any pass after an epoch sees the same batches in the same order."""
        loader: Any = self._validation_data_loader
        seed_all(self._seed, self._global_rank, epoch, "validation")
        if hasattr(loader, "set_position"):
            loader.set_position(epoch, 0)
        losses, num_batches = Losses(), 0
        bar = self._bar(loader)
        display = self._display(bar)
        for (batch,) in self._in_step_with_others([each] for each in bar):
            num_batches += 1
            with self._autocast():
                outputs = self._pytorch_model(**batch)
            if outputs.get("loss") is not None:
                losses.add([outputs["loss"]], [])
            if display.is_due():
                display.show({**self.model.get_metrics(), **losses.means(), **losses.last()})
            self._tell([batch], [outputs], display.metrics, epoch, num_batches, is_training=False)
            if self._told_to_stop is not None:
                break
        if not num_batches:
            raise _empty("validation", loader)
        return self._reduced_metrics(losses)

    @contextmanager
    def _averaged_parameters(self) -> Iterator[None]:
        """Inside the block, the parameters are their moving averages, if there are any."""
        if self._moving_average is None:
            yield
            return
        self._moving_average.assign_average_value()
        try:
            yield
        finally:
            self._moving_average.restore()

    # ---- Several processes ----

    @property
    def _global_rank(self) -> int:
        return dist.get_rank() if self._distributed else 0

    def _in_step_with_others(self, steps: Iterable[List[TensorDict]]) -> Iterator[List[TensorDict]]:
        """The steps for which all processes have a batch. If one of them is told to stop, all stop."""
        if not self._distributed:
            yield from steps
            return
        remaining = iter(steps)
        while True:
            batches = next(remaining, [])
            agreed = torch.tensor([-len(batches), self._stop.received or 0], device=self.cuda_device)
            dist.all_reduce(agreed, dist.ReduceOp.MAX)
            num_batches, told = -int(agreed[0]), int(agreed[1])
            self._told_together = signal.Signals(told) if told else None
            if num_batches < len(batches):
                logger.warning("Rank %d has more batches than the others, and skips the rest.", self._global_rank)
            if not num_batches:
                return
            yield batches[:num_batches]

    # ---- Stopping ----

    @property
    def _told_to_stop(self) -> Optional[signal.Signals]:
        return self._told_together if self._distributed else self._stop.received

    def _stop_if_told(self) -> None:
        told = self._told_to_stop
        if told is None:
            return
        self.model.get_metrics(reset=self._trained is not None)  # of a validation that was interrupted
        if self._checkpointer is not None:
            self._checkpointer.save_checkpoint(self)
        latest = self._latest_checkpoint()
        kept = f"The latest checkpoint is {latest}; with --recover, training goes on from there."
        logger.error("Stopped by %s. %s", told.name, kept if latest else "No checkpoint was saved.")
        raise stopped_by(told)

    def _latest_checkpoint(self) -> Optional[str]:
        """The model's file of the latest complete checkpoint."""
        files = None if self._checkpointer is None else self._checkpointer.find_latest_checkpoint()
        return None if files is None else files[0]

    def _refuse_divergence(self) -> None:
        step = self._losses.first_not_finite()
        if step is not None:
            raise self._diverged(f"The loss of batch {step} of epoch {self._epochs_completed} isn't a finite number")

    def _refuse_unsound_parameters(self) -> None:
        for name, parameter in self.model.named_parameters():
            if not torch.isfinite(parameter).all():
                raise self._diverged(f"The parameter {name} is no longer finite after {self._place()}")

    def _diverged(self, what: str) -> TrainingDiverged:
        rates = ", ".join(sorted({f"{group['lr']:g}" for group in self.optimizer.param_groups}))
        latest = self._latest_checkpoint()
        kept = f"The last sound checkpoint is {latest}." if latest else "No checkpoint was saved before that."
        return TrainingDiverged(
            f"{what}. {kept} Train again with a lower learning rate (it was {rates}), or limit the gradient with "
            "the trainer's grad_norm; if that doesn't help, look for damage in the data."
        )

    # ---- Saving and resuming ----

    def get_checkpoint_state(self) -> Optional[TrainerCheckpoint]:
        """AllenNLP's own state, and under "resume" what else it takes to resume exactly. The first rank saves it, but
        all ranks have to call this.
        """
        self._refuse_divergence()
        ranks = [self._rank_state()]
        if self._distributed and isinstance(self._checkpointer, AtomicCheckpointer):  # others don't call on all ranks
            ranks *= self._world_size
            dist.all_gather_object(ranks, ranks[0])
        if not self._primary:
            return None
        self._refuse_unsound_parameters()
        state = {
            "version": 1,
            "metric_tracker": self._metric_tracker.state_dict(),
            "callbacks": [callback.state_dict() for callback in self._callbacks],
            "epochs_completed": self._epochs_completed,
            "batches_in_epoch_completed": self._batches_in_epoch_completed,
            "best_model_filename": self._best_model_path if self._has_best_model else None,
            "resume": {**self._resume_state(), "ranks": ranks},
        }
        state.update({name: each.state_dict() for name, each in self._parts().items()})
        return TrainerCheckpoint(self.model.state_dict(), state)

    def _parts(self) -> Dict[str, Any]:
        """The parts that have their own state, by their names in a checkpoint."""
        parts = {
            "optimizer": self.optimizer,
            "learning_rate_scheduler": self._learning_rate_scheduler,
            "momentum_scheduler": self._momentum_scheduler,
            "moving_average": self._moving_average,
        }
        return {name: each for name, each in parts.items() if each is not None}

    def _place(self) -> str:
        return f"batch {self._batches_in_epoch_completed} of epoch {self._epochs_completed}"

    def _resume_state(self) -> Dict[str, Any]:
        return {
            "seed": self._seed,
            "total_batches_completed": self._total_batches_completed,
            "should_validate_this_epoch": self._should_validate_this_epoch,
            "is_best": self._is_best,
            "trained": self._trained,
            "last_metrics": self._metrics,
            "grad_scaler": None if self._scaler is None else self._scaler.state_dict(),
        }

    def _rank_state(self) -> Dict[str, Any]:
        """What each process counts for itself within an epoch."""
        metrics: Dict[str, Any] = {}
        try:
            metrics = metric_state(self.model)
        except TypeError as error:
            logger.warning(
                "After a recovery from here, the training metrics of this epoch would start from zero: %s", error
            )
        caches = [module.cache.state_dict() for module in _cached(self.model)]
        return {"progress": self._losses.state_dict(), "metric_state": metrics, "caches": caches}

    def _load_rank_state(self, state: Dict[str, Any]) -> None:
        self._losses.load_state_dict(state["progress"])
        load_metric_state(self.model, state["metric_state"], self.cuda_device)

    def _restore(self) -> Optional[Dict[str, Any]]:
        """Loads the latest checkpoint, if there is one. Returns the rest of its state, to be restored after the
        callbacks have started.
        """
        checkpoint = None if self._checkpointer is None else self._checkpointer.load_checkpoint()
        if checkpoint is None:
            return None
        model_state, state = checkpoint
        try:
            own = state["resume"]
            if own["seed"] != self._seed:
                logger.info("Continuing with the checkpoint's seed, %d, instead of %d.", own["seed"], self._seed)
            self._seed = own["seed"]
            self.model.load_state_dict(model_state)
            self._metric_tracker.load_state_dict(state["metric_tracker"])
            for name, part in self._parts().items():
                part.load_state_dict(state[name])
            for callback, callback_state in zip(self._callbacks, state["callbacks"], strict=False):
                callback.load_state_dict(callback_state)
            self._epochs_completed = state["epochs_completed"]
            self._batches_in_epoch_completed = state["batches_in_epoch_completed"]
            self._has_best_model = state["best_model_filename"] is not None
            return own
        except (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError) as error:
            raise ConfigurationError(
                f"The checkpoint in {self._serialization_dir} wasn't saved by a run of this config and this trainer "
                f"({type(error).__name__}: {error}). Recover with the config and the release of elmo-plugin that it "
                "was started with, or train into another folder."
            ) from error

    def _take_up(self, state: Dict[str, Any]) -> None:
        """Restores the position at which the checkpoint was saved."""
        self._total_batches_completed = state["total_batches_completed"]
        self._should_validate_this_epoch = state["should_validate_this_epoch"]
        self._is_best = state["is_best"]
        self._trained = state["trained"]
        self._metrics = state["last_metrics"]
        if self._scaler is not None:
            self._scaler.load_state_dict(state["grad_scaler"])
        if any(isinstance(callback, TrackEpochCallback) for callback in self._callbacks):
            self.model.epoch = self._epochs_completed  # type: ignore[assignment]
        if len(state["ranks"]) == self._world_size:
            self._take_up_rank(state["ranks"][self._global_rank])
        elif self._batches_in_epoch_completed:
            logger.warning(
                "The checkpoint after %s is of %d processes. Training continues from there, but this epoch's training "
                "metrics leave out what came before.",
                self._place(),
                len(state["ranks"]),
            )
        if self._is_best and not self._batches_in_epoch_completed:
            self._save_best_model()  # the run may have been killed before it could do so
        for epoch in range(self._epochs_completed if _has_a_past(self.data_loader) else 0):
            for _ in self._training_batches(epoch, first=0):
                pass

    def _take_up_rank(self, state: Dict[str, Any]) -> None:
        for module, cache in zip(_cached(self.model), state["caches"], strict=False):
            module.cache.load_state_dict(cache, module.bilm)
        if self._batches_in_epoch_completed:
            self._load_rank_state(state)

    # ---- The best model ----

    @property
    def _best_model_path(self) -> str:
        return os.path.join(self._serialization_dir, "best.th")

    def get_best_weights_path(self) -> Optional[str]:
        return os.path.abspath(self._best_model_path) if self._has_best_model else None

    def _save_best_model(self) -> None:
        """Replaces `best.th` in one step: by a link to the epoch's checkpoint if possible."""
        self._has_best_model = True
        if not self._primary:
            return
        remove_leftovers(self._best_model_path)
        latest = self._latest_checkpoint() or ""
        is_saved = os.path.basename(latest) == f"model_state_e{self._epochs_completed}_b0.th"
        if is_saved and self._moving_average is None:
            with suppress(OSError), replacing(self._best_model_path) as temporary:  # not all file systems have links
                return os.link(latest, temporary)
        with self._averaged_parameters(), replacing(self._best_model_path) as temporary:
            torch.save(self.model.state_dict(), temporary)

    def _load_best_model(self) -> None:
        if self._has_best_model:
            self.model.load_state_dict(read_state(self._best_model_path))
        elif self._moving_average is not None:
            self._moving_average.assign_average_value()


def _constructed(part: Optional[Lazy], **extras: Any) -> Any:
    return None if part is None else part.construct(**extras)


def _cached(model: Model) -> List[Any]:
    """The modules that keep a frozen biLM's layers from epoch to epoch."""
    return [module for module in model.modules() if isinstance(getattr(module, "cache", None), LayerCache)]


def _has_a_past(loader: DataLoader) -> bool:
    """Whether an epoch's batches may depend on earlier epochs. Those of AllenNLP's loader depend on the generators."""
    is_fresh = type(loader) is MultiProcessDataLoader and loader.batches_per_epoch is None
    return not is_fresh and not hasattr(loader, "set_position")


def _empty(kind: str, loader: DataLoader) -> ConfigurationError:
    path = getattr(loader, "data_path", None)
    return ConfigurationError(
        f"the {kind} set has no instances" + (f": nothing was read from {path}" if path else "") + ". Check its path."
    )


def _memory_in_use() -> Dict[str, float]:
    by_worker, by_gpu = common_util.peak_cpu_memory(), common_util.peak_gpu_memory()
    memory = {f"worker_{worker}": num_bytes for worker, num_bytes in by_worker.items()}
    memory.update({f"gpu_{gpu}": num_bytes for gpu, num_bytes in by_gpu.items()})
    return {f"{name}_memory_MB": num_bytes / 2**20 for name, num_bytes in memory.items()}
