"""What AllenNLP's trainer lacks: exact resume for any model, streamed text and carried state for language models."""

from elmo_plugin.training.bilm_trainer import BiLmTrainer
from elmo_plugin.training.checkpointer import AtomicCheckpointer
from elmo_plugin.training.muon import Muon
from elmo_plugin.training.reader import BiLmReader
from elmo_plugin.training.trainer import ResumableTrainer
from elmo_plugin.training.vocabulary import BiLmVocabulary
from elmo_plugin.training.windows import PackedWindows

__all__ = [
    "AtomicCheckpointer",
    "BiLmReader",
    "BiLmTrainer",
    "BiLmVocabulary",
    "Muon",
    "PackedWindows",
    "ResumableTrainer",
]
