"""What AllenNLP gets: importing this module registers everything in the plugin, and makes the repairs that AllenNLP
2.10.1 needs on today's torch.

AllenNLP imports it as one of its default plugins. A program that imports `elmo_plugin` and AllenNLP gets it when
AllenNLP first looks for a registered name; see `elmo_plugin_startup`.
"""

import elmo_plugin_startup  # noqa: F401  (first: where no .pth file was read, AllenNLP can't be imported without it)

try:
    import allennlp  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "allennlp":
        raise
    raise ImportError(
        "This part of elmo_plugin needs AllenNLP, whose own requirements can no longer be resolved. Install it without "
        "them: pip install --no-deps allennlp==2.10.1 cached-path==1.8.10"
    ) from error

from elmo_plugin import compat

compat.apply()

from elmo_plugin import analysis, commands, elmo, embedding, tasks, text, training  # noqa: E402, F401
from elmo_plugin.bilm import cache, language_model, perplexity, predictor, softmax, softmax_file, sources  # noqa: E402, F401
from elmo_plugin.characters import indexer, word_encoder  # noqa: E402, F401
