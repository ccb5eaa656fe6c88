"""Nearest tokens in context against nearest word types: Sec. 5.3 and Table 4.

The biLM's vectors of a corpus are in an index on disk (`token_store`), built once. A query is a word in a sentence; its
neighbours are the sentences of the corpus that hold the tokens with the highest cosine at one layer, found by an exact
search that reads the index in blocks. They are shown with the nearest words by context-independent vectors: those of a
GloVe file, or the biLM's own token layer.
"""

import argparse
import heapq
from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, Any, Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple

import numpy
from allennlp.common import Tqdm
from allennlp.common.checks import ConfigurationError

from elmo_plugin.analysis import token_store
from elmo_plugin.analysis.analysis import Analysis, OpenEmbedder, Report, require_one_or_more
from elmo_plugin.analysis.marked_sentence import TINY, MarkedSentence, marked_vectors, parse_marked, unit_vectors
from elmo_plugin.analysis.token_store import TokenStore
from elmo_plugin.analysis.wsd_data import read_sentences
from elmo_plugin.embedding import ElmoEmbedder
from elmo_plugin.files import read_lines
from elmo_plugin.text.vectors_file import read_vectors
from elmo_plugin.training.corpus import find_shards

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_TYPES_PER_BLOCK = 8192


class TokenNeighbour(NamedTuple):
    """A sentence of the corpus, its nearest token marked."""

    cosine: float
    sentence: MarkedSentence


class TypeNeighbour(NamedTuple):
    cosine: float
    word: str


def corpus_sentences(paths: Iterable[str]) -> Iterator[List[str]]:
    """Tokenised text, one sentence per line, or the WSD evaluation framework's XML, SemCor's format."""
    for path in paths:
        if path.removesuffix(".gz").endswith(".xml"):
            yield from (sentence.tokens for sentence in read_sentences(path))
        else:
            yield from (line.split() for line in read_lines(path))


def build_index(
    folder: str,
    embedder: ElmoEmbedder,
    corpus: Any,
    layer: Optional[int] = None,
    dtype: str = "float16",
    batch_size: int = 64,
) -> TokenStore:
    """The index of a corpus at one layer, the top one unless given; see `token_store.build` for what is reused."""
    paths = find_shards(corpus)
    layer = embedder.num_layers - 1 if layer is None else layer
    source = [token_store.file_identity(path) for path in paths]
    return token_store.build(folder, embedder, corpus_sentences(paths), source, [layer], dtype, batch_size)


def neighbours_of(
    embedder: ElmoEmbedder,
    store: TokenStore,
    queries: Sequence[MarkedSentence],
    num_neighbours: int,
    same_word: bool = False,
    batch_size: int = 64,
) -> List[List[TokenNeighbour]]:
    """For each query the sentences of the index that hold the nearest tokens, at the layer that the index has."""
    (layer,) = store.layers
    vectors = marked_vectors(embedder, queries, batch_size)[layer]
    return nearest_tokens(store, vectors, candidate_mask(store, queries, same_word), num_neighbours)


def candidate_mask(store: TokenStore, queries: Sequence[MarkedSentence], same_word: bool = False) -> numpy.ndarray:
    """Which tokens may be an answer, (num_queries, num_tokens): none of the query's own sentence, if the corpus has it;
    with `same_word` only those that are the query's word, in upper or lower case.
    """
    may_answer = numpy.full((len(queries), len(store)), not same_word)
    words = [query.word.lower() for query in queries]
    for start, tokens in zip(store.offsets, store.sentences(), strict=False):
        for row, query in enumerate(queries):
            if tokens == query.tokens:
                may_answer[row, start : start + len(tokens)] = False
            elif same_word:
                for place, token in enumerate(tokens):
                    may_answer[row, start + place] = token.lower() == words[row]
    return may_answer


