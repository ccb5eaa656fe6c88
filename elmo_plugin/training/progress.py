"""What a trainer shows and keeps of an epoch: its losses, read seldom, and the metrics beside the progress bar."""

import math
import time
from typing import Any, Callable, Dict, List, Optional

import torch
from allennlp.training import util as training_util

SECONDS_BETWEEN_READINGS = 1.0


class Losses:
    """The losses of an epoch, step by step. They stay on the device until someone asks for them."""

    def __init__(self) -> None:
        self._sums: Dict[str, float] = {"loss": 0.0}
        self._last: Dict[str, float] = {}
        self._num_steps = 0
        self._unread: List[Dict[str, torch.Tensor]] = []
        self._first_not_finite: Optional[int] = None

    def add(self, losses: List[torch.Tensor], reg_losses: List[torch.Tensor]) -> None:
        """Adds a step's losses: those of the batches that it accumulates."""
        step = {"loss": losses, "reg_loss": reg_losses}
        means = {name: sum(each.detach() for each in values) / len(values) for name, values in step.items() if values}
        self._unread.append(means)  # type: ignore[arg-type]

    def _read(self) -> None:
        if not self._unread:
            return
        # Shape: (num_steps, num_losses); one wait for the device, however many there are
        names = list(self._unread[0])
        values = torch.stack([torch.stack([step[name] for name in names]) for step in self._unread]).tolist()
        self._unread = []
        for step in values:
            self._num_steps += 1
            self._last = dict(zip(names, step, strict=True))
            for name, value in self._last.items():
                self._sums[name] = self._sums.get(name, 0.0) + value
            if self._first_not_finite is None and not math.isfinite(self._last["loss"]):
                self._first_not_finite = self._num_steps

    def first_not_finite(self) -> Optional[int]:
        """The first step of the epoch, from 1, whose loss was infinite or not a number."""
        self._read()
        return self._first_not_finite

    def last(self) -> Dict[str, float]:
        self._read()
        return {f"batch_{name}": value for name, value in self._last.items()}

    def means(self, reduce: Callable[[Any], Any] = lambda value: value) -> Dict[str, float]:
        """The means so far; those of all ranks with a `reduce` that sums over them."""
        self._read()
        num_steps = max(reduce(self._num_steps), 1)
        return {name: reduce(total) / num_steps for name, total in self._sums.items()}

    def state_dict(self) -> Dict[str, Any]:
        self._read()
        sums = {f"{name}_sum": total for name, total in self._sums.items()}
        return {**sums, "num_batches": self._num_steps}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        self._num_steps = state["num_batches"]
        sums = {name: state.get(f"{name}_sum") for name in ("loss", "reg_loss")}
        self._sums = {name: total for name, total in sums.items() if total is not None}


class Display:
    """The latest batch's metrics that were read: every batch's if a callback reads them, else now and then."""

    def __init__(self, bar: Any, is_watched: bool) -> None:
        self.metrics: Dict[str, float] = {}
        self.is_watched = is_watched
        self._bar = bar
        self._shown_at = -math.inf

    def is_due(self) -> bool:
        return self.is_watched or time.monotonic() - self._shown_at >= SECONDS_BETWEEN_READINGS

    def show(self, metrics: Dict[str, float]) -> None:
        self.metrics = metrics
        self._shown_at = time.monotonic()
        self._bar.set_description(training_util.description_from_metrics(metrics), refresh=False)
