"""Trainer "elmo::bilm": resumable training with carried state, held-out figures from zeros, tokens per second."""

import inspect
import time
from typing import Any, Dict, Optional, Union

import torch
from allennlp.common.checks import ConfigurationError
from allennlp.data.data_loaders import TensorDict
from allennlp.models.model import Model
from allennlp.nn.util import dist_reduce_sum, get_text_field_mask, move_to_device
from allennlp.training.trainer import Trainer
from torch.utils._pytree import tree_map_only

from elmo_plugin.bilm.language_model import BiLmLanguageModel
from elmo_plugin.training.trainer import ResumableTrainer


@Trainer.register("elmo::bilm")
class BiLmTrainer(ResumableTrainer):
    """Trains a language model on windows that follow one another, as the trainer `elmo::resumable` does and with its
    config keys, which are those of AllenNLP's trainer. It adds

    - Carried state. `model.carried_state` goes from window to window, also through the batches accumulated for a step
      and through a recovery, and starts from zeros in each epoch. Validation has its own state and leaves that of
      training alone.
    - Held-out figures twice: with carried state, and from zeros at each sentence, as the biLM starts when it embeds.
      Names of the latter begin with `from_zeros_`, and `validation_metric` may be one of them. They cost a second pass
      over the validation data; `validate_from_zeros: false` saves it. Where nothing is carried there is only one pass.
    - `loss_multiplier` multiplies the gradient of the loss (and of any regularization) before it is clipped; the loss
      that is reported stays as it is. bilm-tf multiplies by the length of its windows, 20.
    - `tokens_per_second`, in the progress bar and in the metrics: positions predicted, without padding. A position
      counts once, though both directions predict there.

    The model has to offer what `BiLmLanguageModel` does: `carry_state`, `carried_state`, `reset_carried_state()` and
    `evaluate_from_zeros`.
    """

    model: BiLmLanguageModel

    def __init__(self, model: Model, loss_multiplier: float = 1.0, validate_from_zeros: bool = True, **kwargs) -> None:
        if not hasattr(model, "carried_state"):
            raise ConfigurationError(
                f"trainer elmo::bilm trains models that carry a state, such as elmo::bilm; {type(model).__name__} has "
                "none. Use the trainer elmo::resumable for it."
            )
        unknown = kwargs.keys() - inspect.signature(ResumableTrainer).parameters.keys()
        if unknown:
            raise ConfigurationError(f"trainer elmo::bilm: unknown config keys {sorted(unknown)}")
        if loss_multiplier <= 0:
            raise ConfigurationError(f"trainer elmo::bilm: loss_multiplier has to be above 0, got {loss_multiplier}")
        super().__init__(model, **kwargs)
        self._loss_multiplier = loss_multiplier
        self._validate_from_zeros = validate_from_zeros
        self._speed = Speed()

    def train(self) -> Dict[str, Any]:
        metrics = super().train()
        self.model.reset_carried_state()  # whatever the model reads next, it isn't the next window
        return metrics

    def _train_epoch(self, epoch: int) -> Dict[str, float]:
        if not self._batches_in_epoch_completed:
            self.model.reset_carried_state()
            self._speed = Speed()
        return super()._train_epoch(epoch)

    def _training_outputs(self, batch: TensorDict, share: float) -> Dict[str, torch.Tensor]:
        self._speed.count(batch)
        return super()._training_outputs(batch, share * self._loss_multiplier)

    def _progress_metrics(self, final: bool = False) -> Dict[str, float]:
        return {"tokens_per_second": self._speed.reading(of_all_ranks=final)}

    def _validation_metrics(self, epoch: int) -> Dict[str, float]:
        training_state = self.model.carried_state
        from_zeros: Dict[str, float] = {}
        try:
            self.model.reset_carried_state()
            if self._validate_from_zeros and self.model.carry_state:
                self.model.evaluate_from_zeros = True
                from_zeros = super()._validation_metrics(epoch)
                self.model.evaluate_from_zeros = False
                if self.model.carried_state is None:  # sentences, not windows: they start from zeros anyway
                    return from_zeros
                self.model.reset_carried_state()
            carried = super()._validation_metrics(epoch)
            return {**carried, **{f"from_zeros_{name}": value for name, value in from_zeros.items()}}
        finally:
            self.model.evaluate_from_zeros = False
            self.model.carried_state = training_state

    def _rank_state(self) -> Dict[str, Any]:
        state = super()._rank_state()
        state["progress"].update(self._speed.state_dict())
        # Copied, since saving a part of a tensor saves all of it.
        copied = tree_map_only(
            torch.Tensor, lambda tensor: tensor.detach().to("cpu", copy=True), self.model.carried_state
        )
        return {**state, "carried_state": copied}

    def _load_rank_state(self, state: Dict[str, Any]) -> None:
        super()._load_rank_state(state)
        self._speed.load_state_dict(state["progress"])
        self.model.carried_state = move_to_device(state["carried_state"], self.cuda_device)


class Speed:
    """Tokens per second in an epoch, across recoveries. Tokens are counted on the device, and read when asked for."""

    def __init__(self) -> None:
        self._num_tokens: Union[int, torch.Tensor] = 0
        self._seconds_before = 0.0  # of the process that was recovered
        self._started: Optional[float] = None

    def count(self, batch: TensorDict) -> None:
        """Counts a batch that is about to be trained on."""
        if self._started is None:
            self._started = time.perf_counter()
        self._num_tokens = self._num_tokens + num_targets(batch)

    @property
    def seconds(self) -> float:
        return self._seconds_before + (0.0 if self._started is None else time.perf_counter() - self._started)

    def reading(self, of_all_ranks: bool = False) -> float:
        num_tokens = float(self._num_tokens)
        return (dist_reduce_sum(num_tokens) if of_all_ranks else num_tokens) / max(self.seconds, 1e-9)

    def state_dict(self) -> Dict[str, Any]:
        return {"num_tokens": int(self._num_tokens), "seconds": self.seconds}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        self._num_tokens, self._seconds_before = state["num_tokens"], state["seconds"]


def num_targets(batch: TensorDict) -> torch.Tensor:
    """How many positions a batch predicts: those of its windows, or its sentences' words and one boundary each."""
    mask = batch.get("mask")
    if isinstance(mask, torch.Tensor):
        return mask.sum()
    words_mask = get_text_field_mask(batch["tokens"])  # type: ignore[arg-type]
    return words_mask.sum() + words_mask.size(0)
