"""What came out of a training, read from the files it left, or from a record of them that outlives the weights."""

import json
import re
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Dict, Iterable, Mapping, NamedTuple, Optional, Tuple, TypeVar

from allennlp.common.checks import ConfigurationError

from elmo_plugin.analysis.cells import Config
from elmo_plugin.analysis.layer_weights import LayerWeights
from elmo_plugin.files import PathOrStr, read_json, write_text

EXPERIMENT_FILE = "experiment.json"
RESULT_FILE = "result.json"
RUN_FOLDER = "run"

_VALIDATION = "validation_"
_EPOCH_FILE = re.compile(r"metrics_epoch_(\d+)\.json")

T = TypeVar("T")


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
    metrics: Dict[str, float] = field(repr=False, default_factory=dict)
    """All of the best epoch's validation metrics."""
    layer_weights: Tuple[LayerWeights, ...] = field(repr=False, default=())
    """How the best epoch's model mixes a biLM's layers; empty if it has none."""

    @property
    def best(self) -> float:
        """The validation metric of the best epoch."""
        return next(point.value for point in self.curve if point.epoch == self.best_epoch)

    @property
    def updates(self) -> int:
        return self.curve[-1].updates

    @property
    def archive(self) -> Path:
        """The trained model. It isn't there if only a record of the run is left."""
        return self.folder / RUN_FOLDER / "model.tar.gz"

    def first_past(self, value: float) -> Optional[EpochResult]:
        """The first epoch whose validation result was better than `value`, if there was one."""
        for point in self.curve:
            if (point.value > value) if self.larger_is_better else (point.value < value):
                return point
        return None

    @classmethod
    def read(cls, folder: PathOrStr) -> "Run":
        return cls._from_files(Path(folder), _files_in(Path(folder)))

    @classmethod
    def read_record(cls, path: PathOrStr) -> "Run":
        """A run of which `write_record` has kept the files."""
        record = _Contents.read(Path(path), place=Path(path))
        names = dict.fromkeys((RESULT_FILE, EXPERIMENT_FILE, *record.entries))
        return cls._from_files(Path(path), {name: record.part(name) for name in names})

    @classmethod
    def _from_files(cls, place: Path, files: Dict[str, "_Contents"]) -> "Run":
        result, experiment = files[RESULT_FILE], files[EXPERIMENT_FILE]
        updates = result.entry("updates_per_epoch", int)
        metric, larger_is_better = _validation_metric(experiment)
        epochs = _by_epoch(files)
        if not epochs:
            raise result.damaged("no metrics_epoch_*.json beside it")
        last = list(epochs.values())[-1]
        best_epoch = last.entry("best_epoch", int)
        if best_epoch not in epochs:
            raise last.damaged(f"best_epoch {best_epoch}, which has no metrics")
        curve = [
            EpochResult(epoch, (epoch + 1) * updates, metrics.entry(f"{_VALIDATION}{metric}", (int, float)))
            for epoch, metrics in epochs.items()
        ]
        name = result.entry("name", str)
        return cls(
            name,
            place,
            metric,
            larger_is_better,
            tuple(curve),
            best_epoch,
            _total(_seconds(metrics) for metrics in epochs.values()),
            experiment.entries,
            {
                name.removeprefix(_VALIDATION): value
                for name, value in epochs[best_epoch].entries.items()
                if name.startswith(_VALIDATION)
            },
            tuple(_layer_weights(result, name)),
        )


def write_record(folder: PathOrStr, path: PathOrStr) -> None:
    """Keeps what `Run.read` takes from a finished run's files, in one small file."""
    run, files = Run.read(folder), _files_in(Path(folder))
    kept = {
        "name",
        "updates_per_epoch",
        "layer_weights",
        "best_epoch",
        "training_duration",
        f"{_VALIDATION}{run.metric}",
    }
    lines = []
    for name, content in files.items():
        is_whole = name in (EXPERIMENT_FILE, f"metrics_epoch_{run.best_epoch}.json")
        entries = {key: value for key, value in content.entries.items() if is_whole or key in kept}
        lines.append(f"{json.dumps(name)}: {json.dumps(entries, sort_keys=True)}")
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    write_text(path, "{\n" + ",\n".join(lines) + "\n}\n")


def _files_in(folder: Path) -> Dict[str, "_Contents"]:
    paths = [folder / RESULT_FILE, folder / EXPERIMENT_FILE, *epoch_files(folder / RUN_FOLDER).values()]
    return {path.name: _Contents.read(path, place=folder) for path in paths}


def epoch_files(folder: Path) -> Dict[int, Path]:
    """The metrics of each epoch, in AllenNLP's own folder of a run."""
    return _by_epoch({path.name: path for path in folder.glob("metrics_epoch_*.json")})


def _by_epoch(files: Mapping[str, T]) -> Dict[int, T]:
    """The metrics of each epoch among a run's files, which are known by their names."""
    epochs = {name: _EPOCH_FILE.fullmatch(name) for name in files}
    return dict(sorted((int(matched[1]), files[name]) for name, matched in epochs.items() if matched))


def summary(run: Run) -> str:
    """The result in one line."""
    took = timedelta(seconds=round(run.seconds))
    return f"{run.metric} {run.best:.4g} after epoch {run.best_epoch + 1}; {run.updates:,} updates, {took}"


class _Contents:
    """A JSON file of a run. What it should have and hasn't is an error that names it, and the folder or record that
    would have to go.
    """

    def __init__(self, path: Path, entries: Dict[str, Any], place: Path) -> None:
        self._path, self._place = path, place
        self.entries = entries

    @classmethod
    def read(cls, path: Path, place: Path) -> "_Contents":
        return cls(path, read_json(path, f"remove {place} to train again"), place)

    def part(self, key: str) -> "_Contents":
        return _Contents(self._path, self.entry(key, dict), self._place)

    def entry(self, key: str, kind: Any) -> Any:
        value = self.entries.get(key)
        if not isinstance(value, kind):
            raise self.damaged(f"{value!r} for {key}" if key in self.entries else f"no {key}")
        return value

    def damaged(self, what: str) -> ConfigurationError:
        return ConfigurationError(f"{self._path} has {what}; remove {self._place} to train again")


def _validation_metric(experiment: _Contents) -> Tuple[str, bool]:
    metric = experiment.entry("trainer", dict).get("validation_metric", "-loss")
    if isinstance(metric, list):  # AllenNLP adds them up; a table can show the first one
        metric = metric[0] if metric else None
    if not isinstance(metric, str) or metric[:1] not in ("+", "-"):
        raise experiment.damaged(f"the validation_metric {metric!r}")
    return metric[1:], metric[0] == "+"


def _layer_weights(result: _Contents, name: str) -> Iterable[LayerWeights]:
    for mix in result.entry("layer_weights", list) if "layer_weights" in result.entries else []:
        try:
            yield LayerWeights(name, mix["mix"], list(map(float, mix["weights"])), float(mix["gamma"]), mix["fixed"])
        except (KeyError, TypeError, ValueError) as error:
            raise result.damaged(f"the layer_weights {mix!r}") from error


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
