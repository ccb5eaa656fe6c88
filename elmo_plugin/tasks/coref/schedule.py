"""LearningRateScheduler "elmo::staircase": a rate that falls by steps of training, not by epochs."""

from typing import List, Optional

import torch
from allennlp.common.checks import ConfigurationError
from allennlp.training.learning_rate_schedulers import LearningRateScheduler


@LearningRateScheduler.register("elmo::staircase")
class Staircase(LearningRateScheduler):
    """Multiplies the learning rate by `factor` after each `num_steps` updates."""

    def __init__(
        self, optimizer: torch.optim.Optimizer, factor: float = 0.999, num_steps: int = 100, last_epoch: int = -1
    ) -> None:
        if not 0.0 < factor <= 1.0 or num_steps < 1:
            raise ConfigurationError(
                "scheduler elmo::staircase: factor must be above 0 and at most 1, and num_steps 1 or more, not "
                f"{factor} and {num_steps}"
            )
        super().__init__(optimizer, last_epoch)
        self._factor = factor
        self._num_steps = num_steps
        self._num_updates = 0

    def get_values(self) -> List[float]:
        decay = self._factor ** (self._num_updates // self._num_steps)
        return [value * decay for value in self.base_values]

    def step_batch(self, batch_num_total: Optional[int] = None) -> None:
        self._num_updates = self._num_updates + 1 if batch_num_total is None else batch_num_total
        for group, value in zip(self.optimizer.param_groups, self.get_values(), strict=True):
            group[self.param_group_field] = value
