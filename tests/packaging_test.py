"""What is built and installed is complete, and the three places that name versions agree."""

import configparser
import importlib.metadata
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path
from typing import Dict, List

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from elmo_plugin_startup import STAND_INS

REPOSITORY = Path(__file__).resolve().parents[1]


def run(*command: object, cwd: Path) -> str:
    result = subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what a build needs, so that it leaves nothing behind in the repository."""
    copy = tmp_path_factory.mktemp("source")
    shutil.copytree(
        REPOSITORY / "elmo_plugin", copy / "elmo_plugin", ignore=shutil.ignore_patterns("__pycache__", ".*")
    )
    for path in REPOSITORY.iterdir():
        if path.is_file():
            shutil.copy(path, copy)
    return copy


@pytest.fixture(scope="module")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, cwd=source)
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the wheel, and nothing else, is installed into."""
    folder = tmp_path_factory.mktemp("installed")
    run(sys.executable, "-m", "pip", "install", "-qq", "--no-deps", "--target", folder, wheel, cwd=folder)
    return folder


@pytest.fixture(scope="module")
def settings() -> configparser.ConfigParser:
    parser = configparser.ConfigParser()
    parser.read(REPOSITORY / "setup.cfg")
    return parser


def pins(*names: str) -> Dict[str, Requirement]:
    """The requirements in the given files of `requirements/`, by name."""
    lines: List[str] = []
    for name in names:
        lines += (REPOSITORY / "requirements" / name).read_text().splitlines()
    requirements = [Requirement(line) for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(requirement.name): requirement for requirement in requirements}


def test_the_wheel_holds_every_file_of_the_package(source: Path, wheel: Path) -> None:
    files = [path for path in (source / "elmo_plugin").rglob("*") if path.is_file()]
    expected = {path.relative_to(source).as_posix() for path in files}
    # A missing module means a folder without __init__.py; missing data, a suffix that setup.cfg doesn't list.
    assert expected - set(zipfile.ZipFile(wheel).namelist()) == set()


def test_the_wheel_puts_nothing_but_the_plugin_and_what_others_import_of_it_into_site_packages(wheel: Path) -> None:
    top_level = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {name for name in top_level if not name.endswith(".dist-info")} == {
        "elmo_plugin",
        "elmo_plugin_allennlp.py",
        "elmo_plugin_spacy.py",
        "elmo_plugin_startup.pth",
        "elmo_plugin_startup.py",
    }


@pytest.mark.parametrize("name", ["wiki-small", "wiki-base", "wiki-large"])
def test_the_wheel_brings_the_bilms_that_ship(wheel: Path, name: str) -> None:
    folder = f"elmo_plugin/bilm/pretrained/{name}/"
    assert {folder + file for file in ("options.json", "weights.hdf5", "README.md")} <= set(
        zipfile.ZipFile(wheel).namelist()
    )
    assert wheel.stat().st_size <= 50_000_000


def test_the_editable_wheel_brings_the_startup_file(source: Path, tmp_path: Path) -> None:
    code = f"from setuptools.build_meta import build_editable; build_editable({str(tmp_path)!r})"
    run(sys.executable, "-c", code, cwd=source)
    (path,) = tmp_path.glob("*.whl")
    assert "elmo_plugin_startup.pth" in zipfile.ZipFile(path).namelist()


def test_the_installed_plugin_is_imported_from_where_it_was_installed(installed: Path, tmp_path: Path) -> None:
    # The folder goes before site-packages, where this environment has AllenNLP and the plugin's sources.
    code = (
        f"import sys; sys.path.insert(0, {str(installed)!r}); sys.modules.pop('elmo_plugin_startup', None)\n"
        "import elmo_plugin, elmo_plugin_startup; print(elmo_plugin.__file__); print(elmo_plugin_startup.__file__)"
    )
    plugin, startup = run(sys.executable, "-c", code, cwd=tmp_path).splitlines()[-2:]
    assert Path(plugin) == installed / "elmo_plugin" / "__init__.py"
    assert Path(startup) == installed / "elmo_plugin_startup.py"


