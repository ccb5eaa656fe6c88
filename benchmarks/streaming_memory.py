"""Shows that memory stays flat while the biLM's windows are streamed from a corpus that is far larger.

Writes a corpus of the given size with a Zipfian vocabulary into a temporary folder, builds the vocabulary in one
process and streams windows in another, so that neither reuses memory the other has left, and prints the resident
memory of both as JSON. "growth_mb" is what streaming adds from a tenth of the way, when the caches have filled, to
its peak.

Example:

    python benchmarks/streaming_memory.py --quick
    python benchmarks/streaming_memory.py --megabytes 400 --num-words 800000
"""

import argparse
import gzip
import json
import multiprocessing
import os
import resource
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from itertools import islice
from typing import Callable, Dict, List, Optional

import numpy
from tqdm import tqdm

from elmo_plugin.bilm.word_ids import NAMESPACE
from elmo_plugin.training.reader import BiLmReader
from elmo_plugin.training.vocabulary import BiLmVocabulary
from elmo_plugin.training.windows import PackedWindows

WORDS_PER_CHUNK = 20_000
BATCHES_PER_SAMPLE = 20
MEGABYTE = 1 << 20
SYLLABLES = [consonant + vowel for consonant in "tnshrdlcmfwypvbgkjxz" for vowel in "aeiou"]


def main() -> None:
    args = parse_arguments()
    with tempfile.TemporaryDirectory(prefix="streaming_memory_") as folder:
        corpus, vocabulary = os.path.join(folder, "corpus"), os.path.join(folder, "vocabulary")
        os.mkdir(corpus)
        num_bytes = write_corpus(corpus, args.megabytes * MEGABYTE, args.num_words, args.num_shards)
        report = {
            "corpus_mb": round(num_bytes / MEGABYTE, 1),
            "vocabulary": in_new_process(build_vocabulary, corpus, vocabulary),
            "streaming": in_new_process(stream, corpus, vocabulary, args.max_batches),
        }
        print(json.dumps(report, indent=2))


def in_new_process(function: Callable, *args) -> Dict[str, object]:
    with ProcessPoolExecutor(max_workers=1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function, *args).result()


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=400, help="size of the corpus as plain text (default: 400)")
    parser.add_argument("--num-words", type=int, default=800_000, help="different words in it (default: 800000)")
    parser.add_argument(
        "--num-shards", type=int, default=8, help="files to spread it over, every other gzipped (default: 8)"
    )
    parser.add_argument(
        "--max-batches", type=int, help="stop streaming after this many batches (default: one whole epoch)"
    )
    parser.add_argument("--quick", action="store_true", help="5 MB, 20,000 words: seconds instead of minutes")
    args = parser.parse_args()
    if args.quick:
        args.megabytes, args.num_words = 5, 20_000
    return args


def write_corpus(folder: str, num_bytes: int, num_words: int, num_shards: int) -> int:
    """Each word once, then words with a frequency of one over their rank, in sentences of 25 words on average.

    Returns the number of bytes, before compression.
    """
    random = numpy.random.default_rng(0)
    words = numpy.array([spell(rank) for rank in range(num_words)], dtype=object)
    every_word_once = numpy.array_split(random.permutation(num_words), num_shards)
    with tqdm(total=num_bytes, desc="writing the corpus", unit="B", unit_scale=True) as bar:
        for shard, ranks in enumerate(every_word_once):
            zipped = shard % 2 == 1
            path = os.path.join(folder, f"shard-{shard:02d}.txt" + (".gz" if zipped else ""))
            with gzip.open(path, "wb", compresslevel=1) if zipped else open(path, "wb") as file:
                num_written = 0
                while num_written < num_bytes // num_shards:
                    num_written += (size := file.write(sentences(words[ranks], random)))
                    bar.update(size)
                    ranks = numpy.exp(random.random(WORDS_PER_CHUNK) * numpy.log(num_words)).astype(int)
        return bar.n


def spell(rank: int) -> str:
    """A word of syllables, fewer for a low rank, as frequent words are short."""
    word = ""
    while rank >= 0:
        word += SYLLABLES[rank % len(SYLLABLES)]
        rank = rank // len(SYLLABLES) - 1
    return word


def sentences(words: numpy.ndarray, random: numpy.random.Generator) -> bytes:
    ends = numpy.cumsum(random.integers(1, 50, size=len(words)))
    pieces = numpy.split(words, ends[ends < len(words)])
    return "".join(" ".join(piece) + "\n" for piece in pieces).encode("utf-8")


def build_vocabulary(corpus: str, vocabulary: str) -> Dict[str, object]:
    start, before = time.perf_counter(), resident_megabytes()
    vocab = BiLmVocabulary.from_corpus(corpus)
    seconds = time.perf_counter() - start
    vocab.save_to_files(vocabulary)
    return {
        "words": vocab.get_vocab_size(NAMESPACE),
        "seconds": round(seconds, 1),
        "rss_mb": {"before": before, "peak": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)},
    }


def stream(corpus: str, vocabulary: str, max_batches: Optional[int]) -> Dict[str, object]:
    loader = PackedWindows(BiLmReader(), corpus)
    loader.index_with(BiLmVocabulary.from_files(vocabulary))
    num_batches = min(len(loader), max_batches or len(loader))
    before, samples, num_positions, start = resident_megabytes(), [], 0, time.perf_counter()
    batches = islice(loader, num_batches)
    for batch_number, batch in enumerate(tqdm(batches, total=num_batches, desc="streaming windows")):
        num_positions += int(batch["mask"].sum())
        if batch_number % BATCHES_PER_SAMPLE == 0:
            samples.append(resident_megabytes())
    return {
        "batches": num_batches,
        "positions_per_second": round(num_positions / (time.perf_counter() - start)),
        "rss_mb": {"before": before, "by_tenths": tenths(samples), "peak": max(samples)},
        "growth_mb": round(max(samples) - samples[len(samples) // 10], 1),
    }


def tenths(samples: List[float]) -> List[float]:
    return [samples[round(tenth * (len(samples) - 1) / 10)] for tenth in range(11)]


def resident_megabytes() -> float:
    with open("/proc/self/statm") as file:
        num_pages = int(file.read().split()[1])
    return round(num_pages * os.sysconf("SC_PAGE_SIZE") / MEGABYTE, 1)


if __name__ == "__main__":
    main()
