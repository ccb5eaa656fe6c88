"""Question answering: which words of a passage answer a question?"""

from elmo_plugin.tasks.squad.metrics import SquadMetric
from elmo_plugin.tasks.squad.model import BidafSelfAttention
from elmo_plugin.tasks.squad.modules import ChainedHeads, LinearHeads, SpanHeads
from elmo_plugin.tasks.squad.predictor import SquadPredictor
from elmo_plugin.tasks.squad.reader import SquadReader

__all__ = [
    "BidafSelfAttention",
    "ChainedHeads",
    "LinearHeads",
    "SpanHeads",
    "SquadMetric",
    "SquadPredictor",
    "SquadReader",
]
