"""What ELMo does for a task with few labels: `make demo`.

Trains the paper's named entity recogniser on 50, 100 and 200 invented sentences, with and without the vectors of the
smallest of the biLMs that ship with the plugin; scores both on 200 other sentences, draws the scores, and tags a new
sentence. Each step is an `allennlp` command that a user could type.
"""

import argparse
import json
import logging
import os
import shlex
import sys
import time
from pathlib import Path
from typing import Dict, List

ROOT = Path(__file__).resolve().parent.parent
RUNS = Path("runs/demo")
NUM_SENTENCES = (50, 100, 200)
UPDATES_PER_EPOCH = 20  # as in few_sentences.libsonnet
VARIANTS = {"baseline": "baseline", "elmo": "+ ELMo"}
SENTENCE = "Austin Hale left Hale Brothers in Austin and joined a bank in Norway ."

Scores = Dict[str, List[float]]


def run(command: str, log_name: str) -> None:
    """Runs an `allennlp` command in this process, since starting Python again takes longer than most of them; logs to a
    file.
    """
    from allennlp.commands import main as allennlp

    print(f"$ {command}", flush=True)
    arguments = shlex.split(command)
    log_file = RUNS / f"{log_name}.log"
    output, error_output, sys.argv = sys.stdout, sys.stderr, arguments
    with log_file.open("w") as log:
        sys.stdout = sys.stderr = log
        try:
            allennlp()
        except BaseException:
            print(f"this failed; its log is {log_file}", file=error_output)
            raise
        finally:
            sys.stdout, sys.stderr = output, error_output
            logging.getLogger().handlers.clear()


def train() -> Scores:
    """Trains each variant on each number of sentences. The scores are those after the last epoch, so that none was
    picked on the sentences that are scored.
    """
    print("\n1. Train an entity recogniser on few sentences, without and with ELMo, for as many updates")
    os.environ.setdefault("ELMO_BILM", "wiki-small")
    print(f"export ELMO_BILM={os.environ['ELMO_BILM']}")
    scores: Scores = {variant: [] for variant in VARIANTS}
    for num_sentences in NUM_SENTENCES:
        os.environ["ELMO_TRAIN_FRACTION"] = str(num_sentences / max(NUM_SENTENCES))
        print(f"export ELMO_TRAIN_FRACTION={os.environ['ELMO_TRAIN_FRACTION']}      # {num_sentences} sentences")
        for variant in VARIANTS:
            name = f"{variant}_{num_sentences}"
            run(f"allennlp train demo/{variant}.jsonnet -s {RUNS}/{name} --force", name)
            scores[variant].append(100 * json.loads((RUNS / name / "metrics.json").read_text())["validation_f1"])
    return scores


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
        course = epoch_scores(RUNS / f"{variant}_{max(NUM_SENTENCES)}")
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


def epoch_scores(run_folder: Path) -> List[float]:
    num_epochs = len(list(run_folder.glob("metrics_epoch_*.json")))
    files = (run_folder / f"metrics_epoch_{epoch}.json" for epoch in range(num_epochs))
    return [100 * json.loads(file.read_text())["validation_f1"] for file in files]


def predict() -> None:
    print("\n3. Tag a sentence")
    (RUNS / "sentence.jsonl").write_text(json.dumps({"sentence": SENTENCE}) + "\n")
    archive = f"{RUNS}/elmo_{max(NUM_SENTENCES)}/model.tar.gz"
    run(f"allennlp predict {archive} {RUNS}/sentence.jsonl --output-file {RUNS}/entities.jsonl --silent", "predict")
    print(f"   {SENTENCE}")
    for entity in json.loads((RUNS / "entities.jsonl").read_text())["entities"]:
        print(f"   {entity['type']:4} {entity['text']}")


def main() -> None:
    argparse.ArgumentParser(description=__doc__, epilog="example: python demo/run.py").parse_args()
    os.chdir(ROOT)
    RUNS.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    show(train())
    predict()
    print(f"\nDone in {time.monotonic() - started:.0f} seconds; everything is in {RUNS}.")
    print(
        "Next: vectors for your own text with 'allennlp elmo --help'; your own task with the three lines of "
        "training_configs/ner/elmo.jsonnet; your own biLM with training_configs/bilm/small.jsonnet."
    )


if __name__ == "__main__":
    main()
