"""Subcommands of `allennlp`: they parse arguments and call what lives elsewhere."""

from elmo_plugin.commands.bilm_export import BiLmExport

__all__ = ["BiLmExport"]
