"""Figure 1 and section 5.4: how much training data, and how many updates, ELMo saves."""

import argparse
import statistics
from typing import TYPE_CHECKING, Any, Dict, Mapping, Sequence

from allennlp.common.checks import ConfigurationError

from elmo_plugin.analysis.analysis import Analysis, OpenEmbedder, Report
from elmo_plugin.analysis.cells import Cell, Change, seeded, train_on
from elmo_plugin.analysis.finished_run import Run
from elmo_plugin.analysis.run_arguments import add_run_arguments, changes_from, overrides_from
from elmo_plugin.analysis.runs import Runs, train_or_raise
from elmo_plugin.analysis.tables import mean_and_spread, mean_text, text_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BASELINE, ELMO = "baseline", "ELMo"
COLOURS = {BASELINE: "#7f7f7f", ELMO: "#0072b2"}
MARKERS = {BASELINE: "s", ELMO: "o"}

RunsByFraction = Mapping[float, Sequence[Run]]


def curve(baseline: RunsByFraction, elmo: RunsByFraction) -> Dict[str, Any]:
    """The best validation results of each fraction, seed by seed."""
    any_run = next(run for runs in [*baseline.values(), *elmo.values()] for run in runs)
    return {
        "metric": any_run.metric,
        "fractions": [
            {
                "fraction": fraction,
                BASELINE: [run.best for run in baseline.get(fraction, ())],
                ELMO: [run.best for run in elmo.get(fraction, ())],
            }
            for fraction in sorted(set(baseline) | set(elmo))
        ],
    }


def updates_saved(baseline: Run, elmo: Run) -> Dict[str, Any]:
    """What it took ELMo to pass the baseline's best, as the paper reports for SRL: epoch 10 against 486."""
    best = next(point for point in baseline.curve if point.epoch == baseline.best_epoch)
    passed = elmo.first_past(best.value)
    return {
        "baseline_best": best.value,
        "baseline_epochs": best.epoch + 1,
        "baseline_updates": best.updates,
        "elmo_epochs": None if passed is None else passed.epoch + 1,
        "elmo_updates": None if passed is None else passed.updates,
        "fewer_updates": None if passed is None else 1 - passed.updates / best.updates,
    }


def table(results: Mapping[str, Any]) -> str:
    """Both curves as text, and what it took to pass the baseline's best."""
    rows = [
        [f"{100 * row['fraction']:g} %", _cell(row[BASELINE]), _cell(row[ELMO]), _difference(row)]
        for row in results["fractions"]
    ]
    text = text_table(["training set", BASELINE, ELMO, "difference"], rows)
    return "\n".join([f"best validation {results['metric']}", "", text, *map(_sentence, results["passing"])])


def _cell(values: Sequence[float]) -> str:
    return mean_text(values, ".4g", ".2g")


def _difference(row: Mapping[str, Any]) -> str:
    if not row[BASELINE] or not row[ELMO]:
        return "-"
    return f"{statistics.mean(row[ELMO]) - statistics.mean(row[BASELINE]):+.4g}"


def _sentence(passing: Mapping[str, Any]) -> str:
    best = f"seed {passing['seed']}: the baseline's best, {passing['baseline_best']:.4g} after "
    best += f"{passing['baseline_updates']:,} updates (epoch {passing['baseline_epochs']}), "
    if passing["elmo_updates"] is None:
        return f"{best}isn't passed by ELMo"
    saved = passing["fewer_updates"]
    return (
        f"{best}is passed by ELMo after {passing['elmo_updates']:,} (epoch {passing['elmo_epochs']}): "
        f"{abs(saved):.0%} {'fewer' if saved >= 0 else 'more'}"
    )


def draw(figure: "Figure", results_by_title: Mapping[str, Mapping[str, Any]]) -> None:
    """Figure 1: a panel per task, both curves over the size of the training set, with their spread over seeds."""
    figure.set_size_inches(4.2 * len(results_by_title), 3.4)
    panels = figure.subplots(1, len(results_by_title), squeeze=False)[0]
    for axes, (title, results) in zip(panels, results_by_title.items(), strict=True):
        for series in (BASELINE, ELMO):
            _draw_series(axes, results["fractions"], series)
        axes.set_xscale("log")
        axes.set_xlabel("training set, % of the whole")
        ticks = [100 * row["fraction"] for row in results["fractions"]]
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.minorticks_off()
        axes.set_ylabel(f"best validation {results['metric']}")
        axes.set_title(title)
        axes.grid(True, axis="y", linewidth=0.5, alpha=0.5)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False)


