"""What README.md shows has to work as it stands there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.S)


def test_the_python_example_runs(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    (example,) = blocks("python")
    names = {}
    exec(example, names)
    assert names["vectors"].shape == (3, 5, 16)
    assert capsys.readouterr().out == "(3, 2, 16)\n(3, 1, 16)\n"


@pytest.mark.parametrize("path", sorted(set(re.findall(r"\]\(((?!http)[^)]+)\)", README))))
def test_every_link_leads_somewhere(path):
    assert (ROOT / path).exists()


def test_every_config_in_a_command_exists():
    configs = re.findall(r"\b(training_configs/\S+\.jsonnet)", "\n".join(blocks("bash")))
    assert configs and all((ROOT / config).is_file() for config in configs)


def test_every_variable_is_in_the_table():
    from elmo_plugin.settings import SETTINGS

    assert set(re.findall(r"\bELMO_[A-Z_]+\b", README)) <= set(SETTINGS)


def test_every_target_is_in_the_makefile():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^make (\w+)", "\n".join(blocks("bash")), flags=re.M):
        assert re.search(rf"^{target}:", makefile, flags=re.M)
