import builtins
import json

import pytest
from allennlp.common.checks import ConfigurationError

from elmo_plugin.analysis.analysis import Report, require_plots, write_plot


def draw_line(figure):
    figure.add_subplot().plot([0, 1])


def draw_badly(figure):
    raise RuntimeError("no")


def test_a_report_is_three_files(tmp_path):
    Report({"ä": 1}, "a table\n\n", draw_line).write(tmp_path / "new" / "folder", "name")
    folder = tmp_path / "new" / "folder"
    assert json.loads((folder / "name.json").read_text(encoding="utf-8")) == {"ä": 1}
    assert (folder / "name.txt").read_text() == "a table\n"
    assert (folder / "name.png").read_bytes().startswith(b"\x89PNG")
    assert len(list(folder.iterdir())) == 3


def test_a_picture_can_be_left_out(tmp_path):
    Report({}, "", draw_line).write(tmp_path, "a", with_plot=False)
    Report({}, "", None).write(tmp_path, "b")
    assert not list(tmp_path.glob("*.png"))


def test_a_picture_that_fails_leaves_the_old_one(tmp_path):
    (tmp_path / "plot.png").write_text("old")
    with pytest.raises(RuntimeError, match="no"):
        write_plot(draw_badly, tmp_path / "plot.png")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]


def test_the_extra_is_named_where_matplotlib_is_missing(monkeypatch):
    original = builtins.__import__

    def refuse(name, *arguments, **options):
        if name == "matplotlib":
            raise ImportError(name)
        return original(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(ConfigurationError, match=r"pip install 'elmo-plugin\[plots\]', or .* --no-plot"):
        require_plots()
