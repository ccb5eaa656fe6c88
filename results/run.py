"""Trains what RESULTS.md shows, and writes it: `make results`, and for the six tasks in short `make results-quick`.

Every training is kept in runs/results/, is done once, and goes on where it was interrupted; so this can be stopped at
any moment and started again, and several may run side by side. What a training of the setting full has measured is also
kept in results/records/, so that it isn't trained again on another machine either. The data is looked for in ELMO_DATA
(../shared/data when that isn't set), the biLM where the other ELMO_* variables say (`python -m elmo_plugin.settings`).
"""

import argparse
import os
import signal
import sys
from pathlib import Path
from typing import Dict, List

from allennlp.common.checks import ConfigurationError

from elmo_plugin.analysis.finished_run import summary
from elmo_plugin.analysis.runs import Runs

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # so that 'python results/run.py' finds the package it is part of

from results import probes, report  # noqa: E402
from results.plan import FINETUNING_TASKS, PARTS, ReportRun, train_tuned  # noqa: E402
from results.tasks import SETTINGS, TASKS, data_folder  # noqa: E402

FINETUNING = "finetuning"
PROBES = "probes"
EXAMPLES = """examples:
  python results/run.py --setting quick                                          # everything
  python results/run.py --setting quick --parts tasks --tasks ner sst --variants baseline
  python results/run.py --setting quick --parts probes                           # word senses, parts of speech
  python results/run.py --setting quick --list                                   # what is done and what isn't
  python results/run.py --setting full --report-only                             # the report from what is done
"""


def parse_arguments(arguments: List[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--setting", choices=SETTINGS, required=True, help="how much is trained")
    parts = [*PARTS, FINETUNING, PROBES]
    parser.add_argument("--parts", nargs="+", choices=parts, default=parts, help="which tables and figures")
    parser.add_argument("--tasks", nargs="+", choices=list(TASKS), default=list(TASKS), help="which of the tasks")
    parser.add_argument("--variants", nargs="+", metavar="NAME", help="which configs, such as baseline, top_layer_only")
    parser.add_argument("--seeds", nargs="+", type=int, metavar="SEED", help="which of the setting's seeds")
    parser.add_argument("--runs", default="runs/results", metavar="DIR", help="where the trainings are kept")
    reports = ", ".join(f"{path} for {setting}" for setting, path in report.REPORTS.items())
    parser.add_argument("--output", metavar="FILE", help=f"the report, {reports} by default; plots go beside it")
    parser.add_argument("--list", action="store_true", help="only say what is done and what isn't")
    parser.add_argument("--report-only", action="store_true", help="only write the report, from what is done")
    return parser.parse_args(arguments)


def chosen(options: argparse.Namespace) -> List[ReportRun]:
    """The trainings that the arguments leave, but for those with a tuned biLM."""
    parts = [PARTS[part] for part in options.parts if part in PARTS]
    by_name = {run.cell.name: run for part in parts for run in part(options.setting, data_folder())}
    return [
        run
        for run in by_name.values()
        if run.task in options.tasks
        and (options.variants is None or run.variant in options.variants)
        and (options.seeds is None or run.seed in options.seeds)
    ]


def list_cells(planned: List[ReportRun], runs: Runs) -> None:
    for cell in [run.cell for run in planned]:
        found = runs.find(cell)
        print(f"{cell.name:40} {'to do' if found is None else summary(found)}")


def train(options: argparse.Namespace, runs: Runs) -> Dict[str, str]:
    """Does what was asked for. Returns what failed, by name; the rest goes on."""
    _, failures = runs.train_all([run.cell for run in chosen(options)])
    for task in FINETUNING_TASKS if FINETUNING in options.parts else ():
        if task in options.tasks and (options.variants is None or "elmo_finetuned" in options.variants):
            try:
                train_tuned(options.setting, task, data_folder(), runs)
            except ConfigurationError as error:
                print(f"{task}, tuned biLM: failed. {error}")
                failures[f"{task}-elmo_finetuned"] = str(error)
    for name in probes.PROBES if PROBES in options.parts else ():
        try:
            probes.run(name, data_folder(), runs)
        except ConfigurationError as error:
            print(f"{name}: failed. {error}")
            failures[name] = str(error)
    return failures


def main(arguments: List[str]) -> int:
    options = parse_arguments(arguments)
    os.chdir(ROOT)  # the paths in configs are relative to the repository
    # A 'kill' ends the training as well, instead of leaving it behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    runs = Runs(options.runs, report.RECORDS.get(options.setting))
    if options.list:
        list_cells(chosen(options), runs)
        return 0
    failures = {} if options.report_only else train(options, runs)
    report.write(Path(options.output or report.REPORTS[options.setting]), options.setting, runs)
    if failures:
        print(f"not trained: {', '.join(failures)}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit("interrupted; start again to go on from here")
