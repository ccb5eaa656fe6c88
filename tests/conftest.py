import copy
import importlib.util
import sys
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, NamedTuple

import pytest
import torch
from pretend_gpu import PretendGpu

import elmo_plugin.plugin  # noqa: F401  (registers everything, and repairs AllenNLP)

ROOT = Path(__file__).resolve().parent.parent

# Tests run side by side, and are small: more threads only get in each other's way.
torch.set_num_threads(1)


def pytest_make_parametrize_id(val: Any, argname: str):
    """Bytes are named after their argument. gzip writes the time into its data, and pytest's processes, which must all
    find the same names, start at different seconds.
    """
    return argname if isinstance(val, bytes) else None


def _load_fixture_builder():
    sys.path.insert(0, str(ROOT / "fixtures"))  # where build.py finds its own modules
    spec = importlib.util.spec_from_file_location("fixtures_build", ROOT / "fixtures" / "build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def gpu():
    """A machine with a GPU, as far as torch knows."""
    with PretendGpu() as gpu:
        yield gpu


@pytest.fixture
def assert_gradients_are_finite_differences() -> Callable[..., None]:
    """For functions whose backward pass can run only once, which `gradcheck` would run again and again."""

    def check(loss: Callable[[], torch.Tensor], leaves: Iterable[torch.Tensor]) -> None:
        loss().backward()
        for leaf in leaves:
            numbers, expected = leaf.data.view(-1), torch.empty(leaf.numel(), dtype=torch.double)
            for place, number in enumerate(numbers.tolist()):
                ends = []
                for shift in (1e-6, -1e-6):
                    numbers[place] = number + shift
                    ends.append(loss().item())
                numbers[place] = number
                expected[place] = (ends[0] - ends[1]) / 2e-6
            torch.testing.assert_close(leaf.grad.view(-1), expected, atol=1e-7, rtol=1e-6)

    return check


class BiLmFiles(NamedTuple):
    options_file: str
    weight_file: str


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture
def make_bilm_files(tmp_path) -> Callable[..., BiLmFiles]:
    """Writes a random biLM in the published layout; tiny, but for the given changes to its `lstm` and `char_cnn`
    options.
    """
    builder = _load_fixture_builder()

    def make(
        lstm: Dict[str, Any] = None,
        char_cnn: Dict[str, Any] = None,
        seed: int = 0,
        scale: float = 1.0,
        name: str = "bilm",
    ) -> BiLmFiles:
        options = copy.deepcopy(builder.TINY)
        options["lstm"].update(lstm or {})
        options["char_cnn"].update(char_cnn or {})
        builder.random_bilm(tmp_path / name, options, seed, scale)
        return BiLmFiles(str(tmp_path / name / "options.json"), str(tmp_path / name / "weights.hdf5"))

    return make


@pytest.fixture
def bilm_files(make_bilm_files) -> BiLmFiles:
    return make_bilm_files()
