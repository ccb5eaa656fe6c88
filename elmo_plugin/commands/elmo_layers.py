"""`allennlp elmo-layers`: the layer weights that tasks have learnt."""

import argparse
from pathlib import Path

from allennlp.commands.subcommand import Subcommand
from allennlp.common.checks import ConfigurationError

from elmo_plugin.analysis import layer_weights
from elmo_plugin.analysis.analysis import require_plots, write_plot
from elmo_plugin.commands.arguments import one_line_errors
from elmo_plugin.files import write_json


@Subcommand.register("elmo-layers")
class ElmoLayers(Subcommand):
    def add_subparser(self, parser: argparse._SubParsersAction) -> argparse.ArgumentParser:
        description = (
            "Prints the softmax-normalised layer weights and the gamma of every mix of a biLM's layers in one or more "
            "models, and draws the paper's Figure 2. Only the archives' weights are read, so AllenNLP's own ELMo "
            "models will do as well."
        )
        subparser = parser.add_parser(
            self.name,
            description=description,
            epilog="example: allennlp elmo-layers runs/ner/model.tar.gz runs/snli/model.tar.gz --plot layers.png",
            help="Show the layer weights that tasks have learnt.",
        )
        subparser.add_argument(
            "archives", nargs="+", metavar="ARCHIVE", help="model.tar.gz of a task, or the folder of its run"
        )
        subparser.add_argument(
            "--names", nargs="+", metavar="NAME", help="names for the models, one each; by default their config's type"
        )
        subparser.add_argument("--plot", metavar="FILE", help="write Figure 2 to this PNG")
        subparser.add_argument("--output", metavar="FILE", help="write the numbers to this JSON")
        subparser.set_defaults(func=show_layers)
        return subparser


@one_line_errors
def show_layers(arguments: argparse.Namespace) -> None:
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
