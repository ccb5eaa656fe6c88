"""What to train: the cells of a table, each an experiment with a name, and the hash that tells experiments apart."""

import copy
import functools
import glob
import hashlib
import json
import os
import re
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, FrozenSet, Mapping, Optional, Sequence, Tuple

from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.common.params import with_overrides

from elmo_plugin.bilm.pretrained import PRETRAINED
from elmo_plugin.settings import PREFIX

# An archive in the folder of a run, or of one that only a record is left of.
_ARCHIVE_OF_RUN = re.compile(r"-([0-9a-f]{16})(?:\.json)?/run/model\.tar\.gz$")

Config = Dict[str, Any]
Change = Callable[[Config], Config]


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


# ---- Changes that any config can take, whether or not it reads the ELMO_* variables ----


def seeded(seed: int) -> Change:
    """All three random seeds."""
    return lambda config: {**config, "random_seed": seed, "numpy_seed": seed, "pytorch_seed": seed}


def lasting(num_epochs: int, updates_per_epoch: Optional[int] = None) -> Change:
    """`num_epochs` epochs, each as long as the data, with the config's own early stopping.

    With `updates_per_epoch` it is exactly that many updates in each of them, with a validation after each epoch and no
    early stopping. An epoch continues in the data where the previous one stopped, so its length is independent of the
    data's.
    """

    def change(config: Config) -> Config:
        config = copy.deepcopy(config)
        config["trainer"]["num_epochs"] = num_epochs
        if updates_per_epoch is not None:
            # Without a separate config for validation, its loader would be cut short as well.
            config.setdefault("validation_data_loader", copy.deepcopy(config["data_loader"]))
            num_accumulated = config["trainer"].get("num_gradient_accumulation_steps", 1)
            config["data_loader"]["batches_per_epoch"] = updates_per_epoch * num_accumulated
            config["trainer"]["patience"] = None
        return config

    return change


def train_on(fraction: float, seed: int = 0) -> Change:
    """Part of the training set, as `elmo::fraction` chooses it: with the same seed, smaller parts lie inside larger
    ones. The validation set stays whole.
    """

    def change(config: Config) -> Config:
        if fraction == 1.0:
            return config
        reader = config["dataset_reader"]
        return {
            "validation_dataset_reader": reader,
            **config,
            "dataset_reader": {"type": "elmo::fraction", "reader": reader, "fraction": fraction, "seed": seed},
        }

    return change


# ---- Hashes ----


def experiment_hash(config: Config) -> str:
    """A hash of an experiment: of its resolved config, with the contents of files and folders in the place of their
    names. So it is the same wherever the data lies. An archive that one of these experiments left counts as that
    experiment: its bytes differ from machine to machine, and it may be gone.
    """
    return hashlib.blake2b(json.dumps(_with_contents(config), sort_keys=True).encode(), digest_size=8).hexdigest()


def _with_contents(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: item if key == "type" else _with_contents(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_contents(item) for item in value]
    contents = b"".join(map(_digest_of_path, _paths(value))) if isinstance(value, str) else b""
    return hashlib.blake2b(contents).hexdigest() if contents else value


def _paths(text: str) -> Sequence[str]:
    """What a value in a config may mean: a file or folder, a glob, or the name of a biLM."""
    if text in PRETRAINED:
        return PRETRAINED[text]
    return sorted(glob.glob(text)) if glob.has_magic(text) else [text]


def _digest_of_path(path: str) -> bytes:
    if trained := _ARCHIVE_OF_RUN.search(path):
        return bytes.fromhex(trained[1])
    if os.path.isfile(path):
        status = os.stat(path)
        return _digest_of_file(os.path.realpath(path), status.st_size, status.st_mtime_ns)
    # A bare word is more likely a choice than a folder that happens to be here.
    if os.path.isdir(path) and os.sep in path:
        files = sorted(glob.glob(os.path.join(glob.escape(path), "**"), recursive=True))
        return b"".join(_digest_of_path(name) for name in files if os.path.isfile(name))
    return b""


@functools.cache
def _digest_of_file(path: str, size: int, modified: int) -> bytes:
    """The digest of a file's content. Size and time are in the cache's key, so that a changed file is read again."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "blake2b").digest()
