"""`elmo_plugin_startup`: AllenNLP starts without torchvision and fairscale, and nothing else notices.

What depends on a fresh interpreter runs in one, isolated from the environment's own start-up files (-I -S).
"""

import subprocess
import sys
from pathlib import Path

import pytest

import elmo_plugin_startup
from elmo_plugin_startup import StandIn, StandInFinder

REPOSITORY = Path(elmo_plugin_startup.__file__).resolve().parent


def run_python(code: str, *folders: Path) -> str:
    """Runs `code` in a bare interpreter that finds modules in `folders` and the repository; returns what it prints."""
    paths = [str(folder) for folder in (*folders, REPOSITORY)]
    script = f"import sys; sys.path[:0] = {paths!r}; import elmo_plugin_startup\n{code}"
    result = subprocess.run([sys.executable, "-I", "-S", "-c", script], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def make_package(folder: Path, name: str, source: str = "") -> None:
    (folder / name).mkdir()
    (folder / name / "__init__.py").write_text(source)


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    """A stand-in for torchvision, whether or not a real one is installed."""
    module = StandIn("torchvision")
    monkeypatch.setitem(sys.modules, "torchvision", module)
    return module


def test_a_missing_package_stays_missing_before_allennlp_is_imported() -> None:
    code = "try:\n    import torchvision\nexcept ModuleNotFoundError as error:\n    print(error)"
    assert run_python(code) == "No module named 'torchvision'"


def test_allennlp_gets_a_stand_in_for_each_missing_package(tmp_path: Path) -> None:
    make_package(
        tmp_path,
        "allennlp",
        "import torchvision.ops.boxes as boxes\nfrom fairscale.nn import FullyShardedDataParallel, wrap\n",
    )
    printed = run_python("import allennlp; print(allennlp.boxes.__name__, allennlp.wrap.__name__)", tmp_path)
    assert printed == "torchvision.ops.boxes wrap"


def test_other_missing_packages_have_no_stand_in(tmp_path: Path) -> None:
    make_package(tmp_path, "allennlp")
    code = "import allennlp, importlib.util; print(importlib.util.find_spec('torchaudio'))"
    assert run_python(code, tmp_path) == "None"


def test_a_real_package_is_found_first(tmp_path: Path) -> None:
    make_package(tmp_path, "allennlp", "import torchvision\n")
    make_package(tmp_path, "torchvision", "real = True\n")
    assert run_python("import allennlp; print(allennlp.torchvision.real)", tmp_path) == "True"


def test_a_real_package_gets_no_stand_in_for_a_submodule_it_lacks(tmp_path: Path) -> None:
    make_package(tmp_path, "allennlp", "import torchvision\n")
    make_package(tmp_path, "torchvision")
    code = (
        "import allennlp\n"
        "try:\n    import torchvision.io\nexcept ModuleNotFoundError as error:\n    print(error)\n"
        "print(hasattr(allennlp.torchvision, 'io'))"
    )
    assert run_python(code, tmp_path) == "No module named 'torchvision.io'\nFalse"


def test_starting_python_loads_no_heavy_module() -> None:
    heavy = ["importlib.abc", "inspect", "typing", "torch", "allennlp"]
    assert run_python(f"print([name for name in {heavy!r} if name in sys.modules])") == "[]"


def test_the_startup_file_imports_the_startup_module() -> None:
    startup_file = REPOSITORY / "elmo_plugin_startup.pth"
    assert startup_file.read_text().split() == ["import", elmo_plugin_startup.__name__]


def test_every_process_of_this_environment_has_the_finder(tmp_path: Path) -> None:
    code = "import sys; print([type(finder).__name__ for finder in sys.meta_path].count('StandInFinder'))"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path).stdout
    assert printed.strip() == "1"


def test_installing_twice_adds_one_finder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "meta_path", [finder for finder in sys.meta_path if type(finder) is not StandInFinder])
    elmo_plugin_startup.install()
    elmo_plugin_startup.install()
    assert [type(finder) for finder in sys.meta_path].count(StandInFinder) == 1
    assert type(sys.meta_path[-1]) is StandInFinder


def test_calling_a_placeholder_names_the_package_and_the_remedy(stand_in: StandIn) -> None:
    message = (
        r"torchvision\.set_image_backend was asked for.* torchvision isn't installed.* pip install --no-deps torchvis"
    )
    with pytest.raises(ImportError, match=message):
        stand_in.set_image_backend("accimage")


def test_calling_what_is_deep_inside_a_placeholder_names_all_of_it(stand_in: StandIn) -> None:
    with pytest.raises(ImportError, match=r"torchvision\.models\.detection\.fasterrcnn_resnet50_fpn was asked for"):
        stand_in.models.detection.fasterrcnn_resnet50_fpn(pretrained=True)


def test_a_subclass_of_a_placeholder_cannot_be_built_either(stand_in: StandIn) -> None:
    class Transform(stand_in.Transform):  # type: ignore[name-defined]
        def __init__(self) -> None:
            pass

    with pytest.raises(ImportError, match=r"torchvision\.Transform was asked for"):
        Transform()


def test_a_placeholder_serves_isinstance(stand_in: StandIn) -> None:
    assert stand_in.Transform is stand_in.Transform
    assert not isinstance(3, stand_in.Transform)


def test_python_sees_no_special_attributes_in_stand_ins_and_placeholders(stand_in: StandIn) -> None:
    assert not hasattr(stand_in, "__version__")
    assert not hasattr(stand_in.Transform, "__wrapped__")


def test_allennlp_starts_without_a_word_on_stderr(tmp_path: Path) -> None:
    code = "import sys; sys.argv = ['allennlp', '--help']; from allennlp.__main__ import run; run()"
    result = subprocess.run(
        [sys.executable, "-W", "error::FutureWarning", "-W", "error::UserWarning", "-c", code],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    assert "train" in result.stdout


def test_transformers_does_not_take_the_stand_in_for_torchvision() -> None:
    import allennlp.data  # noqa: F401 (imports torchvision)
    from transformers.utils import is_torchvision_available

    if not isinstance(sys.modules.get("torchvision"), StandIn):
        pytest.skip("a real torchvision is installed")
    assert not is_torchvision_available()


def test_allennlps_sharded_accelerator_says_that_fairscale_is_missing() -> None:
    from allennlp.nn.parallel import FairScaleFsdpAccelerator
    from torch.nn import Linear

    if not isinstance(sys.modules.get("fairscale"), StandIn):
        pytest.skip("a real fairscale is installed")
    accelerator = FairScaleFsdpAccelerator(local_rank=0, world_size=1)
    with pytest.raises(ImportError, match=r"fairscale\.nn\.FullyShardedDataParallel was asked for.*fairscale==0\.4\.6"):
        accelerator.wrap_model(Linear(1, 1))
