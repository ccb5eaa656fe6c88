"""ELMo ("Deep contextualized word representations", Peters et al. 2018) as an AllenNLP plugin.

Importing this package takes no time and imports nothing: `ElmoEmbedder` needs torch, numpy and h5py, and what AllenNLP
runs is in `elmo_plugin.plugin`, which AllenNLP finds by itself.
"""

import sys
from typing import TYPE_CHECKING

import elmo_plugin_startup  # where no .pth file was read, AllenNLP can't be imported without it
from elmo_plugin.lazy import lazy_names

if TYPE_CHECKING:
    from elmo_plugin import (
        analysis,
        bilm,
        characters,
        commands,
        compat,
        elmo,
        embedding,
        settings,
        tasks,
        text,
        training,
    )
    from elmo_plugin.embedding import ElmoEmbedder

__version__ = "0.2.0"
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

__getattr__ = lazy_names(
    __name__, {name: f"{__name__}.embedding" if name == "ElmoEmbedder" else f"{__name__}.{name}" for name in __all__}
)

elmo_plugin_startup.share_cores()

if "allennlp" in sys.modules:
    # Also when it is AllenNLP that imports it, for a file of plugins or --include-package.
    elmo_plugin_startup.import_plugin()
