"""The paper's six tasks, each in a folder of its own. None of them knows ELMo: they take a placed text embedder."""

from elmo_plugin.tasks import coref, ner, snli, squad, srl, sst
from elmo_plugin.tasks.common import ensemble, fraction, recurrent

__all__ = ["coref", "ensemble", "fraction", "ner", "recurrent", "snli", "squad", "srl", "sst"]
