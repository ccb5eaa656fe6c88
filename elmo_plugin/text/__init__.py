"""Text, tokenised and embedded; knows nothing about ELMo."""

from elmo_plugin.text.contextual import ContextualEmbedder, NoContextualEmbedder
from elmo_plugin.text.embedded_text import EmbeddedText
from elmo_plugin.text.embedder import PlacedTextEmbedder
from elmo_plugin.text.predictor import OfflineSentenceTaggerPredictor
from elmo_plugin.text.tokenizer import RuleBasedSentenceSplitter, RuleBasedTokenizer
from elmo_plugin.text.word_vectors import WordIndexer, WordVectors

__all__ = [
    "ContextualEmbedder",
    "EmbeddedText",
    "NoContextualEmbedder",
    "OfflineSentenceTaggerPredictor",
    "PlacedTextEmbedder",
    "RuleBasedSentenceSplitter",
    "RuleBasedTokenizer",
    "WordIndexer",
    "WordVectors",
]