def nearest_tokens(
    store: TokenStore, vectors: numpy.ndarray, may_answer: numpy.ndarray, num_neighbours: int
) -> List[List[TokenNeighbour]]:
    """For each query, (num_queries, dim), the sentences with the nearest tokens, best first; exact.

    A sentence counts once, with its nearest token.
    """
    unit = unit_vectors(vectors)
    best: List[List[Tuple[float, int]]] = [[] for _ in vectors]
    with Tqdm.tqdm(total=store.num_sentences, desc="searching", unit=" sentences") as bar:
        for block in store.blocks():
            start = store.offsets[block.first_sentence]
            cosines = _cosines(unit, block.vectors[:, 0])
            cosines[~may_answer[:, start : start + len(block.vectors)]] = -numpy.inf
            # Shape: (num_queries, num_sentences in the block)
            of_sentences = numpy.maximum.reduceat(cosines, block.starts, axis=1)
            numbers = range(block.first_sentence, store.num_sentences)
            for row, scores in enumerate(of_sentences):
                best[row] = _best(best[row], scores, numbers, num_neighbours)
            bar.update(len(block.starts))
    return [
        [_neighbour(store, unit[row], may_answer[row], number) for _, number in ranked]
        for row, ranked in enumerate(best)
    ]


def _cosines(unit: numpy.ndarray, vectors: numpy.ndarray) -> numpy.ndarray:
    # Dividing the products takes less than dividing the vectors, of which there are many.
    return (unit @ vectors.T) / numpy.maximum(numpy.linalg.norm(vectors, axis=-1), TINY)


def _best(
    known: List[Tuple[float, Any]], cosines: numpy.ndarray, names: Sequence[Any], num_neighbours: int
) -> List[Tuple[float, Any]]:
    """The nearest of those known so far and of a block's; of equal ones, the first by name or number. A cosine of minus
    infinity is no answer.
    """
    order = numpy.argsort(-cosines, kind="stable")[:num_neighbours]
    found = [(float(cosines[index]), names[index]) for index in order if cosines[index] > -numpy.inf]
    return heapq.nsmallest(num_neighbours, known + found, key=lambda near: (-near[0], near[1]))


def _neighbour(store: TokenStore, unit: numpy.ndarray, may_answer: numpy.ndarray, number: int) -> TokenNeighbour:
    rows = slice(store.offsets[number], store.offsets[number + 1])
    cosines = _cosines(unit[None], store.vectors[rows, 0].astype(numpy.float32))[0]
    place = int(numpy.where(may_answer[rows], cosines, -numpy.inf).argmax())
    return TokenNeighbour(float(cosines[place]), MarkedSentence(store.sentence(number), place))


def types_of_file(path: str, words: Sequence[str], num_neighbours: int) -> Dict[str, List[TypeNeighbour]]:
    """The nearest words to each of `words` in a file of word vectors.

    A word that the file lacks is looked for in lower case; one that it lacks altogether has no neighbours. The file is
    read twice, a block at a time: first only for the vectors of `words`.
    """
    spellings = {spelling for word in words for spelling in (word, word.lower())}
    own = {word: vector for word, vector in _file_vectors(path, spellings) if word in spellings}
    found = {word: own.get(word, own.get(word.lower())) for word in words}
    known = {word: vector for word, vector in found.items() if vector is not None}
    vectors = Tqdm.tqdm(_file_vectors(path), desc="searching the word vectors", unit=" words") if known else ()
    return {word: [] for word in words} | _nearest_types(known, vectors, num_neighbours)


def _file_vectors(path: str, only: Optional[Set[str]] = None) -> Iterator[Tuple[str, numpy.ndarray]]:
    return (pair for block in read_vectors(path, only=only) for pair in zip(block.words, block.vectors, strict=True))


