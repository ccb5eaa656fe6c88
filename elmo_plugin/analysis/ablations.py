"""Tables 2, 3 and 7, and gamma (A.2): a task's variants side by side, with the paper's figures beside them."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, NamedTuple, Sequence, Tuple

from allennlp.common.checks import ConfigurationError

from elmo_plugin.analysis.analysis import Analysis, OpenEmbedder, Report
from elmo_plugin.analysis.cells import Cell, seeded
from elmo_plugin.analysis.finished_run import Run
from elmo_plugin.analysis.run_arguments import add_run_arguments, changes_from, overrides_from
from elmo_plugin.analysis.runs import Runs, train_or_raise
from elmo_plugin.analysis.tables import mean_and_spread, mean_text, text_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BASELINE = "baseline"


class AblationTable(NamedTuple):
    """One of the paper's tables: its columns, by the name of a task's config, and the paper's figures."""

    title: str
    columns: Mapping[str, str]
    paper: Mapping[str, Mapping[str, float]] = {}

    @property
    def variants(self) -> List[str]:
        return list(self.columns)


TABLES: Dict[str, AblationTable] = {
    "layers": AblationTable(
        "Table 2: the layers that are mixed",
        {
            BASELINE: "baseline",
            "top_layer_only": "last only",
            "lambda_1": "all, lambda=1",
            "lambda_0001": "all, lambda=0.001",
        },
        {
            "squad": {BASELINE: 80.8, "top_layer_only": 84.7, "lambda_1": 85.0, "lambda_0001": 85.2},
            "snli": {BASELINE: 88.1, "top_layer_only": 89.1, "lambda_1": 89.3, "lambda_0001": 89.5},
            "srl": {BASELINE: 81.6, "top_layer_only": 84.1, "lambda_1": 84.6, "lambda_0001": 84.8},
        },
    ),
    "placement": AblationTable(
        "Table 3: the placement of ELMo",
        {"input_only": "input only", "input_and_output": "input & output", "output_only": "output only"},
        {
            "squad": {"input_only": 85.1, "input_and_output": 85.6, "output_only": 84.8},
            "snli": {"input_only": 88.9, "input_and_output": 89.5, "output_only": 88.7},
            "srl": {"input_only": 84.7, "input_and_output": 84.3, "output_only": 80.9},
        },
    ),
    "words": AblationTable(
        "Table 7 of the camera-ready paper: word vectors and the token layer",
        {
            BASELINE: "word vectors",
            "token_layer_only": "token layer",
            "without_word_vectors": "ELMo",
            "elmo": "word vectors and ELMo",
        },
        {
            "squad": {BASELINE: 80.8, "token_layer_only": 81.4},
            "srl": {"without_word_vectors": 84.5, "elmo": 84.7},
        },
    ),
    "gamma": AblationTable(
        "A.2: with and without the scale gamma",
        {
            BASELINE: "baseline",
            "elmo": "all",
            "gamma_off": "all, no gamma",
            "top_layer_only": "last only",
            "top_layer_only_gamma_off": "last only, no gamma",
        },
    ),
}

# (task, variant) -> a run for each seed
RunsByVariant = Mapping[Tuple[str, str], Sequence[Run]]


def cell_text(runs: Sequence[Run]) -> str:
    """The mean over seeds in per cent, with its spread where there are several; a dash for no run."""
    return mean_text([100 * run.best for run in runs])


def rows(table: AblationTable, tasks: Sequence[str], runs: RunsByVariant) -> List[List[str]]:
    """A row for each task, and under it the paper's if it has one."""
    lines = []
    for task in tasks:
        lines.append([task, *(cell_text(runs.get((task, variant), ())) for variant in table.variants)])
        paper = table.paper.get(task, {})
        if paper:
            figures = [f"{paper[variant]:.1f}" if variant in paper else "-" for variant in table.variants]
            lines.append([f"  the paper's {task}", *figures])
    return lines


def text(table: AblationTable, tasks: Sequence[str], runs: RunsByVariant) -> str:
    """The table in the paper's shape."""
    header = ["best validation result, %", *table.columns.values()]
    return f"{table.title}\n\n{text_table(header, rows(table, tasks, runs))}"


def results(table: AblationTable, tasks: Sequence[str], runs: RunsByVariant) -> Dict[str, Any]:
    return {
        task: {
            variant: {
                "best": [run.best for run in runs.get((task, variant), ())],
                "updates": [run.updates for run in runs.get((task, variant), ())],
                "paper": table.paper.get(task, {}).get(variant),
            }
            for variant in table.variants
        }
        for task in tasks
    }


