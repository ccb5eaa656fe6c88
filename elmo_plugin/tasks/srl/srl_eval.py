"""The scorer of CoNLL-2005, srl-eval.pl, in Python: the same counts, the same report, and the files that it reads."""

from contextlib import ExitStack
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple

from allennlp.common.checks import ConfigurationError

from elmo_plugin.files import numbered_lines, parse_json
from elmo_plugin.tasks.common.metrics import SpanCounts, ratio
from elmo_plugin.tasks.common.spans import chunks
from elmo_plugin.tasks.common.words import is_words
from elmo_plugin.tasks.srl.conll import CONTINUATION, PREDICATE, Frame


class Argument(NamedTuple):
    """An argument's type and its pieces, each from its first word to the one past its last."""

    type: str
    pieces: Tuple[Tuple[int, int], ...]


def arguments(tags: Sequence[str]) -> Set[Argument]:
    """The arguments in a predicate's tags, where a C-X is a further piece of the last X before it.

    Without an X before it, a C-X is an X itself. References, R-X, are arguments of a separate type.
    """
    pieces: List[Tuple[str, List[Tuple[int, int]]]] = []
    last_of_type: Dict[str, List[Tuple[int, int]]] = {}
    for start, end, label in chunks(tags):
        type_ = label.removeprefix(CONTINUATION)
        if type_ != label and type_ in last_of_type:
            last_of_type[type_].append((start, end))
        else:
            last_of_type[type_] = [(start, end)]
            pieces.append((type_, last_of_type[type_]))
    return {Argument(type_, tuple(parts)) for type_, parts in pieces}


@dataclass
class SrlCounts(SpanCounts):
    """What srl-eval counts. An argument is correct if its type and all of its pieces are; V is counted separately."""

    num_propositions: int = 0
    num_perfect: int = 0
    excluded = (PREDICATE,)

    def add_proposition(self, gold_tags: Sequence[str], predicted_tags: Sequence[str]) -> None:
        """Counts one predicate's arguments."""
        if len(gold_tags) != len(predicted_tags):
            raise ValueError(f"a sentence has {len(gold_tags)} gold tags but {len(predicted_tags)} predicted ones")
        gold, predicted = arguments(gold_tags), arguments(predicted_tags)
        self.num_propositions += 1
        self.num_perfect += all(argument.type in self.excluded for argument in gold ^ predicted)
        self.add_spans(gold, predicted)

    def report(self, num_sentences: int) -> str:
        """srl-eval's text, to the letter."""
        perfect = ratio(100 * self.num_perfect, self.num_propositions)
        rule = "-" * 60
        lines = [
            f"Number of Sentences    :      {num_sentences:6d}",
            f"Number of Propositions :      {self.num_propositions:6d}",
            f"Percentage of perfect props : {perfect:6.2f}",
            "",
            "{:>10}   {:>6}  {:>6}  {:>6}   {:>6}  {:>6}  {:>6}".format(
                "", "corr.", "excess", "missed", "prec.", "rec.", "F1"
            ),
            rule,
            self._line("Overall"),
            "-" * 10,
            *(self._line(type_, type_) for type_ in self.types),
            rule,
            *(self._line(type_, type_) for type_ in self.excluded if any(self.numbers(type_))),
            rule,
        ]
        return "\n".join(lines) + "\n"

    def _line(self, name: str, type_: Optional[str] = None) -> str:
        correct, predicted, gold = self.numbers(type_)
        counts = f"{correct:6d}  {predicted - correct:6d}  {gold - correct:6d}"
        return f"{name:>10}   {counts}   " + "{:6.2f}  {:6.2f}  {:6.2f}".format(*self.percentages(type_))


def format_props(words: Sequence[str], frames: Iterable[Frame]) -> str:
    """A sentence as srl-eval reads it: the predicates in the first column, then a column of brackets for each.

    A word has at most one predicate there; several frames of one word raise ValueError.
    """
    ordered = sorted(frames, key=lambda frame: frame.predicate_index)
    predicates = ["-"] * len(words)
    for predicate_index, _ in ordered:
        if predicates[predicate_index] != "-":
            raise ValueError(f"two frames have the predicate {words[predicate_index]!r}, word {predicate_index}")
        # A predicate written as '-' wouldn't count as one.
        predicates[predicate_index] = words[predicate_index] if words[predicate_index] != "-" else "--"
    columns = [predicates, *(tags_to_brackets(frame.tags) for frame in ordered)]
    return "".join(" ".join(row) + "\n" for row in zip(*columns, strict=True)) + "\n"


def tags_to_brackets(tags: Sequence[str]) -> List[str]:
    """`B-ARG0 I-ARG0 B-V` -> `(ARG0* *) (V*)`."""
    brackets = ["*"] * len(tags)
    for start, end, label in chunks(tags):
        brackets[start] = f"({label}{brackets[start]}"
        brackets[end - 1] += ")"
    return brackets


def score_file(file_path: str, gold_props: Optional[str] = None, predicted_props: Optional[str] = None) -> str:
    """The report on the lines that `allennlp predict --use-dataset-reader` writes, read one sentence at a time."""
    counts, num_sentences = SrlCounts(), 0
    with ExitStack() as stack:
        outputs = {
            name: stack.enter_context(open(path, "w", encoding="utf-8"))
            for name, path in (("gold_tags", gold_props), ("tags", predicted_props))
            if path is not None
        }
        for _, sentence in groupby(_predicates(file_path), lambda predicate: predicate["place"]):
            predicates = list(sentence)
            num_sentences += 1
            for predicate in predicates:
                counts.add_proposition(predicate["gold_tags"], predicate["tags"])
            for name, output in outputs.items():
                frames = [Frame(predicate["predicate_index"], predicate[name]) for predicate in predicates]
                output.write(format_props(predicates[0]["tokens"], frames))
    return counts.report(num_sentences)


def _predicates(file_path: str) -> Iterator[Dict[str, Any]]:
    for line_number, line in numbered_lines(file_path):
        place = f"{file_path}, line {line_number}"
        predicate = parse_json(line, place)
        if not _is_predicate(predicate):
            raise ConfigurationError(
                f"{place}: expected a predicate with the keys place, predicate_index, tokens, tags and gold_tags, the "
                "last three of the same length, which 'allennlp predict --use-dataset-reader' writes"
            )
        yield predicate


def _is_predicate(value: Any) -> bool:
    if not isinstance(value, dict) or not {"place", "predicate_index"} <= value.keys():
        return False
    texts = [value.get(key) for key in ("tokens", "tags", "gold_tags")]
    index = value["predicate_index"]
    return (
        all(is_words(text) for text in texts)
        and len({len(text) for text in texts}) == 1  # type: ignore[arg-type]
        and isinstance(index, int)
        and 0 <= index < len(texts[0])  # type: ignore[arg-type]
    )
