"""Exact match and F1 as SQuAD 1.1's evaluation script counts them, and the file that it reads."""

import json
import re
import string
from collections import Counter
from dataclasses import dataclass
from os import PathLike
from typing import Dict, Iterable, NamedTuple, Sequence, Tuple, Union

from allennlp.common.checks import ConfigurationError
from allennlp.training.metrics import Metric

from elmo_plugin.files import numbered_lines, parse_json, replacing
from elmo_plugin.tasks.common.metrics import CountingMetric, Counts, F1Scores
from elmo_plugin.tasks.common.reader import json_value
from elmo_plugin.tasks.squad.reader import read_questions

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalize_answer(answer: str) -> str:
    """An answer as it is compared: its words in lower case, without ASCII punctuation, a, an and the."""
    without_punctuation = answer.lower().translate(_WITHOUT_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", without_punctuation).split())


def exact_match(prediction: str, answer: str) -> float:
    return float(normalize_answer(prediction) == normalize_answer(answer))


def f1(prediction: str, answer: str) -> float:
    """F1 of the words that two answers have in common, each counted as often as it is in both. Answers without words
    have none in common, so that two of them score 0, as in the script.
    """
    predicted_words, gold_words = normalize_answer(prediction).split(), normalize_answer(answer).split()
    num_common = (Counter(predicted_words) & Counter(gold_words)).total()
    if num_common == 0:
        return 0.0
    return F1Scores.of(num_common / len(predicted_words), num_common / len(gold_words)).f1


class AnswerScores(NamedTuple):
    exact_match: float
    f1: float


def score(prediction: str, answers: Sequence[str]) -> AnswerScores:
    """Each score for the answer for which it is highest, which needn't be the same answer."""
    return AnswerScores(
        max(exact_match(prediction, answer) for answer in answers), max(f1(prediction, answer) for answer in answers)
    )


@dataclass
class AnswerCounts(Counts):
    """The sums of scores over questions."""

    exact_match: float = 0.0
    f1: float = 0.0
    num_questions: int = 0

    def add(self, scores: AnswerScores) -> None:
        self.exact_match += scores.exact_match
        self.f1 += scores.f1
        self.num_questions += 1


@Metric.register("elmo::squad")
class SquadMetric(CountingMetric):
    """The means over questions of exact match and F1, as fractions of 1 under `em` and `f1`.

    It is called with a prediction for each question, and people's answers to it. Questions without such answers don't
    count.
    """

    make_counts = AnswerCounts

    def count(self, counts: AnswerCounts, prediction: str, answers: Sequence[str]) -> None:
        if answers:
            counts.add(score(prediction, answers))

    def metrics(self, counts: AnswerCounts) -> Dict[str, float]:
        num_questions = max(counts.num_questions, 1)
        return {"em": counts.exact_match / num_questions, "f1": counts.f1 / num_questions}


def evaluate(data_file: str, predictions: Dict[str, str]) -> Dict[str, float]:
    """What the script prints for answers by question id: percentages. A question without a prediction scores 0."""
    counts = AnswerCounts()
    for _, question in read_questions(data_file):
        if not question.answers:
            raise ValueError(f"{data_file}: question {question.id!r} has no answers to score against")
        answers = [answer.text for answer in question.answers]
        has_prediction = question.id in predictions
        counts.add(score(predictions[question.id], answers) if has_prediction else AnswerScores(0.0, 0.0))
    if counts.num_questions == 0:
        raise ValueError(f"{data_file}: no question to score")
    return {name: 100.0 * getattr(counts, name) / counts.num_questions for name in AnswerScores._fields}


def read_predictions(file_path: str) -> Dict[str, str]:
    """Answers by question id: those in the lines that `allennlp predict --use-dataset-reader` writes, or a file in the
    script's own format, `{"<id>": "<answer>", ...}`.
    """
    lines = list(numbered_lines(file_path))
    if lines and _is_output(lines[0][1]):
        return _by_id(lines, file_path)
    answers = parse_json("".join(line for _, line in lines), file_path)
    if not isinstance(answers, dict) or not all(isinstance(answer, str) for answer in answers.values()):
        raise ConfigurationError(
            f"{file_path}: expected the lines that 'allennlp predict --use-dataset-reader' writes, or one object of "
            'answers by question id, {"<id>": "<answer>", ...}'
        )
    return answers


def write_predictions(answers: Dict[str, str], file_path: Union[str, PathLike]) -> None:
    """Writes answers by question id for the script."""
    with replacing(file_path) as temporary:
        temporary.write_text(json.dumps(answers, ensure_ascii=False, indent=0) + "\n", encoding="utf-8")


def _is_output(line: str) -> bool:
    try:
        output = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(output, dict) and {"id", "answer"} <= output.keys()


def _by_id(lines: Iterable[Tuple[int, str]], file_path: str) -> Dict[str, str]:
    answers: Dict[str, str] = {}
    for line_number, line in lines:
        place = f"{file_path}, line {line_number}"
        output = parse_json(line, place)
        question_id, answer = (json_value(output, key, str, place) for key in ("id", "answer"))
        if not question_id or question_id in answers:
            raise ConfigurationError(
                f"{place}: a prediction needs an id of its own, to find its question by, but this one has "
                f"{question_id!r}{', as one before it' if question_id else ''}"
            )
        answers[question_id] = answer
    return answers
