"""What came out of a training, read from the files it left."""

import re
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Dict, Iterable, NamedTuple, Optional, Tuple

from allennlp.common.checks import ConfigurationError

from elmo_plugin.analysis.cells import Config
from elmo_plugin.files import PathOrStr, read_json

EXPERIMENT_FILE = "experiment.json"
RESULT_FILE = "result.json"
RUN_FOLDER = "run"

_VALIDATION = "validation_"


class EpochResult(NamedTuple):
    """An epoch's validation result, and how many updates it had taken to get there."""

    epoch: int
    updates: int
    value: float


@dataclass(frozen=True)
class Run:
    """A finished training."""

    name: str
    folder: Path
    metric: str  # the name of the validation metric, without its sign
    larger_is_better: bool
    curve: Tuple[EpochResult, ...]
    best_epoch: int
    seconds: float
    config: Config = field(repr=False)

    @property
    def best(self) -> float:
        """The validation metric of the best epoch."""
        return next(point.value for point in self.curve if point.epoch == self.best_epoch)

    @property
    def updates(self) -> int:
        return self.curve[-1].updates

    @property
    def archive(self) -> Path:
        return self.folder / RUN_FOLDER / "model.tar.gz"

    def metrics(self) -> Dict[str, float]:
        """All of the best epoch's validation metrics."""
        metrics = _Contents(epoch_files(self.folder / RUN_FOLDER)[self.best_epoch]).entries
        return {
            name.removeprefix(_VALIDATION): value for name, value in metrics.items() if name.startswith(_VALIDATION)
        }

    def first_past(self, value: float) -> Optional[EpochResult]:
        """The first epoch whose validation result was better than `value`, if there was one."""
        for point in self.curve:
            if (point.value > value) if self.larger_is_better else (point.value < value):
                return point
        return None

    @classmethod
    def read(cls, folder: PathOrStr) -> "Run":
        folder = Path(folder)
        result, experiment = _Contents(folder / RESULT_FILE), _Contents(folder / EXPERIMENT_FILE)
        updates = result.entry("updates_per_epoch", int)
        metric, larger_is_better = _validation_metric(experiment)
        epochs = {epoch: _Contents(path) for epoch, path in epoch_files(folder / RUN_FOLDER).items()}
        if not epochs:
            raise ConfigurationError(
                f"{folder / RUN_FOLDER} has no metrics_epoch_*.json: remove {folder} to train again"
            )
        last = list(epochs.values())[-1]
        best_epoch = last.entry("best_epoch", int)
        if best_epoch not in epochs:
            raise last.damaged(f"best_epoch {best_epoch}, which has no metrics")
        curve = [
            EpochResult(epoch, (epoch + 1) * updates, metrics.entry(f"{_VALIDATION}{metric}", (int, float)))
            for epoch, metrics in epochs.items()
        ]
        return cls(
            result.entry("name", str),
            folder,
            metric,
            larger_is_better,
            tuple(curve),
            best_epoch,
            _total(_seconds(metrics) for metrics in epochs.values()),
            experiment.entries,
        )


def epoch_files(folder: Path) -> Dict[int, Path]:
    """The metrics of each epoch, in AllenNLP's own folder of a run."""
    files = {int(path.stem.rpartition("_")[2]): path for path in folder.glob("metrics_epoch_*.json")}
    return dict(sorted(files.items()))


def summary(run: Run) -> str:
    """The result in one line."""
    took = timedelta(seconds=round(run.seconds))
    return f"{run.metric} {run.best:.4g} after epoch {run.best_epoch + 1}; {run.updates:,} updates, {took}"


class _Contents:
    """A JSON file of a run. What it should have and hasn't is an error that names it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.entries: Dict[str, Any] = read_json(path, "remove the folder to train again")

    def entry(self, key: str, kind: Any) -> Any:
        value = self.entries.get(key)
        if not isinstance(value, kind):
            raise self.damaged(f"{value!r} for {key}" if key in self.entries else f"no {key}")
        return value

    def damaged(self, what: str) -> ConfigurationError:
        return ConfigurationError(f"{self._path} has {what}; remove the folder to train again")


def _validation_metric(experiment: _Contents) -> Tuple[str, bool]:
    metric = experiment.entry("trainer", dict).get("validation_metric", "-loss")
    if isinstance(metric, list):  # AllenNLP adds them up; a table can show the first one
        metric = metric[0] if metric else None
    if not isinstance(metric, str) or metric[:1] not in ("+", "-"):
        raise experiment.damaged(f"the validation_metric {metric!r}")
    return metric[1:], metric[0] == "+"


def _seconds(metrics: _Contents) -> float:
    """The duration, which AllenNLP writes as `str(timedelta)` does: `1 day, 2:03:04.5`."""
    duration = metrics.entry("training_duration", str)
    matched = re.fullmatch(r"(?:(\d{1,6}) days?, )?(\d{1,2}):(\d{1,2}):(\d{1,2}(?:\.\d+)?)", duration)
    if matched is None:
        raise metrics.damaged(f"the training_duration {duration!r}, which has to look like 0:01:02.5")
    days, hours, minutes, seconds = (float(number or 0) for number in matched.groups())
    return timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds).total_seconds()


def _total(durations: Iterable[float]) -> float:
    """The sum of durations that count from a run's start or from its last recovery."""
    total = previous = 0.0
    for elapsed in durations:
        total += elapsed - previous if elapsed > previous else elapsed
        previous = elapsed
    return total
