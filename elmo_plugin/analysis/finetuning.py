"""The supplement's Table 7: a biLM's perplexity on a task's text, before and after tuning on it (A.1)."""

import argparse
import functools
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, NamedTuple, Optional, Sequence

import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import DataLoader, DatasetReader
from allennlp.models.archival import load_archive
from allennlp.training import util as training_util

from elmo_plugin.analysis.analysis import Analysis, OpenEmbedder, Report
from elmo_plugin.analysis.cells import Cell, Config, experiment_hash, seeded
from elmo_plugin.analysis.finished_run import Run
from elmo_plugin.analysis.run_arguments import overrides_from
from elmo_plugin.analysis.runs import Runs
from elmo_plugin.analysis.tables import text_table
from elmo_plugin.bilm import softmax_file
from elmo_plugin.bilm.language_model import BiLmLanguageModel
from elmo_plugin.files import read_json, write_json
from elmo_plugin.settings import value_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The paper's, before and after. It has none for coreference and SRL, whose text it didn't tune on.
PAPER: Dict[str, str] = {
    "snli": "72.1 -> 16.8",
    "ner": "103.2 -> 46.3",
    "squad": "99.1 -> 43.5 (contexts), 158.2 -> 52.0 (questions)",
    "squad_contexts": "99.1 -> 43.5",
    "squad_questions": "158.2 -> 52.0",
    "sst": "131.5 -> 78.6",
    "srl": "92.3 (not tuned)",
    "coref": "92.3 (not tuned)",
}


class Perplexity(NamedTuple):
    """On the task's held-out text, the mean of both directions: with carried state, and from zeros."""

    carried: float
    from_zeros: float


class Tuned(NamedTuple):
    """What tuning on a task's text did, and the archive of the tuned biLM."""

    task: str
    before: Perplexity
    after: Perplexity
    archive: str


def archive_in_environment() -> Optional[str]:
    """The language model in ELMO_BILM, if it names one: an archive, or a biLM with its softmax."""
    bilm = value_of("ELMO_BILM")
    return bilm if bilm.endswith(".tar.gz") or softmax_file.find(bilm) else None


def tune(
    runs: Runs,
    task: str,
    archive: Optional[str],
    configs: Path = Path("training_configs/bilm"),
    environment: Optional[Mapping[str, str]] = None,
    overrides: Optional[Mapping[str, Any]] = None,
    seed: int = 1,
    learning_rate: Optional[float] = None,
) -> Tuned:
    """Tunes a biLM on a task's text, unless that has been done; with the config's learning rate, unless one is given.

    `archive` is a language model, with its softmax and words. Without one, the biLM that the environment names
    gets a softmax over the words of the task's text first, and its perplexity with that softmax is the one before
    tuning.
    """
    make = functools.partial(_cell, task, configs, seed, environment or {})
    before = None
    if archive is None:
        fitted = runs.train(make("fit_softmax", overrides or {}))
        archive, before = str(fitted.archive), _perplexity(fitted)
    rate = {} if learning_rate is None else {"trainer.optimizer.lr": learning_rate}
    cell = make("finetune", {**(overrides or {}), **rate}, ELMO_BILM=archive)
    tuned = runs.train(cell)
    if before is None:
        before = measured_once(runs.records or runs.folder, archive, cell.resolve())
    return Tuned(task, before, _perplexity(tuned), str(tuned.archive))


def _cell(
    task: str,
    configs: Path,
    seed: int,
    environment: Mapping[str, str],
    config: str,
    overrides: Mapping[str, Any],
    **variables: str,
) -> Cell:
    return Cell(
        f"{task}-{config}",
        str(configs / f"{config}.jsonnet"),
        {**environment, "ELMO_FINETUNE_TASK": task, **variables},
        overrides,
        (seeded(seed),),
    )


def _perplexity(run: Run) -> Perplexity:
    return Perplexity(run.metrics["perplexity"], run.metrics["from_zeros_perplexity"])


def measured_once(folder: Path, archive: str, config: Config) -> Perplexity:
    """The result of `measure`, kept in `folder` for the next time."""
    path = folder / f"perplexity-{experiment_hash({**config, 'measured': archive})}.json"
    if not path.exists():
        perplexity = measure(archive, config)
        folder.mkdir(parents=True, exist_ok=True)
        write_json(path, perplexity._asdict())
    return Perplexity(**read_json(path, "remove it to measure again"))


