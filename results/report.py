"""RESULTS.md and its plots, from the files that the trainings left."""

import shutil
import statistics
from pathlib import Path
from typing import TYPE_CHECKING, Callable, Dict, Iterable, List, Optional, Sequence, Tuple

from elmo_plugin.analysis import ablations, layer_weights, sample_efficiency
from elmo_plugin.analysis.analysis import write_plot
from elmo_plugin.analysis.finished_run import Run
from elmo_plugin.analysis.runs import Runs
from elmo_plugin.analysis.sample_efficiency import BASELINE, ELMO, updates_saved
from elmo_plugin.analysis.tables import mean_and_spread, mean_text
from elmo_plugin.bilm.pretrained import PRETRAINED, SHIPPED_LARGER
from elmo_plugin.files import write_text
from results import plan, probes
from results.sizes import num_instances
from results.tasks import TASKS, budget_of, data_folder

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Where each setting's report goes, and its plots relative to it. The quick one, a first look, stays with its runs.
REPORTS = {"quick": Path("runs/results/RESULTS_QUICK.md"), "full": Path("RESULTS.md")}
PLOTS = {"quick": Path("plots"), "full": Path("results/plots")}
# What the repository keeps of the runs behind RESULTS.md, so that the report can be made again without their weights.
RECORDS = {"full": Path("results/records")}
MISSING = "–"
PAIR = ("baseline", "elmo")
HOW_LONG = {
    "quick": "Training is much shorter than the paper's, and most curves are still climbing.",
    "full": (
        "Both sides are trained by one rule, stated in the last section: until validation has stopped improving, or "
        "for a number of validations at most."
    ),
}
# What is said of a choice that was tried and gives more than the one taken.
MORE_TO_GIVE = {
    "baseline": (
        "has more to give**, as its row shows: this was tried after +ELMo was trained, which hasn't been repeated with "
        "it. Its difference in Table 1 may be too large."
    ),
    "elmo": "does better with another choice**, as its row shows. The choice is the baseline's all the same.",
}
# Part, task, variant, fraction, seed.
Place = Tuple[str, str, str, Optional[float], int]


def write(path: Path, setting: str, runs: Runs) -> None:
    """Writes the report from the runs that are finished; what isn't trained yet is a dash, or is left out."""
    sections = Report(setting, runs, path.parent).sections()
    write_text(path, "\n\n".join(section for section in sections if section) + "\n")
    print(f"wrote {path}")


