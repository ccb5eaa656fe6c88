"""`allennlp bilm-export`: the biLM of a model archive as the published pair of files."""

import argparse
from pathlib import Path

from allennlp.commands.subcommand import Subcommand
from allennlp.common.checks import ConfigurationError

from elmo_plugin.bilm import BiLm, checkpoint


@Subcommand.register("bilm-export")
class BiLmExport(Subcommand):
    def add_subparser(self, parser: argparse._SubParsersAction) -> argparse.ArgumentParser:
        description = (
            "Writes the biLM inside a model archive as weights.hdf5 and options.json, the published form that this "
            "plugin, AllenNLP's Elmo and others read."
        )
        subparser = parser.add_parser(
            self.name,
            description=description,
            epilog="example: allennlp bilm-export runs/bilm/model.tar.gz exported",
            help="Write a trained biLM as HDF5 and options.json.",
        )
        subparser.add_argument("archive_file", help="model.tar.gz of a trained biLM, or of a task model that holds one")
        subparser.add_argument(
            "output_dir", help="the folder to write weights.hdf5 and options.json to; created if need be"
        )
        subparser.add_argument("-f", "--force", action="store_true", help="overwrite files that are there already")
        subparser.add_argument(
            "--compact",
            action="store_true",
            help="round the weights to bfloat16 and compress them: about 39 %% of the size, read by anything that "
            "reads the format",
        )
        subparser.set_defaults(
            func=lambda arguments: export(
                arguments.archive_file, arguments.output_dir, arguments.force, arguments.compact
            )
        )
        return subparser


def export(archive_file: str, output_dir: str, force: bool = False, compact: bool = False) -> None:
    """Writes the biLM of `archive_file` into `output_dir`, and overwrites nothing unless `force` is given. `compact` is
    that of `elmo_plugin.bilm.checkpoint.write`.
    """
    folder = Path(output_dir)
    weight_file, options_file = folder / "weights.hdf5", folder / "options.json"
    for path in (weight_file, options_file):
        if path.exists() and not force:
            raise ConfigurationError(f"{path} exists already; give another folder, or --force to overwrite it")
    bilm = BiLm.load(archive_file)
    folder.mkdir(parents=True, exist_ok=True)
    checkpoint.write(bilm, weight_file, options_file, compact)
    print(f"wrote {weight_file} and {options_file}")
