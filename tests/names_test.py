"""The public names. A name that changes here breaks somebody's config."""

import pytest
from allennlp.commands.subcommand import Subcommand
from allennlp.common import Registrable
from allennlp.data import BatchSampler, DataLoader, DatasetReader, TokenIndexer, Tokenizer, Vocabulary
from allennlp.data.tokenizers import SentenceSplitter
from allennlp.models import Model
from allennlp.modules import Seq2SeqEncoder, TokenEmbedder
from allennlp.predictors import Predictor
from allennlp.training import Checkpointer, Trainer
from allennlp.training.learning_rate_schedulers import LearningRateScheduler
from allennlp.training.metrics import Metric
from allennlp.training.optimizers import Optimizer

import elmo_plugin
from elmo_plugin.analysis import Analysis
from elmo_plugin.bilm import BiLmSource
from elmo_plugin.bilm.cache import LayerCache
from elmo_plugin.bilm.softmax import BiLmSoftmax
from elmo_plugin.tasks.squad.modules import SpanHeads
from elmo_plugin.tasks.srl.predicates import PredicateFinder
from elmo_plugin.text import ContextualEmbedder

NAMES = {
    Analysis: ["ablations", "finetuning", "neighbours", "pos", "sample-efficiency", "similarity", "wsd"],
    BatchSampler: ["elmo::sentences"],
    BiLmSource: ["archive", "files", "pretrained", "random"],
    BiLmSoftmax: ["adaptive", "full", "sampled"],
    Checkpointer: ["elmo::atomic"],
    ContextualEmbedder: ["cove", "elmo", "none"],
    DataLoader: ["elmo::windows"],
    DatasetReader: [
        "elmo::bilm",
        "elmo::coref",
        "elmo::fraction",
        "elmo::ner",
        "elmo::snli",
        "elmo::squad",
        "elmo::srl",
        "elmo::sst",
    ],
    LayerCache: ["disk", "none", "ram"],
    LearningRateScheduler: ["elmo::staircase"],
    Metric: ["elmo::bilm_perplexity", "elmo::conll", "elmo::coref", "elmo::squad", "elmo::srl"],
    Model: [
        "elmo::bilm",
        "elmo::coref",
        "elmo::ensemble",
        "elmo::ner",
        "elmo::snli",
        "elmo::squad",
        "elmo::srl",
        "elmo::sst",
    ],
    Optimizer: ["elmo::muon"],
    PredicateFinder: ["spacy", "tagger"],
    Predictor: [
        "elmo::bilm",
        "elmo::coref",
        "elmo::ensemble",
        "elmo::ner",
        "elmo::sentence_tagger",
        "elmo::snli",
        "elmo::squad",
        "elmo::srl",
        "elmo::sst",
    ],
    SentenceSplitter: ["elmo::spacy"],
    Seq2SeqEncoder: ["elmo::alternating_lstm", "elmo::coupled_lstm", "elmo::gru", "elmo::lstm"],
    SpanHeads: ["chained", "linear"],
    Subcommand: [
        "bilm-export",
        "bilm-widen",
        "elmo",
        "elmo-analyze",
        "elmo-convert",
        "elmo-demo",
        "elmo-layers",
        "elmo-score",
        "elmo-tokens",
    ],
    TokenEmbedder: ["elmo::character_encoding", "elmo::token_embedder", "elmo::word_vectors"],
    TokenIndexer: ["elmo::characters", "elmo::words"],
    Tokenizer: ["elmo::spacy"],
    Trainer: ["elmo::bilm", "elmo::resumable"],
    Vocabulary: ["elmo::bilm"],
}


def ours(registrable):
    registered = Registrable._registry[registrable].items()
    return sorted(name for name, (cls, _) in registered if cls.__module__.startswith("elmo_plugin"))


@pytest.mark.parametrize("registrable", NAMES, ids=lambda registrable: registrable.__name__)
def test_the_registered_names_are_these(registrable):
    assert ours(registrable) == NAMES[registrable]


def test_nothing_else_is_registered():
    assert {registrable for registrable in Registrable._registry if ours(registrable)} <= set(NAMES)


def test_the_python_api_is_this():
    assert "ElmoEmbedder" in elmo_plugin.__all__ and elmo_plugin.__version__
    assert all(hasattr(elmo_plugin, name) for name in elmo_plugin.__all__)
