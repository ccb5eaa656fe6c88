"""Semantic role labeling: who did what to whom?"""

from elmo_plugin.tasks.srl.metrics import SrlMetric
from elmo_plugin.tasks.srl.model import SrlTagger
from elmo_plugin.tasks.srl.modules import AlternatingLstm, HighwayLstm
from elmo_plugin.tasks.srl.predicates import PredicateFinder, SpacyPredicateFinder, TaggerPredicateFinder
from elmo_plugin.tasks.srl.predictor import SrlPredictor
from elmo_plugin.tasks.srl.reader import SrlReader
from elmo_plugin.tasks.srl.sampler import SentenceBatchSampler

__all__ = [
    "AlternatingLstm",
    "HighwayLstm",
    "PredicateFinder",
    "SentenceBatchSampler",
    "SpacyPredicateFinder",
    "SrlMetric",
    "SrlPredictor",
    "SrlReader",
    "SrlTagger",
    "TaggerPredicateFinder",
]
