"""`allennlp elmo-score TASK`: what a task's official scorer would say about a file of predictions."""

import argparse
import json

from allennlp.commands.subcommand import Subcommand
from allennlp.common.checks import ConfigurationError

from elmo_plugin.commands.command import Command
from elmo_plugin.tasks.coref.metrics import score_files
from elmo_plugin.tasks.ner.conlleval import count_file
from elmo_plugin.tasks.squad.metrics import evaluate, read_predictions, write_predictions
from elmo_plugin.tasks.srl.srl_eval import score_file


@Subcommand.register("elmo-score")
class ElmoScore(Command):
    help = "Score a file of predictions as the task's official scorer does."
    description = (
        "Scores a file that 'allennlp predict --use-dataset-reader' wrote, as the official scorer of its task does."
    )
    epilog = "example: allennlp elmo-score ner predictions.txt"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        tasks = parser.add_subparsers(title="tasks", metavar="TASK", dest="task", required=True)
        _add_ner(tasks)
        _add_srl(tasks)
        _add_coref(tasks)
        _add_squad(tasks)

    def run(self, arguments: argparse.Namespace) -> None:
        """Prints the report of the task that the command line names."""
        try:
            print(arguments.report(arguments), end="")
        except ValueError as error:  # what is wrong in a file
            raise ConfigurationError(str(error)) from error


def _add_ner(tasks: argparse._SubParsersAction) -> None:
    ner = tasks.add_parser("ner", help="conlleval's report", description="Prints conlleval's report.")
    ner.add_argument("predictions", help="lines 'token gold predicted', with a blank line after each sentence")
    ner.set_defaults(report=lambda arguments: count_file(arguments.predictions).report())


def _add_srl(tasks: argparse._SubParsersAction) -> None:
    srl = tasks.add_parser("srl", help="srl-eval's report", description="Prints srl-eval's report.")
    srl.add_argument("predictions", help="one line of JSON per predicate")
    srl.add_argument("--gold-props", metavar="FILE", help="write the gold arguments here, as srl-eval.pl reads them")
    srl.add_argument("--predicted-props", metavar="FILE", help="write the predicted arguments here, likewise")
    srl.set_defaults(
        report=lambda arguments: score_file(arguments.predictions, arguments.gold_props, arguments.predicted_props)
    )


def _add_coref(tasks: argparse._SubParsersAction) -> None:
    coref = tasks.add_parser(
        "coref", help="MUC, B-cubed and CEAF-e", description="Prints MUC, B-cubed, CEAF-e and their average."
    )
    coref.add_argument("key", help="the gold documents, in the columns of CoNLL-2012")
    coref.add_argument("response", help="the predicted ones")
    coref.set_defaults(report=lambda arguments: score_files(arguments.key, arguments.response).report())


def _add_squad(tasks: argparse._SubParsersAction) -> None:
    squad = tasks.add_parser(
        "squad", help="exact match and F1", description="Prints exact match and F1 in per cent, as a JSON object."
    )
    squad.add_argument("data", help="dev-v1.1.json, plain or gzipped")
    squad.add_argument("predictions", help="one line of JSON per question, or the script's predictions.json")
    squad.add_argument(
        "--write-answers", metavar="FILE", help="write the answers here, as SQuAD's own evaluate-v1.1.py reads them"
    )
    squad.set_defaults(report=_squad_report)


def _squad_report(arguments: argparse.Namespace) -> str:
    answers = read_predictions(arguments.predictions)
    if arguments.write_answers:
        write_predictions(answers, arguments.write_answers)
    return json.dumps(evaluate(arguments.data, answers)) + "\n"
