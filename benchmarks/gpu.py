"""Tries everything on your GPU and prints a report to send in: `python benchmarks/gpu.py > report.md`.

No one who wrote this had a GPU. What the tests show, they show on a pretend one: that each model gives the CPU's
results there, how many operations it launches and how often the host waits, and that the Triton kernels compute the
formulas, in Triton's interpreter. They don't show speed, memory, or the numerics of a GPU's own kernels. This does:

- correctness: the vectors of a biLM, and the loss and gradients of a training step of each model, against the CPU;
- mixed precision: each model's loss against single precision, with finite gradients;
- speed: embedding, and training steps of the biLM, at the paper's size: tokens a second, the share of the GPU's own
  matrix-multiply speed, and peak memory; each with and without TF32 and mixed precision.

`--device cpu` or a machine without a GPU tries the script itself, at sizes of no interest.
"""

import argparse
import os
import platform
import sys
import time
import traceback
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, NamedTuple

import torch
from allennlp.nn.util import move_to_device

from elmo_plugin.bilm import BiLm, BiLmOptions
from elmo_plugin.bilm.softmax import SampledSoftmax

ROOT = Path(__file__).resolve().parent.parent
PAPER, TINY = BiLmOptions(), BiLmOptions(cell_dim=64, projection_dim=16, num_highway=1)
NUM_CHARACTERS = 50


class Size(NamedTuple):
    """How much is done at a time."""

    options: BiLmOptions
    num_sentences: int
    num_tokens: int
    num_rows: int  # of a training batch, each of `num_steps`
    num_steps: int
    num_words: int  # of the softmax
    num_samples: int
    repeats: int


