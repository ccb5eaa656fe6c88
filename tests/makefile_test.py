"""The Makefile's care for `.venv`, tried on a copy with an interpreter that only writes down what it is asked to do."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make isn't installed")

# Plays both the interpreter that PYTHON names and the one in .venv. FAIL_ON stops it, as an interruption would.
FAKE_PYTHON = """#!/bin/sh
echo "$*" >> calls.txt
case "$*" in *"${FAIL_ON:-no such argument}"*) exit 1 ;; esac
case "$*" in
    --version) echo "Python VERSION" ;;
    *version_info*) python3 -c "import sys; sys.exit(tuple(map(int, 'VERSION'.split('.'))) < (3, 11))" ;;
    "-m venv .venv") mkdir -p .venv/bin && cp "$0" .venv/bin/python ;;
esac
"""


class Project:
    """A folder with the Makefile and what it installs from, where it has been run once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.copytree(ROOT / "requirements", folder / "requirements")
        for name in ("Makefile", "setup.cfg", "setup.py", "pyproject.toml", "elmo_plugin_startup.pth"):
            shutil.copy(ROOT / name, folder)
        self.programs = folder.with_name("programs")
        self.programs.mkdir()
        self.make_python("python3.11", "3.11.7")

    def make_python(self, name: str, version: str) -> Path:
        path = self.programs / name
        path.write_text(FAKE_PYTHON.replace("VERSION", version))
        path.chmod(0o755)
        return path

    def make(self, *arguments: str, fail_on: str = "no such argument") -> subprocess.CompletedProcess:
        """Runs make as if it hadn't been started by another make."""
        (self.folder / "calls.txt").write_text("")
        outer = ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "PYTEST_ARGS", "PYTHON")
        environment = {name: value for name, value in os.environ.items() if name not in outer}
        environment.update(PATH=f"{self.programs}{os.pathsep}{environment['PATH']}", FAIL_ON=fail_on)
        return subprocess.run(["make", *arguments], cwd=self.folder, env=environment, capture_output=True, text=True)

    def calls(self) -> str:
        """What the interpreters were asked to do by the last `make`."""
        return (self.folder / "calls.txt").read_text()

    def makes_environment(self, *arguments: str) -> bool:
        assert self.make("install", *arguments).returncode == 0
        return "-m venv .venv" in self.calls()


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = Project(tmp_path / "a project")
    assert project.makes_environment()
    return project


@pytest.mark.parametrize("version", ["2.7.18", "3.9.18", "3.10.13"])
def test_an_old_python_is_refused_with_its_version_and_the_remedy_and_costs_nothing(project, version) -> None:
    result = project.make("test", f"PYTHON={project.make_python('old', version)}")
    assert result.returncode != 0
    assert f"needs Python 3.11 or newer, but '{project.programs}/old' gives: Python {version}." in result.stderr
    assert "make test PYTHON=/path/to/python3.11" in result.stderr
    assert not project.makes_environment()


@pytest.mark.parametrize("arguments", [[], ["PYTHON=python3.11"]])
def test_a_complete_environment_is_kept(project, arguments) -> None:
    assert not project.makes_environment(*arguments)


@pytest.mark.parametrize("step", ["living.txt", "archived.txt", "--editable", "import allennlp"])
def test_an_interrupted_installation_is_made_again(project, step) -> None:
    (project.folder / ".venv" / ".installed").unlink()
    assert project.make("install", fail_on=step).returncode != 0
    assert project.makes_environment()


def test_an_environment_older_than_the_requirements_is_made_again(project) -> None:
    later = (project.folder / ".venv" / ".installed").stat().st_mtime + 10
    os.utime(project.folder / "requirements" / "living.txt", (later, later))
    assert project.makes_environment()


def test_an_environment_that_was_moved_is_made_again(project) -> None:
    project.folder = project.folder.rename(project.folder.with_name("elsewhere"))
    assert project.makes_environment()


def test_an_environment_of_another_python_than_the_one_asked_for_is_made_again(project) -> None:
    other = f"PYTHON={project.make_python('other', '3.12.1')}"
    assert project.makes_environment(other)
    assert not project.makes_environment(other)
    assert not project.makes_environment()  # nobody asks for another


def test_make_alone_lists_the_targets(project) -> None:
    printed = project.make().stdout
    for target in ("install", "demo", "test", "checks", "format", "fixtures", "bench", "results", "clean"):
        assert f"make {target} " in printed


def test_make_test_hands_its_arguments_to_pytest(project) -> None:
    assert project.make("test", "PYTEST_ARGS=-k one").returncode == 0
    assert "-m pytest tests -n auto --dist loadfile -k one" in project.calls()
