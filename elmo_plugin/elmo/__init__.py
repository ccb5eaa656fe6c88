"""Equation (1): a biLM's layers, mixed for a task."""

from elmo_plugin.elmo.elmo import Elmo
from elmo_plugin.elmo.scalar_mix import ScalarMix
from elmo_plugin.elmo.token_embedder import ElmoTokenEmbedder
from elmo_plugin.embedding import ElmoEmbedder  # which was here before it got its own folder

__all__ = ["Elmo", "ElmoEmbedder", "ElmoTokenEmbedder", "ScalarMix"]
