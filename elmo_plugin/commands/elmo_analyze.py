"""`allennlp elmo-analyze NAME`: the paper's analyses."""

import argparse
import functools
import os
from pathlib import Path

from allennlp.commands.subcommand import Subcommand
from allennlp.common.checks import ConfigurationError

from elmo_plugin.analysis.analysis import Analysis, require_one_or_more, require_plots
from elmo_plugin.commands.arguments import add_bilm_arguments, add_cove_arguments, open_embedder
from elmo_plugin.commands.command import Command


@Subcommand.register("elmo-analyze")
class ElmoAnalyze(Command):
    help = "Run one of the paper's analyses of a biLM."
    description = (
        "The paper's analyses. Each writes NAME.json, NAME.txt (a table, also printed) and NAME.png into --output; "
        "'allennlp elmo-analyze NAME --help' shows its flags."
    )
    epilog = "example: allennlp elmo-analyze wsd --help"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        analyses = parser.add_subparsers(title="analyses", metavar="NAME", dest="analysis", required=True)
        for name in sorted(Analysis.list_available()):
            _add_analysis(analyses, name)

    def run(self, arguments: argparse.Namespace) -> None:
        """Runs the analysis that the command line names, writes its report and prints its table."""
        analysis: Analysis = Analysis.by_name(arguments.analysis)()
        if analysis.uses_bilm:
            require_one_or_more(arguments, "batch_size")
        _check_output(Path(arguments.output))
        if not arguments.no_plot:
            require_plots()
        report = analysis.run(arguments, functools.partial(open_embedder, arguments))
        # Printed first, so that a full disk doesn't cost hours of work.
        print(report.table.rstrip("\n"))
        report.write(arguments.output, arguments.analysis, with_plot=not arguments.no_plot)


def _add_analysis(parsers: argparse._SubParsersAction, name: str) -> None:
    analysis: Analysis = Analysis.by_name(name)()
    parser = parsers.add_parser(
        name,
        help=analysis.help,
        description=analysis.description,
        epilog=f"example: {analysis.example}",
    )
    analysis.add_arguments(parser)
    if analysis.uses_bilm:
        add_bilm_arguments(parser)
        if analysis.takes_cove:
            add_cove_arguments(parser)
        parser.add_argument("--batch-size", type=int, default=64, help="sentences the biLM reads at a time")
    parser.add_argument(
        "--output", required=True, metavar="DIR", help="the folder for NAME.json, NAME.txt and NAME.png"
    )
    parser.add_argument("--no-plot", action="store_true", help="write no picture")


def _check_output(folder: Path) -> None:
    """Raises, before the long work, if nothing could be written at the end; creates nothing."""
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not existing.is_dir():
        raise ConfigurationError(f"--output: {existing} is a file, not a folder")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise ConfigurationError(f"--output: no permission to write to {existing}")
