"""`elmo_plugin_startup`: AllenNLP finds the plugin, starts without what ELMo doesn't need, and nothing else notices.

What depends on a fresh interpreter runs in one, isolated from the environment's own start-up files (-I -S).
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Dict

import pytest

import elmo_plugin_startup
from elmo_plugin_startup import Finder, placeholder

REPOSITORY = Path(elmo_plugin_startup.__file__).resolve().parent


def run_python(code: str, *folders: Path) -> str:
    """Runs `code` in a bare interpreter that finds modules in `folders` and the repository; returns what it prints."""
    paths = [str(folder) for folder in (*folders, REPOSITORY)]
    script = f"import sys; sys.path[:0] = {paths!r}; import elmo_plugin_startup\n{code}"
    result = subprocess.run([sys.executable, "-I", "-S", "-c", script], capture_output=True, text=True, env={})
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def make_package(folder: Path, name: str, source: str = "") -> None:
    (folder / name).mkdir()
    (folder / name / "__init__.py").write_text(source)


def what_allennlp_sees(folder: Path, source: str, expression: str) -> str:
    """Runs `source` as AllenNLP's own module, and prints what an expression is in it."""
    make_package(folder, "allennlp", source)
    return run_python(f"import allennlp; print({expression})", folder)


# ---- Other processes and modules ----


def test_starting_python_loads_no_heavy_module() -> None:
    heavy = ["importlib.abc", "inspect", "typing", "torch", "allennlp"]
    assert run_python(f"print([name for name in {heavy!r} if name in sys.modules])") == "[]"


def test_the_startup_file_imports_the_startup_module() -> None:
    startup_file = REPOSITORY / "elmo_plugin_startup.pth"
    assert startup_file.read_text().split() == ["import", elmo_plugin_startup.__name__]


def test_every_process_of_this_environment_has_the_finder(tmp_path: Path) -> None:
    code = "import sys; print([type(finder).__name__ for finder in sys.meta_path].count('Finder'))"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path).stdout
    assert printed.strip() == "1"


def test_installing_twice_adds_one_finder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "meta_path", [finder for finder in sys.meta_path if type(finder) is not Finder])
    elmo_plugin_startup.install()
    elmo_plugin_startup.install()
    assert [type(finder) for finder in sys.meta_path].count(Finder) == 1


def test_what_is_missing_stays_missing_to_everyone_but_allennlp(tmp_path: Path) -> None:
    make_package(tmp_path, "allennlp", "import transformers, other\n")
    make_package(
        tmp_path,
        "other",
        "import importlib.util\nfound = importlib.util.find_spec('transformers')\n"
        "try:\n    import transformers\nexcept ModuleNotFoundError as error:\n    message = str(error)\n",
    )
    printed = run_python("import allennlp; print(allennlp.other.message, allennlp.other.found)", tmp_path)
    assert printed == "No module named 'transformers' None"


# ---- Stand-ins ----


@pytest.mark.parametrize(
    "statement, name",
    [
        ("import torchvision", "torchvision"),
        ("import torchvision.ops.boxes as boxes", "boxes"),
        ("from transformers.models.bert.modeling_bert import ACT2FN", "ACT2FN"),
        ("from google.cloud import storage", "storage"),
        ("from huggingface_hub import HfApi, HfFolder", "HfFolder"),
    ],
)
def test_allennlp_imports_what_is_missing(tmp_path: Path, statement: str, name: str) -> None:
    assert what_allennlp_sees(tmp_path, statement, f"allennlp.{name}.__name__") == name


def test_other_missing_packages_have_no_stand_in(tmp_path: Path) -> None:
    source = "try:\n    import torchaudio\nexcept ModuleNotFoundError as error:\n    message = str(error)\n"
    assert what_allennlp_sees(tmp_path, source, "allennlp.message") == "No module named 'torchaudio'"


def test_a_real_package_is_taken(tmp_path: Path) -> None:
    make_package(tmp_path, "transformers", "real = True\n")
    assert what_allennlp_sees(tmp_path, "import transformers", "allennlp.transformers.real") == "True"


def test_only_the_names_that_a_real_package_lacks_are_stood_in_for(tmp_path: Path) -> None:
    make_package(tmp_path, "transformers", "class AutoModel: pass\n")
    source = (
        "import transformers\nfrom transformers import AutoModel\nfrom transformers.optimization import get_schedule\n"
        "class AdamW(transformers.AdamW): pass\n"
        "try:\n    AdamW()\nexcept ImportError as error:\n    message = str(error)\n"
    )
    expression = "allennlp.AutoModel() is not None, hasattr(sys.modules['transformers'], 'AdamW'), allennlp.message"
    assert what_allennlp_sees(tmp_path, source, expression) == (
        "True False transformers.AdamW was asked for, but the installed transformers doesn't have it. "
        "To install a release that does: pip install 'transformers<4.49'"
    )


