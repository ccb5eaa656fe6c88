"""Draws how a biLM's training went, for its card: the perplexity of a held-out text at each checkpoint of the run.

A run keeps its checkpoints with the overrides

    "trainer.checkpointer.save_every_num_batches": 1000, "trainer.checkpointer.keep_most_recent_by_count": null

What is measured is kept in results/records/, so that the plot can be drawn again without the run.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Dict, Iterator, List, Optional

import torch

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # so that 'python results/bilm_curve.py' finds the package it is part of

from elmo_plugin.analysis.analysis import write_plot  # noqa: E402
from elmo_plugin.files import read_json, write_json  # noqa: E402

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RECORDS = ROOT / "results" / "records"
PLOTS = ROOT / "results" / "plots"
EXAMPLES = """examples:
  python results/bilm_curve.py my-bilm --run runs/bilm --text heldout.txt.gz
  python results/bilm_curve.py wiki-large --run runs/bilm --start wiki-base --text heldout.txt.gz
  python results/bilm_curve.py wiki-large                # draws again what was measured
"""
Curve = Dict[int, float]
"""Perplexities, the mean of both directions, by the number of tokens read."""


def measure(run: Path, start: Optional[str], text: str, curve: Curve) -> Iterator[Curve]:
    """Adds what `curve` lacks, a point at a time: the language model `start`, if there is one, before any token, and
    each checkpoint.
    """
    config = read_json(run / "config.json", "give the folder of a biLM's training")
    tokens_per_batch = config["data_loader"]["batch_size"] * config["data_loader"]["num_steps"]
    states = {num_batches(state) * tokens_per_batch: state for state in run.glob("training_state_*.th")}
    models = {} if start is None else {0: [start]}
    for tokens, state in states.items():
        weights = state.with_name(state.name.replace("training", "model", 1))
        models[tokens] = [str(run / "model.tar.gz"), "--weights-file", str(weights)]
    for tokens in sorted(set(models) - set(curve)):
        model, *flags = models[tokens]
        value = perplexity(model, text, *flags)
        print(f"{tokens:,} tokens: perplexity {value:.1f}")
        curve = dict(sorted({**curve, tokens: value}.items()))
        yield curve


def num_batches(training_state: Path) -> int:
    return torch.load(training_state, weights_only=False)["resume"]["total_batches_completed"]


def perplexity(model: str, text: str, *options: str) -> float:
    """What `allennlp evaluate` says, with the exact softmax."""
    with tempfile.TemporaryDirectory() as folder:
        metrics = os.path.join(folder, "metrics.json")
        command = [sys.executable, "-m", "allennlp", "evaluate", model, text, "--output-file", metrics, *options]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return read_json(metrics, "run it again")["perplexity"]


def draw(figure: "Figure", curve: Curve) -> None:
    axes = figure.subplots()
    axes.plot([tokens / 1e6 for tokens in curve], list(curve.values()), marker="o", markersize=4)
    axes.set_xlabel("million tokens read")
    axes.set_ylabel("perplexity of held-out text")
    axes.grid(alpha=0.3)


def main(arguments: List[str]) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", help="the biLM's name, from which those of the record and the plot are made")
    parser.add_argument("--run", type=Path, metavar="DIR", help="the finished training, with its checkpoints")
    parser.add_argument("--start", metavar="BILM", help="the language model that it started from, if any")
    parser.add_argument("--text", metavar="FILE", help="the held-out text")
    options = parser.parse_args(arguments)
    record = RECORDS / f"{options.name}-curve.json"
    recorded = read_json(record, "remove it to measure again") if record.exists() else {}
    curve = {int(tokens): value for tokens, value in recorded.items()}
    if options.run is not None:
        if options.text is None:
            parser.error("--run needs --text")
        for measured in measure(options.run, options.start, options.text, curve):
            curve = measured
            write_json(record, curve)
    elif not curve:
        parser.error(f"there is no {record.name} yet: --run and --text say what to measure")
    write_plot(lambda figure: draw(figure, curve), PLOTS / f"{options.name.replace('-', '_')}.png")


if __name__ == "__main__":
    main(sys.argv[1:])
