"""Subcommands of `allennlp`: they parse arguments and call what lives elsewhere."""

from elmo_plugin.commands.bilm_export import BiLmExport
from elmo_plugin.commands.bilm_widen import BiLmWiden
from elmo_plugin.commands.elmo import ElmoCommand
from elmo_plugin.commands.elmo_analyze import ElmoAnalyze
from elmo_plugin.commands.elmo_convert import ElmoConvert
from elmo_plugin.commands.elmo_demo import ElmoDemo
from elmo_plugin.commands.elmo_layers import ElmoLayers
from elmo_plugin.commands.elmo_score import ElmoScore
from elmo_plugin.commands.elmo_tokens import ElmoTokens

__all__ = [
    "BiLmExport",
    "BiLmWiden",
    "ElmoAnalyze",
    "ElmoCommand",
    "ElmoConvert",
    "ElmoDemo",
    "ElmoLayers",
    "ElmoScore",
    "ElmoTokens",
]
