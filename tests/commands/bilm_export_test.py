import sys

import h5py
import pytest
import torch
from allennlp.commands import main
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.models.archival import Archive

from elmo_plugin.bilm import checkpoint, softmax_file
from elmo_plugin.bilm.bilm import BiLm
from elmo_plugin.bilm.options import BiLmOptions
from elmo_plugin.commands import bilm_export


@pytest.fixture
def bilm(monkeypatch):
    """A biLM that any archive is said to hold; tests/training/experiment_test.py exports from a real one."""
    bilm = BiLm(BiLmOptions(projection_dim=4, cell_dim=6, char_dim=3, filters=((1, 4), (2, 5))))
    monkeypatch.setattr(BiLm, "load", lambda archive_file: bilm)
    return bilm


def test_the_command_writes_both_files(bilm, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["allennlp", "bilm-export", "model.tar.gz", str(tmp_path / "new" / "folder")])
    main()
    assert checkpoint.read_options(tmp_path / "new" / "folder" / "options.json") == bilm.options
    assert "weights.hdf5" in capsys.readouterr().out


def test_nothing_is_overwritten_unless_told_to(bilm, tmp_path):
    (tmp_path / "weights.hdf5").write_text("precious")
    with pytest.raises(ConfigurationError, match=r"weights.hdf5 already exists; give another folder, or --force"):
        bilm_export.export("model.tar.gz", str(tmp_path))
    assert (tmp_path / "weights.hdf5").read_text() == "precious"
    bilm_export.export("model.tar.gz", str(tmp_path), force=True)
    assert (tmp_path / "weights.hdf5").read_bytes() != b"precious"


def test_compact_rounds_the_weights(bilm, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["allennlp", "bilm-export", "model.tar.gz", str(tmp_path), "--compact"])
    main()
    with h5py.File(tmp_path / "weights.hdf5") as file:
        assert not (file["char_embed"][...].view("uint32") & 0xFFFF).any()


def test_bits_are_chosen_by_flags(bilm, tmp_path, monkeypatch):
    softmax = softmax_file.WordSoftmax(["a", "b"], torch.randn(2, 4), torch.randn(2))
    monkeypatch.setattr(bilm_export, "_word_softmax", lambda archive_file: softmax)
    flags = ["--compact", "--compact-bits", "5", "--softmax", "--softmax-bits", "4"]
    monkeypatch.setattr(sys, "argv", ["allennlp", "bilm-export", "model.tar.gz", str(tmp_path), *flags])
    main()
    with h5py.File(tmp_path / "weights.hdf5") as file:
        assert not (file["char_embed"][...].view("uint32") & 0x7FFFF).any()  # 4 of the mantissa's 23 bits are left
    with h5py.File(tmp_path / "softmax.hdf5") as file:
        assert abs(file["weight"][...]).max() == 7


@pytest.mark.parametrize("flag", ["compact", "softmax"])
def test_bits_of_what_isnt_asked_for_are_refused(bilm, flag, tmp_path, monkeypatch):
    arguments = ["model.tar.gz", str(tmp_path), f"--{flag}-bits", "6"]
    monkeypatch.setattr(sys, "argv", ["allennlp", "bilm-export", *arguments])
    with pytest.raises(SystemExit, match=f"--{flag}-bits 6 would change nothing without --{flag}"):
        main()
    assert not list(tmp_path.iterdir())


def test_a_task_models_archive_has_no_softmax_to_write(bilm, tmp_path, monkeypatch):
    archive = Archive(torch.nn.Linear(1, 1), Params({}), None, None, None)
    monkeypatch.setattr(bilm_export, "load_archive", lambda archive_file: archive)
    with pytest.raises(ConfigurationError, match="model.tar.gz holds a Linear, which has no softmax"):
        bilm_export.export("model.tar.gz", str(tmp_path), softmax=True)


def test_help_shows_an_example(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["allennlp", "bilm-export", "--help"])
    with pytest.raises(SystemExit):
        main()
    assert "example: allennlp bilm-export runs/bilm/model.tar.gz exported" in capsys.readouterr().out


def test_a_missing_archive_is_named(tmp_path):
    with pytest.raises(ConfigurationError, match="no biLM 'nowhere.tar.gz'"):
        bilm_export.export("nowhere.tar.gz", str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()
