"""The paper's six tasks, each in its own folder. None of them knows about ELMo: they take a placed text embedder."""

from elmo_plugin.tasks import coref, ner, snli, squad, srl, sst
from elmo_plugin.tasks.common import ensemble, fraction, recurrent

__all__ = ["coref", "ensemble", "fraction", "ner", "recurrent", "snli", "squad", "srl", "sst"]
