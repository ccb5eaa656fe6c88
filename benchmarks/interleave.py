"""Timing two ways of doing the same thing in one run, turn by turn, so that a noisy machine is noisy for both."""

import argparse
import json
import platform
import statistics
import sys
import time
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional

import torch


def interleaved(contenders: Dict[str, Callable[[], Any]], repeats: int) -> Dict[str, List[float]]:
    """Seconds of each call, after one unmeasured round."""
    seconds: Dict[str, List[float]] = {name: [] for name in contenders}
    for turn in range(repeats + 1):
        for name, call in contenders.items():
            started = time.perf_counter()
            call()
            if turn > 0:
                seconds[name].append(time.perf_counter() - started)
    return seconds


def compare(seconds: Dict[str, List[float]], ours: str, baseline: str, units: int) -> Dict[str, Any]:
    """Medians as units a second, the ratio of ours to the baseline, and its spread over the turns."""
    ratios = [theirs / own for theirs, own in zip(seconds[baseline], seconds[ours], strict=True)]
    return {
        "units_per_second": {name: round(units / statistics.median(times), 1) for name, times in seconds.items()},
        "baseline": baseline,
        "ratio": round(statistics.median(ratios), 2),
        "ratio_lowest": round(min(ratios), 2),
        "ratio_highest": round(max(ratios), 2),
        "turns": len(ratios),
    }


def new_parser(description: str, repeats: int, quick: str) -> argparse.ArgumentParser:
    """A parser with the flags that every timing takes; `quick` says what --quick does."""
    parser = argparse.ArgumentParser(
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=f"example: python benchmarks/{Path(sys.argv[0]).name} --quick",
    )
    parser.add_argument("--quick", action="store_true", help=quick)
    parser.add_argument("--repeats", type=int, default=repeats)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--output", help="a file to write the results to, as JSON")
    return parser


def parse(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """The arguments, of which --quick lowers the repeats; sets the threads and the seed for what follows."""
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.repeats = min(arguments.repeats, 2)
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    return arguments


def report(results: Dict[str, Any], output: Optional[str]) -> None:
    """Prints the results as JSON, with the machine's facts that bear on them, and writes them to a file if one is
    given.
    """
    facts = {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "results": results,
    }
    text = json.dumps(facts, indent=2)
    print(text)
    if output is not None:
        Path(output).write_text(text + "\n", encoding="utf-8")
