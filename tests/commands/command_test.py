import argparse

import pytest
from allennlp.common.checks import ConfigurationError

from elmo_plugin.commands.command import Command


def run_one_that_raises(error):
    class Failing(Command):
        name = "failing"
        help = description = epilog = "It fails."

        def add_arguments(self, parser):
            pass

        def run(self, arguments):
            raise error

    parser = argparse.ArgumentParser()
    Failing().add_subparser(parser.add_subparsers())
    arguments = parser.parse_args(["failing"])
    arguments.func(arguments)


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ConfigurationError("line one\n  line two"), "error: line one line two"),
        (FileNotFoundError(2, "No such file or directory", "a.txt"), "error: a.txt: No such file or directory"),
        (OSError("disk trouble"), "error: disk trouble"),
    ],
)
def test_what_a_user_can_cause_is_one_line(error, line):
    with pytest.raises(SystemExit) as exit_info:
        run_one_that_raises(error)
    assert exit_info.value.code == line


def test_an_interruption_has_its_own_code(capsys):
    with pytest.raises(SystemExit) as exit_info:
        run_one_that_raises(KeyboardInterrupt())
    assert exit_info.value.code == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_a_bug_keeps_its_traceback():
    with pytest.raises(ZeroDivisionError):
        run_one_that_raises(ZeroDivisionError())
