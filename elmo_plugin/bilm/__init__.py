"""The bidirectional language model."""

from elmo_plugin.bilm.bilm import BiLm, BiLmOutput, RecurrentOutput
from elmo_plugin.bilm.language_model import BiLmLanguageModel
from elmo_plugin.bilm.options import BiLmOptions
from elmo_plugin.bilm.predictor import BiLmPredictor
from elmo_plugin.bilm.softmax import BiLmSoftmax
from elmo_plugin.bilm.sources import BiLmSource
from elmo_plugin.bilm.state import BiLmState

__all__ = [
    "BiLm",
    "BiLmLanguageModel",
    "BiLmOptions",
    "BiLmOutput",
    "BiLmPredictor",
    "BiLmSoftmax",
    "BiLmSource",
    "BiLmState",
    "RecurrentOutput",
]
