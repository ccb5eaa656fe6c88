"""Which trainings each part of the report is made of."""

from pathlib import Path
from typing import Callable, Dict, List, NamedTuple, Optional

from cells import Budget, cell, environment
from settings import Setting

from elmo_plugin.analysis.ablations import TABLES
from elmo_plugin.analysis.finetuning import Tuned, archive_in_environment, tune
from elmo_plugin.analysis.runs import Cell, Run, RunFailed, Runs


class Planned(NamedTuple):
    """A training and its place in the report."""

    task: str
    variant: str
    fraction: Optional[float]
    seed: int
    cell: Cell


def six_tasks(setting: Setting, data: Path) -> List[Planned]:
    """Table 1."""
    return [
        _planned(task, variant, budget, seed, data)
        for task, budget in setting.budgets.items()
        for variant in ("baseline", "elmo")
        for seed in budget.seeds
    ]


def fractions(setting: Setting, data: Path) -> List[Planned]:
    """Figure 1. Its whole training sets are Table 1's runs."""
    return [
        _planned(task, variant, setting.side_budgets[task], seed, data, fraction)
        for task in setting.fraction_tasks
        for fraction in setting.fractions
        for variant in ("baseline", "elmo")
        for seed in setting.side_budgets[task].seeds
    ]


def ablations(setting: Setting, data: Path) -> List[Planned]:
    """Tables 2 and 3. What is the baseline or +ELMo by another name isn't trained again."""
    return [
        _planned(task, variant, setting.side_budgets[task], seed, data)
        for task in setting.ablation_tasks
        for variant in dict.fromkeys(name for table in setting.ablation_tables for name in TABLES[table].variants)
        for seed in setting.side_budgets[task].seeds
    ]


PARTS: Dict[str, Callable[[Setting, Path], List[Planned]]] = {
    "tasks": six_tasks,
    "fractions": fractions,
    "ablations": ablations,
}


def _planned(
    task: str, variant: str, budget: Budget, seed: int, data: Path, fraction: Optional[float] = None
) -> Planned:
    return Planned(task, variant, fraction, seed, cell(task, variant, budget, seed, data, fraction))


# ---- The tuned biLM: its trainings need the archives of others, so they can't be listed beforehand ----


class WithTuned(NamedTuple):
    """A tuned biLM, and a task's runs, one a seed, with the plain biLM and with the tuned one."""

    tuned: Tuned
    plain_runs: List[Run]
    tuned_runs: List[Run]


def train_tuned(setting: Setting, task: str, data: Path, runs: Runs) -> WithTuned:
    """Tunes the biLM on a task's text, and trains the task with it and without."""
    tuned = tune(
        runs,
        task,
        archive_in_environment(),
        environment=environment(data),
        overrides=setting.finetuning_overrides,
    )
    budget, variables = setting.side_budgets[task], {"ELMO_FINETUNED_ARCHIVE": tuned.archive}
    plain = [cell(task, "elmo", budget, seed, data) for seed in budget.seeds]
    with_tuned = [cell(task, "elmo_finetuned", budget, seed, data, variables=variables) for seed in budget.seeds]
    return WithTuned(tuned, [runs.train(one) for one in plain], [runs.train(one) for one in with_tuned])


def find_tuned(setting: Setting, data: Path, runs: Runs) -> Dict[str, WithTuned]:
    """The same for all tasks, as far as it is done."""
    found = {}
    for task in setting.finetuning_tasks:
        try:
            found[task] = train_tuned(setting, task, data, _Finished(runs.folder))
        except RunFailed:
            pass
    return found


class _Finished(Runs):
    """Runs that are read and never started."""

    def train(self, cell: Cell) -> Run:
        run = self.find(cell)
        if run is None:
            raise RunFailed(f"{cell.name} isn't trained yet")
        return run
