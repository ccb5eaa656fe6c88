"""Runs every benchmark, one after another, and writes what came out to BENCHMARKS.md.

Each script answers one question and prints its results as JSON. Timings are ratios against a named baseline, taken turn
by turn in the same run; a table says the median, the lowest and the highest of the turns, and the aim beside it. With
--quick the scripts take their smaller settings and the report is printed only: such figures show that the scripts work,
and nothing else.

The machine should be quiet. How busy it was is written down: the load before and after each script.
"""

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple

FOLDER = Path(__file__).resolve().parent
REPORT = FOLDER.parent / "BENCHMARKS.md"
MEASURED_ON = "Measured on another machine or with other versions:"
_MACHINE_ROW = re.compile(r"^\| (\w+) \| (.*) \|$", re.MULTILINE)


class Script(NamedTuple):
    name: str
    question: str
    # The least ratio aimed at, by a part of the result's name; the first that fits counts.
    aims: Dict[str, float] = {}
    remark: str = ""
    plot: Optional[str] = None  # a file beside the script
    unit: str = "tokens"


SCRIPTS = [
    Script(
        "embedding.py",
        "How fast is text embedded, against AllenNLP's Elmo?",
        {"1024/128": 10.0, "one sentence": 2.5, "4096/512": 3.0},
        "One sentence at a time is bound by memory. A token takes 168 MB of weights here, where the inputs of a whole "
        "sentence are multiplied at once,\nand 300 MB in AllenNLP: where both read as fast as the memory gives, the "
        "ratio is 1.79. `precision: int8` takes a quarter of the bytes.",
    ),
    Script(
        "growth.py",
        "How do speed and memory grow with batch size, sentence length and corpus size?",
        remark="What grows with the corpus is what is remembered of its words (the ids of up to 200,000 and 64 MB of "
        "token vectors),\nand the vectors of a look-ahead of 8 batches.",
        plot="growth.png",
    ),
    Script(
        "frozen_epochs.py",
        "How long is an epoch of a tagger on a frozen biLM, from the second on?",
        {"4096/512, against AllenNLP's Elmo": 10.0, "4096/512, against no biLM": 0.67},
        "Against no biLM the aim is an epoch at most 1.5 times as long: a ratio of 0.67.",
    ),
    Script(
        "bilm_training.py",
        "How fast is the biLM trained, against the same model built from AllenNLP's parts?",
        {"1024/128": 3.0, "4096/512": 1.5},
    ),
    Script("srl_lstm.py", "How fast is SRL's alternating highway LSTM, against AllenNLP's?", {"training": 1.7}),
    Script("task_encoders.py", "How fast are the task models' other layers trained, against AllenNLP's?"),
    Script("decoding.py", "How fast is Viterbi decoding in batches, against AllenNLP's?", {"": 5.0}, unit="sentences"),
    Script(
        "converted_archive.py",
        "How much faster are the predictions of an archive of AllenNLP's that was converted?",
        {"": 2.0},
        "Sentences a second, from tokens to tags.",
        unit="sentences",
    ),
    Script(
        "start.py",
        "How long does a program take to start?",
        {"first vector": 0.67, "allennlp": 0.9},
        "Starts a minute. The first vector's aim is at most 1.5 times the time of `import torch`: a ratio of 0.67.",
        unit="starts",
    ),
    Script(
        "launches.py",
        "What does a training step ask of a GPU?",
        remark="Operations launched forward, backward and by the optimizer, and times the host waits, on the tests' "
        "pretend GPU: counts,\nnot speeds. The experiments are those of fixtures/. `python benchmarks/gpu.py` tries a "
        "GPU itself.",
    ),
    Script(
        "streaming_memory.py",
        "How much memory does it take to stream a corpus of any size?",
        remark="Resident memory of the process, at the start and after each tenth of the epoch; the growth is that "
        "from the first tenth on,\nwhen what is remembered of words is full.",
    ),
]


class Outcome(NamedTuple):
    script: Script
    results: Optional[Dict[str, Any]]  # None if it failed
    threads: Optional[int]
    seconds: float
    load: str


