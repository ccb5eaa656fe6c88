"""Damaged files of every format, given to what reads them.

    python tests/helpers/fuzzing.py --cases 500 --seed 1 [FORMAT ...]

Each case changes a sound file a little, by a seed, and reads it. That may succeed, or end with an error of this project
that names the file; never with another error, in a crash, after more than TIMEOUT seconds or with more than MEMORY.
What breaks this is printed with the seed that makes it again, and left in the folder that is named.

To add a format, add a row to FORMATS: how to write a sound file, and how to read it.
"""

import argparse
import contextlib
import functools
import gzip
import json
import logging
import multiprocessing
import random
import resource
import shutil
import signal
import sys
import tempfile
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, Iterator, List, NamedTuple, Optional

import numpy
import torch
from allennlp.commands.predict import _PredictManager
from allennlp.common import Lazy, Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader, Vocabulary
from allennlp.models import Model, archival
from allennlp.predictors import Predictor

from elmo_plugin import ElmoEmbedder
from elmo_plugin.analysis import layer_weights, token_store, wsd_data
from elmo_plugin.analysis.finished_run import Run, summary
from elmo_plugin.analysis.marked_sentence import parse_marked
from elmo_plugin.analysis.neighbours import types_of_file
from elmo_plugin.analysis.sense_averages import AveragesFile, SenseAverages
from elmo_plugin.analysis.tagged_text import read_tagged
from elmo_plugin.analysis.token_store import TokenStore
from elmo_plugin.archives import unpack
from elmo_plugin.bilm import BiLm, softmax_file
from elmo_plugin.bilm.language_model import BiLmLanguageModel
from elmo_plugin.bilm.language_model_folder import open_archive
from elmo_plugin.bilm.layer_store import LayerStore
from elmo_plugin.bilm.softmax import FullSoftmax
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
from elmo_plugin.text.vector_table import TableBuilder, VectorTable
from elmo_plugin.text.vectors_file import read_vectors
from elmo_plugin.training.checkpointer import AtomicCheckpointer, read_state
from elmo_plugin.training.corpus import TextFiles
from elmo_plugin.training.vocabulary import read_vocab_file

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
TIMEOUT = 10  # seconds of the processor
MEMORY = 2**30  # bytes beyond what the process has anyway

READ, REFUSED = "read", "refused"


def own_name(path: Path) -> str:
    return path.name


class Format(NamedTuple):
    """`write` puts a sound sample into a folder and gives the file to damage; `read` reads it as a user would. Errors
    have to name the file, or what `named` makes of its path.
    """

    write: Callable[[Path], Path]
    read: Callable[[Path], Any]
    named: Callable[[Path], str] = own_name


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


def gzipped(name: str, content: str) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        (folder / name).write_bytes(gzip.compress(content.encode("utf-8"), mtime=0))
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


def checkpoint(name: str) -> Callable[[Path], Path]:
    """One of a checkpoint's two files, in a run that has no other checkpoint."""

    def write(folder: Path) -> Path:
        torch.save({"weight": torch.zeros(3, 4)}, folder / "model_state_e1_b0.th")
        position = {"epochs_completed": 1, "batches_in_epoch_completed": 0}
        torch.save({**position, "optimizer": {"step": 3}}, folder / "training_state_e1_b0.th")
        return folder / name

    return write


TAGGER = {
    "type": "simple_tagger",
    "text_field_embedder": {"token_embedders": {"tokens": {"type": "embedding", "embedding_dim": 4}}},
    "encoder": {"type": "lstm", "input_size": 4, "hidden_size": 3},
}