def test_a_real_package_that_cannot_be_imported_is_not_replaced(tmp_path: Path) -> None:
    make_package(tmp_path, "transformers", "import a_dependency_of_transformers\n")
    source = "try:\n    import transformers\nexcept ModuleNotFoundError as error:\n    message = str(error)\n"
    assert what_allennlp_sees(tmp_path, source, "allennlp.message").endswith("'a_dependency_of_transformers'")


def test_relative_imports_are_left_alone(tmp_path: Path) -> None:
    make_package(tmp_path, "allennlp", "from . import transformers\n")
    (tmp_path / "allennlp" / "transformers.py").write_text("own = True\n")
    assert run_python("import allennlp; print(allennlp.transformers.own)", tmp_path) == "True"


# ---- Placeholders ----


def test_using_a_placeholder_names_the_package_and_the_remedy() -> None:
    message = (
        r"fairscale\.nn\.wrap was asked for.* fairscale isn't installed.* pip install --no-deps fairscale==0\.4\.6"
    )
    with pytest.raises(ImportError, match=message):
        placeholder("fairscale.nn").wrap("a module")
    with pytest.raises(ImportError, match=r"fairscale\.TABLE was asked for"):
        placeholder("fairscale").TABLE["key"]


def test_a_subclass_of_a_placeholder_cannot_be_built_either() -> None:
    class Transform(placeholder("torchvision.Transform")):  # type: ignore[misc]
        def __init__(self) -> None:
            pass

    with pytest.raises(ImportError, match=r"torchvision\.Transform was asked for"):
        Transform()


def test_a_placeholder_serves_isinstance_and_except() -> None:
    assert placeholder("torchvision").Transform is placeholder("torchvision").Transform
    assert not isinstance(3, placeholder("torchvision").Transform)
    with pytest.raises(ZeroDivisionError):
        try:
            raise ZeroDivisionError
        except placeholder("botocore.exceptions.ClientError"):
            pass


def test_python_sees_no_special_attributes_in_placeholders() -> None:
    assert not hasattr(placeholder("torchvision"), "__version__")
    assert not hasattr(placeholder("torchvision.Transform"), "__wrapped__")


# ---- The real AllenNLP ----


def allennlp(*arguments: str, cwd: Path) -> "subprocess.CompletedProcess[str]":
    code = f"import sys; sys.argv = {['allennlp', *arguments]!r}; from allennlp.__main__ import run; run()"
    command = [sys.executable, "-W", "error::FutureWarning", "-W", "error::UserWarning", "-c", code]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd)


def test_in_any_folder_allennlp_has_the_plugins_commands_and_starts_without_a_warning(tmp_path: Path) -> None:
    result = allennlp("--help", cwd=tmp_path)
    assert result.returncode == 0 and "elmo-tokens" in result.stdout
    (line,) = result.stderr.splitlines()
    assert line.endswith(" - INFO - allennlp.common.plugins - Plugin elmo_plugin_allennlp available")


@pytest.mark.parametrize("package", ["allennlp", "elmo_plugin"])
def test_threads_that_wait_for_each_other_soon_sleep_once_torch_is_loaded(tmp_path: Path, package: str) -> None:
    make_package(tmp_path, "torch", "import os; spins = os.environ.get('GOMP_SPINCOUNT')")
    if package == "allennlp":
        make_package(tmp_path, "allennlp", "import torch")
    assert (
        run_python(f"import {package}, torch; print(torch.spins)", tmp_path) == elmo_plugin_startup.SPINS_BEFORE_SLEEP
    )


@pytest.mark.parametrize("setting", [{"GOMP_SPINCOUNT": "7"}, {"OMP_WAIT_POLICY": "ACTIVE"}])
def test_how_threads_wait_is_left_to_an_environment_that_says_so(
    setting: Dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in setting.items():
        monkeypatch.setenv(name, value)

    elmo_plugin_startup.share_cores()

    assert os.environ.get("GOMP_SPINCOUNT") == setting.get("GOMP_SPINCOUNT")


def test_a_plugin_that_cannot_be_imported_is_reported_and_leaves_allennlp_working(tmp_path: Path) -> None:
    make_package(tmp_path, "elmo_plugin", "raise AttributeError('broken on purpose')\n")
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); sys.argv = ['allennlp', '--help']\n"
        "from allennlp.__main__ import run; run()"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert result.returncode == 0 and "train" in result.stdout
    assert "elmo-plugin is installed but can't be imported" in result.stderr
    assert "AttributeError: broken on purpose" in result.stderr


def test_allennlps_sharded_accelerator_says_that_fairscale_is_missing() -> None:
    from allennlp.nn.parallel import FairScaleFsdpAccelerator
    from torch.nn import Linear

    accelerator = FairScaleFsdpAccelerator(local_rank=0, world_size=1)
    with pytest.raises(ImportError, match=r"fairscale\.nn\.FullyShardedDataParallel was asked for.*fairscale==0\.4\.6"):
        accelerator.wrap_model(Linear(1, 1))