def types_of_bilm(
    embedder: ElmoEmbedder,
    sentences: Iterable[List[str]],
    words: Sequence[str],
    num_neighbours: int,
    max_types: int = 50_000,
    batch_size: int = 64,
) -> Dict[str, List[TypeNeighbour]]:
    """The nearest words by the biLM's token layer, among a text's `max_types` most frequent."""
    counts = Counter(token for sentence in sentences for token in sentence)
    frequent = [word for word, _ in counts.most_common(max_types)]
    own = {word: embedder.embed_sentence([word])[0, 0] for word in words}
    progress = Tqdm.tqdm(frequent, desc="embedding the word types", unit=" words")
    vectors = embedder.embed_items(progress, lambda word: [word], batch_size)
    return _nearest_types(own, ((word, layers[0, 0]) for word, layers in vectors), num_neighbours)


def _nearest_types(
    queries: Dict[str, numpy.ndarray], vectors: Iterable[Tuple[str, numpy.ndarray]], num_neighbours: int
) -> Dict[str, List[TypeNeighbour]]:
    """The nearest words to each query, other than itself in upper or lower case."""
    best: Dict[str, List[Tuple[float, str]]] = {query: [] for query in queries}
    remaining = iter(vectors)
    while block := list(islice(remaining, _TYPES_PER_BLOCK)):
        words = [word for word, _ in block]
        lower_case = numpy.array([word.lower() for word in words], dtype=object)
        matrix = numpy.stack([vector for _, vector in block])
        for query, vector in queries.items():
            cosines = _cosines(unit_vectors(vector), matrix)
            cosines[lower_case == query.lower()] = -numpy.inf
            best[query] = _best(best[query], cosines, words, num_neighbours)
    return {query: [TypeNeighbour(*near) for near in ranked] for query, ranked in best.items()}


class Answer(NamedTuple):
    """What Table 4 shows for one query."""

    query: MarkedSentence
    types: List[TypeNeighbour]
    tokens: List[TokenNeighbour]


