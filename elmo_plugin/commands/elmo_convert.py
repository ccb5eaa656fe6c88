"""`allennlp elmo-convert`: an archive with AllenNLP's own ELMo, rewritten for this plugin's."""

import argparse
from pathlib import Path

from allennlp.commands.subcommand import Subcommand
from allennlp.common.checks import ConfigurationError

from elmo_plugin.commands.command import Command
from elmo_plugin.elmo.conversion import convert


@Subcommand.register("elmo-convert")
class ElmoConvert(Command):
    help = "Rewrite an archive with AllenNLP's ELMo for this plugin's."
    description = (
        "Rewrites a model archive trained with AllenNLP's elmo_token_embedder to elmo::token_embedder, config "
        "and weights: the same predictions, sooner, and no biLM files needed beside the archive."
    )
    epilog = "example: allennlp elmo-convert old/model.tar.gz new/model.tar.gz"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("old_archive", help="model.tar.gz as AllenNLP 1.x or 2.x wrote it")
        parser.add_argument("new_archive", help="the archive to write")
        parser.add_argument("-f", "--force", action="store_true", help="overwrite an existing archive")
        parser.add_argument(
            "--options-file",
            metavar="FILE",
            help="the biLM's options.json, if the one that the archive names can't be reached",
        )
        parser.add_argument(
            "--stateless",
            action="store_true",
            help="give a sentence the same vectors each time; AllenNLP's ELMo, and so the archive that is written "
            "without this flag, carries LSTM states from batch to batch",
        )

    def run(self, arguments: argparse.Namespace) -> None:
        new_archive = Path(arguments.new_archive)
        if new_archive.exists() and not arguments.force:
            raise ConfigurationError(f"{new_archive} already exists; give another name, or --force to overwrite it")
        if not Path(arguments.old_archive).is_file():
            raise ConfigurationError(f"there is no archive {arguments.old_archive}")
        new_archive.parent.mkdir(parents=True, exist_ok=True)
        convert(arguments.old_archive, str(new_archive), arguments.options_file, not arguments.stateless)
        print(f"wrote {new_archive}")
