"""Damaged files of every format, given to what reads them.

    python tests/helpers/fuzzing.py --cases 500 --seed 1 [FORMAT ...]

Each case changes a sound file a little, by a seed, and reads it. That may succeed, or end with an error of this project
that names the file; never with another error, in a crash, after more than TIMEOUT seconds or with more than MEMORY.
What breaks this is printed with the seed that makes it again, and left in the folder that is named.

To add a format, add a row to FORMATS: how to write a sound file, and how to read it.
"""

import argparse
import contextlib
import multiprocessing
import random
import resource
import shutil
import signal
import sys
import tarfile
import tempfile
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, Iterator, List, NamedTuple, Optional

import numpy
import torch
from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader

from elmo_plugin import ElmoEmbedder
from elmo_plugin.analysis import token_store, wsd_data
from elmo_plugin.analysis.marked_sentence import parse_marked
from elmo_plugin.analysis.neighbours import types_of_file
from elmo_plugin.analysis.sense_averages import AveragesFile, SenseAverages
from elmo_plugin.analysis.tagged_text import read_tagged
from elmo_plugin.analysis.token_store import TokenStore
from elmo_plugin.archives import unpack
from elmo_plugin.bilm import BiLm
from elmo_plugin.embedding.embedding_job import EmbeddingJob
from elmo_plugin.embedding.pieces import PieceEmbedder
from elmo_plugin.files import numbered_lines, read_lines
from elmo_plugin.tasks.coref import CoreferenceReader
from elmo_plugin.tasks.ner import NerReader
from elmo_plugin.tasks.ner.conlleval import count_file
from elmo_plugin.tasks.snli import SnliReader
from elmo_plugin.tasks.squad import SquadReader
from elmo_plugin.tasks.squad.metrics import read_predictions
from elmo_plugin.tasks.srl import SrlReader
from elmo_plugin.tasks.srl.srl_eval import score_file
from elmo_plugin.tasks.sst import SentimentTreebankReader
from elmo_plugin.text.vectors_file import read_vectors
from elmo_plugin.training.checkpointer import read_state

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
TIMEOUT = 10  # seconds of the processor
MEMORY = 2**30  # bytes beyond what the process has anyway

READ, REFUSED = "read", "refused"


class Format(NamedTuple):
    """`write` puts a sound sample into a folder and gives the file to damage; `read` reads it as a user would."""

    write: Callable[[Path], Path]
    read: Callable[[Path], Any]


class Failure(NamedTuple):
    format: str
    seed: int
    case: int
    reason: str

    def __str__(self) -> str:
        return f"{self.format}, seed {self.seed}, case {self.case}: {self.reason}"


def copy_of(*names: str) -> Callable[[Path], Path]:
    """A writer of fixtures, of which the first is damaged."""

    def write(folder: Path) -> Path:
        copies = [shutil.copyfile(FIXTURES / name, folder / Path(name).name) for name in names]
        return copies[0]

    return write


def text(name: str, content: str) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        (folder / name).write_text(content, encoding="utf-8")
        return folder / name

    return write


def by(reader: DatasetReader) -> Callable[[Path], Any]:
    """Not `read`, which draws a progress bar."""
    return lambda path: exhaust(reader._read(str(path)))


def exhaust(items: Iterable[Any]) -> None:
    for _ in items:
        pass


def state(folder: Path) -> Path:
    torch.save({"weight": torch.zeros(3, 4), "batches": 7}, folder / "state.th")
    return folder / "state.th"


def archive(folder: Path) -> Path:
    """A small one: damage to larger ones is found in the same places, only later."""
    (folder / "vocabulary").mkdir()
    (folder / "vocabulary" / "labels.txt").write_text("O\nU-PER\n", encoding="utf-8")
    (folder / "config.json").write_text('{"model": {"type": "elmo::ner"}}', encoding="utf-8")
    with tarfile.open(folder / "model.tar.gz", "w:gz") as tar:
        for path in (folder / "config.json", folder / "vocabulary", state(folder)):
            tar.add(path, path.name)
    return folder / "model.tar.gz"


VECTORS = "3 2\nthe 0.1 -0.2\nat a.b 1 2\nbank 3e-1 4\n"