def model(name: str) -> Callable[[Path], Path]:
    """A file of a model archive that is unpacked."""

    def write(folder: Path) -> Path:
        run = folder / "run"
        vocab = Vocabulary()
        vocab.add_tokens_to_namespace(["the", "mill"], "tokens")
        vocab.add_tokens_to_namespace(["DET", "NOUN"], "labels")
        vocab.save_to_files(run / "vocabulary")
        config = {"dataset_reader": {"type": "sequence_tagging"}, "model": TAGGER}
        (run / "config.json").write_text(json.dumps(config), encoding="utf-8")
        (run / "meta.json").write_text('{"version": "2.10.1"}', encoding="utf-8")
        built = Model.from_params(Params(json.loads(json.dumps(TAGGER))), vocab=vocab)
        torch.save(built.state_dict(), run / "weights.th")
        return run / name

    return write


def archive(folder: Path) -> Path:
    """A small one: damage to larger ones is found in the same places, only later."""
    run = model("")(folder)
    torch.save({"mixes.input.gamma": torch.ones(1), "mixes.input.scalar_parameters.0": torch.ones(1)}, run / "best.th")
    return Path(archival.archive_model(run))


def run_of(path: Path) -> Path:
    return next(parent for parent in path.parents if parent.name == "run")


def corpus_of(path: Path) -> Iterator[List[str]]:
    return TextFiles(str(path)).sentences()


def bilm_with_softmax(folder: Path) -> Path:
    for name in ("options.json", "weights.hdf5"):
        shutil.copyfile(FIXTURES / "bilm" / name, folder / name)
    vocab = Vocabulary(non_padded_namespaces=["bilm_words"])
    vocab.add_tokens_to_namespace(["<S>", "</S>", "<UNK>", "the", "hill"], "bilm_words")
    bilm = BiLm.load(str(folder))
    softmax_file.write(BiLmLanguageModel(vocab, bilm, Lazy(FullSoftmax)).word_softmax(), folder / "softmax.hdf5")
    return folder / "softmax.hdf5"


ENTRIES = {bytes(15) + bytes([number]): bytes(number * 20) for number in range(1, 6)}


def _write_layer_cache(folder: Path) -> Path:
    LayerStore(str(folder / "cache")).put({key: memoryview(entry) for key, entry in ENTRIES.items()}, 2**20)
    return next((folder / "cache").iterdir())


def _read_layer_cache(path: Path) -> None:
    """A cache is never refused, and what it gives is what was put in."""
    found = LayerStore(str(path.parent)).get(ENTRIES)
    assert all(ENTRIES[key] == entry for key, entry in found.items())


def vector_table(ending: str) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        with TableBuilder() as builder:
            builder.add(["the", "hill"], numpy.ones((2, 3)))
            builder.finish().save(folder)
        return next(folder.glob(f"*.{ending}"))

    return write


def digest_of(path: Path) -> str:
    return path.name.partition(".")[0]


def _read_vector_table(path: Path) -> None:
    VectorTable.open(path.parent, digest_of(path), 3).find_words(["the", "hill", "bank"])


def run_of_table(name: str) -> Callable[[Path], Path]:
    """What `Runs` keeps of a training."""

    def write(folder: Path) -> Path:
        (folder / "run").mkdir()
        (folder / "result.json").write_text('{"name": "ner", "updates_per_epoch": 3}', encoding="utf-8")
        (folder / "experiment.json").write_text('{"trainer": {"validation_metric": "+f1"}}', encoding="utf-8")
        for epoch in range(2):
            metrics = {"validation_f1": 0.5, "best_epoch": 0, "training_duration": "0:00:02.5"}
            (folder / "run" / f"metrics_epoch_{epoch}.json").write_text(json.dumps(metrics), encoding="utf-8")
        return folder / name

    return write


def _read_run(path: Path) -> None:
    folder = path.parent.parent if path.parent.name == "run" else path.parent
    run = Run.read(folder)
    str((summary(run), run.metrics, run.layer_weights))


@functools.cache
def _predictor() -> Predictor:
    return Predictor.from_archive(archival.load_archive(_saved_bilm()))


@functools.cache
def _saved_bilm() -> str:
    return str(bilm_with_softmax(Path(tempfile.mkdtemp(prefix="fuzzing-bilm-"))).parent)


