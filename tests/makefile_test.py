"""The Makefile's care for `.venv`, tried on a copy with an interpreter that only writes down what it is asked to do."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import List

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make isn't installed")

# Plays both the interpreter that is named by PYTHON and the one in .venv. FAIL_ON stops it, as an interruption would.
FAKE_PYTHON = """#!/bin/sh
echo "$*" >> calls.txt
case "$*" in *"${FAIL_ON:-no such argument}"*) exit 1 ;; esac
case "$*" in
    --version) echo "Python VERSION" ;;
    *_base_executable*) cat "$(dirname "$0")/made_by" 2>/dev/null || echo "$0" ;;
    "-m venv .venv")
        mkdir -p .venv/bin
        cp "$0" .venv/bin/python
        echo "$0" > .venv/bin/made_by
        echo "VIRTUAL_ENV=\\"$(pwd -P)/.venv\\"" > .venv/bin/activate ;;
esac
"""


class Project:
    """A folder with the Makefile and what it installs from, and a `python3.11` on the PATH."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.folder.mkdir()
        shutil.copytree(REPOSITORY / "requirements", folder / "requirements")
        for name in ("Makefile", "setup.cfg", "setup.py", "pyproject.toml", "elmo_plugin_startup.pth"):
            shutil.copy(REPOSITORY / name, folder)
        self.programs = folder.with_name("programs")
        self.programs.mkdir()
        self.make_python("python3.11", "3.11.7")

    @property
    def stamp(self) -> Path:
        return self.folder / ".venv" / ".installed"

    def make_python(self, name: str, version: str) -> Path:
        path = self.programs / name
        path.write_text(FAKE_PYTHON.replace("VERSION", version))
        path.chmod(0o755)
        return path

    def make(self, *arguments: str, fail_on: str = "") -> subprocess.CompletedProcess:
        """Runs make as if it hadn't been started by another make."""
        (self.folder / "calls.txt").write_text("")
        outer = ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "PYTEST_ARGS", "PYTHON")
        environment = {name: value for name, value in os.environ.items() if name not in outer}
        environment["PATH"] = f"{self.programs}{os.pathsep}{environment['PATH']}"
        if fail_on:
            environment["FAIL_ON"] = fail_on
        return subprocess.run(["make", *arguments], cwd=self.folder, env=environment, capture_output=True, text=True)

    def installed(self) -> List[str]:
        """What pip was asked to install by the last `make`, in order."""
        calls = (self.folder / "calls.txt").read_text().splitlines()
        return [call.partition(" install ")[2] for call in calls if call.startswith("-m pip ")]

    def created_environment(self) -> bool:
        return "-m venv .venv\n" in (self.folder / "calls.txt").read_text()


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "project")


@pytest.fixture
def complete(project: Project) -> Project:
    result = project.make("install")
    assert result.returncode == 0, result.stderr
    return project


@pytest.mark.parametrize("version", ["2.7.18", "3.1.5", "3.9.18", "3.10.13"])
def test_an_old_python_is_refused_with_its_version_and_the_remedy(project: Project, version: str) -> None:
    result = project.make("test", f"PYTHON={project.make_python('old', version)}")
    assert result.returncode != 0
    assert f"needs Python 3.11 or newer, but '{project.programs}/old' is Python {version}." in result.stderr
    assert "make test PYTHON=/path/to/python3.11" in result.stderr
    assert not (project.folder / ".venv").exists()


@pytest.mark.parametrize("version", ["3.11.0", "3.12.1", "3.13.0rc1", "3.20.0"])
def test_python_3_11_and_newer_is_taken(project: Project, version: str) -> None:
    result = project.make("install", f"PYTHON={project.make_python('new', version)}")
    assert result.returncode == 0
    assert f"Creating .venv with Python {version}" in result.stdout


def test_python3_serves_where_python3_11_does_not_start(project: Project) -> None:
    # As with a version manager whose python3.11 only says that it isn't there.
    (project.programs / "python3.11").write_text("#!/bin/sh\nexit 127\n")
    project.make_python("python3", "3.12.1")
    assert "Creating .venv with Python 3.12.1" in project.make("install").stdout


def test_an_interpreter_that_does_not_exist_is_named(project: Project) -> None:
    result = project.make("install", "PYTHON=no-such-python")
    assert result.returncode != 0
    assert "'no-such-python' can't be run" in result.stderr


