"""What ELMo does for a task with few labels: `make demo`.

Trains the paper's named entity recogniser on 50, 100 and 200 invented sentences, with and without the vectors of the
smallest of the biLMs that ship with the plugin; scores both on 200 other sentences, draws the scores, and tags a new
sentence. Each step is an `allennlp` command that a user could type.

The trainings run side by side, one thread each. So small ones gain little from a second thread, and where another
program keeps a core busy they would lose nearly everything: torch's threads wait for each other at every operation.
"""

import argparse
import json
import logging
import multiprocessing
import os
import shlex
import sys
import time
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Dict, List, Tuple

ROOT = Path(__file__).resolve().parent.parent
RUNS = Path("runs/demo")
NUM_SENTENCES = (50, 100, 200)
UPDATES_PER_EPOCH = 20  # as in few_sentences.libsonnet
VARIANTS = {"baseline": "baseline", "elmo": "+ ELMo"}
SENTENCE = "Austin Hale left Hale Brothers in Austin and joined a bank in Norway ."

MAX_WORKERS = 4  # each takes 0.7 GB

Scores = Dict[str, List[float]]


def workers() -> Executor:
    """Processes that run commands, at most one for each core. Starting Python takes as long as some of the commands, so
    that each process runs several.
    """
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    num_workers = min(os.cpu_count() or 1, MAX_WORKERS)
    return ProcessPoolExecutor(num_workers, multiprocessing.get_context("spawn"))


def run(command: str, log_name: str) -> None:
    """Runs an `allennlp` command in this process, with the variables that are set before it; logs to a file."""
    from allennlp.commands import main as allennlp

    arguments = shlex.split(command)
    while "=" in arguments[0]:
        name, _, value = arguments.pop(0).partition("=")
        os.environ[name] = value
    log_file = RUNS / f"{log_name}.log"
    output, error_output, sys.argv = sys.stdout, sys.stderr, arguments
    with log_file.open("w") as log:
        sys.stdout = sys.stderr = log
        try:
            allennlp()
        except BaseException:
            print(f"this failed: {command}\nits log is {log_file}", file=error_output)
            raise
        finally:
            sys.stdout, sys.stderr = output, error_output
            logging.getLogger().handlers.clear()


def train(pool: Executor) -> Scores:
    """Trains each variant on each number of sentences. The scores are those after the last epoch, so that none was
    picked on the sentences that are scored.
    """
    print("\n1. Train an entity recogniser on few sentences, without and with ELMo, for as many updates")
    os.environ.setdefault("ELMO_BILM", "wiki-small")
    for name in ("ELMO_BILM", "OMP_NUM_THREADS"):
        print(f"export {name}={os.environ[name]}")
    trainings = {}
    for num_sentences in NUM_SENTENCES:
        for variant in VARIANTS:
            command = (
                f"ELMO_TRAIN_FRACTION={num_sentences / max(NUM_SENTENCES)} "
                f"allennlp train demo/{variant}.jsonnet -s {run_folder(variant, num_sentences)} --force"
            )
            print(f"$ {command}", flush=True)
            training = pool.submit(run, command, run_folder(variant, num_sentences).name)
            trainings[training] = (variant, num_sentences)
    scores: Dict[Tuple[str, int], float] = {}
    for training in as_completed(trainings):
        training.result()
        variant, num_sentences = trainings[training]
        scores[variant, num_sentences] = epoch_scores(run_folder(variant, num_sentences))[-1]
        print(f"   {len(scores)} of {len(trainings)} trained: {run_folder(variant, num_sentences)}", flush=True)
    return {variant: [scores[variant, num_sentences] for num_sentences in NUM_SENTENCES] for variant in VARIANTS}


def run_folder(variant: str, num_sentences: int) -> Path:
    return RUNS / f"{variant}_{num_sentences}"


def show(scores: Scores) -> None:
    print("\n2. F1 on 200 other sentences")
    print("   trained on" + "".join(f"{num_sentences:8}" for num_sentences in NUM_SENTENCES) + "  sentences")
    for variant, title in VARIANTS.items():
        print(f"   {title:10}" + "".join(f"{score:8.1f}" for score in scores[variant]))
    draw(scores, RUNS / "demo.png")
    print(f"   drawn in {RUNS}/demo.png")


def draw(scores: Scores, path: Path) -> None:
    """The scores over the number of sentences, and over the course of the longest training set's runs."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (by_size, by_epoch) = pyplot.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
    for variant, colour in zip(VARIANTS, ("#8a8a8a", "#c0392b"), strict=True):
        by_size.plot(NUM_SENTENCES, scores[variant], "o-", color=colour, label=VARIANTS[variant])
        course = epoch_scores(run_folder(variant, max(NUM_SENTENCES)))
        by_epoch.plot(
            [UPDATES_PER_EPOCH * (epoch + 1) for epoch in range(len(course))],
            course,
            "-",
            color=colour,
            label=VARIANTS[variant],
        )
    by_size.set(xlabel="labelled sentences", ylabel="F1, held-out sentences", xticks=NUM_SENTENCES, ylim=(0, 100))
    by_epoch.set(xlabel=f"updates on {max(NUM_SENTENCES)} sentences")
    for axes in (by_size, by_epoch):
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    by_size.legend(loc="lower right", frameon=False)
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def epoch_scores(folder: Path) -> List[float]:
    num_epochs = len(list(folder.glob("metrics_epoch_*.json")))
    files = (folder / f"metrics_epoch_{epoch}.json" for epoch in range(num_epochs))
    return [100 * json.loads(file.read_text())["validation_f1"] for file in files]


def predict(pool: Executor) -> None:
    print("\n3. Tag a sentence")
    (RUNS / "sentence.jsonl").write_text(json.dumps({"sentence": SENTENCE}) + "\n")
    archive = run_folder("elmo", max(NUM_SENTENCES)) / "model.tar.gz"
    command = f"allennlp predict {archive} {RUNS}/sentence.jsonl --output-file {RUNS}/entities.jsonl --silent"
    print(f"$ {command}", flush=True)
    pool.submit(run, command, "predict").result()
    print(f"   {SENTENCE}")
    for entity in json.loads((RUNS / "entities.jsonl").read_text())["entities"]:
        print(f"   {entity['type']:4} {entity['text']}")


def main() -> None:
    argparse.ArgumentParser(description=__doc__, epilog="example: python demo/run.py").parse_args()
    os.chdir(ROOT)
    RUNS.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    with workers() as pool:
        try:
            show(train(pool))
            predict(pool)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    print(f"\nDone in {time.monotonic() - started:.0f} seconds; everything is in {RUNS}.")
    print(
        "Next: vectors for your own text with 'allennlp elmo --help'; your own task with the three lines of "
        "training_configs/ner/elmo.jsonnet; your own biLM with training_configs/bilm/small.jsonnet."
    )


if __name__ == "__main__":
    main()
