"""`python -m elmo_plugin.tasks.srl predictions.jsonl`: prints srl-eval's report on a file of predictions.

With --gold-props and --predicted-props, writes the two files that the official srl-eval.pl reads.
"""

import argparse
import json
from contextlib import ExitStack
from itertools import groupby
from typing import Any, Dict, Iterator, List, Optional

from elmo_plugin.tasks.srl.conll import Frame
from elmo_plugin.tasks.srl.srl_eval import SrlCounts, format_props


def score_file(file_path: str, gold_props: Optional[str] = None, predicted_props: Optional[str] = None) -> str:
    """The report on the lines that `allennlp predict --use-dataset-reader` writes, a sentence at a time."""
    counts, num_sentences = SrlCounts(), 0
    with ExitStack() as stack:
        outputs = {
            name: stack.enter_context(open(path, "w", encoding="utf-8"))
            for name, path in (("gold_tags", gold_props), ("tags", predicted_props))
            if path is not None
        }
        for predicates in _sentences(file_path):
            num_sentences += 1
            for predicate in predicates:
                counts.add_proposition(predicate["gold_tags"], predicate["tags"])
            for name, output in outputs.items():
                frames = [Frame(predicate["predicate_index"], predicate[name]) for predicate in predicates]
                output.write(format_props(predicates[0]["tokens"], frames))
    return counts.report(num_sentences)


def _sentences(file_path: str) -> Iterator[List[Dict[str, Any]]]:
    with open(file_path, encoding="utf-8") as file:
        yield from (list(group) for _, group in groupby(_predicates(file_path, file), lambda each: each["place"]))


def _predicates(file_path: str, lines: Any) -> Iterator[Dict[str, Any]]:
    expected = {"tokens", "predicate_index", "tags", "gold_tags", "place"}
    for line_number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        predicate = json.loads(line)
        if not isinstance(predicate, dict) or not expected <= predicate.keys():
            raise ValueError(
                f"{file_path}, line {line_number}: expected a predicate with the keys {', '.join(sorted(expected))}, "
                "which 'allennlp predict --use-dataset-reader' writes"
            )
        yield predicate


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m elmo_plugin.tasks.srl",
        description=__doc__,
        epilog="example: python -m elmo_plugin.tasks.srl predictions.jsonl --gold-props gold.txt",
    )
    parser.add_argument("predictions", help="what 'allennlp predict --use-dataset-reader' wrote")
    parser.add_argument("--gold-props", help="a file to write the gold arguments to, in the columns of CoNLL-2005")
    parser.add_argument("--predicted-props", help="a file to write the predicted arguments to, likewise")
    arguments = parser.parse_args()
    print(score_file(arguments.predictions, arguments.gold_props, arguments.predicted_props), end="")


if __name__ == "__main__":
    main()
