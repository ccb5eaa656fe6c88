"""`allennlp bilm-export`: the biLM of a model archive as the published pair of files."""

import argparse
from pathlib import Path
from typing import Iterable, Tuple

from allennlp.commands.subcommand import Subcommand
from allennlp.common.checks import ConfigurationError
from allennlp.models.archival import load_archive

from elmo_plugin.bilm import BiLm, BiLmLanguageModel, checkpoint, softmax_file
from elmo_plugin.commands.command import Command


@Subcommand.register("bilm-export")
class BiLmExport(Command):
    help = "Write a trained biLM as HDF5 and options.json."
    description = (
        "Writes the biLM inside a model archive as weights.hdf5 and options.json, the published form that this "
        "plugin, AllenNLP's Elmo and others read."
    )
    epilog = "example: allennlp bilm-export runs/bilm/model.tar.gz exported"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("archive_file", help="model.tar.gz of a trained biLM, or of a task model that holds one")
        parser.add_argument(
            "output_dir", help="the folder to write weights.hdf5 and options.json to; created if necessary"
        )
        parser.add_argument("-f", "--force", action="store_true", help="overwrite existing files")
        parser.add_argument(
            "--compact",
            action="store_true",
            help="round the weights to bfloat16 and compress them: about 39 %% of the size, read by anything that "
            "reads the format",
        )
        _add_bits(parser, "compact", checkpoint.BFLOAT16, "significant binary digits a weight keeps; 8 are bfloat16's")
        parser.add_argument(
            "--softmax",
            action="store_true",
            help="write softmax.hdf5 too, for the archive of a language model: with it 'allennlp predict' and "
            "'evaluate' accept the folder as an archive",
        )
        _add_bits(parser, "softmax", softmax_file.MAX_BITS, "bits one of its weights keeps")

    def run(self, arguments: argparse.Namespace) -> None:
        export(
            arguments.archive_file,
            arguments.output_dir,
            arguments.force,
            arguments.compact,
            arguments.softmax,
            _bits(arguments, "compact", checkpoint.BFLOAT16),
            _bits(arguments, "softmax", softmax_file.MAX_BITS),
        )


def _add_bits(parser: argparse.ArgumentParser, flag: str, most: int, what: str) -> None:
    parser.add_argument(
        f"--{flag}-bits",
        type=int,
        choices=range(2, most + 1),
        metavar="N",
        help=f"with --{flag}: how many {what} (2 to {most}, {most} by default)",
    )


def _bits(arguments: argparse.Namespace, flag: str, most: int) -> int:
    bits = getattr(arguments, f"{flag}_bits")
    if bits is not None and not getattr(arguments, flag):
        raise ConfigurationError(f"--{flag}-bits {bits} would change nothing without --{flag}: give both, or neither")
    return bits or most


def export(
    archive_file: str,
    output_dir: str,
    force: bool = False,
    compact: bool = False,
    softmax: bool = False,
    compact_bits: int = checkpoint.BFLOAT16,
    softmax_bits: int = softmax_file.MAX_BITS,
) -> None:
    """Writes the biLM of `archive_file` into `output_dir`, and overwrites nothing unless `force` is given. `compact`,
    with its bits, is that of `elmo_plugin.bilm.checkpoint.write`, and `softmax` adds what
    `elmo_plugin.bilm.softmax_file.write` writes.
    """
    folder = Path(output_dir)
    weight_file, options_file, softmax_path = files_in(folder)
    check_free([weight_file, options_file, *[softmax_path] * softmax], force)
    bilm = BiLm.load(archive_file)
    words = _word_softmax(archive_file) if softmax else None
    folder.mkdir(parents=True, exist_ok=True)
    checkpoint.write(bilm, weight_file, options_file, compact, compact_bits)
    if words is not None:
        softmax_file.write(words, softmax_path, softmax_bits)
    print(f"wrote {weight_file} and {options_file}" + f", and {softmax_path}" * softmax)


def files_in(folder: Path) -> Tuple[Path, Path, Path]:
    """Where a folder has a biLM's weights, options and softmax."""
    return folder / "weights.hdf5", folder / "options.json", folder / softmax_file.NAME


def check_free(paths: Iterable[Path], force: bool) -> None:
    """Refuses to overwrite anything unless `force` is given."""
    for path in paths:
        if path.exists() and not force:
            raise ConfigurationError(f"{path} already exists; give another folder, or --force to overwrite it")


def _word_softmax(archive_file: str) -> softmax_file.WordSoftmax:
    model = load_archive(archive_file).model
    if not isinstance(model, BiLmLanguageModel):
        raise ConfigurationError(f"{archive_file} holds a {type(model).__name__}, which has no softmax over words")
    return model.word_softmax()
