"""What the paper measures, one module per analysis, each run by `allennlp elmo-analyze NAME`.

A module holds plain functions that do the work and can be called from Python, and a small `Analysis` registered under
the command's name, which turns arguments into a call and the outcome into a `Report`:

    @Analysis.register("wsd")
    class WordSenses(Analysis):
        help = "word sense disambiguation by nearest neighbour (Table 5)"
        description = "What it measures, in a paragraph."
        example = "allennlp elmo-analyze wsd --bilm bilm.tar.gz --train semcor ... --output out"
        uses_bilm = True      # the command adds --bilm, --options-file, --weight-file, --cuda-device, --batch-size

        def add_arguments(self, parser): ...                      # its own flags
        def run(self, arguments, open_embedder) -> Report: ...    # `open_embedder()` loads the biLM that the flags name

`Report(results, table, draw)`: what goes into NAME.json; the text of NAME.txt, which is also printed; a function that
draws on an empty `matplotlib.figure.Figure`, for NAME.png. The command writes them, each whole or not at all, and turns
ConfigurationError, OSError and Ctrl-C into one line and an exit code.
"""

from elmo_plugin.analysis import (  # noqa: F401
    ablations,
    finetuning,
    layer_weights,
    neighbours,
    pos,
    runs,
    sample_efficiency,
    similarity,
    wsd,
)
from elmo_plugin.analysis.analysis import Analysis, Report

__all__ = ["Analysis", "Report", "layer_weights", "neighbours", "pos", "similarity", "wsd"]
