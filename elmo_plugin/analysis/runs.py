"""Trainings as the cells of a table: each is trained once, resumed where it was interrupted, and read from its own
files.

    runs = Runs("runs/results")
    cell = Cell("ner-elmo", "training_configs/ner/elmo.jsonnet", changes=(capped(10, 100), seeded(1)))
    print(runs.train(cell).best)

A cell's folder is named after the cell and after a hash of its experiment: the config with everything in it resolved,
and the contents of the files it names. So the same experiment is never trained twice, whatever its name, and a change
to a config, to a data file or to the biLM gets a new folder.
"""

import argparse
import copy
import fcntl
import functools
import glob
import hashlib
import json
import os
import re
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Callable, Dict, FrozenSet, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

import torch
from allennlp.common import Params, Tqdm
from allennlp.common.checks import ConfigurationError
from allennlp.common.params import with_overrides

from elmo_plugin.bilm.pretrained import PRETRAINED
from elmo_plugin.files import read_json, replacing, strings_in
from elmo_plugin.settings import PREFIX

Config = Dict[str, Any]
Change = Callable[[Config], Config]

EXPERIMENT_FILE = "experiment.json"
LOG_FILE = "log.txt"
RESULT_FILE = "result.json"
RUN_FOLDER = "run"
NUM_LOG_LINES_SHOWN = 15
SECONDS_BETWEEN_LOOKS = 1.0


# ---- What to train ----


@dataclass(frozen=True)
class Cell:
    """An experiment: a config file, the `ELMO_*` variables it reads, overrides like AllenNLP's, and `changes`."""

    name: str
    config_file: str
    environment: Mapping[str, str] = field(default_factory=dict)
    overrides: Mapping[str, Any] = field(default_factory=dict)
    changes: Sequence[Change] = ()

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[\w.+-]+", self.name):
            raise ValueError(f"a cell's name becomes a folder: letters, digits and '_.+-' only, not {self.name!r}")

    def resolve(self) -> Config:
        """The config that will be trained, which no longer depends on the environment."""
        if not os.path.isfile(self.config_file):
            raise ConfigurationError(f"{self.name}: there is no config {self.config_file}")
        settings = {name: value for name, value in os.environ.items() if name.startswith(PREFIX)}
        try:
            evaluated = _evaluated(self.config_file, frozenset({**settings, **self.environment}.items()))
            config = with_overrides(json.loads(evaluated), dict(self.overrides))
        except (RuntimeError, ValueError) as error:  # jsonnet's own errors, and overrides of missing keys
            raise ConfigurationError(f"{self.name}: {self.config_file} can't be read: {error}") from error
        for change in self.changes:
            config = change(config)
        return config


@functools.cache
def _evaluated(config_file: str, variables: FrozenSet[Tuple[str, str]]) -> str:
    """A config as JSON. Evaluating one takes a third of a second, and a table's cells share their files."""
    return json.dumps(Params.from_file(config_file, ext_vars=dict(variables)).as_dict(quiet=True))


def seeded(seed: int) -> Change:
    """All three random seeds."""

    def change(config: Config) -> Config:
        return {**config, "random_seed": seed, "numpy_seed": seed, "pytorch_seed": seed}

    return change


def capped(num_epochs: int, updates_per_epoch: int) -> Change:
    """Exactly `num_epochs` times `updates_per_epoch` updates, with a validation after each epoch and no early stopping.
    An epoch continues in the data where the previous one stopped, so its length is independent of the data's.
    """

    def change(config: Config) -> Config:
        config = copy.deepcopy(config)
        # Without a separate config for validation, its loader would be cut short as well.
        config.setdefault("validation_data_loader", copy.deepcopy(config["data_loader"]))
        num_accumulated = config["trainer"].get("num_gradient_accumulation_steps", 1)
        config["data_loader"]["batches_per_epoch"] = updates_per_epoch * num_accumulated
        config["trainer"]["num_epochs"] = num_epochs
        config["trainer"]["patience"] = None
        return config

    return change


def for_epochs(num_epochs: int) -> Change:
    """This many epochs, each as long as the data, with the config's own early stopping."""

    def change(config: Config) -> Config:
        return {**config, "trainer": {**config["trainer"], "num_epochs": num_epochs}}

    return change


