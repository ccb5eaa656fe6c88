"""Text, tokenised and embedded; knows nothing of ELMo."""

from elmo_plugin.text.contextual import ContextualEmbedder, NoContextualEmbedder
from elmo_plugin.text.embedded_text import EmbeddedText
from elmo_plugin.text.embedder import PlacedTextEmbedder

__all__ = ["ContextualEmbedder", "EmbeddedText", "NoContextualEmbedder", "PlacedTextEmbedder"]
