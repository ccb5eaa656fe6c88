"""The whole chain on data that ships with the repo, as a user would run it: `make demo`.

Trains a small biLM on unlabelled text, exports it, trains a tagger on 40 labelled sentences without and with its
vectors, and tags a sentence. Both the text and the labels come from the small invented grammar in fixtures/grammar.py.
"""

import argparse
import json
import logging
import os
import shlex
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RUNS = Path("runs/demo")
SENTENCE = "the tired pilot may watch a watch ."


def run(command: str, log_name: str) -> None:
    """Runs an `allennlp` command in this process, since starting Python anew takes longer than most of them; logs to a
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


def metric(run_name: str, name: str) -> float:
    return json.loads((RUNS / run_name / "metrics.json").read_text())[name]


def pretrain() -> None:
    print("\n1. Pretrain a biLM on 3,000 unlabelled sentences")
    run(f"allennlp train demo/bilm.jsonnet -s {RUNS}/bilm --force", "bilm")
    print(f"   held-out perplexity {metric('bilm', 'best_validation_perplexity'):.1f}, the mean of both directions")
    print("\n2. Export it as HDF5 + options.json")
    run(f"allennlp bilm-export {RUNS}/bilm/model.tar.gz {RUNS}/exported --force", "export")


def compare() -> None:
    print("\n3. Train AllenNLP's simple_tagger on 40 labelled sentences, without and with ELMo")
    run(
        f"allennlp train training_configs/examples/simple_tagger_baseline.jsonnet -s {RUNS}/baseline --force",
        "baseline",
    )
    os.environ["ELMO_OPTIONS_FILE"] = str(RUNS / "exported" / "options.json")
    os.environ["ELMO_WEIGHT_FILE"] = str(RUNS / "exported" / "weights.hdf5")
    run(f"allennlp train training_configs/examples/simple_tagger_elmo.jsonnet -s {RUNS}/elmo --force", "elmo")
    print("\n   accuracy on 200 held-out sentences")
    for name in ("baseline", "elmo"):
        print(f"     {name:10} {metric(name, 'best_validation_accuracy'):6.1%}")


def predict() -> None:
    print("\n4. Tag a sentence")
    (RUNS / "sentence.jsonl").write_text(json.dumps({"sentence": SENTENCE}) + "\n")
    run(
        f"allennlp predict {RUNS}/elmo/model.tar.gz {RUNS}/sentence.jsonl --output-file {RUNS}/tags.jsonl "
        "--predictor elmo::sentence_tagger --silent",
        "predict",
    )
    tags = json.loads((RUNS / "tags.jsonl").read_text())
    print("   " + " ".join(f"{word}/{tag}" for word, tag in zip(tags["words"], tags["tags"], strict=True)))


def main() -> None:
    argparse.ArgumentParser(description=__doc__, epilog="example: python demo/run.py").parse_args()
    os.chdir(ROOT)
    RUNS.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    pretrain()
    compare()
    predict()
    print(f"\nDone in {time.monotonic() - started:.0f} seconds; everything is in {RUNS}.")
    print(
        "Next: your own text with training_configs/bilm/small.jsonnet, or your own biLM by ELMO_OPTIONS_FILE and "
        "ELMO_WEIGHT_FILE."
    )


if __name__ == "__main__":
    main()
