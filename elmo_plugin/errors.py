"""The error for what a config, an argument or a file can cause, without AllenNLP, whose import takes seconds.

Where AllenNLP is imported, before or after, the error is a kind of AllenNLP's own, so that whoever catches theirs
catches this one. `elmo_plugin_startup` takes care of the case that AllenNLP is imported later.
"""

import sys
from types import ModuleType


class _BaseWithoutAllenNlp(Exception):
    pass


class ConfigurationError(_BaseWithoutAllenNlp):
    """`message` says what is wrong, the value got, what was expected and where to change it."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


def derive_from_allennlps(checks: ModuleType) -> None:
    """Makes the error a kind of AllenNLP's, given `allennlp.common.checks`."""
    ConfigurationError.__bases__ = (checks.ConfigurationError,)


if "allennlp.common.checks" in sys.modules:
    derive_from_allennlps(sys.modules["allennlp.common.checks"])
