"""`allennlp elmo`: text into ELMo vectors: AllenNLP 0.9's command is back."""

import argparse
import os
import sys
from typing import Iterator, List, Optional

from allennlp.commands.subcommand import Subcommand
from allennlp.common import Tqdm
from allennlp.common import logging as common_logging
from allennlp.common.checks import ConfigurationError
from allennlp.common.util import SigTermReceived

from elmo_plugin.commands.arguments import add_bilm_arguments, open_embedder
from elmo_plugin.commands.command import Command
from elmo_plugin.commands.lines import STANDARD_INPUT, name_of, stripped_lines
from elmo_plugin.embedding.embedding_job import DEFAULT_PIECE_SIZE, EmbeddingJob
from elmo_plugin.embedding.engines import Engine, Processes, Ray, ThisProcess
from elmo_plugin.embedding.hdf5_layout import check_sentence_key
from elmo_plugin.embedding.pieces import PieceEmbedder

_NUM_BLANK_LINES_SHOWN = 10
_MAX_TOKENS = 200_000


@Subcommand.register("elmo")
class ElmoCommand(Command):
    help = "Embed text into an HDF5 file."
    description = (
        "Embeds tokenised text, one sentence per line, into an HDF5 file. Each sentence is a dataset whose key "
        "is its line's index, counted from 0: float32, of shape (layers, tokens, dim) with --all and (tokens, dim) "
        "with --top or --average. The dataset sentence_to_index holds the JSON of {sentence: key}."
    )
    epilog = (
        "examples: allennlp elmo sentences.txt vectors.hdf5 --all; "
        "zcat corpus.gz | allennlp elmo - vectors.hdf5 --top --float16 --forget-sentences --workers 4"
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("input_file", help="text, plain or gzipped, tokens separated by spaces; - reads stdin")
        parser.add_argument("output_file", help="the HDF5 file to write; it appears once it is complete")
        layers = parser.add_mutually_exclusive_group(required=True)
        for name, what in (("all", "all layers"), ("top", "the top layer"), ("average", "the layers' average")):
            layers.add_argument(
                f"--{name}", dest="output_format", action="store_const", const=name, help=f"write {what}"
            )
        add_bilm_arguments(parser)
        _add_output_arguments(parser)
        _add_run_arguments(parser)

    def run(self, arguments: argparse.Namespace) -> None:
        common_logging.FILE_FRIENDLY_LOGGING = arguments.file_friendly_logging
        _check_paths(arguments.input_file, arguments.output_file)
        engine = _engine(arguments)
        num_lines = None
        if arguments.input_file != STANDARD_INPUT:
            num_lines = _survey(arguments)
        embedder = open_embedder(arguments)
        job = EmbeddingJob(
            embedder,
            arguments.output_file,
            PieceEmbedder(arguments.output_format, arguments.batch_size, arguments.float16),
            arguments.forget_sentences,
            arguments.use_sentence_keys,
            arguments.piece_size,
            engine,
        )
        try:
            job.run(_sentences(arguments, num_lines), num_lines, arguments.resume)
        except (KeyboardInterrupt, SigTermReceived):
            if job.partial_folder.exists():
                print(f"what is finished is kept in {job.partial_folder}: continue with --resume", file=sys.stderr)
            raise KeyboardInterrupt from None
        print(f"wrote {arguments.output_file}")


def _add_output_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("the output")
    group.add_argument(
        "--forget-sentences",
        action="store_true",
        help="leave out sentence_to_index, the only thing that grows in memory with the text",
    )
    group.add_argument(
        "--use-sentence-keys",
        action="store_true",
        help="use the sentences themselves as keys: a repeated sentence is stored once, and one that contains a / lies "
        "in groups, where file[sentence] finds it",
    )
    group.add_argument("--float16", action="store_true", help="store half precision, in half the space")
    group.add_argument(
        "--blank-lines",
        choices=("refuse", "keep"),
        default="refuse",
        help="refuse (the default): stop before any work and list them; keep: give each an empty dataset, so that "
        "indices still match the lines",
    )


def _add_run_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("the run")
    group.add_argument("--batch-size", type=int, default=64, help="sentences to embed at a time (default = 64)")
    group.add_argument(
        "--max-tokens",
        type=int,
        default=_MAX_TOKENS,
        help=f"refuse a line with more tokens than this (default = {_MAX_TOKENS:,}). A line of any length is embedded "
        "whole, in blocks of bounded memory; but all of its vectors are held at once, which at the paper's size is "
        "12 KB per token",
    )
    group.add_argument(
        "--stateful",
        action="store_true",
        help="carry the LSTM states from batch to batch, as AllenNLP 0.9 did; without this, a sentence's vectors "
        "depend on that sentence alone",
    )
    group.add_argument("--workers", type=int, default=1, help="processes to embed with (default = 1)")
    group.add_argument(
        "--engine",
        choices=("local", "ray"),
        default="local",
        help="where the workers run: on this machine (the default), or on a Ray cluster, the one at RAY_ADDRESS if "
        "that is set",
    )
    group.add_argument(
        "--resume",
        action="store_true",
        help="continue an interrupted run from what is finished in OUTPUT_FILE.partial; standard input has to be sent "
        "again from the beginning",
    )
    group.add_argument(
        "--piece-size",
        "--shard-size",
        type=int,
        default=DEFAULT_PIECE_SIZE,
        help=f"save the progress after this many lines (default = {DEFAULT_PIECE_SIZE})",
    )
    group.add_argument("--file-friendly-logging", action="store_true", help="report progress in lines, for log files")
    group.add_argument("--vocab-path", help=argparse.SUPPRESS)  # AllenNLP 0.9 accepted it and didn't use it either


def _check_paths(input_file: str, output_file: str) -> None:
    folder = os.path.dirname(output_file) or "."
    if not os.path.isdir(folder):
        raise ConfigurationError(f"can't write {output_file}: there is no folder {folder}")
    if not os.access(folder, os.W_OK):
        raise ConfigurationError(f"can't write {output_file}: no permission to write in {folder}")
    if os.path.exists(output_file) and os.path.exists(input_file) and os.path.samefile(input_file, output_file):
        raise ConfigurationError(f"{input_file} is both input and output; name another file to write to")


def _engine(arguments: argparse.Namespace) -> Engine:
    if arguments.stateful and (arguments.workers > 1 or arguments.engine == "ray"):
        raise ConfigurationError(
            "with --stateful each line continues from the one before, so one process has to read them all: leave out "
            "--stateful, or --workers and --engine"
        )
    if arguments.engine == "ray":
        return Ray(arguments.workers)
    return ThisProcess() if arguments.workers == 1 else Processes(arguments.workers)


def _survey(arguments: argparse.Namespace) -> int:
    """Reads the text once before any work, so that a bad line is reported now rather than in an hour. Returns the
    number of lines.
    """
    blank_lines: List[int] = []
    num_lines = num_blank_lines = 0
    for index, sentence in enumerate(Tqdm.tqdm(stripped_lines(arguments.input_file), desc="reading", unit=" lines")):
        num_lines += 1
        if not sentence and arguments.blank_lines == "refuse":
            num_blank_lines += 1
            if len(blank_lines) < _NUM_BLANK_LINES_SHOWN:
                blank_lines.append(index + 1)
        else:
            _check_line(arguments, index, sentence)
    if not num_lines:
        raise ConfigurationError(f"{arguments.input_file} is empty: it has no lines")
    if blank_lines:
        raise _blank(arguments.input_file, blank_lines, num_blank_lines)
    return num_lines


def _sentences(arguments: argparse.Namespace, num_surveyed: Optional[int]) -> Iterator[str]:
    number = 0
    for number, sentence in enumerate(stripped_lines(arguments.input_file), start=1):
        if not sentence and arguments.blank_lines == "refuse":
            raise _blank(arguments.input_file, [number], 1)
        _check_line(arguments, number - 1, sentence)
        yield sentence
    if num_surveyed not in (None, number):
        raise ConfigurationError(
            f"{arguments.input_file} had {num_surveyed} lines when it was first read, and {number} afterwards: "
            "something writes to it. Embed a file that stays as it is"
        )


def _check_line(arguments: argparse.Namespace, index: int, sentence: str) -> None:
    if len(sentence) > arguments.max_tokens:  # in characters; only then is it worth counting
        num_tokens = len(sentence.split())
        if num_tokens > arguments.max_tokens:
            raise ConfigurationError(
                f"{name_of(arguments.input_file)}:{index + 1}: this line has {num_tokens:,} tokens, and all its "
                f"vectors are held in memory at once; the limit is {arguments.max_tokens:,}. Split the line, or raise "
                "--max-tokens"
            )
    if arguments.use_sentence_keys:
        check_sentence_key(index, sentence)


def _blank(input_file: str, lines: List[int], num_lines: int) -> ConfigurationError:
    shown = ", ".join(map(str, lines)) + (f" and {num_lines - len(lines)} more" if num_lines > len(lines) else "")
    return ConfigurationError(
        f"{name_of(input_file)} has blank lines: {shown}. Remove them, or give each an empty dataset with "
        "--blank-lines keep"
    )
