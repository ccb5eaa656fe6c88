"""`python -m elmo_plugin.tasks.squad`: writes predictions for SQuAD's evaluation script, or scores them as it does."""

import argparse
import json
from typing import Any, Dict, Iterator, List, Optional

from elmo_plugin.tasks.squad.metrics import evaluate, write_predictions


def main(arguments: Optional[List[str]] = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m elmo_plugin.tasks.squad", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    write = commands.add_parser("write", help="turn the output of 'allennlp predict' into a predictions.json")
    write.add_argument("outputs", help="what 'allennlp predict --use-dataset-reader' wrote, a JSON object a line")
    write.add_argument("predictions", help="the file to write, an answer for each question's id")
    score = commands.add_parser("evaluate", help="print exact match and F1, in per cent")
    score.add_argument("data", help="dev-v1.1.json, plain or gzipped")
    score.add_argument("predictions", help="the predictions.json")
    options = parser.parse_args(arguments)
    if options.command == "write":
        num_answers = write_predictions(_outputs(options.outputs), options.predictions)
        print(f"wrote {num_answers} answers to {options.predictions}")
    else:
        with open(options.predictions, encoding="utf-8") as file:
            print(json.dumps(evaluate(options.data, json.load(file))))


def _outputs(file_path: str) -> Iterator[Dict[str, Any]]:
    with open(file_path, encoding="utf-8") as file:
        for line_number, line in enumerate(file, start=1):
            if line.strip():
                try:
                    yield json.loads(line)
                except json.JSONDecodeError as error:
                    raise ValueError(f"{file_path}, line {line_number}: not JSON ({error})") from error


if __name__ == "__main__":
    main()
