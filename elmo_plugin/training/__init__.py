"""What AllenNLP's trainer lacks for language models: streamed text, packed windows, carried state, exact resume."""

from elmo_plugin.training.checkpointer import AtomicCheckpointer
from elmo_plugin.training.reader import BiLmReader
from elmo_plugin.training.trainer import BiLmTrainer
from elmo_plugin.training.vocabulary import BiLmVocabulary
from elmo_plugin.training.windows import PackedWindows

__all__ = ["AtomicCheckpointer", "BiLmReader", "BiLmTrainer", "BiLmVocabulary", "PackedWindows"]