def run(script: Script, quick: bool) -> Outcome:
    """Runs one script; its progress bars and errors go where ours go, and the files it leaves nowhere."""
    arguments = ["--quick"] if quick else []
    if script.plot is not None and not quick:
        arguments += ["--plot", str(FOLDER / script.plot)]
    started, load = time.perf_counter(), _load()
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, str(FOLDER / script.name), *arguments]
        process = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, cwd=folder)
    facts = json.loads(process.stdout[process.stdout.index("{") :]) if process.returncode == 0 else {}
    return Outcome(
        script,
        facts.get("results", facts) or None,
        facts.get("threads"),
        time.perf_counter() - started,
        f"{load} before, {_load()} after",
    )


def _load() -> str:
    return f"{os.getloadavg()[0]:.1f}"


# ---- The report ----


def render(outcomes: List[Outcome], quick: bool, earlier: Optional[Dict[str, str]] = None) -> str:
    """The report; `earlier` are the sections, by their headings, to take over where a script wasn't run."""
    sections = {**(earlier or {}), **{outcome.script.question: "\n".join(section(outcome)) for outcome in outcomes}}
    order = [script.question for script in SCRIPTS]
    headings = sorted(sections, key=lambda heading: order.index(heading) if heading in order else len(order))
    lines = [
        "# Benchmarks",
        "",
        "Written by `make bench` (`benchmarks/run_all.py`). Speeds are medians. A ratio is our speed by that of the "
        "baseline named beside it, both taken in turns",
        "in the same run: the median of the turns, and in brackets the lowest and the highest.",
        "",
        *(["**Taken with `--quick`: these figures show only that the scripts work.**", ""] if quick else []),
        *machine(),
        "",
        *(f"## {heading}\n\n{sections[heading]}" for heading in headings),
    ]
    return "\n".join(lines)


def sections_of(report: Path) -> Dict[str, str]:
    """The sections of an earlier report by their headings. One that was measured on another machine, or with other
    versions, begins by saying where.
    """
    head, *sections = report.read_text(encoding="utf-8").split("\n## ") if report.exists() else [""]
    by_heading = dict(section.split("\n\n", 1) for section in sections)
    if "\n".join(machine()) in head:
        return by_heading
    where = f"{MEASURED_ON} {'; '.join(': '.join(fact) for fact in _MACHINE_ROW.findall(head))}\n\n"
    return {heading: text if text.startswith(MEASURED_ON) else where + text for heading, text in by_heading.items()}


def machine() -> List[str]:
    packages = [f"{name} {version(name)}" for name in ("torch", "allennlp", "numpy", "elmo-plugin")]
    return [
        "| | |",
        "|---|---|",
        f"| processor | {_processor()} |",
        f"| cores | {len(os.sched_getaffinity(0))} |",
        f"| memory | {os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.1f} GB |",
        f"| system | {platform.system()} {platform.machine()} |",
        f"| versions | Python {platform.python_version()}, {', '.join(packages)} |",
    ]


def _processor() -> str:
    """Its name and the vector instructions that matter here."""
    try:
        facts = dict(
            (part.strip() for part in line.split(":", 1))
            for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
            if ":" in line
        )
    except OSError:
        return platform.processor()
    flags = set(facts.get("flags", "").split())
    known = [flag for flag in ("avx2", "fma", "avx512f", "avx512_vnni", "avx_vnni", "amx_tile") if flag in flags]
    return f"{facts.get('model name', platform.processor())} ({', '.join(known)})"


def section(outcome: Outcome) -> List[str]:
    script = outcome.script
    threads = "" if outcome.threads is None else f"threads: {outcome.threads}; "
    date = f"{datetime.now(UTC):%Y-%m-%d}"
    lines = [f"`benchmarks/{script.name}`; {date}; {threads}load: {outcome.load}", ""]
    if outcome.results is None:
        return [*lines, "**It failed.**", ""]
    compared = {name: result for name, result in outcome.results.items() if _is_comparison(result)}
    if compared:
        lines += ["| | ours, a second | the baseline, a second | ratio | aim |", "|---|---|---|---|---|"]
        lines += [*(_row(name, result, script) for name, result in compared.items()), ""]
        lines += _shares_of_peak(compared)
    for name, result in outcome.results.items():
        if isinstance(result, list):
            lines += [*_points(name, result), ""]
    facts = {name: result for name, result in outcome.results.items() if name not in compared}
    lines += _facts({name: result for name, result in facts.items() if not isinstance(result, list)})
    lines += [script.remark, ""] if script.remark else []
    return [*lines, f"![]({FOLDER.name}/{script.plot})", ""] if script.plot else lines