def _predict(path: Path) -> None:
    _PredictManager(_predictor(), str(path), None, 2, False, False).run()


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
GLUE = "index\tsentence1\tsentence2\tgold_label\n0\tA cat\tIt purrs\tneutral\n1\tA cat\tA pet\tentailment\n"
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
    "glue tsv": Format(text("dev.tsv", GLUE), by(SnliReader())),
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
    **{
        f"index, {name}": Format(index(name), _read_index)
        for name in ("store.json", "lengths.bin", "sentences.txt", "vectors.bin")
    },
    "averages": Format(_write_averages, _read_averages),
    "word vectors": Format(
        text("glove.txt", "the 0.1 -0.2\nhill 1 2\nbank 3e-1 4\n"), lambda path: types_of_file(str(path), ["hill"], 2)
    ),
    "vectors file": Format(text("vectors.txt", VECTORS), lambda path: exhaust(read_vectors(str(path), 2))),
    "vectors file, gzipped": Format(gzipped("vectors.gz", VECTORS), lambda path: exhaust(read_vectors(str(path), 2))),
    "vectors file, zipped": Format(zipped_vectors, lambda path: exhaust(read_vectors(str(path), 2))),
    "archive": Format(archive, lambda path: unpack(path, path.parent / "unpacked")),
    "layer weights": Format(archive, lambda path: layer_weights.read_archive(str(path))),
    **{
        f"model, {name}": Format(
            model(name), lambda path: archival.load_archive(run_of(path)), lambda path: run_of(path).name
        )
        for name in ("config.json", "meta.json", "weights.th", "vocabulary/tokens.txt", "vocabulary/labels.txt")
    },
    "state": Format(state, lambda path: read_state(str(path))),
    **{
        f"checkpoint, {name}": Format(
            checkpoint(name), lambda path: AtomicCheckpointer(str(path.parent)).load_checkpoint()
        )
        for name in ("model_state_e1_b0.th", "training_state_e1_b0.th")
    },
    "layer cache": Format(_write_layer_cache, _read_layer_cache),
    **{
        f"vector table, {name}": Format(vector_table(name), _read_vector_table, digest_of)
        for name in ("index.npy", "float16")
    },
    **{
        f"run, {Path(name).name}": Format(run_of_table(name), _read_run)
        for name in ("result.json", "experiment.json", "run/metrics_epoch_1.json")
    },
    "predictor's input": Format(
        text("in.jsonl", '{"sentence": "the hill"}\n{"tokens": ["the", "mill"], "top_k": 2}\n\n{"sentence": "a"}\n'),
        _predict,
    ),
    "corpus": Format(gzipped("text.gz", "One sentence .\nAnother one .\n"), lambda path: exhaust(corpus_of(path))),
    "bilm-tf's vocabulary": Format(
        text("vocab.txt", "<S>\n</S>\n<UNK>\nthe\nhill\n"), lambda path: read_vocab_file(str(path))
    ),
    "softmax.hdf5": Format(bilm_with_softmax, lambda path: open_archive(str(path.parent))),
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
    with tempfile.TemporaryDirectory(prefix="sound-", dir=folder) as sound:
        path = FORMATS[name].write(Path(sound)).relative_to(sound)
        for case in cases:
            own = folder / f"{name.replace(' ', '_').replace('/', '_')}-{seed}-{case}"
            shutil.copytree(sound, own)
            outcome = _outcome(FORMATS[name], random.Random(f"{name}:{seed}:{case}"), own / path)
            if outcome in (READ, REFUSED):
                shutil.rmtree(own)
            sender.send(outcome)


def _outcome(format_: Format, source: random.Random, path: Path) -> str:
    path.write_bytes(damaged(path.read_bytes(), source))
    try:
        with _bounds():
            format_.read(path)
        return READ
    except ConfigurationError as error:
        return REFUSED if format_.named(path) in str(error) else f"the error doesn't name the file: {error}"
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
    logging.disable(logging.WARNING)
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
