import json
import sys
from pathlib import Path
from typing import Any, Callable, Dict, List

import pytest

from elmo_plugin.analysis import runs as runs_module
from elmo_plugin.analysis.cells import Cell
from elmo_plugin.analysis.finished_run import EpochResult, Run
from elmo_plugin.analysis.runs import Runs

# Leaves what `allennlp train` leaves, at once. Each epoch is better than the last by a tenth; a run with ELMo starts
# higher. While the file it is told of exists, it dies after its first epoch.
FAKE_TRAINING = """
import json, pathlib, sys
experiment, folder, mode, deadly = sys.argv[1:]
config, folder = json.loads(pathlib.Path(experiment).read_text()), pathlib.Path(folder)
folder.mkdir(parents=True, exist_ok=True)
print("mode", mode)
done = len(list(folder.glob("training_state_e*.th"))) if mode == "recover" else 0
metric = config["trainer"]["validation_metric"][1:]
for epoch in range(done, config["trainer"]["num_epochs"]):
    value = (epoch + 1) / 10 + 0.05 * (config["model"]["type"] == "elmo") + config["random_seed"] / 100
    metrics = {"best_epoch": epoch, "epoch": epoch, "training_duration": f"0:00:0{1 + epoch - done}.500000"}
    metrics |= {f"validation_{metric}": value, "validation_loss": 1.0}
    (folder / f"metrics_epoch_{epoch}.json").write_text(json.dumps(metrics))
    (folder / f"training_state_e{epoch + 1}_b0.th").touch()
    if pathlib.Path(deadly).exists():
        sys.exit("no space left on device")
(folder / "metrics.json").write_text(json.dumps(metrics))
(folder / "model.tar.gz").touch()
"""


@pytest.fixture
def deadly_file(tmp_path) -> Path:
    """While it exists, trainings die after an epoch."""
    return tmp_path / "deadly"


@pytest.fixture
def fake_training(monkeypatch, tmp_path, deadly_file) -> List[str]:
    """Lets trainings be fakes that take no time. Returns the modes they were started in, `force` or `recover`."""
    script = tmp_path / "fake_training.py"
    script.write_text(FAKE_TRAINING)
    started: List[str] = []

    def command(experiment: Path, folder: Path, recover: bool) -> List[str]:
        started.append("recover" if recover else "force")
        return [sys.executable, "-S", str(script), str(experiment), str(folder), started[-1], str(deadly_file)]

    monkeypatch.setattr(runs_module, "training_command", command)
    return started


@pytest.fixture
def make_config(tmp_path) -> Callable[..., str]:
    """Writes a config of three epochs of four updates."""

    def make(name: str = "baseline", folder: Path = tmp_path, **changes: Any) -> str:
        config: Dict[str, Any] = {
            "random_seed": 0,
            "dataset_reader": {"type": "elmo::ner"},
            "model": {"type": name},
            "data_loader": {"batch_size": 2, "batches_per_epoch": 4},
            "trainer": {"num_epochs": 3, "validation_metric": "+f1"},
        }
        path = folder / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({**config, **changes}))
        return str(path)

    return make


@pytest.fixture
def make_cell(make_config) -> Callable[..., Cell]:
    def make(name: str = "cell", **options: Any) -> Cell:
        return Cell(name, make_config(), **options)

    return make


@pytest.fixture
def runs(tmp_path, fake_training) -> Runs:
    return Runs(tmp_path / "runs")


@pytest.fixture
def make_run() -> Callable[..., Run]:
    """A run with the given validation results, ten updates an epoch."""

    def make(*values: float, larger_is_better: bool = True) -> Run:
        best = (max if larger_is_better else min)(values)
        curve = tuple(EpochResult(epoch, 10 * (epoch + 1), value) for epoch, value in enumerate(values))
        return Run("run", Path("run"), "f1", larger_is_better, curve, values.index(best), 1.0, {})

    return make
