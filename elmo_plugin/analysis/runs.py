"""Trainings as the cells of a table: each is trained once, resumed where it was interrupted, and read from its own
files.

    runs = Runs("runs/results")
    cell = Cell("ner-elmo", "training_configs/ner/elmo.jsonnet", changes=(lasting(10, 100), seeded(1)))
    print(runs.train(cell).best)

A cell's folder is named after the cell and after a hash of its experiment: the config with everything in it resolved,
and the contents of the files it names. So the same experiment is never trained twice, whatever its name, and a change
to a config, to a data file or to the biLM gets a new folder.
"""

import fcntl
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Dict, Hashable, Iterator, List, Mapping, Optional, Sequence, Tuple, TypeVar

import torch
from allennlp.common import Tqdm
from allennlp.common.checks import ConfigurationError

from elmo_plugin.analysis.cells import Cell, Config, experiment_hash
from elmo_plugin.analysis.finished_run import (
    EXPERIMENT_FILE,
    RESULT_FILE,
    RUN_FOLDER,
    Run,
    epoch_files,
    summary,
    write_record,
)
from elmo_plugin.analysis.layer_weights import mixes_of
from elmo_plugin.archives import read_weights
from elmo_plugin.files import PathOrStr, write_json

LOG_FILE = "log.txt"
NUM_LOG_LINES_SHOWN = 15
SECONDS_BETWEEN_LOOKS = 1.0

Key = TypeVar("Key", bound=Hashable)


class RunFailed(ConfigurationError):
    """A training ended with an error. The message has the end of its log."""


class Busy(ConfigurationError):
    """Another process is training this cell."""


class Runs:
    """A folder of finished and unfinished trainings. Several processes may work on one folder at a time.

    A training is `allennlp train` in a separate process, so that a failing one takes nothing else down. In a cell's
    folder are `experiment.json`, the config that is trained; `log.txt`; `run/`, AllenNLP's own folder; and, once that
    is finished, `result.json`. Checkpoints are removed then: the archive has the best weights.

    With `records`, a second folder, a finished run leaves one small file there, `<name>-<hash>.json`, which stands for
    the run wherever its own folder isn't: it has everything but log and weights, and can be kept under version control.
    """

    def __init__(self, folder: PathOrStr, records: Optional[PathOrStr] = None) -> None:
        self.folder = Path(folder)
        self.records = None if records is None else Path(records)

    def find(self, cell: Cell) -> Optional[Run]:
        """The finished run of a cell, whatever name it was trained under."""
        digest = experiment_hash(cell.resolve())
        folder = self._folder_of(cell.name, digest)
        if (folder / RESULT_FILE).exists():
            return Run.read(folder)
        return next((Run.read_record(path) for path in self._recorded(digest)), None)

    def train(self, cell: Cell) -> Run:
        """Trains a cell unless that has been done, resuming if it was interrupted.

        Raises RunFailed if the training ends with an error, and Busy if another process is training it.
        """
        found = self.find(cell)
        if found is not None:
            return found
        config = cell.resolve()
        digest = experiment_hash(config)
        folder = self._folder_of(cell.name, digest)
        folder.mkdir(parents=True, exist_ok=True)
        with _locked(folder) as lock:
            if not (folder / RESULT_FILE).exists():  # another process may just have finished it
                self._train(cell, config, folder, lock)
                if self.records is not None:
                    write_record(folder, self.records / f"{cell.name}-{digest}.json")
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
                    print(f"{cell.name}: {summary(runs[cell.name])}")
                except Busy:
                    busy.append(cell)
                except ConfigurationError as error:
                    failures[cell.name] = str(error)
                    print(f"{cell.name}: failed. {error}")
            if len(busy) == len(waiting):
                names = ", ".join(cell.name for cell in busy)
                print(f"left to other processes, which are training them: {names}")
                failures.update({cell.name: "another process is training it" for cell in busy})
                break
            waiting = busy
        return runs, failures

    def _folder_of(self, name: str, digest: str) -> Path:
        others = sorted(self.folder.glob(f"*-{digest}")) if self.folder.is_dir() else []
        return others[0] if others else self.folder / f"{name}-{digest}"

    def with_weights(self) -> "Runs":
        """The same without records, for runs whose weights are needed."""
        return type(self)(self.folder)

    def _recorded(self, digest: str) -> List[Path]:
        return [] if self.records is None else sorted(self.records.glob(f"*-{digest}.json"))

    def _train(self, cell: Cell, config: Config, folder: Path, lock: int) -> None:
        write_json(folder / EXPERIMENT_FILE, config)
        run_folder = folder / RUN_FOLDER
        # Before its first checkpoint a run has nothing to recover from.
        is_started = any(run_folder.glob("training_state_e*.th"))
        command = training_command(folder / EXPERIMENT_FILE, run_folder, recover=is_started)
        print(f"{cell.name}: {'resuming' if is_started else 'training'}; its log is {folder / LOG_FILE}")
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
            "layer_weights": _layer_weights(config, folder / RUN_FOLDER),
        }
        write_json(folder / RESULT_FILE, result)
        for pattern in ("model_state_e*.th", "training_state_e*.th", "best.th"):  # the archive has the best weights
            for path in (folder / RUN_FOLDER).glob(pattern):
                path.unlink()


def train_or_raise(runs: Runs, cells: Mapping[Key, Cell]) -> Dict[Key, Run]:
    """The runs of all cells, by the same keys; none may be missing. What could be trained is kept for the next
    attempt.
    """
    trained, failures = runs.train_all(list(cells.values()))
    if failures:
        name, failure = next(iter(failures.items()))
        raise ConfigurationError(
            f"{len(failures)} of {len(cells)} trainings failed, the first of them {name}: {failure}"
        )
    return {key: trained[cell.name] for key, cell in cells.items()}


def training_command(experiment: Path, folder: Path, recover: bool) -> List[str]:
    """The command that trains an experiment in `folder`: from its last checkpoint, or from the beginning."""
    mode = "--recover" if recover else "--force"
    command = [sys.executable, "-m", "allennlp", "train", str(experiment), "-s", str(folder)]
    return [*command, "--file-friendly-logging", mode]


def _updates_per_epoch(config: Config, folder: Path) -> float:
    """How many updates an epoch had: from the config if it says so, or else from the optimizer's count of steps."""
    per_epoch = config.get("data_loader", {}).get("batches_per_epoch")
    if per_epoch is not None:
        return per_epoch // config["trainer"].get("num_gradient_accumulation_steps", 1)
    states = folder.glob("training_state_e*_b*.th")
    num_epochs, path = max((int(path.stem.split("_e")[1].split("_b")[0]), path) for path in states)
    optimizer = torch.load(path, map_location="cpu", weights_only=True)["optimizer"]
    steps = [int(state["step"]) for state in optimizer["state"].values() if "step" in state]
    if not steps or num_epochs == 0:
        raise ConfigurationError(
            f"{path} doesn't say how many updates there were; set data_loader.batches_per_epoch in the config"
        )
    return max(steps) // num_epochs


def _layer_weights(config: Config, folder: Path) -> List[Dict[str, Any]]:
    """How the best model mixes a biLM's layers, if it does: from its weights, which are about to be removed."""
    best = folder / "best.th"
    mixes = mixes_of(read_weights(folder, best), config, "") if best.exists() else []
    return [{"mix": mix.mix, "weights": mix.weights, "gamma": mix.gamma, "fixed": mix.fixed} for mix in mixes]


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
                bar.update(len(epoch_files(folder)) - bar.n)


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