def measure(archive: str, config: Config) -> Perplexity:
    """The perplexity of an archived language model on the held-out text of a config."""
    device = config["trainer"].get("cuda_device", 0 if torch.cuda.is_available() else -1)
    model = load_archive(archive, cuda_device=device).model
    if not isinstance(model, BiLmLanguageModel):
        raise ConfigurationError(
            f"{archive} holds a {type(model).__name__}, which has no softmax over words; it takes the archive of a "
            "language model, or no archive and any biLM in ELMO_BILM"
        )
    params = Params(json.loads(json.dumps(config)))  # a copy: constructing something removes its keys
    reader = DatasetReader.from_params(params["dataset_reader"])
    loader = DataLoader.from_params(
        params["validation_data_loader"], reader=reader, data_path=config["validation_data_path"]
    )
    loader.index_with(model.vocab)
    values = []
    for model.evaluate_from_zeros in (False, True):
        model.reset_carried_state()
        values.append(training_util.evaluate(model, loader, cuda_device=device)["perplexity"])
    return Perplexity(*values)


def results(tuned: Sequence[Tuned]) -> Dict[str, Any]:
    return {
        outcome.task: {"before": outcome.before._asdict(), "after": outcome.after._asdict(), "archive": outcome.archive}
        for outcome in tuned
    }


def table(tuned: Sequence[Tuned]) -> str:
    """The paper's table with ours: perplexities before and after."""
    header = ["task", "before", "after", "before, from zeros", "after, from zeros", "the paper's"]
    rows: List[List[str]] = [
        [
            outcome.task,
            *(f"{value:.1f}" for value in (outcome.before.carried, outcome.after.carried)),
            *(f"{value:.1f}" for value in (outcome.before.from_zeros, outcome.after.from_zeros)),
            PAPER.get(outcome.task, "-"),
        ]
        for outcome in tuned
    ]
    return text_table(header, rows)


def draw(figure: "Figure", tuned: Sequence[Tuned]) -> None:
    """Two bars per task."""
    figure.set_size_inches(1.6 + 1.3 * len(tuned), 3.2)
    axes = figure.subplots()
    for offset, label, colour in ((-0.2, "before", "#7f7f7f"), (0.2, "after", "#0072b2")):
        heights = [getattr(outcome, label).carried for outcome in tuned]
        bars = axes.bar([place + offset for place in range(len(tuned))], heights, 0.38, label=label, color=colour)
        axes.bar_label(bars, fmt="%.0f", fontsize=8)
    axes.set_xticks(range(len(tuned)), [outcome.task for outcome in tuned])
    axes.set_ylabel("perplexity of the task's held-out text")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, title="tuning", loc="upper left", bbox_to_anchor=(1.0, 1.0))


@Analysis.register("finetuning")
class Finetuning(Analysis):
    help = "a biLM's perplexity before and after tuning on a task's text (A.1)"
    description = (
        "Tunes a biLM on the text of each task, labels ignored, and measures its perplexity on the task's held-out "
        "text before and after. The text is that of the files in the ELMO_*_TRAIN and ELMO_*_DEV variables. The biLM "
        "is the language model in --archive; without it, the biLM of the experiments gets a softmax over the words of "
        "the text first. The tuned archives, named in the JSON, are what <task>/elmo_finetuned.jsonnet takes."
    )
    example = "allennlp elmo-analyze finetuning --tasks ner sst --archive runs/bilm/model.tar.gz --output out"
    uses_bilm = False

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--tasks", nargs="+", required=True, choices=sorted(PAPER), help="whose text to tune on")
        parser.add_argument(
            "--archive",
            default=archive_in_environment(),
            help="a language model: a model.tar.gz, or a biLM with its softmax (default: ELMO_BILM, if that is one)",
        )
        parser.add_argument(
            "--configs",
            default="training_configs/bilm",
            metavar="DIR",
            help="where finetune.jsonnet and fit_softmax.jsonnet are",
        )
        parser.add_argument("--runs", default="runs/analysis", metavar="DIR", help="where trainings are kept")
        parser.add_argument("--seed", type=int, default=1, help="the random seed")
        parser.add_argument(
            "--learning-rate",
            type=float,
            metavar="RATE",
            help="the learning rate of tuning, instead of the config's: a small text may need a lower one",
        )
        parser.add_argument("-o", "--overrides", default="{}", metavar="JSON", help="changes to the configs")

    def run(self, arguments: argparse.Namespace, open_embedder: OpenEmbedder) -> Report:
        runs, overrides = Runs(arguments.runs), overrides_from(arguments)
        tuned = [
            tune(
                runs,
                task,
                arguments.archive,
                Path(arguments.configs),
                overrides=overrides,
                seed=arguments.seed,
                learning_rate=arguments.learning_rate,
            )
            for task in dict.fromkeys(arguments.tasks)
        ]
        return Report(results(tuned), table(tuned), lambda figure: draw(figure, tuned))
