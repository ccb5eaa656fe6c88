"""ELMo ("Deep contextualized word representations", Peters et al. 2018) as an AllenNLP plugin.

Importing this package registers everything it brings, and repairs what AllenNLP 2.10.1 needs repaired on today's torch.
"""

import elmo_plugin_startup  # noqa: F401  (first: where no .pth file was read, AllenNLP can't be imported without it)

try:
    import allennlp  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "allennlp":
        raise
    raise ImportError(
        "elmo_plugin needs AllenNLP, whose own requirements can no longer be resolved. Install it without them: "
        "pip install --no-deps allennlp==2.10.1"
    ) from error

from elmo_plugin import compat, settings

compat.apply()
settings.fill_in_defaults()

from elmo_plugin import analysis, bilm, characters, commands, elmo, embedding, tasks, text, training  # noqa: E402
from elmo_plugin.embedding import ElmoEmbedder  # noqa: E402

__version__ = "0.1.0"
__all__ = [
    "ElmoEmbedder",
    "analysis",
    "bilm",
    "characters",
    "commands",
    "compat",
    "elmo",
    "embedding",
    "settings",
    "tasks",
    "text",
    "training",
]