def _draw_series(axes: "Axes", rows: Sequence[Mapping[str, Any]], series: str) -> None:
    rows = [row for row in rows if row[series]]
    sizes = [100 * row["fraction"] for row in rows]
    means, spreads = zip(*(mean_and_spread(row[series]) for row in rows), strict=True) if rows else ((), ())
    colour = COLOURS[series]
    axes.plot(sizes, means, color=colour, marker=MARKERS[series], label=series)
    if any(spread is not None for spread in spreads):
        low = [mean - (spread or 0) for mean, spread in zip(means, spreads, strict=True)]
        high = [mean + (spread or 0) for mean, spread in zip(means, spreads, strict=True)]
        axes.fill_between(sizes, low, high, color=colour, alpha=0.2, linewidth=0)


def measure(
    runs: Runs,
    configs: Mapping[str, str],
    fractions: Sequence[float],
    seeds: Sequence[int],
    overrides: Mapping[str, Any],
    changes: Sequence[Change] = (),
) -> Dict[str, Any]:
    """Trains both configs on each fraction with each seed, unless that has been done, and gathers the results."""
    cells = {
        (series, fraction, seed): Cell(
            f"{'elmo' if series == ELMO else BASELINE}-{fraction:g}-seed{seed}",
            configs[series],
            overrides=overrides,
            changes=(train_on(fraction, seed), *changes, seeded(seed)),
        )
        for fraction in sorted(fractions)  # the quick ones first
        for series in (BASELINE, ELMO)
        for seed in seeds
    }
    trained = train_or_raise(runs, cells)
    baseline, elmo = (
        {fraction: [trained[series, fraction, seed] for seed in seeds] for fraction in sorted(fractions)}
        for series in (BASELINE, ELMO)
    )
    largest = max(fractions)
    pairs = zip(seeds, baseline[largest], elmo[largest], strict=True)
    passing = [
        {"seed": seed, "fraction": largest, **updates_saved(without, with_elmo)} for seed, without, with_elmo in pairs
    ]
    return {**curve(baseline, elmo), "passing": passing}


@Analysis.register("sample-efficiency")
class SampleEfficiency(Analysis):
    help = "training-set fractions with and without ELMo (Figure 1)"
    description = (
        "Trains a baseline and its +ELMo on nested fractions of the training set, each with several seeds, which also "
        "choose the fraction; draws both curves with their spread, and says after how many updates ELMo passes the "
        "baseline's best on the largest fraction. Trainings are kept in --runs: finished ones aren't repeated, "
        "interrupted ones are resumed."
    )
    example = (
        "allennlp elmo-analyze sample-efficiency training_configs/snli/baseline.jsonnet "
        "training_configs/snli/elmo.jsonnet --fractions 0.001 0.01 0.1 1 --seeds 1 2 3 --output out"
    )
    uses_bilm = False

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("baseline_config", help="the config without ELMo")
        parser.add_argument("elmo_config", help="the config with it")
        parser.add_argument(
            "--fractions",
            nargs="+",
            type=float,
            default=[0.001, 0.01, 0.1, 1.0],
            metavar="FRACTION",
            help="parts of the training set, above 0 and up to 1",
        )
        parser.add_argument("--title", default="", help="the title of the picture")
        add_run_arguments(parser)

    def run(self, arguments: argparse.Namespace, open_embedder: OpenEmbedder) -> Report:
        wrong = [fraction for fraction in arguments.fractions if not 0 < fraction <= 1]
        if wrong:
            raise ConfigurationError(f"--fractions are above 0 and up to 1 (0.01 for one per cent), not {wrong[0]:g}")
        results = measure(
            Runs(arguments.runs),
            {BASELINE: arguments.baseline_config, ELMO: arguments.elmo_config},
            sorted(set(arguments.fractions)),
            list(dict.fromkeys(arguments.seeds)),
            overrides_from(arguments),
            changes_from(arguments),
        )
        return Report(results, table(results), lambda figure: draw(figure, {arguments.title: results}))
