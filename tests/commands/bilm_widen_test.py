import sys

import pytest
import torch
from allennlp.commands import main
from allennlp.common.checks import ConfigurationError

from elmo_plugin.bilm import checkpoint, softmax_file
from elmo_plugin.bilm.bilm import BiLm
from elmo_plugin.bilm.options import BiLmOptions
from elmo_plugin.bilm.softmax_file import WordSoftmax
from elmo_plugin.commands.bilm_widen import write_widened


@pytest.fixture
def folder(tmp_path):
    """A language model's folder."""
    folder = tmp_path / "bilm"
    folder.mkdir()
    bilm = BiLm(BiLmOptions(projection_dim=4, cell_dim=6, char_dim=3, filters=((1, 4), (2, 5))))
    checkpoint.write(bilm, folder / "weights.hdf5", folder / "options.json")
    words = ["<S>", "</S>", "<UNK>", "mill"]
    softmax_file.write(WordSoftmax(words, torch.randn(4, 4), torch.randn(4)), folder / "softmax.hdf5")
    return folder


def test_the_command_writes_a_wider_language_model(folder, tmp_path, monkeypatch, capsys):
    wider = tmp_path / "new" / "wider"
    arguments = ["bilm-widen", str(folder), str(wider), "--cell-dim", "8", "--projection-dim", "5"]
    monkeypatch.setattr(sys, "argv", ["allennlp", *arguments])
    main()
    options = checkpoint.read(wider / "options.json", wider / "weights.hdf5").options
    assert (options.cell_dim, options.projection_dim) == (8, 5)
    old, new = (softmax_file.read(path / "softmax.hdf5", dim) for path, dim in ((folder, 4), (wider, 5)))
    assert torch.allclose(new.weight[:, :4], old.weight) and not new.weight[:, 4:].any()
    assert "softmax.hdf5" in capsys.readouterr().out


def test_filters_are_given_by_width(folder, tmp_path, monkeypatch):
    wider = tmp_path / "wider"
    dims = ["--cell-dim", "6", "--projection-dim", "4"]
    arguments = ["bilm-widen", str(folder), str(wider), *dims, "--filters", "1:7", "2:5", "3:2"]
    monkeypatch.setattr(sys, "argv", ["allennlp", *arguments])
    main()
    options = checkpoint.read(wider / "options.json", wider / "weights.hdf5").options
    assert options.filters == ((1, 7), (2, 5), (3, 2))


@pytest.mark.parametrize("filters", ["5", "1:", "a:3", "1:-2"])
def test_what_is_no_filter_is_refused(folder, monkeypatch, capsys, filters):
    dims = ["--cell-dim", "6", "--projection-dim", "4"]
    monkeypatch.setattr(sys, "argv", ["allennlp", "bilm-widen", str(folder), "wider", *dims, "--filters", filters])
    with pytest.raises(SystemExit):
        main()
    assert f"'{filters}' isn't a width and a number of filters" in capsys.readouterr().err


def test_the_seed_decides_what_starts_at_random(folder, tmp_path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        write_widened(str(folder), str(tmp_path / name), 8, 5, seed)
    first, again, other = (
        checkpoint.read(tmp_path / name / "options.json", tmp_path / name / "weights.hdf5").state_dict()
        for name in "abc"
    )
    name = "forward_layers.0.projection_weight"
    assert torch.equal(first[name], again[name]) and not torch.equal(first[name], other[name])


def test_a_bilm_without_a_softmax_leaves_none_behind(folder, tmp_path, capsys):
    (folder / "softmax.hdf5").unlink()
    (tmp_path / "softmax.hdf5").write_text("another's")
    write_widened(str(folder), str(tmp_path), 8, 5, force=True)
    assert not (tmp_path / "softmax.hdf5").exists()
    assert f"{folder} has no softmax.hdf5 beside it" in capsys.readouterr().out


def test_nothing_is_overwritten_unless_told_to(folder):
    before = (folder / "weights.hdf5").read_bytes()
    with pytest.raises(ConfigurationError, match=r"weights.hdf5 already exists; give another folder, or --force"):
        write_widened(str(folder), str(folder), 8, 5)
    assert (folder / "weights.hdf5").read_bytes() == before
