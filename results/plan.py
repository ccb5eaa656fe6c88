"""Which trainings each part of the report is made of."""

from pathlib import Path
from typing import Callable, Dict, Iterable, List, NamedTuple, Optional, Sequence

from elmo_plugin.analysis.ablations import TABLES
from elmo_plugin.analysis.cells import Cell
from elmo_plugin.analysis.finetuning import Tuned, archive_in_environment, tune
from elmo_plugin.analysis.finished_run import Run
from elmo_plugin.analysis.runs import RunFailed, Runs
from elmo_plugin.bilm.pretrained import SHIPPED_LARGER
from results.tasks import TASKS, budget_of, environment, training

FRACTION_TASKS = ("ner", "srl", "snli")
FRACTIONS = (0.01, 0.1, 1.0)
# What was tried for a task's budget, where Figure 1 is trained with that: it takes a third of the time.
FRACTION_CHOICES = {"snli": "half_widths"}
ABLATION_TASKS = ("ner", "srl")
ABLATION_TABLES = ("layers", "placement")
FINETUNING_TASKS = ("ner", "srl")
LARGER_TASKS = ("ner",)
LARGER_VARIANT = "elmo_larger"
# Task texts are small beside the paper's corpus: with its batches an epoch would be a handful of updates.
FINETUNING_OVERRIDES = {
    "data_loader.batch_size": 16,
    "validation_data_loader.batch_size": 16,
    "model.softmax.num_samples": 2048,
}


class ReportRun(NamedTuple):
    """A training and its place in the report."""

    task: str
    variant: str
    fraction: Optional[float]
    seed: int
    cell: Cell


def six_tasks(setting: str, data: Path) -> List[ReportRun]:
    """Table 1."""
    return _runs(setting, data, TASKS, ("baseline", "elmo"))


def fractions(setting: str, data: Path) -> List[ReportRun]:
    """Figure 1, with the first seed. Its whole training sets are runs of Table 1, or of the choices."""
    return [
        run
        for task in FRACTION_TASKS
        for fraction in FRACTIONS
        for run in _runs(setting, data, [task], fraction_variants(setting, task), fraction, _first_seed(setting, task))
    ]


def fraction_variants(setting: str, task: str) -> List[str]:
    """Figure 1's baseline and +ELMo."""
    choice = fraction_choice(setting, task)
    return [side if choice is None else tried_variant(side, choice) for side in ("baseline", "elmo")]


def fraction_choice(setting: str, task: str) -> Optional[str]:
    """What was tried for a task's budget and is Figure 1's; None if that is the budget as taken."""
    choice = FRACTION_CHOICES.get(task)
    return choice if choice in budget_of(setting, task).tried else None


def ablations(setting: str, data: Path) -> List[ReportRun]:
    """Tables 2 and 3, with the first seed. What is the baseline or +ELMo by another name isn't trained again."""
    variants = dict.fromkeys(name for table in ABLATION_TABLES for name in TABLES[table].variants)
    return [
        run
        for task in ABLATION_TASKS
        for run in _runs(setting, data, [task], variants, seeds=_first_seed(setting, task))
    ]


def choices(setting: str, data: Path) -> List[ReportRun]:
    """What else was tried for the budgets; `tried_variant` names it."""
    return [
        run
        for task in TASKS
        for name, other in budget_of(setting, task).tried.items()
        for run in _runs(setting, data, [task], [tried_variant(side, name) for side in other.sides], seeds=other.seeds)
    ]


def larger(setting: str, data: Path) -> List[ReportRun]:
    """+ELMo with the larger of the biLMs that ship, whichever the others are trained with."""
    return [
        ReportRun(
            task,
            LARGER_VARIANT,
            None,
            seed,
            training(task, "elmo", setting, seed, data, variables={"ELMO_BILM": SHIPPED_LARGER}, title=LARGER_VARIANT),
        )
        for task in LARGER_TASKS
        for seed in budget_of(setting, task).seeds
    ]


def tried_variant(side: str, name: str) -> str:
    return f"{side}-{name}"


PARTS: Dict[str, Callable[[str, Path], List[ReportRun]]] = {
    "tasks": six_tasks,
    "fractions": fractions,
    "ablations": ablations,
    "choices": choices,
    "larger": larger,
}


def _runs(
    setting: str,
    data: Path,
    tasks: Iterable[str],
    variants: Iterable[str],
    fraction: Optional[float] = None,
    seeds: Optional[Sequence[int]] = None,
) -> List[ReportRun]:
    return [
        ReportRun(task, variant, fraction, seed, training(task, variant, setting, seed, data, fraction))
        for task in tasks
        for variant in variants
        for seed in seeds or budget_of(setting, task).seeds
    ]


def _first_seed(setting: str, task: str) -> List[int]:
    return budget_of(setting, task).seeds[:1]


# ---- The tuned biLM: its trainings need the archives of others, so they can't be listed beforehand ----


class WithTuned(NamedTuple):
    """A tuned biLM, and a task's runs, one for each seed, with the plain biLM and with the tuned one."""

    tuned: Tuned
    plain_runs: List[Run]
    tuned_runs: List[Run]


def train_tuned(setting: str, task: str, data: Path, runs: Runs) -> WithTuned:
    """Tunes the biLM on a task's text, and trains the task with it and without, with the first seed."""
    seeds, archive = _first_seed(setting, task), archive_in_environment()

    def cells(tuned: Tuned) -> List[Cell]:
        variables = {"ELMO_FINETUNED_ARCHIVE": tuned.archive}
        return [training(task, "elmo_finetuned", setting, seed, data, variables=variables) for seed in seeds]

    tuned = tune(runs, task, archive, environment=environment(data), overrides=FINETUNING_OVERRIDES)
    if any(runs.find(cell) is None for cell in cells(tuned)):  # to be trained, which takes the tuned biLM's weights
        tuned = tune(runs.with_weights(), task, archive, environment=environment(data), overrides=FINETUNING_OVERRIDES)
    return WithTuned(
        tuned,
        [runs.train(training(task, "elmo", setting, seed, data)) for seed in seeds],
        [runs.train(cell) for cell in cells(tuned)],
    )


def find_tuned(setting: str, data: Path, runs: Runs) -> Dict[str, WithTuned]:
    """The same for all tasks, as far as it is done."""
    found = {}
    for task in FINETUNING_TASKS:
        try:
            found[task] = train_tuned(setting, task, data, _FinishedRuns(runs.folder, runs.records))
        except RunFailed:
            pass
    return found


class _FinishedRuns(Runs):
    """Runs that are read and never started."""

    def train(self, cell: Cell) -> Run:
        run = self.find(cell)
        if run is None:
            raise RunFailed(f"{cell.name} isn't trained yet")
        return run