def test_uninstalling_leaves_no_file_behind(wheel: Path, tmp_path: Path) -> None:
    venv.create(tmp_path)
    pip = (sys.executable, "-m", "pip", "--python", tmp_path)
    before = {path for path in tmp_path.rglob("*") if path.is_file()}
    run(*pip, "install", "-qq", "--no-deps", wheel, cwd=tmp_path)
    modules = run(tmp_path / "bin" / "python", "-c", "import sys; print(*sys.modules)", cwd=tmp_path).split()
    assert "elmo_plugin_startup" in modules  # it ran as Python started, and Python may have kept its bytecode
    run(*pip, "uninstall", "-qq", "-y", "elmo-plugin", cwd=tmp_path)
    assert {path for path in tmp_path.rglob("*") if path.is_file()} == before


def test_without_allennlp_the_plugin_says_how_to_install_it(installed: Path, tmp_path: Path) -> None:
    # -S leaves out site-packages, and AllenNLP with it.
    code = (
        f"import sys; sys.path.insert(0, {str(installed)!r})\n"
        "try:\n    import elmo_plugin.plugin\nexcept ImportError as error:\n    print(error)"
    )
    message = run(sys.executable, "-I", "-S", "-c", code, cwd=tmp_path)
    archived = " ".join(map(str, pins("archived.txt").values()))
    assert f"pip install --no-deps {archived}" in message


def test_the_metadata_leaves_allennlp_out_and_asks_for_python_3_11(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        metadata = importlib.metadata.PathDistribution(zipfile.Path(archive, name).parent).metadata
    assert metadata["Name"] == "elmo-plugin"
    assert metadata["Requires-Python"] == ">=3.11"
    lines = map(Requirement, metadata.get_all("Requires-Dist"))
    required = {canonicalize_name(line.name) for line in lines if line.marker is None}
    assert "torch" in required
    assert required.isdisjoint({"allennlp", "cached-path", "fairscale", "torchvision"})


def test_what_is_stood_in_for_is_required_by_the_extra_alone(settings: configparser.ConfigParser) -> None:
    required = {name for line in settings["options"]["install_requires"].split("\n") for name in line.split()[:1]}
    commands = [command for command in STAND_INS.values() if "--no-deps" not in command]
    stood_in_for = {Requirement(command.removeprefix("pip install ").strip("'")).name for command in commands}
    extra = {Requirement(line).name for line in settings["options.extras_require"]["allennlp-all"].split("\n") if line}
    assert required.isdisjoint(stood_in_for) and stood_in_for <= extra


def test_the_package_and_setup_cfg_name_the_same_version(settings: configparser.ConfigParser) -> None:
    import elmo_plugin

    assert elmo_plugin.__version__ == settings["metadata"]["version"]
    assert f"\nversion: {elmo_plugin.__version__}\n" in (REPOSITORY / "CITATION.cff").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["archived.txt", "demo.txt", "dev.txt", "docs.txt", "living.txt"])
def test_requirement_files_hold_exact_public_versions_and_nothing_else(name: str) -> None:
    lines = (REPOSITORY / "requirements" / name).read_text().splitlines()
    requirements = [line for line in lines if line and not line.startswith("#")]
    # No ranges, no local versions such as +cpu, no addresses, no options.
    assert [line for line in requirements if not re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][A-Za-z0-9.]*", line)] == []


def test_the_pinned_versions_meet_setup_cfg(settings: configparser.ConfigParser) -> None:
    pinned = pins("living.txt", "dev.txt", "demo.txt")
    extras = settings["options.extras_require"]
    lines = "\n".join([settings["options"]["install_requires"], extras["plots"], extras["demo"], extras["dev"]]).split(
        "\n"
    )
    for requirement in (Requirement(line) for line in lines if line):
        (pin,) = pinned[canonicalize_name(requirement.name)].specifier
        assert requirement.specifier.contains(pin.version), f"{requirement} isn't met by the pinned {pin.version}"


def test_every_dependency_of_a_pinned_package_is_pinned() -> None:
    pinned = pins("living.txt", "dev.txt", "demo.txt")
    for name, requirement in pinned.items():
        try:
            dependencies = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue  # a tool that this environment does without
        for dependency in map(Requirement, dependencies):
            if dependency.name.startswith(("cuda-", "nvidia-", "triton")):
                continue  # torch's CUDA build pins its own libraries
            if dependency.marker is None or dependency.marker.evaluate({"extra": ""}):
                assert canonicalize_name(dependency.name) in pinned, f"{requirement} needs {dependency}"
