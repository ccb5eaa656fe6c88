import json
import sys

import pytest
from allennlp.commands import main

from elmo_plugin.commands import elmo_score  # noqa: F401  (registers the command)


@pytest.fixture
def score(monkeypatch, tmp_path, capsys):
    """Runs the command in a folder of its own, and gives what it prints."""
    monkeypatch.chdir(tmp_path)

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["allennlp", "elmo-score", *words])
        main()
        return capsys.readouterr().out

    return run


def write(path, text):
    path.write_text(text, encoding="utf-8")


def test_ner_prints_conllevals_report(score, tmp_path):
    write(tmp_path / "predictions.txt", "Ada B-PER B-PER\nleft O O\n\nOslo B-LOC O\n\n")
    assert score("ner", "predictions.txt").startswith(
        "processed 3 tokens with 2 phrases; found: 1 phrases; correct: 1.\n"
    )


def test_srl_prints_srl_evals_report_and_writes_props(score, tmp_path):
    predicate = {"tokens": ["Ada", "left"], "predicate_index": 1, "place": "x"}
    tags = {"tags": ["O", "B-V"], "gold_tags": ["B-ARG0", "B-V"]}
    write(tmp_path / "out.jsonl", json.dumps({**predicate, **tags}) + "\n")
    report = score("srl", "out.jsonl", "--gold-props", "gold.txt", "--predicted-props", "predicted.txt")
    assert "Number of Propositions :           1" in report
    assert (tmp_path / "gold.txt").read_text() == "- (ARG0*)\nleft (V*)\n\n"
    assert (tmp_path / "predicted.txt").read_text() == "- *\nleft (V*)\n\n"


def test_coref_prints_the_three_metrics_of_a_file_against_itself(score, root):
    key = str(root / "fixtures" / "data" / "coref" / "train.v4_gold_conll")
    lines = score("coref", key, key).splitlines()
    assert lines[-1].split() == ["average", "100.00"]


def test_squad_prints_percentages_and_writes_the_scripts_file(score, tmp_path):
    qas = [
        {"id": name, "question": "?", "answers": [{"text": answer, "answer_start": 0}]}
        for name, answer in (("a", "iron"), ("b", "old iron"))
    ]
    write(tmp_path / "data.json", json.dumps({"data": [{"paragraphs": [{"context": "x", "qas": qas}]}]}))
    write(tmp_path / "out.jsonl", "".join(json.dumps({"id": name, "answer": "iron"}) + "\n" for name in "ab"))
    printed = score("squad", "data.json", "out.jsonl", "--write-answers", "predictions.json")
    assert json.loads(printed) == pytest.approx({"exact_match": 50.0, "f1": 100 * (1 + 2 / 3) / 2})
    assert json.loads((tmp_path / "predictions.json").read_text()) == {"a": "iron", "b": "iron"}
    assert score("squad", "data.json", "predictions.json") == printed


def test_a_broken_file_ends_in_one_line_that_names_it(score, tmp_path):
    write(tmp_path / "predictions.txt", "Ada B-PER\n")
    with pytest.raises(SystemExit, match="^error: predictions.txt, line 1: expected a token"):
        score("ner", "predictions.txt")


def test_a_missing_file_ends_in_one_line_that_names_it(score):
    with pytest.raises(SystemExit, match="^error: file nowhere.txt not found"):
        score("ner", "nowhere.txt")