def zipped_vectors(folder: Path) -> Path:
    with zipfile.ZipFile(folder / "vectors.zip", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("vectors.txt", VECTORS)
    return folder / "vectors.zip"


def _read_bilm(path: Path) -> BiLm:
    return BiLm.load(str(path.parent / "options.json"), str(path.parent / "weights.hdf5"))


LINES = ["One sentence .", "Another one .", "And a third"]


def _embedder() -> ElmoEmbedder:
    return ElmoEmbedder(str(FIXTURES / "bilm"))


def interrupted_job(name: str) -> Callable[[Path], Path]:
    """What a run of `allennlp elmo` leaves when it is interrupted."""

    def write(folder: Path) -> Path:
        def interrupted_text() -> Iterator[str]:
            yield from LINES[:2]
            raise KeyboardInterrupt

        with contextlib.suppress(KeyboardInterrupt):
            _job(folder).run(interrupted_text())
        return folder / "vectors.hdf5.partial" / name

    return write


def _job(folder: Path) -> EmbeddingJob:
    return EmbeddingJob(_embedder(), str(folder / "vectors.hdf5"), PieceEmbedder(batch_size=1), piece_size=1)


def _resume(path: Path) -> None:
    _job(path.parents[1]).run(LINES, resume=True)


def index(name: str) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        token_store.build(folder / "index", _embedder(), [line.split() for line in LINES], "text")
        return folder / "index" / name

    return write


def _read_index(path: Path) -> None:
    store = TokenStore(path.parent)
    exhaust(store.sentences())
    exhaust(store.blocks())


def _write_averages(folder: Path) -> Path:
    averages = SenseAverages({("bank", "NOUN"): {"a", "b"}})
    averages.add(("bank", "NOUN"), ["a"], numpy.ones((2, 3)))
    AveragesFile(folder, {"text": "x"}).save(averages, 1)
    return folder / "averages.npz"


def _read_averages(path: Path) -> None:
    AveragesFile(path.parent, {"text": "x"}).load(SenseAverages({("bank", "NOUN"): {"a", "b"}}))


GERMEVAL = "#\tsource [2009]\n1\tDie\tO\tO\n2\tAmsel\tB-LOCderiv\tB-LOC\n\n#\tsource\n1\tSie\tO\tO\n2\tfliegt\tO\tO\n"
SNLI_TXT = (
    "gold_label\tsentence1_binary_parse\tsentence2_binary_parse\tsentence1\tsentence2\tpairID\n"
    "neutral\t( A cat )\t( It purrs )\tA cat\tIt purrs\t1\n-\t( A )\t( B )\tA\tB\t2\n"
    "entailment\t( A cat )\t( A pet )\tA cat\tA pet\t3\n"
)
SRL_PREDICTION = (
    '{"place": "a:1", "predicate_index": 1, "tokens": ["Bo", "left"], '
    '"tags": ["O", "B-V"], "gold_tags": ["B-ARG0", "B-V"]}\n'
)
TREEBANK = (
    "*x* nobody's *x*\n\n[ The/DT hill/NN ]\nis/VBZ 1\\/2/CD|JJ\n[ mile/NN ] high/JJ ./.\n======\n\nRain/NN ./. ''/''\n"
)

FORMATS: Dict[str, Format] = {
    "ner": Format(copy_of("data/ner/train.txt"), by(NerReader())),
    "ner numbered": Format(text("germeval.tsv", GERMEVAL), by(NerReader())),
    "srl": Format(copy_of("data/srl/dev.gold_conll"), by(SrlReader())),
    "srl gzipped": Format(copy_of("data/srl/train/river/river_02.gold_conll.gz"), by(SrlReader())),
    "coref": Format(copy_of("data/coref/dev.v4_gold_conll"), by(CoreferenceReader())),
    "snli jsonl": Format(copy_of("data/snli/dev.jsonl"), by(SnliReader())),
    "snli txt": Format(text("snli.txt", SNLI_TXT), by(SnliReader(tokens_from="parse"))),
    "sst": Format(copy_of("data/sst/train.txt"), by(SentimentTreebankReader(phrases=True, min_tokens=1))),
    "squad": Format(copy_of("data/squad/dev.json"), by(SquadReader())),
    "conllu": Format(copy_of("data/pos/train.conllu"), lambda path: exhaust(read_tagged(str(path)))),
    "tagged text": Format(copy_of("data/pos/tagged_underscore.txt"), lambda path: exhaust(read_tagged(str(path)))),
    "treebank": Format(text("hill.pos", TREEBANK), lambda path: exhaust(read_tagged(str(path)))),
    "wsd": Format(copy_of("data/wsd/hill.data.xml"), lambda path: exhaust(wsd_data.read_sentences(str(path)))),
    "sense keys": Format(copy_of("data/wsd/hill.gold.key.txt"), lambda path: wsd_data.read_keys(str(path))),
    "index.sense": Format(copy_of("data/wsd/index.sense"), lambda path: wsd_data.read_first_senses(str(path))),
    "marked sentences": Format(
        text("marked.txt", "on the [bank] of\nthe [bank] closed\n"),
        lambda path: [parse_marked(line, f"{path}:{number}") for number, line in numbered_lines(str(path))],
    ),
    "text": Format(text("text.txt", "One sentence .\nAnother one .\n"), lambda path: exhaust(read_lines(str(path)))),
    "ner predictions": Format(
        text("ner.txt", "Ada B-PER B-PER\nleft O O\n\nBo O B-PER\n"), lambda path: count_file(str(path))
    ),
    "srl predictions": Format(text("srl.jsonl", 3 * SRL_PREDICTION), lambda path: score_file(str(path))),
    "squad predictions": Format(
        text("squad.jsonl", '{"id": "a", "answer": "Oslo"}\n{"id": "b", "answer": "a hat"}\n'),
        lambda path: read_predictions(str(path)),
    ),
    "options.json": Format(copy_of("bilm/options.json", "bilm/weights.hdf5"), _read_bilm),
    "embedding's record": Format(
        interrupted_job("progress.npz"), lambda path: _job(path.parents[1]).run(LINES, None, True)
    ),
    "embedding's vectors": Format(
        interrupted_job("vectors.hdf5"), lambda path: _job(path.parents[1]).run(LINES, None, True)
    ),
    **{f"index, {name}": Format(index(name), _read_index) for name in ("store.json", "lengths.bin", "sentences.txt")},
    "averages": Format(_write_averages, _read_averages),
    "word vectors": Format(
        text("glove.txt", "the 0.1 -0.2\nhill 1 2\nbank 3e-1 4\n"), lambda path: types_of_file(str(path), ["hill"], 2)
    ),
    "vectors file": Format(text("vectors.txt", VECTORS), lambda path: exhaust(read_vectors(str(path), 2))),
    "vectors file, zipped": Format(zipped_vectors, lambda path: exhaust(read_vectors(str(path), 2))),
    "archive": Format(archive, lambda path: unpack(path, path.parent / "unpacked")),
    "state": Format(state, lambda path: read_state(str(path))),
    "weights.hdf5": Format(copy_of("bilm/weights.hdf5", "bilm/options.json"), _read_bilm),
}

# What is put into files: ends of lines and of columns, brackets, things that aren't UTF-8, numbers out of all bounds.
PIECES = [
    *(
        b"\0",
        b"\xff\xfe",
        b"\xed\xa0\x80",
        b"\\ud800",
        b"\xef\xbb\xbf",
        b"\xe2\x80\xa8",
        b"\xc2\xa0",
        b"\x1f\x8b",
        b"\x85",
    ),
    *(
        b"\n",
        b"\n\n",
        b"\r",
        b"\t",
        b"\t\t",
        b" ",
        b"(",
        b")",
        b"(((((",
        b")))",
        b"*",
        b"|",
        b"-",
        b"_",
        b"[",
        b"]",
        b"{",
        b'"',
    ),
    *(b"-1", b"0", b"1e999", b"NaN", b"null", b"true", b"9" * 30, b"9" * 5000, b"1000000000"),
    *(b"[" * 20000, b'{"a":' * 20000, b"(" * 20000, b"a" * 50000, b"<a>" * 5000),
    *(b"#begin document (x); part 000\n", b"#end document\n", b"-DOCSTART-\n", b"B-X", b"I-", b"U-X", b"V", b"&lol;"),
]


def damaged(data: bytes, source: random.Random) -> bytes:
    """Some bytes changed, taken out, doubled or put in, or the end cut off."""
    for _ in range(source.choice((1, 1, 2, 4))):
        start = source.randrange(len(data) + 1)
        end = min(len(data), start + source.choice((1, 2, 8, 64, 512)))
        data = source.choice(
            [
                lambda data, start, end: data[:start],
                lambda data, start, end: data[:start] + data[end:],
                lambda data, start, end: data[:end] + data[start:],
                lambda data, start, end: data[:start] + source.randbytes(end - start) + data[end:],
                lambda data, start, end: data[:start] + source.choice(PIECES) + data[start:],
                lambda data, start, end: data[:start] + source.choice(PIECES) + data[end:],
            ]
        )(data, start, end)
    return data


def run(name: str, seed: int, num_cases: int, folder: Path) -> "Result":
    """Runs the cases of a format in another process, and in a further one from the next on where that dies."""
    result = Result()
    first = 0
    while first < num_cases:
        first = _run_in_process(name, seed, range(first, num_cases), folder, result)
    return result


class Result:
    """How many cases ended how, and those that shouldn't have."""

    def __init__(self) -> None:
        self.outcomes: Counter = Counter()
        self.failures: List[Failure] = []


def _run_in_process(name: str, seed: int, cases: range, folder: Path, result: Result) -> int:
    """Adds the outcomes to `result`. Returns the first case that wasn't tried."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_run_cases, args=(name, seed, cases, folder, sender))
    process.start()
    sender.close()
    case = cases.start
    for case in cases:
        outcome = _next_outcome(receiver)
        if outcome is None:
            process.kill()
            process.join()
            outcome = f"the process was ended by signal {-(process.exitcode or 0)}, or hung"
        if outcome not in (READ, REFUSED):
            result.failures.append(Failure(name, seed, case, outcome))
        result.outcomes[outcome if outcome in (READ, REFUSED) else "failed"] += 1
        if process.exitcode is not None and not receiver.poll():
            break
    process.join()
    return case + 1


def _next_outcome(receiver: Any) -> Optional[str]:
    try:
        return receiver.recv() if receiver.poll(30 * TIMEOUT) else None
    except EOFError:
        return None


def _run_cases(name: str, seed: int, cases: range, folder: Path, sender: Any) -> None:
    torch.set_num_threads(1)
    for case in cases:
        own = folder / f"{name.replace(' ', '_')}-{seed}-{case}"
        own.mkdir(parents=True)
        outcome = _outcome(FORMATS[name], random.Random(f"{name}:{seed}:{case}"), own)
        if outcome in (READ, REFUSED):
            shutil.rmtree(own)
        sender.send(outcome)


def _outcome(format_: Format, source: random.Random, folder: Path) -> str:
    path = format_.write(folder)
    path.write_bytes(damaged(path.read_bytes(), source))
    try:
        with _bounds():
            format_.read(path)
        return READ
    except ConfigurationError as error:
        return REFUSED if path.name in str(error) else f"the error doesn't name the file: {error}"
    except BaseException as error:
        return f"{type(error).__name__}: {error}"


class _bounds:
    """Ends what takes too long or too much memory."""

    def __enter__(self) -> None:
        self._limits = resource.getrlimit(resource.RLIMIT_AS)
        pages = int(Path("/proc/self/statm").read_text().split()[0]) if sys.platform == "linux" else 0
        if pages:
            bound = pages * resource.getpagesize() + MEMORY
            resource.setrlimit(resource.RLIMIT_AS, (bound, self._limits[1]))
        # The processor's time, since a busy machine is nobody's fault.
        signal.signal(signal.SIGPROF, _time_out)
        signal.setitimer(signal.ITIMER_PROF, TIMEOUT)

    def __exit__(self, *_: Any) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)
        resource.setrlimit(resource.RLIMIT_AS, self._limits)


def _time_out(*_: Any) -> None:
    raise TimeoutError(f"not done after {TIMEOUT} seconds")


def _reports(names: Iterable[str], seed: int, num_cases: int, folder: Path) -> Iterator[Failure]:
    for name in names:
        result = run(name, seed, num_cases, folder)
        print(f"{name:20}", *(f"{number} {outcome}" for outcome, number in sorted(result.outcomes.items())), flush=True)
        yield from result.failures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("formats", nargs="*", metavar="FORMAT", help=f"all by default: {', '.join(FORMATS)}")
    parser.add_argument("--cases", type=int, default=200, metavar="N", help="of each format")
    parser.add_argument("--seed", type=int, default=0, metavar="N")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="fuzzing-"))
    failures = list(_reports(arguments.formats or FORMATS, arguments.seed, arguments.cases, folder))
    for failure in failures:
        print(failure)
    print(f"{len(failures)} failures" + (f"; their files are in {folder}" if failures else ""))
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
