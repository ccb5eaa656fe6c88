import gzip
import json

import pytest
from allennlp.common.checks import ConfigurationError

from elmo_plugin.tasks.squad.metrics import (
    SquadMetric,
    evaluate,
    exact_match,
    f1,
    normalize_answer,
    read_predictions,
    score,
    write_predictions,
)


@pytest.mark.parametrize(
    "answer, normal",
    [
        ("The Harrow Bridge", "harrow bridge"),
        ("an apple, a pear and the plum!", "apple pear and plum"),
        ("  two \t goats\n", "two goats"),
        ("Bram's", "brams"),
        ("1930-1931", "19301931"),
        ("1930\u20131931", "1930\u20131931"),  # a dash that isn't ASCII stays
        ("theatre", "theatre"),
        ("the-atre", "theatre"),  # punctuation goes before articles do
        ("A.", ""),
        ("$5", "5"),
    ],
)
def test_normalisation(answer, normal):
    assert normalize_answer(answer) == normal


def test_exact_match_is_of_normal_forms():
    assert exact_match("the Tamm.", "Tamm") == 1
    assert exact_match("river Tamm", "Tamm") == 0


@pytest.mark.parametrize(
    "prediction, answer, expected",
    [
        ("grey stone", "grey stone", 1),
        ("stone grey", "grey stone", 1),  # a bag of words
        ("three arches of stone", "three arches", 2 * (2 / 4 * 1) / (2 / 4 + 1)),
        ("very very old", "very old", 2 * (2 / 3 * 1) / (2 / 3 + 1)),  # the second "very" has no counterpart
        ("iron", "stone", 0),
        ("the", "a", 0),  # no words, nothing in common
        ("", "iron", 0),
    ],
)
def test_f1(prediction, answer, expected):
    assert f1(prediction, answer) == pytest.approx(expected)


def test_two_answers_without_words_match_exactly_but_have_no_f1():
    assert score("the", ["a"]) == (1.0, 0.0)


def test_score_is_the_best_over_all_answers():
    assert score("forty years", ["forty", "for forty years", "forty years"]) == (1.0, 1.0)
    scores = score("forty long years", ["forty", "forty years"])
    assert scores.exact_match == 0
    assert scores.f1 == pytest.approx(2 * (2 / 3) / (2 / 3 + 1))


def test_metric_is_the_mean_over_questions_of_all_batches_until_reset():
    metric = SquadMetric()
    assert metric.get_metric() == {"em": 0, "f1": 0}
    metric(["iron", "stone"], [["iron"], ["iron"]])
    metric(["the grey stone"], [["grey stone", "stone"]])
    metric(["grey stone"], [["stone"]])
    assert metric.get_metric(reset=True) == pytest.approx({"em": 2 / 4, "f1": (1 + 0 + 1 + 2 / 3) / 4})
    assert metric.get_metric() == {"em": 0, "f1": 0}


def test_questions_without_answers_do_not_count():
    metric = SquadMetric()
    metric(["iron", "stone"], [["iron"], []])
    assert metric.get_metric() == {"em": 1, "f1": 1}


@pytest.fixture
def data_file(tmp_path):
    qas = [
        {"id": "a", "question": "?", "answers": [{"text": "iron", "answer_start": 0}]},
        {"id": "b", "question": "?", "answers": [{"text": "old iron", "answer_start": 0}]},
        {"id": "c", "question": "?", "answers": [{"text": "iron", "answer_start": 0}]},
    ]
    path = tmp_path / "data.json.gz"
    path.write_bytes(gzip.compress(json.dumps({"data": [{"paragraphs": [{"context": "x", "qas": qas}]}]}).encode()))
    return str(path)


def test_evaluation_gives_percentages_and_counts_what_is_missing_as_wrong(data_file):
    scores = evaluate(data_file, {"a": "the iron", "b": "iron", "unknown": "iron"})
    assert scores == pytest.approx({"exact_match": 100 / 3, "f1": 100 * (1 + 2 / 3) / 3})


OUTPUTS = [{"id": "a", "answer": 'an "é"', "start": 3}, {"id": "b", "answer": "x\ny", "start": 0}]


def as_lines(outputs):
    return "".join(json.dumps(output) + "\n" for output in outputs) + "\n"


@pytest.mark.parametrize(
    "text", [as_lines(OUTPUTS), json.dumps({"a": 'an "é"', "b": "x\ny"}), '{\n"a": "an \\"é\\"",\n"b": "x\\ny"}']
)
def test_predictions_are_read_from_the_predictors_lines_or_the_scripts_format(text, tmp_path):
    (tmp_path / "predictions").write_text(text, encoding="utf-8")
    assert read_predictions(str(tmp_path / "predictions")) == {"a": 'an "é"', "b": "x\ny"}


def test_what_is_written_for_the_script_is_read_again(tmp_path):
    answers = {"a": 'an "é"', "b": "x\ny"}
    write_predictions(answers, tmp_path / "predictions.json")
    assert read_predictions(str(tmp_path / "predictions.json")) == answers


@pytest.mark.parametrize(
    "text, complaint",
    [
        (as_lines([{"id": "", "answer": "x"}]), "predictions, line 1: a prediction needs an id .* has ''"),
        (as_lines([{"id": "a", "answer": "x"}] * 2), "line 2: a prediction needs an id .* has 'a', as one before it"),
        (as_lines(OUTPUTS[:1]) + '{"id"\n', "predictions, line 3: not JSON"),
        (as_lines([*OUTPUTS[:1], {"id": "z"}]), "line 2: 'answer' must be a str, but is missing; there are id"),
        ('{"a": "x",\n"b"}', "predictions: not JSON .*line 2"),
        ('["x"]', "expected the lines that 'allennlp predict --use-dataset-reader' writes"),
    ],
)
def test_predictions_that_cannot_be_told_apart_or_read_are_refused(text, complaint, tmp_path):
    (tmp_path / "predictions").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigurationError, match=complaint):
        read_predictions(str(tmp_path / "predictions"))
