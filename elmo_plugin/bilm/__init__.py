"""The bidirectional language model."""

from elmo_plugin.bilm.bilm import BiLm, BiLmOutput, BiLmState, RecurrentOutput
from elmo_plugin.bilm.options import BiLmOptions
from elmo_plugin.bilm.sources import BiLmSource

__all__ = ["BiLm", "BiLmOptions", "BiLmOutput", "BiLmSource", "BiLmState", "RecurrentOutput"]
