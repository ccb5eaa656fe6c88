"""How similar a biLM finds the same word in different sentences, layer by layer."""

import argparse
import math
from typing import TYPE_CHECKING, List, Sequence

import numpy
from allennlp.common.checks import ConfigurationError

from elmo_plugin.analysis.analysis import Analysis, OpenEmbedder, Report
from elmo_plugin.analysis.marked_sentence import MarkedSentence, marked_vectors, parse_marked, unit_vectors
from elmo_plugin.analysis.tables import layer_name, text_table
from elmo_plugin.embedding import ElmoEmbedder
from elmo_plugin.files import numbered_lines

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MAX_SENTENCES = 40


def similarities(embedder: ElmoEmbedder, sentences: Sequence[MarkedSentence], batch_size: int = 64) -> numpy.ndarray:
    """The cosines between the marked words, (num_layers, num_sentences, num_sentences)."""
    # Shape: (num_layers, num_sentences, dim)
    unit = unit_vectors(marked_vectors(embedder, sentences, batch_size))
    return unit @ unit.transpose(0, 2, 1)


@Analysis.register("similarity")
class Similarity(Analysis):
    help = "a heat map of one word across sentences, layer by layer"
    description = (
        "Compares a word, marked by square brackets, across sentences: the cosine between its vectors in each pair of "
        "sentences, at each layer. At the token layer the same word is always equal to itself; the layers above "
        "distinguish contexts. The marked words may also differ."
    )
    example = (
        "allennlp elmo-analyze similarity --sentences 'They sat on the [bank] of the river .' 'She put money in the "
        "[bank] .' 'The [bank] raised its rates .' --output out"
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--sentences", nargs="+", metavar="TEXT", help="tokenised, one word each in [square] brackets"
        )
        parser.add_argument("--sentences-file", metavar="FILE", help="a file with more of them, one per line")

    def run(self, arguments: argparse.Namespace, open_embedder: OpenEmbedder) -> Report:
        sentences = [parse_marked(text, "--sentences") for text in arguments.sentences or ()]
        if arguments.sentences_file:
            path = arguments.sentences_file
            sentences += [parse_marked(line, f"{path}:{number}") for number, line in numbered_lines(path)]
        if not 2 <= len(sentences) <= _MAX_SENTENCES:
            raise ConfigurationError(
                f"a comparison takes 2 to {_MAX_SENTENCES} sentences, but {len(sentences)} were given"
            )
        return report(sentences, similarities(open_embedder(), sentences, arguments.batch_size))


def report(sentences: Sequence[MarkedSentence], cosines: numpy.ndarray) -> Report:
    """The matrices of `similarities` as a table per layer, and a heat map."""
    numbers = [str(number) for number in range(1, len(sentences) + 1)]
    parts = ["\n".join(f"{number}  {sentence.excerpt()}" for number, sentence in zip(numbers, sentences, strict=True))]
    for layer, matrix in enumerate(cosines):
        rows = [[number, *(f"{cosine:.2f}" for cosine in row)] for number, row in zip(numbers, matrix, strict=True)]
        parts.append(f"{layer_name(layer)}\n{text_table(['', *numbers], rows)}")
    results = {
        "sentences": [{"tokens": sentence.tokens, "place": sentence.place} for sentence in sentences],
        "cosines": {layer_name(layer): matrix.round(6).tolist() for layer, matrix in enumerate(cosines)},
    }
    return Report(results, "\n\n".join(parts), lambda figure: draw(figure, sentences, cosines))


def draw(figure: "Figure", sentences: Sequence[MarkedSentence], cosines: numpy.ndarray) -> None:
    """One heat map per layer, all on the same scale."""
    from matplotlib.cm import ScalarMappable

    num_sentences = len(sentences)
    side = max(1.7, 0.42 * num_sentences)
    figure.set_size_inches(3.2 + len(cosines) * (side + 0.3), side + 1.1)
    panels = figure.subplots(1, len(cosines), sharey=True, squeeze=False)[0]
    labels: List[str] = [f"{sentence.excerpt(3)}  {number}" for number, sentence in enumerate(sentences, start=1)]
    scale = ScalarMappable(cmap="viridis")
    # The first tenth below all values: contextual vectors are seldom far apart, and a scale from 0 would hide the
    # differences.
    lowest = math.floor(10 * float(cosines.min()) - 1e-6) / 10
    scale.set_clim(lowest, 1.0)
    for layer, (axes, matrix) in enumerate(zip(panels, cosines, strict=True)):
        axes.imshow(matrix, cmap=scale.cmap, norm=scale.norm)
        axes.set_title(layer_name(layer).removeprefix("biLM, "), fontsize="medium")
        axes.set_xticks(range(num_sentences), [str(number) for number in range(1, num_sentences + 1)], fontsize="small")
        axes.set_yticks(range(num_sentences), labels, fontsize="small")
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        if num_sentences <= 12:
            for row, column in numpy.ndindex(matrix.shape):
                shade = "black" if matrix[row, column] > 0.4 * lowest + 0.6 else "white"
                axes.text(
                    column, row, f"{matrix[row, column]:.2f}", ha="center", va="center", fontsize="x-small", color=shade
                )
    figure.colorbar(scale, ax=panels.tolist(), label="cosine", shrink=0.8)
