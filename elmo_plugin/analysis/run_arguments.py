"""The flags of an analysis that trains: where, how often, how long."""

import argparse
from typing import Any, Dict, List

from allennlp.common.checks import ConfigurationError

from elmo_plugin.analysis.cells import Change, lasting
from elmo_plugin.files import parse_json


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds --runs, --seeds, --epochs, --updates-per-epoch and --overrides."""
    parser.add_argument("--runs", default="runs/analysis", metavar="DIR", help="where trainings are kept")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1], metavar="SEED", help="one training per seed")
    parser.add_argument("--epochs", type=int, metavar="N", help="number of epochs, instead of the configs'")
    parser.add_argument(
        "--updates-per-epoch",
        type=int,
        metavar="N",
        help="makes every epoch this long, so that all trainings have the same number of updates; needs --epochs",
    )
    parser.add_argument(
        "-o", "--overrides", default="{}", metavar="JSON", help="changes to every config, as in 'allennlp train -o'"
    )


def changes_from(arguments: argparse.Namespace) -> List[Change]:
    """What the flags of `add_run_arguments` change in a config, apart from the seed."""
    if arguments.epochs is not None:
        return [lasting(arguments.epochs, arguments.updates_per_epoch)]
    if arguments.updates_per_epoch is not None:
        raise ConfigurationError("--updates-per-epoch needs --epochs, to know how many of them to train")
    return []


def overrides_from(arguments: argparse.Namespace) -> Dict[str, Any]:
    overrides = parse_json(arguments.overrides, "--overrides")
    if not isinstance(overrides, dict):
        raise ConfigurationError(f"--overrides has to be a JSON object, not {arguments.overrides}")
    return overrides