def test_refusing_an_interpreter_leaves_the_environment_alone(complete: Project) -> None:
    assert complete.make("install", f"PYTHON={complete.make_python('old', '3.9.18')}").returncode != 0
    assert complete.stamp.exists()


def test_the_archived_packages_and_the_plugin_are_installed_without_dependencies(complete: Project) -> None:
    assert complete.installed() == [
        "--no-warn-conflicts -r requirements/living.txt -r requirements/dev.txt",
        "--no-deps -r requirements/archived.txt",
        "--no-deps --no-build-isolation --editable .",
    ]


@pytest.mark.parametrize("arguments", [[], ["PYTHON=python3.11"]])
def test_a_second_call_installs_nothing(complete: Project, arguments: List[str]) -> None:
    assert complete.make("install", *arguments).returncode == 0
    assert complete.installed() == []


@pytest.mark.parametrize("name", ["requirements/living.txt", "requirements/archived.txt", "setup.cfg"])
def test_changed_requirements_are_installed_into_the_same_environment(complete: Project, name: str) -> None:
    later = complete.stamp.stat().st_mtime + 10
    os.utime(complete.folder / name, (later, later))
    assert complete.make("install").returncode == 0
    assert len(complete.installed()) == 3
    assert not complete.created_environment()


@pytest.mark.parametrize("step", ["living.txt", "archived.txt", "--editable", "import allennlp"])
def test_an_interrupted_installation_is_completed_by_the_next_call(project: Project, step: str) -> None:
    assert project.make("install", fail_on=step).returncode != 0
    assert not project.stamp.exists()

    assert project.make("install").returncode == 0
    assert len(project.installed()) == 3
    assert not project.created_environment()
    assert project.stamp.exists()


def test_an_interrupted_update_is_not_taken_for_done(complete: Project) -> None:
    later = complete.stamp.stat().st_mtime + 10
    os.utime(complete.folder / "setup.cfg", (later, later))
    assert complete.make("install", fail_on="--editable").returncode != 0
    assert not complete.stamp.exists()


def test_a_package_that_was_being_unpacked_is_installed_again(project: Project) -> None:
    assert project.make("install", fail_on="living.txt").returncode != 0
    site_packages = project.folder / ".venv" / "lib" / "python3.11" / "site-packages"
    for name in ("whole-1.0.dist-info", "half-1.0.dist-info", "~et-aside"):
        (site_packages / name).mkdir(parents=True)
        (site_packages / name / "METADATA").touch()
    (site_packages / "whole-1.0.dist-info" / "INSTALLER").touch()

    assert project.make("install").returncode == 0
    assert [path.name for path in site_packages.iterdir()] == ["whole-1.0.dist-info"]


@pytest.mark.parametrize("missing", ["activate", "python"])
def test_a_half_made_environment_is_made_anew(complete: Project, missing: str) -> None:
    (complete.folder / ".venv" / "bin" / missing).unlink()
    assert complete.make("install").returncode == 0
    assert complete.created_environment()


def test_an_environment_that_does_not_start_is_made_anew(project: Project) -> None:
    assert project.make("install", fail_on="living.txt").returncode != 0
    (project.folder / ".venv" / "bin" / "python").write_text("#!/bin/sh\nexit 1\n")
    assert project.make("install").returncode == 0
    assert project.created_environment()


def test_an_environment_that_was_moved_is_made_anew(complete: Project) -> None:
    complete.folder = complete.folder.rename(complete.folder.with_name("elsewhere"))
    assert complete.make("install").returncode == 0
    assert complete.created_environment()


def test_asking_for_another_interpreter_makes_the_environment_anew(complete: Project) -> None:
    other = complete.make_python("other", "3.12.1")
    assert complete.make("install", f"PYTHON={other}").returncode == 0
    assert complete.created_environment()
    assert (complete.folder / ".venv" / "bin" / "made_by").read_text().strip() == str(other)


def test_make_alone_lists_every_target_and_installs_nothing(project: Project) -> None:
    result = project.make()
    for target in (
        "install demo test checks lint format types fixtures bench results results-quick clean help"
    ).split():
        assert f"make {target} " in result.stdout
    assert not (project.folder / ".venv").exists()


def test_make_test_hands_its_arguments_to_pytest(project: Project) -> None:
    assert project.make("test", "PYTEST_ARGS=-k one").returncode == 0
    assert "-m pytest tests -n auto --dist loadfile -k one" in (project.folder / "calls.txt").read_text()
