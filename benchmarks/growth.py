"""How the cost of embedding grows: tokens a second and memory over batch size, sentence length and corpus size.

Runs `ElmoEmbedder.embed_sentences` over invented text with random weights, consuming the vectors as they come, and
writes a plot (PNG) and the numbers (JSON). Memory is what the process holds at its peak beyond what it held before the
first point, read every few milliseconds (Linux only).
"""

import argparse
import ctypes
import gc
import json
import platform
import random
import tempfile
import threading
import time
from itertools import islice
from pathlib import Path
from typing import Any, Dict, List

import torch
from allennlp.common import Tqdm
from embedding import PAPER, SMALL, Sentence, invented_text
from streaming_memory import resident_megabytes

from elmo_plugin import ElmoEmbedder
from elmo_plugin.bilm import BiLm, checkpoint

SIZES = {"small": SMALL, "paper": PAPER}
SECONDS_BETWEEN_READINGS = 0.005


class PeakMemory:
    """Within, follows the process's resident memory."""

    def __enter__(self) -> "PeakMemory":
        self._over = threading.Event()
        self.megabytes = resident_megabytes()
        self._thread = threading.Thread(target=self._follow)
        self._thread.start()
        return self

    def _follow(self) -> None:
        while not self._over.wait(SECONDS_BETWEEN_READINGS):
            self.megabytes = max(self.megabytes, resident_megabytes())

    def __exit__(self, *exception) -> None:
        self._over.set()
        self._thread.join()


def give_memory_back() -> None:
    """Lets the allocator return what it keeps, which would hide what a point needs."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)


def measure(embedder: ElmoEmbedder, sentences: List[Sentence], batch_size: int) -> Dict[str, float]:
    embedder.bilm.token_cache.clear()
    give_memory_back()
    with PeakMemory() as memory:
        started = time.perf_counter()
        for _ in embedder.embed_sentences(sentences, batch_size):
            pass
        seconds = time.perf_counter() - started
    return {
        "tokens_per_second": round(sum(map(len, sentences)) / seconds, 1),
        "peak_megabytes": memory.megabytes,
    }


def sweeps(quick: bool) -> Dict[str, List[Dict[str, Any]]]:
    """For each quantity the points to measure: its value, the sentences, and the batch size."""
    batch_sizes = [1, 4, 16] if quick else [1, 2, 4, 8, 16, 32, 64, 128]
    lengths = [5, 50] if quick else [5, 10, 20, 50, 100, 200, 500, 1000, 2000]
    totals = [250, 1000] if quick else [1000, 4000, 16_000, 64_000, 256_000]
    num_tokens = 500 if quick else 4000
    words = (word for sentence in invented_text(random.Random(0)) for word in sentence)
    flow = list(islice(words, max(totals)))

    def cut(length: int, total: int) -> List[Sentence]:
        return [flow[start : start + length] for start in range(0, total, length)]

    return {
        "batch size (sentences of 25 tokens)": [
            {"value": size, "sentences": cut(25, num_tokens), "batch_size": size} for size in batch_sizes
        ],
        "sentence length (batches of 32)": [
            {"value": length, "sentences": cut(length, num_tokens), "batch_size": 32} for length in lengths
        ],
        "corpus size in tokens (batches of 64)": [
            {"value": total, "sentences": cut(25, total), "batch_size": 64} for total in totals
        ],
    }


def plot(results: Dict[str, List[Dict[str, float]]], path: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    labels = {"tokens_per_second": "tokens a second", "peak_megabytes": "peak memory, MB"}
    figure, axes = pyplot.subplots(len(labels), len(results), figsize=(4.5 * len(results), 6), sharey="row")
    for row, (quantity, label) in enumerate(labels.items()):
        axes[row][0].set_ylabel(label)
        axes[row][0].set_ylim(0, 1.1 * max(point[quantity] for points in results.values() for point in points))
        for axis, (name, points) in zip(axes[row], results.items(), strict=True):
            values = [point["value"] for point in points]
            axis.plot(values, [point[quantity] for point in points], marker="o")
            axis.set_xscale("log")
            axis.set_xticks(values, labels=[f"{value:,}" for value in values], rotation=30)
            axis.minorticks_off()
            axis.grid(alpha=0.3)
            axis.set_xlabel(name)
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example: python benchmarks/growth.py --quick --plot growth.png --output growth.json",
    )
    parser.add_argument("--quick", action="store_true", help="few points on little text")
    parser.add_argument("--size", choices=list(SIZES), default="small", help="1024/128 or the paper's 4096/512")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--plot", default="growth.png")
    parser.add_argument("--output", default="growth.json")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        files = Path(folder, "options.json"), Path(folder, "weights.hdf5")
        checkpoint.write(BiLm(SIZES[arguments.size]), files[1], files[0])
        embedder = ElmoEmbedder(str(files[0]), str(files[1]))
    # Lays the weights out.
    list(embedder.embed_sentences([["a"], ["a", "b"]]))
    give_memory_back()
    before = resident_megabytes()
    results: Dict[str, List[Dict[str, float]]] = {}
    for name, points in sweeps(arguments.quick).items():
        results[name] = []
        for point in Tqdm.tqdm(points, desc=name):
            measured = measure(embedder, point["sentences"], point["batch_size"])
            measured["peak_megabytes"] = round(measured["peak_megabytes"] - before, 1)
            results[name].append({"value": point["value"], **measured})
    facts = {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "threads": arguments.threads,
        "size": arguments.size,
        "results": results,
    }
    Path(arguments.output).write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(facts, indent=2))
    plot(results, arguments.plot)


if __name__ == "__main__":
    main()