def train_on(fraction: float, seed: int = 0) -> Change:
    """Part of the training set, as `elmo::fraction` chooses it: with the same seed, smaller parts lie inside larger
    ones.
    """

    def change(config: Config) -> Config:
        if fraction == 1.0:
            return config
        reader = config["dataset_reader"]
        return {
            **config,
            "dataset_reader": {"type": "elmo::fraction", "reader": reader, "fraction": fraction, "seed": seed},
            "validation_dataset_reader": copy.deepcopy(config.get("validation_dataset_reader", reader)),
        }

    return change


def validate_on(fraction: float) -> Change:
    """Part of the validation set, always the same."""

    def change(config: Config) -> Config:
        if fraction == 1.0:
            return config
        reader = copy.deepcopy(config.get("validation_dataset_reader", config["dataset_reader"]))
        return {
            **config,
            "validation_dataset_reader": {"type": "elmo::fraction", "reader": reader, "fraction": fraction},
        }

    return change


def lower_case_words(config: Config) -> Config:
    """Looks words up in lower case, for a file of word vectors that has no upper case. Characters keep their case."""

    def walk(value: Any) -> Any:
        if isinstance(value, list):
            return [walk(item) for item in value]
        if not isinstance(value, dict):
            return value
        walked = {key: walk(item) for key, item in value.items()}
        return {**walked, "lowercase_tokens": True} if value.get("type") in ("single_id", "elmo::words") else walked

    return walk(config)


def experiment_hash(config: Config) -> str:
    """A hash of an experiment: of its resolved config, and of the contents of every file and folder that it names."""
    digest = hashlib.blake2b(json.dumps(config, sort_keys=True).encode(), digest_size=8)
    for text in sorted(set(strings_in(config, except_key="type"))):
        for path in _paths(text):
            digest.update(_digest_of_path(path))
    return digest.hexdigest()


def _paths(text: str) -> Sequence[str]:
    """What a value in a config may mean: a file or folder, a glob, or the name of a biLM."""
    if text in PRETRAINED:
        return PRETRAINED[text]
    return sorted(glob.glob(text)) if glob.has_magic(text) else [text]


def _digest_of_path(path: str) -> bytes:
    if os.path.isfile(path):
        status = os.stat(path)
        return _digest_of_file(os.path.realpath(path), status.st_size, status.st_mtime_ns)
    if (
        os.path.isdir(path) and os.sep in path
    ):  # a bare word is more likely a choice than a folder that happens to be here
        files = sorted(name for name in glob.glob(os.path.join(glob.escape(path), "**"), recursive=True))
        return b"".join(_digest_of_path(name) for name in files if os.path.isfile(name))
    return b""


@functools.cache
def _digest_of_file(path: str, size: int, modified: int) -> bytes:
    """The digest of a file's content. Size and time are in the cache's key, so that a changed file is read again."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "blake2b").digest()


# ---- What came out ----


class EpochResult(NamedTuple):
    """An epoch's validation result, and how many updates it had taken to get there."""

    epoch: int
    updates: int
    value: float


@dataclass(frozen=True)
class Run:
    """A finished training, read from the files it left in `folder`."""

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
        metrics = _read(_epoch_files(self.folder / RUN_FOLDER)[self.best_epoch])
        prefix = "validation_"
        return {name[len(prefix) :]: value for name, value in metrics.items() if name.startswith(prefix)}

    def first_past(self, value: float) -> Optional[EpochResult]:
        """The first epoch whose validation result was better than `value`, if there was one."""
        for point in self.curve:
            if (point.value > value) if self.larger_is_better else (point.value < value):
                return point
        return None

    @classmethod
    def read(cls, folder: Union[str, os.PathLike]) -> "Run":
        folder = Path(folder)
        result, config = _read(folder / RESULT_FILE), _read(folder / EXPERIMENT_FILE)
        updates = _entry(result, "updates_per_epoch", int, folder / RESULT_FILE)
        metric, larger_is_better = _validation_metric(config, folder / EXPERIMENT_FILE)
        curve, last, seconds = [], None, _Seconds()
        for epoch, path in _epoch_files(folder / RUN_FOLDER).items():
            metrics = _read(path)
            value = _entry(metrics, f"validation_{metric}", (int, float), path)
            curve.append(EpochResult(epoch, (epoch + 1) * updates, value))
            seconds.add(_seconds(_entry(metrics, "training_duration", str, path), path))
            last = path, metrics
        if last is None:
            raise ConfigurationError(
                f"{folder / RUN_FOLDER} has no metrics_epoch_*.json: remove {folder} to train again"
            )
        return cls(
            _entry(result, "name", str, folder / RESULT_FILE),
            folder,
            metric,
            larger_is_better,
            tuple(curve),
            _best_epoch(*last, curve),
            seconds.total,
            config,
        )


