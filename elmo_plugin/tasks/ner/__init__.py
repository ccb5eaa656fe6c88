"""Named entity recognition: which words of a sentence name a person, a place, an organisation?"""

from elmo_plugin.tasks.ner.metrics import ConllMetric
from elmo_plugin.tasks.ner.model import NerTagger
from elmo_plugin.tasks.ner.predictor import NerPredictor
from elmo_plugin.tasks.ner.reader import NerReader

__all__ = ["ConllMetric", "NerPredictor", "NerReader", "NerTagger"]
