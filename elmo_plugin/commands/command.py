"""The shape that all commands share: what their --help says, their arguments, one-line errors."""

import argparse
import sys
from typing import ClassVar

from allennlp.commands.subcommand import Subcommand
from allennlp.common.checks import ConfigurationError

INTERRUPTED = 130


class Command(Subcommand):
    """One `allennlp NAME`. Errors that a user can cause end it with one line and a non-zero code, not a traceback."""

    help: ClassVar[str]
    description: ClassVar[str]
    epilog: ClassVar[str]

    def add_subparser(self, parser: argparse._SubParsersAction) -> argparse.ArgumentParser:
        subparser = parser.add_parser(self.name, help=self.help, description=self.description, epilog=self.epilog)
        self.add_arguments(subparser)
        subparser.set_defaults(func=self._run_or_exit)
        return subparser

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        raise NotImplementedError

    def run(self, arguments: argparse.Namespace) -> None:
        raise NotImplementedError

    def _run_or_exit(self, arguments: argparse.Namespace) -> None:
        try:
            self.run(arguments)
        except ConfigurationError as error:
            sys.exit(_one_line(error.message))
        except OSError as error:
            sys.exit(_one_line(_of_the_system(error)))
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
            sys.exit(INTERRUPTED)


def _one_line(message: str) -> str:
    return f"error: {' '.join(str(message).split())}"


def _of_the_system(error: OSError) -> str:
    return f"{error.filename}: {error.strerror}" if error.filename is not None and error.strerror else str(error)
