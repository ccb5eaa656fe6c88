"""`allennlp elmo-layers`: the layer weights that tasks have learnt."""

import argparse
from pathlib import Path

from allennlp.commands.subcommand import Subcommand
from allennlp.common.checks import ConfigurationError

from elmo_plugin.analysis import layer_weights
from elmo_plugin.analysis.analysis import require_plots, write_plot
from elmo_plugin.commands.command import Command
from elmo_plugin.files import write_json


@Subcommand.register("elmo-layers")
class ElmoLayers(Command):
    help = "Show the layer weights that tasks have learnt."
    description = (
        "Prints the softmax-normalised layer weights and the gamma of every mix of a biLM's layers in one or more "
        "models, and draws the paper's Figure 2. Only the archives' weights are read, so AllenNLP's own ELMo "
        "models will do as well."
    )
    epilog = "example: allennlp elmo-layers runs/ner/model.tar.gz runs/snli/model.tar.gz --plot layers.png"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "archives", nargs="+", metavar="ARCHIVE", help="model.tar.gz of a task, or the folder of its run"
        )
        parser.add_argument(
            "--names", nargs="+", metavar="NAME", help="names for the models, one each; by default their config's type"
        )
        parser.add_argument("--plot", metavar="FILE", help="write Figure 2 to this PNG")
        parser.add_argument("--output", metavar="FILE", help="write the numbers to this JSON")

    def run(self, arguments: argparse.Namespace) -> None:
        """Prints the table of every mix in the archives, and writes the picture and the JSON if asked to."""
        if arguments.plot:
            require_plots()
        names = arguments.names or [None] * len(arguments.archives)
        if len(names) != len(arguments.archives):
            raise ConfigurationError(f"--names has {len(names)} names for {len(arguments.archives)} archives")
        mixes = [
            mix
            for archive, name in zip(arguments.archives, names, strict=True)
            for mix in layer_weights.read_archive(archive, name)
        ]
        report = layer_weights.report(mixes)
        print(report.table)
        if arguments.output:
            Path(arguments.output).parent.mkdir(parents=True, exist_ok=True)
            write_json(arguments.output, report.results)
        if arguments.plot and report.draw is not None:
            write_plot(report.draw, arguments.plot)
