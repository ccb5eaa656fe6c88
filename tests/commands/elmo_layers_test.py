import json
import sys
import tarfile

import pytest
import torch
from allennlp.commands import main

from elmo_plugin.commands import elmo_layers  # noqa: F401  (registers the command)


@pytest.fixture
def command(monkeypatch):
    def run(*words):
        monkeypatch.setattr(sys, "argv", ["allennlp", "elmo-layers", *map(str, words)])
        main()

    return run


@pytest.fixture
def archives(tmp_path):
    paths = []
    for task in ("ner", "srl"):
        state = {f"elmo.mixes.input.scalar_parameters.{layer}": torch.zeros(1) for layer in range(3)}
        torch.save({**state, "elmo.mixes.input.gamma": torch.tensor([0.5])}, tmp_path / "weights.th")
        (tmp_path / "config.json").write_text(json.dumps({"model": {"type": f"elmo::{task}"}}))
        paths.append(tmp_path / f"{task}.tar.gz")
        with tarfile.open(paths[-1], "w:gz") as archive:
            archive.add(tmp_path / "weights.th", arcname="weights.th")
            archive.add(tmp_path / "config.json", arcname="config.json")
    return paths


def test_the_command_prints_a_row_for_each_mix_of_each_archive(command, archives, capsys):
    command(*archives)
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert rows[2:] == [[task, "input", "0.333", "0.333", "0.333", "0.500"] for task in ("ner", "srl")]


def test_the_numbers_and_the_picture_are_written_where_asked(command, archives, tmp_path):
    command(*archives, "--output", tmp_path / "new" / "layers.json", "--plot", tmp_path / "other" / "layers.png")
    mixes = json.loads((tmp_path / "new" / "layers.json").read_text())["mixes"]
    assert [mix["model"] for mix in mixes] == ["ner", "srl"]
    assert (tmp_path / "other" / "layers.png").read_bytes().startswith(b"\x89PNG")


def test_models_can_be_named(command, archives, capsys):
    command(*archives, "--names", "CoNLL", "OntoNotes")
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[2:]] == ["CoNLL", "OntoNotes"]


def test_help_shows_an_example(command, capsys):
    with pytest.raises(SystemExit):
        command("--help")
    shown = " ".join(capsys.readouterr().out.split())
    assert "example: allennlp elmo-layers runs/ner/model.tar.gz runs/snli/model.tar.gz --plot layers.png" in shown


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere.tar.gz"], "error: nowhere.tar.gz: no such archive"),
        (["a", "b", "--names", "one"], "error: --names has 1 names for 2 archives"),
    ],
)
def test_a_users_mistake_is_one_line(command, words, message):
    with pytest.raises(SystemExit) as exit_info:
        command(*words)
    assert exit_info.value.code == message