def _points(name: str, points: List[Dict[str, Any]]) -> Iterator[str]:
    """The points of a curve as a table."""
    yield f"| {' | '.join([name, *(key.replace('_', ' ') for key in points[0] if key != 'value')])} |"
    yield "|---" * len(points[0]) + "|"
    for point in points:
        yield f"| {' | '.join(v if isinstance(v, str) else f'{v:,}' for v in point.values())} |"


def _facts(results: Dict[str, Any]) -> List[str]:
    """What compares nothing, as a table with one row per number."""
    lines = [f"| {name} | {number} |" for name, number in _flat(results)]
    return ["| | |", "|---|---|", *lines, ""] if lines else []


def _flat(results: Dict[str, Any], prefix: str = "") -> Iterator[Tuple[str, str]]:
    for key, value in results.items():
        name = prefix + key.replace("_", " ")
        if isinstance(value, dict):
            yield from _flat(value, f"{name}, ")
        else:
            numbers = value if isinstance(value, list) else [value]
            yield name, " ".join(f"{number:,}" for number in numbers)


def _is_comparison(result: Any) -> bool:
    return isinstance(result, dict) and "ratio" in result


def _row(name: str, result: Dict[str, Any], script: Script) -> str:
    (rates,) = (value for key, value in result.items() if key.endswith("_per_second"))
    ours, baseline = rates["elmo_plugin"], rates[result["baseline"]]
    spread = f"{result['ratio']} ({result['ratio_lowest']} to {result['ratio_highest']}, {result['turns']} turns)"
    aim = next((f"{aim:g}" for part, aim in script.aims.items() if part in name), "")
    return f"| {name} | {ours:,} {script.unit} | {baseline:,} ({result['baseline']}) | {spread} | {aim} |"


def _shares_of_peak(compared: Dict[str, Dict[str, Any]]) -> List[str]:
    """How near to the machine's own speed the claims are that say so."""
    lines = [
        f"| {name} | {result['share_of_peak']:.0%} | {result['peak_gigaflops']:,} |"
        for name, result in compared.items()
        if "share_of_peak" in result
    ]
    head = "| | share of the peak, equal words counted once | the peak, GFLOP/s, at the LSTM's shape |"
    return [head, "|---|---|---|", *lines, ""] if lines else []


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example: python benchmarks/run_all.py --quick --only decoding.py srl_lstm.py",
    )
    parser.add_argument("--quick", action="store_true", help="smaller settings; prints the report, writes no file")
    parser.add_argument(
        "--only",
        nargs="+",
        metavar="SCRIPT",
        choices=[script.name for script in SCRIPTS],
        help="replaces these sections of the report and keeps the others, which say so if they come from another "
        "machine or other versions",
    )
    parser.add_argument("--output", type=Path, help="where to write the report (BENCHMARKS.md without --quick)")
    arguments = parser.parse_args()
    output = arguments.output or (None if arguments.quick else REPORT)
    earlier = sections_of(output) if output is not None and arguments.only is not None else {}
    outcomes = []
    for script in SCRIPTS:
        if arguments.only is None or script.name in arguments.only:
            print(f"{script.name} ...", file=sys.stderr, flush=True)
            outcomes.append(run(script, arguments.quick))
            print(f"{script.name} took {outcomes[-1].seconds:.0f} s", file=sys.stderr, flush=True)
            if output is not None:  # each time, so that an interruption leaves what was measured before it
                output.write_text(render(outcomes, arguments.quick, earlier), encoding="utf-8")
    if output is None:
        print(render(outcomes, arguments.quick))
    failed = [outcome.script.name for outcome in outcomes if outcome.results is None]
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
