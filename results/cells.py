"""The trainings behind RESULTS.md: which data, which sizes, how many updates.

The configs are those of training_configs/, which are the paper's. What is changed is here and in settings.py: data that
is free, word vectors in lower case, and as many updates and as wide a network as some minutes (`quick`) or an hour
(`full`) on one CPU core allow. A baseline and its +ELMo have the same data, seeds, sizes and number of updates.
"""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from elmo_plugin.analysis.runs import Cell, capped, lower_case_words, seeded, train_on, validate_on

CONFIGS = Path("training_configs")
DEFAULT_DATA = "../shared/data"
VECTORS = ("vectors/glove.100d.task-vocab.txt.gz", 100)


@dataclass(frozen=True)
class Task:
    """A task: its name in tables, its metric, its files below the data folder, and the paper's two figures."""

    title: str
    metric: str
    train: str
    dev: str
    corpus: str
    paper: Tuple[float, float]
    # What the reader needs to be told about this corpus.
    reader: Mapping[str, Any] = field(default_factory=dict)
    # Whether the config has a reader of its own for validation.
    has_validation_reader: bool = False


TASKS: Dict[str, Task] = {
    "squad": Task(
        title="SQuAD",
        metric="F1",
        train="squad/train44-v1.1.json.gz",
        dev="squad/dev-v1.1.json.gz",
        corpus="44 articles of SQuAD 1.1",
        paper=(81.1, 85.8),
    ),
    "snli": Task(
        title="SNLI",
        metric="accuracy",
        train="snli/train20k.jsonl.gz",
        dev="snli/dev.jsonl.gz",
        corpus="20,000 pairs of SNLI",
        paper=(88.0, 88.7),
    ),
    "srl": Task(
        title="SRL",
        metric="F1",
        train="srl/ewt_train.gold_conll.gz",
        dev="srl/ewt_development.gold_conll.gz",
        corpus="PropBank on the English Web Treebank, verbs only",
        paper=(81.4, 84.6),
        reader={"verbal_predicates_only": True},
        has_validation_reader=True,
    ),
    "coref": Task(
        title="Coref",
        metric="average F1",
        train="coref/ontogum_train.v4_gold_conll.gz",
        dev="coref/ontogum_dev.v4_gold_conll.gz",
        corpus="OntoGUM",
        paper=(67.2, 70.4),
        reader={"genre_pattern": "GUM_([a-z]+)_"},
    ),
    "ner": Task(
        title="NER",
        metric="F1",
        train="ner/wikigold.train.conll",
        dev="ner/wikigold.dev.conll",
        corpus="WikiGold",
        paper=(90.15, 92.22),
    ),
    "sst": Task(
        title="SST-5",
        metric="accuracy",
        train="sst/train.txt",
        dev="sst/dev.txt",
        corpus="Stanford Sentiment Treebank",
        paper=(51.4, 54.7),
        has_validation_reader=True,
    ),
}


@dataclass(frozen=True)
class Budget:
    """How much of a task is trained: `num_epochs` times `updates_per_epoch` updates, a validation after each epoch."""

    num_epochs: int
    updates_per_epoch: int
    seeds: Sequence[int] = (1,)
    train_fraction: float = 1.0
    validation_fraction: float = 1.0
    # Sizes other than the paper's, as AllenNLP's overrides.
    overrides: Mapping[str, Any] = field(default_factory=dict)
    # Those of settings that only the configs with ELMo have.
    elmo_overrides: Mapping[str, Any] = field(default_factory=dict)
    # The same in words, for the report.
    note: str = ""

    @property
    def updates(self) -> int:
        return self.num_epochs * self.updates_per_epoch


def config_file(task: str, variant: str) -> str:
    folder = CONFIGS / task
    own = folder / f"{variant}.jsonnet"
    return str(own if own.exists() else folder / "ablations" / f"{variant}.jsonnet")


def data_folder() -> Path:
    return Path(os.environ.get("ELMO_DATA") or DEFAULT_DATA)


def environment(data: Path) -> Dict[str, str]:
    """The variables that the configs read: every task's files, and the word vectors unless others are set."""
    variables = {}
    for name, task in TASKS.items():
        variables[f"ELMO_{name.upper()}_TRAIN"] = str(data / task.train)
        variables[f"ELMO_{name.upper()}_DEV"] = str(data / task.dev)
    if not os.environ.get("ELMO_WORD_VECTORS"):
        file, dim = VECTORS
        variables.update(ELMO_WORD_VECTORS=str(data / file), ELMO_WORD_VECTORS_DIM=str(dim))
    return variables


def cell(
    task: str,
    variant: str,
    budget: Budget,
    seed: int,
    data: Path,
    fraction: Optional[float] = None,
    variables: Optional[Mapping[str, str]] = None,
) -> Cell:
    """One training. `fraction` is of the training set that the budget leaves."""
    readers = ["dataset_reader"] + ["validation_dataset_reader"] * TASKS[task].has_validation_reader
    overrides = {f"{reader}.{key}": value for reader in readers for key, value in TASKS[task].reader.items()}
    is_baseline = variant.endswith("baseline")
    train_fraction = budget.train_fraction * (1.0 if fraction is None else fraction)
    return Cell(
        name="-".join([task, variant] + ([] if fraction is None else [f"{fraction:g}"]) + [f"seed{seed}"]),
        config_file=config_file(task, variant),
        overrides={**overrides, **budget.overrides, **({} if is_baseline else budget.elmo_overrides)},
        environment={**environment(data), **(variables or {})},
        changes=(
            lower_case_words,
            train_on(train_fraction, seed=0 if fraction is None else seed),
            validate_on(budget.validation_fraction),
            capped(budget.num_epochs, budget.updates_per_epoch),
            seeded(seed),
        ),
    )


def cells(task: str, variant: str, budget: Budget, data: Path, **options: Any) -> List[Cell]:
    """The same training with each of the budget's seeds."""
    return [cell(task, variant, budget, seed, data, **options) for seed in budget.seeds]
