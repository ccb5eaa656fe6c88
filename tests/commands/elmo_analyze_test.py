import argparse
import json
import shlex
import sys

import pytest
from allennlp.commands import main

from elmo_plugin.analysis.analysis import Analysis
from elmo_plugin.bilm import loading
from elmo_plugin.bilm.pretrained import BiLmFiles
from elmo_plugin.commands import elmo_analyze

OURS = ("wsd", "pos", "neighbours", "similarity")


@pytest.fixture(scope="module")
def parser():
    parser = argparse.ArgumentParser("allennlp")
    elmo_analyze.ElmoAnalyze().add_subparser(parser.add_subparsers())
    return parser


@pytest.fixture
def command(parser, tmp_path):
    """Runs the command as AllenNLP does, without the parsers of all its others."""

    def run(*words, output=True):
        output_words = ["--output", str(tmp_path / "out")] if output else []
        arguments = parser.parse_args(["elmo-analyze", *map(str, words), *output_words])
        arguments.func(arguments)
        return {path.name: path for path in (tmp_path / "out").iterdir()}

    return run


@pytest.fixture
def bilm(root):
    folder = root / "fixtures" / "bilm"
    return ["--options-file", folder / "options.json", "--weight-file", folder / "weights.hdf5"]


SENTENCES = ["--sentences", "On the [bank] .", "The [bank] closed ."]


def arguments_of(name, data, tmp_path):
    return {
        "wsd": ["--train", data / "wsd/train.data.xml", "--wordnet", data / "wsd"]
        + ["--test", data / "wsd/hill.data.xml", data / "wsd/town.data.xml"],
        "pos": ["--train", data / "pos/train.conllu", "--test", data / "pos/dev.conllu"],
        "neighbours": ["--corpus", data / "wsd/train.data.xml", "--index", tmp_path / "index"]
        + ["--queries", "He sat on the [bank] ."],
        "similarity": SENTENCES,
    }[name]


@pytest.mark.parametrize("name", OURS)
def test_an_analysis_writes_numbers_a_table_and_a_picture(name, command, bilm, root, tmp_path, capsys):
    files = command(name, *arguments_of(name, root / "fixtures/data", tmp_path), *bilm, "--batch-size", 2)
    assert sorted(files) == [f"{name}.json", f"{name}.png", f"{name}.txt"]
    assert json.loads(files[f"{name}.json"].read_text())
    assert files[f"{name}.txt"].read_text() == capsys.readouterr().out
    assert files[f"{name}.png"].read_bytes().startswith(b"\x89PNG")


def test_the_picture_can_be_left_out(command, bilm, monkeypatch):
    monkeypatch.setattr(elmo_analyze, "require_plots", None)
    files = command("similarity", *SENTENCES, *bilm, "--no-plot")
    assert sorted(files) == ["similarity.json", "similarity.txt"]


def test_the_example_in_the_help_runs(command, bilm, monkeypatch, tmp_path):
    monkeypatch.setattr(loading, "locate", lambda name: BiLmFiles(str(bilm[1]), str(bilm[3])))
    monkeypatch.chdir(tmp_path)
    _, _, *words = shlex.split(Analysis.by_name("similarity").example)
    assert "similarity.txt" in command(*words, output=False)


@pytest.mark.parametrize("name", OURS)
def test_help_shows_an_example(name, command, capsys):
    with pytest.raises(SystemExit):
        command(name, "--help", output=False)
    shown = " ".join(capsys.readouterr().out.split())
    assert f"example: allennlp elmo-analyze {name} --" in shown


def test_the_list_of_analyses_is_in_the_help(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["allennlp", "elmo-analyze", "--help"])
    with pytest.raises(SystemExit):
        main()
    shown = capsys.readouterr().out
    assert all(name in shown for name in OURS)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["wsd", "--test", "nowhere.data.xml", "--wordnet", ".", "--first-sense-only"], "nowhere.gold.key.txt"),
        (["pos", "--train", "nowhere.conllu", "--test", "x.conllu"], "nowhere.conllu"),
        (["neighbours", "--index", "nowhere", "--queries", "[a]"], "nowhere holds no index"),
        (["similarity", "--sentences-file", "nowhere.txt"], "nowhere.txt"),
        (["similarity", "--sentences", "[a]", "[b]", "--batch-size", "0"], "--batch-size must be 1 or more, not 0"),
        (["similarity", "--sentences", "[a]", "[b]", "--bilm", "nowhere.tar.gz"], "nowhere.tar.gz"),
    ],
)
def test_a_users_mistake_is_one_line(command, words, message, tmp_path):
    with pytest.raises(SystemExit) as exit_info:
        command(*words)
    code = exit_info.value.code
    assert code.startswith("error: ") and message in code and "\n" not in code
    assert not (tmp_path / "out").exists()


def test_an_output_that_is_a_file_is_refused_before_the_work(command, tmp_path):
    (tmp_path / "out").write_text("precious")
    with pytest.raises(SystemExit) as exit_info:
        command("similarity", *SENTENCES, "--bilm", "never opened")
    assert exit_info.value.code == f"error: --output: {tmp_path / 'out'} is a file, not a folder"
    assert (tmp_path / "out").read_text() == "precious"


def test_an_output_without_permission_is_refused_before_the_work(command, tmp_path, monkeypatch):
    monkeypatch.setattr(elmo_analyze.os, "access", lambda path, mode: False)
    with pytest.raises(SystemExit) as exit_info:
        command("similarity", *SENTENCES, "--bilm", "never opened")
    assert exit_info.value.code == f"error: --output: no permission to write to {tmp_path}"
