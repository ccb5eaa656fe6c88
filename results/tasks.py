"""The six tasks of RESULTS.md: their free corpora, and a training of one.

The experiments are those of training_configs/, which are the paper's. `experiment.jsonnet` puts one together with its
budget from `budgets.libsonnet`; a baseline and its +ELMo have the same data, seeds, sizes and stopping rule.
"""

import functools
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, List, Mapping, NamedTuple, Optional, Tuple

import _jsonnet

from elmo_plugin.analysis.cells import Cell, seeded, train_on

FOLDER = Path(__file__).parent
SETTINGS = ("quick", "full")
DEFAULT_DATA = "../shared/data"
VECTORS = ("vectors/glove.100d.task-vocab.txt.gz", 100)


@dataclass(frozen=True)
class Task:
    """A task: its name in tables, its metric, its files below the data folder, the paper's two figures, and what others
    have published that the baseline can be held against.
    """

    title: str
    metric: str
    train: str
    dev: str
    corpus: str
    paper: Tuple[float, float]
    published: str


TASKS: Dict[str, Task] = {
    "squad": Task(
        title="SQuAD",
        metric="F1",
        train="squad/train44-v1.1.json.gz",
        dev="squad/dev-v1.1.json.gz",
        corpus="44 articles of SQuAD 1.1",
        paper=(81.1, 85.8),
        published=(
            "BiDAF, 77.3 on the same development set (Seo et al. 2017), trained on all 442 articles; here on 44. Of "
            "every fifth development question, 32 % have an answer with a word without a vector, such as a number, and "
            "1.8 % one past the cut"
        ),
    ),
    "snli": Task(
        title="SNLI",
        metric="accuracy",
        train="snli/train20k.jsonl.gz",
        dev="snli/dev.jsonl.gz",
        corpus="20,000 pairs of SNLI",
        paper=(88.0, 88.7),
        published="ESIM, 88.0 (Chen et al. 2017), trained on all 549,367 pairs; here on 4 % of them",
    ),
    "srl": Task(
        title="SRL",
        metric="F1",
        train="srl/ewt_train.gold_conll.gz",
        dev="srl/ewt_development.gold_conll.gz",
        corpus="PropBank on the English Web Treebank, verbs only",
        paper=(81.4, 84.6),
        published="none that we know of for these files; 81.4 is the paper's on OntoNotes, six times the propositions",
    ),
    "coref": Task(
        title="Coref",
        metric="average F1",
        train="coref/ontogum_train.v4_gold_conll.gz",
        dev="coref/ontogum_dev.v4_gold_conll.gz",
        corpus="OntoGUM",
        paper=(67.2, 70.4),
        published="systems trained on OntoNotes are 15 to 20 % worse on it (Zhu et al. 2021); here 84 documents",
    ),
    "ner": Task(
        title="NER",
        metric="F1",
        train="ner/wikigold.train.conll",
        dev="ner/wikigold.dev.conll",
        corpus="WikiGold",
        paper=(90.15, 92.22),
        published="RoBERTa, 86.4 (Liang et al. 2020, fully supervised), on another split",
    ),
    "sst": Task(
        title="SST-5",
        metric="accuracy",
        train="sst/train.txt",
        dev="sst/dev.txt",
        corpus="Stanford Sentiment Treebank",
        paper=(51.4, 54.7),
        published="BCN, 51.4 on the test set (the paper's baseline), with larger word vectors",
    ),
}


class Tried(NamedTuple):
    """Another choice for a task's budget: what was trained with it, the choice that it is held against (what was taken
    if it is None), and what it is in words.
    """

    sides: List[str]
    seeds: List[int]
    beside: Optional[str]
    note: str


class Budget(NamedTuple):
    """What `budgets.libsonnet` says of a task, apart from the changes to its experiment."""

    seeds: List[int]
    train_fraction: float
    validation_fraction: float
    note: str
    tried: Dict[str, Tried]


@functools.cache
def budget_of(setting: str, task: str) -> Budget:
    budget = json.loads(_jsonnet.evaluate_file(str(FOLDER / "budgets.libsonnet")))[setting][task]
    tried = {name: Tried(**other) for name, other in budget.pop("tried").items()}
    return Budget(**budget, tried=tried)


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


def training(
    task: str,
    variant: str,
    setting: str,
    seed: int,
    data: Path,
    fraction: Optional[float] = None,
    variables: Optional[Mapping[str, str]] = None,
    title: Optional[str] = None,
) -> Cell:
    """One training. `fraction` is of the training set that the budget leaves, `title` what the run is called in the
    variant's place.
    """
    budget = budget_of(setting, task)
    choice = {"RESULTS_TASK": task, "RESULTS_VARIANT": variant, "RESULTS_SETTING": setting}
    return Cell(
        "-".join([task, title or variant] + ([] if fraction is None else [f"{fraction:g}"]) + [f"seed{seed}"]),
        str(FOLDER / "experiment.jsonnet"),
        {**environment(data), **choice, **(variables or {})},
        changes=(
            train_on(budget.train_fraction * (fraction or 1.0), seed=0 if fraction is None else seed),
            seeded(seed),
        ),
    )