@Analysis.register("neighbours")
class Neighbours(Analysis):
    help = "nearest tokens in context against nearest word types (Table 4)"
    description = (
        "Finds the sentences of a corpus that hold the tokens nearest to a word in a sentence, and the words nearest "
        "to it regardless of the sentence. The corpus is tokenised text with one sentence per line, or NAME.data.xml "
        "such as SemCor, plain or gzipped; it is embedded once, into the folder --index, which continues where it was "
        "interrupted. Later calls only need --index."
    )
    example = (
        "allennlp elmo-analyze neighbours --corpus semcor.data.xml.gz --index semcor.index --queries 'Ruiz made a "
        "spectacular [play] on the grounder .' 'They signed to do a Broadway [play] .' --word-vectors glove.txt.gz "
        "--output out"
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--index", required=True, metavar="DIR", help="the corpus's vectors; built if necessary")
        parser.add_argument("--corpus", nargs="+", metavar="PATH", help="files, folders or globs; to build the index")
        parser.add_argument(
            "--queries", required=True, nargs="+", metavar="TEXT", help="tokenised, one word each in [square] brackets"
        )
        parser.add_argument("--layer", type=int, metavar="N", help="the layer to index (default: the top one)")
        parser.add_argument("--float32", action="store_true", help="index in full precision, at twice the size")
        parser.add_argument("--same-word", action="store_true", help="only tokens that are the query's word")
        parser.add_argument(
            "--word-vectors", metavar="FILE", help="GloVe's text format; otherwise the biLM's token layer"
        )
        parser.add_argument("--num-tokens", type=int, default=5, metavar="N", help="sentences to show for a query")
        parser.add_argument("--num-types", type=int, default=10, metavar="N", help="words to show for a query")

    def run(self, arguments: argparse.Namespace, open_embedder: OpenEmbedder) -> Report:
        require_one_or_more(arguments, "num_tokens", "num_types")
        queries = [parse_marked(text, "--queries") for text in arguments.queries]
        words = sorted({query.word for query in queries})
        types = arguments.word_vectors and types_of_file(arguments.word_vectors, words, arguments.num_types)
        store = None if arguments.corpus else TokenStore(arguments.index)
        embedder = open_embedder()
        if store is None:
            dtype = "float32" if arguments.float32 else "float16"
            store = build_index(
                arguments.index, embedder, arguments.corpus, arguments.layer, dtype, arguments.batch_size
            )
        check_index(store, embedder, arguments.layer)
        if not types:
            types = types_of_bilm(
                embedder, store.sentences(), words, arguments.num_types, batch_size=arguments.batch_size
            )
        tokens = neighbours_of(
            embedder, store, queries, arguments.num_tokens, arguments.same_word, arguments.batch_size
        )
        answers = [Answer(query, types[query.word], near) for query, near in zip(queries, tokens, strict=True)]
        return report(answers, store.layers[0], "word vectors" if arguments.word_vectors else "biLM, token layer")


def check_index(store: TokenStore, embedder: ElmoEmbedder, layer: Optional[int] = None) -> None:
    """Refuses an index of another biLM, or without the requested layer."""
    if store.identity["bilm"] != embedder.fingerprint():
        raise ConfigurationError(f"the index {store.folder} was built with a different biLM")
    if len(store.layers) != 1 or layer not in (None, store.layers[0]):
        raise ConfigurationError(f"the index {store.folder} has the layers {store.layers}, not {layer}")


def report(answers: Sequence[Answer], layer: int, types_by: str) -> Report:
    """Table 4: for each query its nearest words, then its nearest sentences."""
    parts = []
    for query, types, tokens in answers:
        words = ", ".join(neighbour.word for neighbour in types) or "(not among the word vectors)"
        lines = [f"{query.excerpt(len(query.tokens))}", f"  {types_by}: {words}", f"  biLM, layer {layer}:"]
        lines += [f"    {cosine:.3f}  {sentence.excerpt(len(sentence.tokens))}" for cosine, sentence in tokens]
        parts.append("\n".join(lines + ["    (none)"] * (not tokens)))
    results = {
        "layer": layer,
        "types_by": types_by,
        "queries": [
            {
                "tokens": query.tokens,
                "place": query.place,
                "nearest_types": [neighbour._asdict() for neighbour in types],
                "nearest_tokens": [
                    {"cosine": near.cosine, "tokens": near.sentence.tokens, "place": near.sentence.place}
                    for near in tokens
                ],
            }
            for query, types, tokens in answers
        ],
    }
    return Report(results, "\n\n".join(parts), lambda figure: draw(figure, answers, layer, types_by))


def draw(figure: "Figure", answers: Sequence[Answer], layer: int, types_by: str) -> None:
    """A row for each query: the cosines of its nearest words on the left, of its nearest sentences on the right."""
    heights = [max(len(types), len(tokens), 1) for _, types, tokens in answers]
    figure.set_size_inches(10.5, 0.75 * len(answers) + 0.22 * sum(heights))
    panels = figure.subplots(
        len(answers), 2, squeeze=False, gridspec_kw={"height_ratios": heights, "width_ratios": [1, 2]}
    )
    for (left, right), (query, types, tokens) in zip(panels, answers, strict=True):
        num_rows = max(len(types), len(tokens), 1)
        _draw_bars(left, [(near.cosine, near.word) for near in types], num_rows, f"{types_by}: {query.word}", "C7")
        labels = [(near.cosine, near.sentence.excerpt(6)) for near in tokens]
        _draw_bars(right, labels, num_rows, f"biLM, layer {layer}: {query.excerpt(6)}", "C0")
        right.set_xlabel("cosine", fontsize="x-small", loc="right")


def _draw_bars(axes: Any, bars: Sequence[Tuple[float, str]], num_rows: int, title: str, shade: str) -> None:
    axes.barh(range(len(bars)), [cosine for cosine, _ in bars], color=shade, alpha=0.35, height=0.8)
    for row, (_, label) in enumerate(bars):
        axes.text(0.01, row, label, va="center", fontsize="small", clip_on=True)
    axes.set_title(title, fontsize="small", loc="left", fontweight="bold")
    axes.set_yticks([])
    axes.set_ylim(num_rows - 0.5, -0.5)
    axes.set_xlim(0, 1)
    axes.tick_params(labelsize="x-small")
    axes.spines[["top", "right", "left"]].set_visible(False)