def _best_epoch(path: Path, metrics: Dict[str, Any], curve: Sequence[EpochResult]) -> int:
    best_epoch = _entry(metrics, "best_epoch", int, path)
    if best_epoch not in (result.epoch for result in curve):
        raise _damaged(path, f"best_epoch {best_epoch}, which has no metrics")
    return best_epoch


class _Seconds:
    """Adds up the durations that AllenNLP writes, which count from a run's start or recovery."""

    def __init__(self) -> None:
        self.total = 0.0
        self._previous = 0.0

    def add(self, elapsed: float) -> None:
        self.total += elapsed - self._previous if elapsed > self._previous else elapsed
        self._previous = elapsed


def _seconds(duration: str, path: Path) -> float:
    """`1 day, 2:03:04.5`, as `str(timedelta)` writes it, in seconds."""
    matched = re.fullmatch(r"(?:(\d{1,6}) days?, )?(\d{1,2}):(\d{1,2}):(\d{1,2}(?:\.\d+)?)", duration)
    if matched is None:
        raise _damaged(path, f"the training_duration {duration!r}, which has to look like 0:01:02.5")
    days, hours, minutes, seconds = matched.groups()
    return timedelta(
        days=int(days or 0), hours=int(hours), minutes=int(minutes), seconds=float(seconds)
    ).total_seconds()


def _validation_metric(config: Config, path: Path) -> Tuple[str, bool]:
    metric = _entry(config, "trainer", dict, path).get("validation_metric", "-loss")
    if isinstance(metric, list):  # AllenNLP adds them up; a table can show the first one
        metric = metric[0] if metric else None
    if not isinstance(metric, str) or metric[:1] not in ("+", "-"):
        raise _damaged(path, f"the validation_metric {metric!r}")
    return metric[1:], metric[0] == "+"


def _read(path: Path) -> Dict[str, Any]:
    return read_json(path, "remove the folder to train again")


def _entry(content: Dict[str, Any], key: str, kind: Any, path: Path) -> Any:
    if not isinstance(content.get(key), kind):
        raise _damaged(path, f"{content[key]!r} for {key}" if key in content else f"no {key}")
    return content[key]


def _damaged(path: Path, what: str) -> ConfigurationError:
    return ConfigurationError(f"{path} has {what}; remove the folder to train again")


def _epoch_files(folder: Path) -> Dict[int, Path]:
    files = {int(path.stem.rpartition("_")[2]): path for path in folder.glob("metrics_epoch_*.json")}
    return dict(sorted(files.items()))


# ---- Training ----


class RunFailed(ConfigurationError):
    """A training ended with an error. The message has the end of its log."""


class Busy(ConfigurationError):
    """Another process is training this cell."""


