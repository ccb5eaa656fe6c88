"""Coreference resolution: which phrases of a document refer to the same thing?"""

from elmo_plugin.tasks.coref.lstm import CoupledLstm
from elmo_plugin.tasks.coref.metrics import CoreferenceMetric
from elmo_plugin.tasks.coref.model import CoreferenceResolver
from elmo_plugin.tasks.coref.predictor import CoreferencePredictor
from elmo_plugin.tasks.coref.reader import CoreferenceReader
from elmo_plugin.tasks.coref.schedule import Staircase

__all__ = [
    "CoreferenceMetric",
    "CoreferencePredictor",
    "CoreferenceReader",
    "CoreferenceResolver",
    "CoupledLstm",
    "Staircase",
]
