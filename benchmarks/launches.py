"""What a training step asks of a GPU: operations launched, and times the host waits, counted on the tests' pretend GPU.

No GPU is needed, and nothing is timed. The experiments are those of fixtures/ (tests/helpers/training_steps.py): all
operations of the models, on short sentences and in small sizes. Loops over steps make the counts grow with a sentence's
length; widths change nothing. torch's LSTMs and GRUs count as one launch each way, as cuDNN's are one call. Triton's
kernels are counted as the torch operations that stand in for them without a GPU.

`launches_before.json` has the same counts of the state before launches and waits were looked at.
"""

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any, Dict

from interleave import report

ROOT = Path(__file__).resolve().parent.parent
BEFORE = Path(__file__).with_name("launches_before.json")


def measure() -> Dict[str, Any]:
    sys.path.insert(0, str(ROOT / "tests" / "helpers"))
    from pretend_gpu import PretendGpu
    from training_steps import EXPERIMENTS, count_step

    before = json.loads(BEFORE.read_text(encoding="utf-8"))
    points, waits = [], []
    with PretendGpu() as gpu:
        for name in EXPERIMENTS:
            counts = count_step(gpu, name)
            now = {**counts, "forward": sum(counts["forward"].values()), "waits": sum(counts["waits"].values())}
            columns = ("forward", "backward", "update", "waits")
            points.append({"value": name, **{each: f"{before[name][each]} -> {now[each]}" for each in columns}})
            waits += [{"value": name, "waits in": place, "times": times} for place, times in counts["waits"].items()]
    return {"a step of, before -> now": points, "a step of": waits}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="changes nothing: it is quick")
    parser.add_argument("--output", help="a file to write the results to, as JSON")
    arguments = parser.parse_args()
    os.chdir(ROOT)  # where the fixtures' paths begin
    report(measure(), arguments.output)


if __name__ == "__main__":
    main()