AT_THE_PAPERS_SIZE = Size(PAPER, 64, 25, 128, 20, 793_471, 8192, 10)
AT_NO_SIZE = Size(TINY, 4, 6, 4, 5, 500, 50, 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: shows that the script works")
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    os.chdir(ROOT)  # where the fixtures' paths begin
    size = AT_NO_SIZE if arguments.quick or device.type == "cpu" else AT_THE_PAPERS_SIZE
    num_failed = 0
    for line in report(device, size):
        print(line, flush=True)
        num_failed += "**failed**" in line
    sys.exit(f"{num_failed} trials failed" if num_failed else 0)


def report(device: torch.device, size: Size) -> Iterator[str]:
    yield "# A GPU's report\n"
    yield from (f"- {fact}" for fact in facts(device))
    yield "\n## Against the CPU\n\n| | largest difference, by the largest value |\n|---|---|"
    yield from tried({"a biLM's vectors": lambda: f"{embedding_difference(device):.1e}"})
    sys.path.insert(0, str(ROOT / "tests" / "helpers"))
    from training_steps import EXPERIMENTS

    steps = {f"a step of {name}, loss and gradients": step_on(device, name) for name in EXPERIMENTS}
    yield from tried(steps)
    yield "\n## Mixed precision\n\n| | loss against single precision |\n|---|---|"
    yield from tried({f"a step of {name}": mixed_step_on(device, name) for name in EXPERIMENTS})
    yield "\n## Speed\n\n| | tokens a second | of the GPU's multiplies | peak memory |\n|---|---|---|---|"
    for name, mode in modes(device).items():
        yield from tried({f"embedding, {name}": lambda mode=mode: speed(device, size, mode, embedding(device, size))})
        yield from tried({f"training, {name}": lambda mode=mode: speed(device, size, mode, training(device, size))})


def tried(trials: Dict[str, Callable[[], str]]) -> Iterator[str]:
    """A row for each trial; one that fails doesn't keep the others from being tried."""
    for name, trial in trials.items():
        try:
            yield f"| {name} | {trial()} |"
        except Exception as error:  # whatever it is, it belongs in the report
            traceback.print_exc()
            yield f"| {name} | **failed**: {type(error).__name__}: {' '.join(str(error).split())[:300]} |"


def facts(device: torch.device) -> Iterator[str]:
    yield f"Python {platform.python_version()}, torch {torch.__version__}, {platform.platform()}"
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        yield f"{properties.name}, {properties.total_memory / 2**30:.1f} GB, CUDA {torch.version.cuda}"
        yield f"capability {properties.major}.{properties.minor}, cuDNN {torch.backends.cudnn.version()}"
    else:
        yield f"device: {device}; not a GPU, so these figures mean nothing"
    try:
        import triton

        yield f"Triton {triton.__version__}"
    except ImportError:
        yield "no Triton: torch's operations take the place of our kernels"


# ---- Against the CPU ----


def embedding_difference(device: torch.device) -> float:
    torch.manual_seed(0)
    bilm, ids = BiLm(TINY).requires_grad_(False).eval(), sentences(8, 12)
    expected = bilm(ids).layers
    return difference(bilm.to(device)(ids.to(device)).layers.cpu(), expected)


def step_on(device: torch.device, name: str) -> Callable[[], str]:
    def trial() -> str:
        expected, found = (step(torch.device(each), name) for each in ("cpu", device))
        return f"{max(difference(found[key], expected[key]) for key in expected):.1e}"

    return trial


def mixed_step_on(device: torch.device, name: str) -> Callable[[], str]:
    def trial() -> str:
        single, mixed = step(device, name), step(device, name, is_mixed=True)
        unsound = [key for key, value in mixed.items() if not value.isfinite().all()]
        if unsound:
            raise ValueError(f"not finite: {', '.join(unsound)}")
        return f"{mixed['loss'].item():.5f} and {single['loss'].item():.5f}"

    return trial


def step(device: torch.device, name: str, is_mixed: bool = False) -> Dict[str, torch.Tensor]:
    """The loss and the gradients of an experiment's first batch, without dropout, on the CPU."""
    from training_steps import build

    trainer: Any = build(name, **{"trainer.cuda_device": -1}).trainer
    model, batch = trainer.model.to(device).train(), move_to_device(next(iter(trainer.data_loader)), device)
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    torch.manual_seed(0)
    with torch.autocast(device.type, torch.bfloat16 if device.type == "cpu" else torch.float16, enabled=is_mixed):
        loss = model(**batch)["loss"]
    loss.backward()
    gradients = {key: weight.grad for key, weight in model.named_parameters() if weight.grad is not None}
    return {key: value.detach().to_dense().float().cpu() for key, value in {"loss": loss, **gradients}.items()}


def difference(found: torch.Tensor, expected: torch.Tensor) -> float:
    return (found - expected).abs().max().item() / max(expected.abs().max().item(), 1e-6)


# ---- Speed ----


class Mode(NamedTuple):
    """How multiplies are done."""

    tf32: bool
    autocast: bool

    @property
    def dtype(self) -> torch.dtype:
        return torch.float16 if self.autocast else torch.float32


class Work(NamedTuple):
    run: Callable[[], Any]
    num_tokens: int
    num_multiplies: float  # multiply-adds


def modes(device: torch.device) -> Dict[str, Mode]:
    if device.type == "cpu":
        return {"single precision": Mode(tf32=False, autocast=False)}
    return {
        "single precision": Mode(tf32=False, autocast=False),
        "TF32": Mode(tf32=True, autocast=False),
        "mixed precision": Mode(tf32=True, autocast=True),
    }


def speed(device: torch.device, size: Size, mode: Mode, work: Work) -> str:
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = mode.tf32
    peak = 2**31 / seconds(device, size.repeats, multiplying(device, mode)) if device.type != "cpu" else 0.0
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    with torch.autocast(device.type, enabled=mode.autocast):
        took = seconds(device, size.repeats, work.run)
    memory = f"{torch.cuda.max_memory_allocated(device) / 2**30:.2f} GB" if device.type == "cuda" else "not known"
    share = f"{work.num_multiplies / took / peak:.0%}" if peak else "not known"
    return f"{work.num_tokens / took:,.0f} | {share} | {memory}"


def seconds(device: torch.device, repeats: int, run: Callable[[], Any]) -> float:
    """The median of a call's times, after two unmeasured ones."""
    times: List[float] = []
    for turn in range(repeats + 2):
        started = time.perf_counter()
        run()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        if turn >= 2:
            times.append(time.perf_counter() - started)
    return sorted(times)[len(times) // 2]


def multiplying(device: torch.device, mode: Mode) -> Callable[[], Any]:
    """2**31 multiply-adds at the shape of the LSTM's recurrence, often enough for a GPU to be busy with them."""
    left = torch.randn(128, 512, device=device, dtype=mode.dtype)
    right = torch.randn(512, 32768, device=device, dtype=mode.dtype)
    return lambda: left @ right


def embedding(device: torch.device, size: Size) -> Work:
    torch.manual_seed(0)
    bilm = BiLm(size.options).requires_grad_(False).eval().to(device)
    ids = sentences(size.num_sentences, size.num_tokens).to(device)
    num_tokens = size.num_sentences * size.num_tokens
    return Work(lambda: bilm(ids), num_tokens, num_tokens * multiplies_of(bilm))


def training(device: torch.device, size: Size) -> Work:
    """Steps of the biLM on windows of text, with sampled softmax and Adagrad."""
    torch.manual_seed(0)
    bilm = BiLm(size.options).to(device)
    softmax = SampledSoftmax(size.num_words, size.options.projection_dim, size.num_samples, sparse=True).to(device)
    optimizer = torch.optim.Adagrad([*bilm.parameters(), *softmax.parameters()], lr=0.2, initial_accumulator_value=1.0)
    ids = sentences(size.num_rows, size.num_steps).to(device)
    targets = torch.randint(size.num_words, (size.num_rows * size.num_steps,), device=device)

    def run() -> None:
        optimizer.zero_grad()
        tokens = bilm.token_layer(ids)
        output = bilm.run(tokens, tokens.flip(1))
        tops = (output.forward[-1], output.backward[-1].flip(1))
        torch.stack([softmax.training_nll(top.flatten(0, 1), targets).mean() for top in tops]).sum().backward()
        optimizer.step()

    num_tokens = size.num_rows * size.num_steps
    of_softmax = 2 * (size.num_samples + 1) * size.options.projection_dim
    return Work(run, num_tokens, 3 * num_tokens * (multiplies_of(bilm) + of_softmax))


def multiplies_of(bilm: BiLm) -> int:
    """The multiply-adds of a token in the recurrent layers, which are nearly all there are."""
    return sum(
        weight.numel() for layers in (bilm.forward_layers, bilm.backward_layers) for weight in layers.parameters()
    )


def sentences(num_sentences: int, num_tokens: int) -> torch.Tensor:
    """Character ids of words no one knows."""
    return torch.randint(1, 262, (num_sentences, num_tokens, NUM_CHARACTERS))


if __name__ == "__main__":
    main()
