"""Vectors in bulk: from Python by `ElmoEmbedder`, to files by the jobs behind `allennlp elmo` and `elmo-tokens`."""

from elmo_plugin.embedding.embedder_api import ElmoEmbedder

__all__ = ["ElmoEmbedder"]
