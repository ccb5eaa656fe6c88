"""How many instances a training and its validation have, counted once for each reader and file."""

import copy
from pathlib import Path
from typing import Any, Dict, NamedTuple

from allennlp.common import Params
from allennlp.data import DatasetReader

from elmo_plugin.analysis.cells import experiment_hash
from elmo_plugin.analysis.finished_run import Run
from elmo_plugin.files import read_json, write_json


class Sizes(NamedTuple):
    train: int
    dev: int


def num_instances(run: Run, cache: Path) -> Sizes:
    """Counts what the run's readers read. The counts are kept in the file `cache`."""
    config = run.config
    reader = config["dataset_reader"]
    return Sizes(
        _count(reader, config["train_data_path"], cache),
        _count(config.get("validation_dataset_reader") or reader, config["validation_data_path"], cache),
    )


def _count(reader: Dict[str, Any], path: str, cache: Path) -> int:
    key = experiment_hash({"reader": reader, "path": path})
    counts = read_json(cache, "remove it to count again") if cache.exists() else {}
    if key not in counts:
        instances = DatasetReader.from_params(Params(copy.deepcopy(reader))).read(path)
        counts[key] = sum(1 for _ in instances)
        cache.parent.mkdir(parents=True, exist_ok=True)
        write_json(cache, counts)
    return counts[key]
