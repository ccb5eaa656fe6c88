"""Sentiment of sentences on the Stanford Sentiment Treebank (section 4 and A.8 of the paper)."""

from elmo_plugin.tasks.sst.model import BiattentiveClassifier
from elmo_plugin.tasks.sst.predictor import SentimentPredictor
from elmo_plugin.tasks.sst.reader import SentimentTreebankReader

__all__ = ["BiattentiveClassifier", "SentimentPredictor", "SentimentTreebankReader"]