class Report:
    """The sections of RESULTS.md, in their order."""

    def __init__(self, setting: str, runs: Runs, folder: Path) -> None:
        self._setting = setting
        self._folder = folder
        self._plots = PLOTS[setting]
        self._sizes_file = runs.folder / "sizes.json"
        data = data_folder()
        self._found: Dict[Place, Run] = {}
        for part, make in plan.PARTS.items():
            for planned in make(self._setting, data):
                run = runs.find(planned.cell)
                if run is not None:
                    self._found[part, planned.task, planned.variant, planned.fraction, planned.seed] = run
        self._tuned = plan.find_tuned(self._setting, data, runs)
        self._probes = {name: probes.find(name, data, runs) for name in probes.PROBES}

    def sections(self) -> Iterable[str]:
        yield self._introduction()
        yield self._six_tasks()
        yield self._published()
        yield self._choices()
        yield self._passing()
        yield self._fractions()
        yield self._layer_weights()
        yield self._ablations()
        yield self._finetuning()
        yield self._larger()
        yield from self._probed()
        yield self._training()

    def _of(self, part: str, task: str, variant: str, fraction: Optional[float] = None) -> List[Run]:
        """The finished runs, one per seed."""
        return list(self._by_seed(part, task, variant, fraction).values())

    def _by_seed(self, part: str, task: str, variant: str, fraction: Optional[float] = None) -> Dict[int, Run]:
        return {place[4]: run for place, run in self._found.items() if place[:4] == (part, task, variant, fraction)}

    def _pairs(self, task: str) -> List[Tuple[int, Run, Run]]:
        """The baseline and +ELMo of each seed that has both."""
        return [
            (seed, baseline, elmo)
            for seed in budget_of(self._setting, task).seeds
            if (baseline := self._found.get(("tasks", task, "baseline", None, seed))) is not None
            and (elmo := self._found.get(("tasks", task, "elmo", None, seed))) is not None
        ]

    # ---- Sections ----

    def _introduction(self) -> str:
        elmo = next((run for place, run in self._found.items() if place[2] == "elmo"), None)
        bilm = "" if elmo is None else f" The biLM is {_bilm_name(elmo)}."
        return (
            "# Results\n\n"
            "What this repository's configs give with and without ELMo, on free data. The claim to test is the "
            "paper's, that simply adding ELMo improves each of the six tasks. The data differ from the paper's, "
            f"there is less of it, and the biLM is smaller, so **the paper's figures are here for orientation and "
            f"aren't comparable**. {HOW_LONG[self._setting]}\n\n"
            "A result is the best of a run's validations on development data, in per cent; where there are several "
            "seeds, the mean and the standard deviation over them; a difference is that of the two runs with the same "
            f"seed.{bilm}\n\n"
            "Every figure and plot here is made from the runs' own metrics files by "
            f"`{_command(self._setting)}`, which trains what isn't trained yet." + self._records()
        )

    def _records(self) -> str:
        folder = RECORDS.get(self._setting)
        return "" if folder is None else f" `{folder}/` keeps these files, so that only new experiments are trained."

    def _six_tasks(self) -> str:
        rows = []
        for name, task in TASKS.items():
            baseline, elmo = self._of("tasks", name, "baseline"), self._of("tasks", name, "elmo")
            rows.append(
                [
                    f"{task.title}, {task.metric}",
                    task.corpus,
                    _result(baseline),
                    _result(elmo),
                    *_gain(self._pairs(name)),
                    f"{task.paper[0]} → {task.paper[1]} ({_error_reduction(*(figure / 100 for figure in task.paper))})",
                ]
            )
        header = ["task", "data", "baseline", "+ELMo", "difference", "error reduction", "the paper's, on other data"]
        text = "## Six tasks (Table 1)\n\n" + _markdown(header, rows)
        compared = [task for task in TASKS if self._pairs(task)]
        if compared:
            text += "\n\n" + self._verdict(compared)
            text += "\n\n" + self._plot("six_tasks", self._draw_six_tasks, "Baseline and +ELMo on the six tasks")
            text += "\n\n" + self._plot(
                "learning_curves", self._draw_learning_curves, "Validation results while training"
            )
        return text

    def _verdict(self, tasks: Sequence[str]) -> str:
        means = {
            task: [statistics.mean(run.best for run in self._of("tasks", task, variant)) for variant in PAIR]
            for task in tasks
        }
        improved = [task for task, (baseline, elmo) in means.items() if elmo > baseline]
        others = [TASKS[task].title for task in tasks if task not in improved]
        text = f"Adding ELMo improves {len(improved)} of the {len(tasks)} tasks that are trained both ways"
        return text + (f", and not {' and '.join(others)}." if others else ".")

    def _draw_six_tasks(self, figure: "Figure") -> None:
        """Bars side by side, with the spread over seeds where there are several."""
        tasks = [task for task in TASKS if self._pairs(task)]
        figure.set_size_inches(1.5 * len(tasks) + 1.5, 3.2)
        axes = figure.subplots()
        for offset, variant, label in ((-0.2, "baseline", BASELINE), (0.2, "elmo", ELMO)):
            results = [mean_and_spread([100 * run.best for run in self._of("tasks", task, variant)]) for task in tasks]
            places = [place + offset for place in range(len(tasks))]
            means, spreads = [mean for mean, _ in results], [spread or 0.0 for _, spread in results]
            bars = axes.bar(places, means, width=0.38, color=sample_efficiency.COLOURS[label], label=label)
            # No error bar for a single run: its spread isn't zero, it isn't known.
            several = [number for number, spread in enumerate(spreads) if spread]
            axes.errorbar(
                [places[number] for number in several],
                [means[number] for number in several],
                [spreads[number] for number in several],
                fmt="none",
                ecolor="black",
                capsize=3,
                linewidth=1,
            )
            axes.bar_label(bars, [f"{mean:.1f}" for mean in means], padding=4, fontsize=8)
        axes.set_xticks(range(len(tasks)), [f"{TASKS[task].title}\n{TASKS[task].metric}" for task in tasks])
        axes.set_ylabel("development set, per cent")
        axes.margins(y=0.12)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))

    def _draw_learning_curves(self, figure: "Figure") -> None:
        tasks = [task for task in TASKS if self._of("tasks", task, "baseline") or self._of("tasks", task, "elmo")]
        num_columns = min(3, len(tasks))
        num_rows = -(-len(tasks) // num_columns)
        figure.set_size_inches(3.4 * num_columns, 2.7 * num_rows)
        panels = figure.subplots(num_rows, num_columns, squeeze=False).flatten()
        for axes in panels[len(tasks) :]:
            axes.set_axis_off()
        for axes, task in zip(panels, tasks, strict=False):
            for variant, label in (("baseline", BASELINE), ("elmo", ELMO)):
                for number, run in enumerate(self._of("tasks", task, variant)):
                    axes.plot(
                        [point.updates for point in run.curve],
                        [100 * point.value for point in run.curve],
                        color=sample_efficiency.COLOURS[label],
                        label=label if number == 0 else None,
                        linewidth=1.4,
                    )
            axes.set_title(f"{TASKS[task].title}, {TASKS[task].metric}", fontsize=10)
            axes.set_xlabel("updates")
            axes.locator_params(axis="x", nbins=5)
            axes.grid(True, axis="y", linewidth=0.5, alpha=0.5)
            axes.spines[["top", "right"]].set_visible(False)
        panels[0].legend(frameon=False)

    def _published(self) -> str:
        rows = [
            [TASKS[name].title, _result(baseline), task.published]
            for name, task in TASKS.items()
            if (baseline := self._of("tasks", name, "baseline"))
        ]
        if not rows:
            return ""
        return (
            "## The baselines beside published figures\n\n"
            "The nearest that we know of for the same corpora, so that a reader can tell whether a baseline is sound. "
            "None has the same training set.\n\n" + _markdown(["task", "our baseline", "published"], rows)
        )

    def _choices(self) -> str:
        rows, better = [], []
        for name, task in TASKS.items():
            for choice, other in budget_of(self._setting, name).tried.items():
                for side in other.sides:
                    tried = self._by_seed("choices", name, plan.tried_variant(side, choice))
                    taken, condition = self._by_seed("tasks", name, side), ""
                    if other.beside is not None:
                        taken = self._by_seed("choices", name, plan.tried_variant(side, other.beside))
                        condition = f" ({budget_of(self._setting, name).tried[other.beside].note})"
                    if seeds := [seed for seed in tried if seed in taken]:
                        pair = [[runs[seed] for seed in seeds] for runs in (taken, tried)]
                        before, after = map(_result, pair)
                        label = BASELINE if side == "baseline" else "+ELMo"
                        seed_list = ", ".join(map(str, seeds))
                        rows.append([task.title, label, seed_list, before + condition, other.note, after])
                        means = [statistics.mean(run.best for run in runs) for runs in pair]
                        if means[1] > means[0]:
                            better.append(f"**{task.title}'s {label} {MORE_TO_GIVE[side]}")
        if not rows:
            return ""
        return (
            "## Choices\n\n"
            "Made on the baseline's results and then fixed for both sides; the last section has what was taken. Only "
            "ELMo's own dropout in SNLI, which no baseline has, was chosen on +ELMo's: the paper's 0.5 stays "
            "on its vectors where the task's own dropout is lower. Where a network, a rate or an optimizer isn't the "
            "paper's, a row has what the paper's gives the baseline.\n\n"
            + _markdown(["task", "side", "seeds", "as taken", "tried as well", "that gives"], rows)
            + "".join(f"\n\n{sentence}" for sentence in better)
        )

    def _passing(self) -> str:
        rows = []
        for task in TASKS:
            for seed, baseline, elmo in self._pairs(task):
                saved = updates_saved(baseline, elmo)
                passed = saved["elmo_updates"]
                rows.append(
                    [
                        TASKS[task].title,
                        str(seed),
                        f"{100 * saved['baseline_best']:.1f}",
                        f"{saved['baseline_updates']:,}",
                        "not passed" if passed is None else f"{passed:,}",
                        MISSING if passed is None else f"{saved['fewer_updates']:.0%}",
                    ]
                )
        if not rows:
            return ""
        header = ["task", "seed", "baseline's best", "after updates", "ELMo is past it after", "fewer updates"]
        return (
            "## Updates to pass the baseline's best (Sec. 5.4)\n\n"
            "Validation comes once per epoch, so these are multiples of an epoch's updates. In the paper SRL passes "
            "its baseline's best at epoch 10 instead of 486: 98% fewer.\n\n" + _markdown(header, rows)
        )

    def _fractions(self) -> str:
        results = {}
        for task in plan.FRACTION_TASKS:
            series = [
                {fraction: self._of("fractions", task, variant, fraction) for fraction in plan.FRACTIONS}
                for variant in plan.fraction_variants(self._setting, task)
            ]
            # The whole training set is another part's.
            if all(any(runs for fraction, runs in own.items() if fraction < 1.0) for own in series):
                results[TASKS[task].title] = sample_efficiency.curve(*series)
        if not results:
            return ""
        conditions = "".join(
            f" {TASKS[task].title} has {budget_of(self._setting, task).tried[choice].note}."
            for task in plan.FRACTION_TASKS
            if (choice := plan.fraction_choice(self._setting, task)) is not None and TASKS[task].title in results
        )
        rows = [
            [
                title,
                f"{100 * row['fraction']:g}%",
                *(_mean(row[label]) for label in (BASELINE, ELMO)),
                _difference(row[BASELINE], row[ELMO]),
            ]
            for title, result in results.items()
            for row in result["fractions"]
        ]
        return (
            "## Training-set size (Figure 1)\n\n"
            "The same stopping rule on part of the training set, with the first seed; smaller parts lie inside larger "
            f"ones.{conditions}\n\n"
            + _markdown(["task", "training set", "baseline", "+ELMo", "difference"], rows)
            + "\n\n"
            + self._plot("fractions", lambda figure: sample_efficiency.draw(figure, results), "Training-set size")
        )

    def _layer_weights(self) -> str:
        mixes = []
        for name, task in TASKS.items():
            for run in self._of("tasks", name, "elmo")[:1]:
                mixes += [mix._replace(model=task.title) for mix in run.layer_weights]
        if not mixes:
            return ""
        return (
            "## Layer weights (Figure 2)\n\n"
            "Softmax-normalised, of the first seed's best epoch, for each placement of ELMo.\n\n"
            f"```\n{layer_weights.report(mixes).table}\n```\n\n"
            + self._plot("layer_weights", lambda figure: layer_weights.draw(figure, mixes), "Layer weights")
        )

    def _ablations(self) -> str:
        tables = [ablations.TABLES[name] for name in plan.ABLATION_TABLES]
        variants = dict.fromkeys(variant for table in tables for variant in table.variants)
        runs = {
            (task, variant): own
            for task in plan.ABLATION_TASKS
            for variant in variants
            if (own := self._of("ablations", task, variant))
        }
        # Without one of the ablations there would be nothing but Table 1's figures again.
        in_table_1 = {run.archive for place, run in self._found.items() if place[0] == "tasks"}
        ablated = {task for (task, _), own in runs.items() if any(run.archive not in in_table_1 for run in own)}
        tasks = [task for task in plan.ABLATION_TASKS if task in ablated]
        if not tasks:
            return ""
        text = "## Layers and placement (Tables 2 and 3)\n\nWith the first seed; Table 1 has NER's spread."
        for table in tables:
            rows = [[_titled(name), *cells] for name, *cells in ablations.rows(table, tasks, runs)]
            text += f"\n\n{table.title}.\n\n" + _markdown(["task", *table.columns.values()], rows)
        titles = [TASKS[task].title for task in tasks]
        by_title = {(TASKS[task].title, variant): own for (task, variant), own in runs.items()}
        picture = self._plot("ablations", lambda figure: ablations.draw(figure, tables, titles, by_title), "Ablations")
        return f"{text}\n\n{picture}"

    def _finetuning(self) -> str:
        if not self._tuned:
            return ""
        rows = [
            [
                TASKS[task].title,
                *(f"{value:.1f}" for value in (pair.tuned.before.from_zeros, pair.tuned.after.from_zeros)),
                _result(pair.plain_runs),
                _result(pair.tuned_runs),
            ]
            for task, pair in self._tuned.items()
        ]
        header = ["task", "perplexity before", "after", "+ELMo, plain biLM", "+ELMo, tuned biLM"]
        return (
            "## The biLM tuned on the task's text (A.1)\n\n"
            "One epoch on the sentences of the training set, labels ignored; perplexity on those of the development "
            "set, from zeros at each sentence. The task's results are the first seed's.\n\n" + _markdown(header, rows)
        )

    def _larger(self) -> str:
        rows = []
        for task in plan.LARGER_TASKS:
            seeds = self._by_seed("larger", task, plan.LARGER_VARIANT)
            others = [self._by_seed("tasks", task, variant) for variant in PAIR]
            shared = [seed for seed in seeds if all(seed in other for other in others)]
            if shared:
                results = [_result([other[seed] for seed in shared]) for other in (*others, seeds)]
                pairs = [(seed, others[1][seed], seeds[seed]) for seed in shared]
                rows.append([TASKS[task].title, ", ".join(map(str, shared)), *results, _gain(pairs)[0]])
        if not rows:
            return ""
        header = ["task", "seeds", "baseline", "+ELMo", f"+ELMo, {SHIPPED_LARGER}", f"{SHIPPED_LARGER}'s difference"]
        return (
            "## A larger biLM\n\n"
            f"The same trainings with `{SHIPPED_LARGER}`, whose vectors are larger; its card says what else it knows. "
            "The difference is to +ELMo as above, seed by seed.\n\n" + _markdown(header, rows)
        )

    def _probed(self) -> Iterable[str]:
        """What the biLM's layers know, by the analyses that train no task."""
        for name, outcome in self._probes.items():
            if outcome is not None:
                path = self._plots / f"{name}.png"
                if outcome.plot is not None:  # otherwise it was drawn with the record
                    (self._folder / self._plots).mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(outcome.plot, self._folder / path)
                probe, table = probes.PROBES[name], outcome.table.read_text(encoding="utf-8").rstrip()
                yield f"## {probe.title}\n\n{probe.remark}\n\n```\n{table}\n```\n\n![{probe.title}]({path})"

    def _training(self) -> str:
        rows = []
        for name, task in TASKS.items():
            runs = self._of("tasks", name, "baseline") + self._of("tasks", name, "elmo")
            sizes = num_instances(runs[0], self._sizes_file) if runs else None
            rows.append(
                [
                    task.title,
                    MISSING if sizes is None else f"{sizes.train:,} / {sizes.dev:,}",
                    _updates(runs),
                    _stopping_rule(runs),
                    ", ".join(str(seed) for seed, _, _ in self._pairs(name)) or MISSING,
                    *(_minutes(self._of("tasks", name, variant)) for variant in PAIR),
                    budget_of(self._setting, name).note,
                ]
            )
        header = [
            "task",
            "instances, train / dev",
            "updates",
            "stopped",
            "seeds of both",
            "minutes, baseline",
            "minutes, +ELMo",
            "changed from the paper's",
        ]
        return (
            f"## How these were trained (setting `{self._setting}`)\n\n"
            "Configs are those in `training_configs/`; data, sizes and budgets are in `results/tasks.py` and "
            "`results/budgets.libsonnet`. A baseline and its +ELMo share all of them, "
            "except for ELMo's own dropout and, for SNLI, what A.3 adds with ELMo: dropout after attention, and L2 on "
            "the weights. Word vectors are 100-d GloVe in lower case. The Wikipedia text that the shipped biLM was "
            "trained on overlaps with SQuAD's articles, as raw text without questions or answers. Minutes are "
            "wall-clock time, on one core or two that also had other work.\n\n"
            + _markdown(header, rows)
            + self._cut_off()
            + f"\n\n```\n{_command(self._setting)}           # everything here, or what is left of it\n"
            f"{_command(self._setting)} --list    # what is done and what isn't\n"
            "make results-quick                            # the six tasks, setting quick: an hour or two on one core\n"
            "make results                                  # all of the setting full: most of a day\n```"
        )

    def _cut_off(self) -> str:
        """Which runs were ended by the number of validations, within their patience."""
        names = [
            f"{TASKS[task].title} {'+ELMo' if variant == 'elmo' else variant} (seed {seed})"
            for (part, task, variant, _, seed), run in self._found.items()
            if part == "tasks" and _is_cut_off(run)
        ]
        return f"\n\nEnded by their number of validations, within their patience: {', '.join(names)}." if names else ""

    def _plot(self, name: str, draw: Callable[["Figure"], None], title: str) -> str:
        path = self._plots / f"{name}.png"
        write_plot(draw, self._folder / path)
        return f"![{title}]({path})"


# ---- Cells of tables ----


def _result(runs: Sequence[Run]) -> str:
    return _mean([run.best for run in runs])


def _mean(values: Sequence[float]) -> str:
    return mean_text([100 * value for value in values], sign="±", missing=MISSING)


def _gain(pairs: Sequence[Tuple[int, Run, Run]]) -> Tuple[str, str]:
    """What ELMo adds, seed by seed: the mean of the differences with their spread, and the share of errors it ends."""
    if not pairs:
        return MISSING, MISSING
    before, after = [baseline.best for _, baseline, _ in pairs], [elmo.best for _, _, elmo in pairs]
    differences = [100 * (elmo - baseline) for baseline, elmo in zip(before, after, strict=True)]
    return mean_text(differences, "+.1f", sign="±"), _error_reduction(statistics.mean(before), statistics.mean(after))


def _difference(before: Sequence[float], after: Sequence[float]) -> str:
    if not before or not after:
        return MISSING
    return f"{100 * (statistics.mean(after) - statistics.mean(before)):+.1f}"


def _error_reduction(before: float, after: float) -> str:
    return f"{(after - before) / (1 - before):.1%}"


def _titled(name: str) -> str:
    """A task's key, or a phrase that ends in one, with the task's title in its place."""
    *phrase, task = name.split()
    return " ".join([*phrase, TASKS[task].title])


def _updates(runs: Sequence[Run]) -> str:
    """From the shortest of the runs to the longest."""
    counts = sorted({run.updates for run in runs})
    return " to ".join(f"{count:,.0f}" for count in dict.fromkeys(counts[:1] + counts[-1:])) or MISSING


def _stopping_rule(runs: Sequence[Run]) -> str:
    if not runs:
        return MISSING
    patience, updates = runs[0].config["trainer"]["patience"], runs[0].config["data_loader"]["batches_per_epoch"]
    if patience is None:
        return "after these updates"
    most = runs[0].config["trainer"]["num_epochs"]
    return f"after {patience} validations, one every {updates} batches, without a new best; {most} at most"


def _is_cut_off(run: Run) -> bool:
    patience = run.config["trainer"]["patience"]
    is_at_the_end = len(run.curve) == run.config["trainer"]["num_epochs"]
    return patience is not None and is_at_the_end and run.curve[-1].epoch - run.best_epoch < patience


def _minutes(runs: Sequence[Run]) -> str:
    return f"{statistics.mean(run.seconds for run in runs) / 60:.1f}" if runs else MISSING


def _markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    rule = [":--"] + ["--:"] * (len(header) - 1)
    return "\n".join(f"| {' | '.join(row)} |" for row in (header, rule, *rows))


def _bilm_name(run: Run) -> str:
    bilm = run.config["model"]["text_embedder"]["contextual"]["bilm"]
    return f"`{bilm['name']}`" if bilm["name"] in PRETRAINED else f"`{Path(bilm['name']).name}`"


def _command(setting: str) -> str:
    return f"python results/run.py --setting {setting}"
