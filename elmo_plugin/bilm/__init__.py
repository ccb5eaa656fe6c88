"""The bidirectional language model. What AllenNLP trains and registers is imported when it is asked for."""

from typing import TYPE_CHECKING

from elmo_plugin.bilm.bilm import BiLm, BiLmOutput, RecurrentOutput
from elmo_plugin.bilm.options import BiLmOptions
from elmo_plugin.bilm.state import BiLmState
from elmo_plugin.lazy import lazy_names

if TYPE_CHECKING:
    from elmo_plugin.bilm.language_model import BiLmLanguageModel
    from elmo_plugin.bilm.language_model_folder import open_archive
    from elmo_plugin.bilm.predictor import BiLmPredictor
    from elmo_plugin.bilm.softmax import BiLmSoftmax
    from elmo_plugin.bilm.sources import BiLmSource

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
    "open_archive",
]

__getattr__ = lazy_names(
    __name__,
    {
        "BiLmLanguageModel": "elmo_plugin.bilm.language_model",
        "BiLmPredictor": "elmo_plugin.bilm.predictor",
        "BiLmSoftmax": "elmo_plugin.bilm.softmax",
        "BiLmSource": "elmo_plugin.bilm.sources",
        "open_archive": "elmo_plugin.bilm.language_model_folder",
    },
)