class Runs:
    """A folder of finished and unfinished trainings. Several processes may work on one folder at a time.

    A training is `allennlp train` in a separate process, so that a failing one takes nothing else down. In a cell's
    folder are `experiment.json`, the config that is trained; `log.txt`; `run/`, AllenNLP's own folder; and, once that
    is finished, `result.json`. Checkpoints are removed then: the archive has the best weights.
    """

    def __init__(self, folder: Union[str, os.PathLike], say: Callable[[str], None] = print) -> None:
        self.folder = Path(folder)
        self._say = say

    def find(self, cell: Cell) -> Optional[Run]:
        """The finished run of a cell, whatever name it was trained under."""
        folder = self._folder_of(cell.name, experiment_hash(cell.resolve()))
        return Run.read(folder) if (folder / RESULT_FILE).exists() else None

    def train(self, cell: Cell) -> Run:
        """Trains a cell unless that has been done, resuming if it was interrupted.

        Raises RunFailed if the training ends with an error, and Busy if another process is training it.
        """
        config = cell.resolve()
        folder = self._folder_of(cell.name, experiment_hash(config))
        if not (folder / RESULT_FILE).exists():
            folder.mkdir(parents=True, exist_ok=True)
            with _locked(folder) as lock:
                if not (folder / RESULT_FILE).exists():  # another process may just have finished it
                    self._train(cell, config, folder, lock)
        return Run.read(folder)

    def train_all(self, cells: Sequence[Cell]) -> Tuple[Dict[str, Run], Dict[str, str]]:
        """Trains what isn't trained yet. Returns the runs by the names of their cells, and the errors of those that
        failed.

        A failure doesn't stop the rest. Cells that other processes are training are checked again at the end.
        """
        runs: Dict[str, Run] = {}
        failures: Dict[str, str] = {}
        waiting = list(cells)
        while waiting:
            busy = []
            for cell in waiting:
                try:
                    runs[cell.name] = self.train(cell)
                    self._say(f"{cell.name}: {summary(runs[cell.name])}")
                except Busy:
                    busy.append(cell)
                except ConfigurationError as error:
                    failures[cell.name] = str(error)
                    self._say(f"{cell.name}: failed. {error}")
            if len(busy) == len(waiting):
                names = ", ".join(cell.name for cell in busy)
                self._say(f"left to other processes, which are training them: {names}")
                failures.update({cell.name: "another process is training it" for cell in busy})
                break
            waiting = busy
        return runs, failures

    def _folder_of(self, name: str, digest: str) -> Path:
        others = sorted(self.folder.glob(f"*-{digest}")) if self.folder.is_dir() else []
        return others[0] if others else self.folder / f"{name}-{digest}"

    def _train(self, cell: Cell, config: Config, folder: Path, lock: int) -> None:
        (folder / EXPERIMENT_FILE).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
        run_folder = folder / RUN_FOLDER
        # Before its first checkpoint a run has nothing to recover from.
        is_started = any(run_folder.glob("training_state_e*.th"))
        command = training_command(folder / EXPERIMENT_FILE, run_folder, recover=is_started)
        self._say(f"{cell.name}: {'resuming' if is_started else 'training'}; its log is {folder / LOG_FILE}")
        with open(folder / LOG_FILE, "a", encoding="utf-8") as log:
            print(f"$ {' '.join(command)}", file=log, flush=True)
            # The child holds the lock too, so that no second training is started if this process is killed.
            process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, pass_fds=(lock,))
            try:
                exit_code = _wait(process, cell.name, run_folder, config["trainer"].get("num_epochs", 20))
            except BaseException:
                _end(process)
                raise
        if exit_code != 0:
            raise RunFailed(
                f"{' '.join(command)} ended with {exit_code}. The end of its log:\n{_tail(folder / LOG_FILE)}"
            )
        self._finish(cell, config, folder)

    def _finish(self, cell: Cell, config: Config, folder: Path) -> None:
        result = {
            "name": cell.name,
            "config_file": cell.config_file,
            "overrides": dict(cell.overrides),
            "updates_per_epoch": _updates_per_epoch(config, folder / RUN_FOLDER),
        }
        with replacing(folder / RESULT_FILE) as temporary:
            temporary.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
        for pattern in ("model_state_e*.th", "training_state_e*.th", "best.th"):  # the archive has the best weights
            for path in (folder / RUN_FOLDER).glob(pattern):
                path.unlink()


def training_command(experiment: Path, folder: Path, recover: bool) -> List[str]:
    """The command that trains an experiment in `folder`: from its last checkpoint, or from the beginning."""
    command = [sys.executable, "-m", "allennlp", "train", str(experiment), "-s", str(folder)]
    return [
        *command,
        "--file-friendly-logging",
        "--recover" if recover else "--force",
    ]