def draw(figure: "Figure", tables: Sequence[AblationTable], tasks: Sequence[str], runs: RunsByVariant) -> None:
    """A panel for each task and table, with a point per variant and the spread over seeds."""
    figure.set_size_inches(3.4 * len(tables), 0.8 + 1.9 * len(tasks))
    panels = figure.subplots(len(tasks), len(tables), squeeze=False)
    for row, task in zip(panels, tasks, strict=True):
        for axes, table in zip(row, tables, strict=True):
            _draw_panel(axes, table, task, runs)


def _draw_panel(axes: Any, table: AblationTable, task: str, runs: RunsByVariant) -> None:
    axes.set_title(f"{task}: {table.title.rpartition(': ')[2]}", fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    found = [(label, runs[task, name]) for name, label in table.columns.items() if runs.get((task, name))]
    if not found:
        axes.set_axis_off()
        return
    measured = [mean_and_spread([100 * run.best for run in own]) for _, own in found]
    means, spreads = [mean for mean, _ in measured], [spread or 0.0 for _, spread in measured]
    places = list(range(len(found)))
    # Points, since differences are small beside the values, and bars would have to start at zero.
    axes.errorbar(means, places, xerr=spreads, fmt="o", color="#0072b2", ecolor="#7fb8d8", elinewidth=3)
    axes.set_yticks(places, [label for label, _ in found])
    axes.set_ylim(len(places) - 0.5, -0.5)
    axes.grid(True, axis="x", linewidth=0.5, alpha=0.5)
    axes.margins(x=0.15)
    axes.set_xlabel(f"best validation {found[0][1][0].metric}, %")


class Variant(NamedTuple):
    """A task's config, and the variables that make it the variant asked for."""

    config_file: str
    environment: Mapping[str, str]


def variant_of(folder: Path, name: str) -> Variant:
    """One of the task's own configs, such as `elmo`, or an ablation that its `ablation.jsonnet` selects."""
    own, selecting = folder / f"{name}.jsonnet", folder / "ablation.jsonnet"
    if own.exists():
        return Variant(str(own), {})
    if selecting.exists():
        return Variant(str(selecting), {"ELMO_ABLATION": name})
    raise ConfigurationError(f"{folder} has neither {own.name} nor {selecting.name}")


@Analysis.register("ablations")
class Ablations(Analysis):
    help = "a task's variants side by side (Tables 2, 3 and 7, and gamma)"
    description = (
        "Trains a task's ablation configs with several seeds and puts the best validation results side by side, in the "
        "paper's shape and with the paper's figures below. Trainings are kept in --runs: finished ones aren't "
        "repeated, interrupted ones are resumed, and what two tables share is trained once."
    )
    example = (
        "allennlp elmo-analyze ablations training_configs/snli --tables layers placement --seeds 1 2 3 --output out"
    )
    uses_bilm = False

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "tasks",
            nargs="+",
            metavar="FOLDER",
            help="a task's configs: baseline.jsonnet, elmo.jsonnet, ablation.jsonnet",
        )
        parser.add_argument(
            "--tables",
            nargs="+",
            choices=list(TABLES),
            default=["layers", "placement"],
            help="which tables: layers (2), placement (3), words (7), gamma (A.2)",
        )
        parser.add_argument(
            "--variants",
            nargs="+",
            metavar="NAME",
            help="these instead of --tables: baseline, elmo, or names in training_configs/lib/ablations.libsonnet",
        )
        add_run_arguments(parser)

    def run(self, arguments: argparse.Namespace, open_embedder: OpenEmbedder) -> Report:
        folders = {Path(folder).name: Path(folder) for folder in arguments.tasks}
        if arguments.variants:
            tables = {"variants": AblationTable("Variants", {name: name for name in arguments.variants})}
        else:
            tables = {name: TABLES[name] for name in dict.fromkeys(arguments.tables)}
        seeds, overrides = list(dict.fromkeys(arguments.seeds)), overrides_from(arguments)
        cells = {
            (task, variant, seed): Cell(
                f"{task}-{variant}-seed{seed}",
                *variant_of(folder, variant),
                overrides,
                changes=(*changes_from(arguments), seeded(seed)),
            )
            for task, folder in folders.items()
            for variant in dict.fromkeys(name for table in tables.values() for name in table.variants)
            for seed in seeds
        }
        runs: Dict[Tuple[str, str], List[Run]] = {}
        for (task, variant, _), run in train_or_raise(Runs(arguments.runs), cells).items():
            runs.setdefault((task, variant), []).append(run)
        return Report(
            {name: results(table, list(folders), runs) for name, table in tables.items()},
            "\n\n".join(text(table, list(folders), runs) for table in tables.values()),
            lambda figure: draw(figure, list(tables.values()), list(folders), runs),
        )
