"""The paper's tasks, each in a folder of its own. None of them knows ELMo: they take a placed text embedder."""

from elmo_plugin.tasks import ner, snli, sst
from elmo_plugin.tasks.common import ensemble, fraction

__all__ = ["ensemble", "fraction", "ner", "snli", "sst"]