def summary(run: Run) -> str:
    """The result in one line."""
    took = timedelta(seconds=round(run.seconds))
    return f"{run.metric} {run.best:.4g} after epoch {run.best_epoch + 1}; {run.updates:,} updates, {took}"


def _updates_per_epoch(config: Config, folder: Path) -> float:
    """How many updates an epoch had: from the config if it says so, or else from the optimizer's count of steps."""
    per_epoch = config.get("data_loader", {}).get("batches_per_epoch")
    if per_epoch is not None:
        return per_epoch // config["trainer"].get("num_gradient_accumulation_steps", 1)
    states = [(_epochs_completed(path), path) for path in folder.glob("training_state_e*_b*.th")]
    num_epochs, path = max(states)
    optimizer = torch.load(path, map_location="cpu", weights_only=True)["optimizer"]
    steps = [int(state["step"]) for state in optimizer["state"].values() if "step" in state]
    if not steps or num_epochs == 0:
        raise ConfigurationError(
            f"{path} doesn't say how many updates there were; set data_loader.batches_per_epoch in the config"
        )
    return max(steps) // num_epochs


def _epochs_completed(path: Path) -> int:
    return int(path.stem.split("_e")[1].split("_b")[0])


@contextmanager
def _locked(folder: Path) -> Iterator[int]:
    """Holds the folder's lock, which is released when this process and those it started end; the file itself means
    nothing.
    """
    with open(folder / "lock", "w", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise Busy(f"another process is training {folder}") from error
        yield file.fileno()


def _wait(process: subprocess.Popen, name: str, folder: Path, num_epochs: int) -> int:
    """Waits for a training to end, with a bar that advances with each epoch."""
    with Tqdm.tqdm(total=num_epochs, desc=name, unit="epoch", leave=False) as bar:
        while True:
            try:
                return process.wait(SECONDS_BETWEEN_LOOKS)
            except subprocess.TimeoutExpired:
                num_done = len(_epoch_files(folder))
                if num_done > bar.n:
                    bar.update(num_done - bar.n)


def _end(process: subprocess.Popen) -> None:
    process.terminate()
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _tail(path: Path) -> str:
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    return "\n".join(f"    {line}" for line in lines[-NUM_LOG_LINES_SHOWN:])


# ---- For analyses that train ----


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of an analysis that trains: where, how often, how long."""
    parser.add_argument("--runs", default="runs/analysis", metavar="DIR", help="where trainings are kept")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1], metavar="SEED", help="one training per seed")
    parser.add_argument("--epochs", type=int, metavar="N", help="number of epochs, instead of the configs'")
    parser.add_argument(
        "--updates-per-epoch",
        type=int,
        metavar="N",
        help="makes every epoch this long, so that all trainings have the same number of updates; needs --epochs",
    )
    parser.add_argument(
        "-o", "--overrides", default="{}", metavar="JSON", help="changes to every config, as in 'allennlp train -o'"
    )


def changes_from(arguments: argparse.Namespace) -> List[Change]:
    """What the flags of `add_run_arguments` change in a config, apart from the seed."""
    if arguments.updates_per_epoch is not None:
        if arguments.epochs is None:
            raise ConfigurationError("--updates-per-epoch needs --epochs, to know how many of them to train")
        return [capped(arguments.epochs, arguments.updates_per_epoch)]
    return [] if arguments.epochs is None else [for_epochs(arguments.epochs)]


def overrides_from(arguments: argparse.Namespace) -> Dict[str, Any]:
    try:
        overrides = json.loads(arguments.overrides)
    except json.JSONDecodeError as error:
        raise ConfigurationError(f"--overrides isn't JSON: {error}") from error
    if not isinstance(overrides, dict):
        raise ConfigurationError(f"--overrides has to be a JSON object, not {arguments.overrides}")
    return overrides


def train_or_raise(runs: Runs, cells: Sequence[Cell]) -> Dict[str, Run]:
    """All cells' runs by name; none may be missing. What could be trained is kept for the next attempt."""
    trained, failures = runs.train_all(cells)
    if failures:
        name, failure = next(iter(failures.items()))
        raise ConfigurationError(
            f"{len(failures)} of {len(cells)} trainings failed, the first of them {name}: {failure}"
        )
    return trained
