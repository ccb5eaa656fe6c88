"""Part-of-speech tags by a linear classifier on each frozen layer: Sec. 5.3 and Table 6.

One multinomial logistic regression per layer, on that layer's vectors alone, standardised by the training set's mean
and deviation; all are trained together by Adam, with a rate that falls to zero over a fixed number of epochs, so that
nothing is chosen by looking at the test set. The vectors are kept in a file, not in memory.
"""

import argparse
import tempfile
from contextlib import nullcontext
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, ContextManager, Dict, Iterator, List, NamedTuple, Optional, Tuple

import numpy
import torch
from allennlp.common import Tqdm
from allennlp.nn.util import move_to_device
from torch.nn import functional

from elmo_plugin.analysis import token_store
from elmo_plugin.analysis.analysis import Analysis, OpenEmbedder, Report, require_one_or_more
from elmo_plugin.analysis.tables import layer_name, percent, text_table
from elmo_plugin.analysis.tagged_text import COLUMNS, FORMATS, TaggedSentence, majority_tags, read_tagged, tagged_files
from elmo_plugin.analysis.token_store import TokenStore
from elmo_plugin.embedding import ElmoEmbedder

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAJORITY = "most frequent tag"
WORD_MAJORITY = "each word's most frequent tag"
# Accuracy on the Penn Treebank's test set, Table 6.
PAPER = {
    layer_name(1): 0.973,
    layer_name(2): 0.968,
    layer_name(1, "CoVe"): 0.933,
    layer_name(2, "CoVe"): 0.928,
}

_UNKNOWN_TAG = -1


class TaggedCorpus(NamedTuple):
    """A tagged file, read as often as necessary, or its first `limit` sentences."""

    path: str
    file_format: str = "auto"
    column: str = "xpos"
    limit: Optional[int] = None
    encoding: str = "utf-8"

    def sentences(self) -> Iterator[TaggedSentence]:
        return islice(read_tagged(self.path, self.file_format, self.column, self.encoding), self.limit)

    def vectors(self, embedder: ElmoEmbedder, folder: Path, batch_size: int, progress: str) -> TokenStore:
        """All layers of all tokens, from the files in `folder`."""
        files = [token_store.file_identity(path) for path in tagged_files(self.path)]
        identity = files[0] if len(files) == 1 else {"files": files}
        source = {**identity, "format": self.file_format, "limit": self.limit}
        tokens = (sentence.tokens for sentence in self.sentences())
        return token_store.build(folder, embedder, tokens, source, batch_size=batch_size, progress=progress)


class LinearProbes(torch.nn.Module):
    """A linear classifier on each layer."""

    mean: torch.Tensor
    deviation: torch.Tensor

    def __init__(self, num_layers: int, dim: int, num_tags: int) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(num_layers, dim, num_tags))
        self.bias = torch.nn.Parameter(torch.zeros(num_layers, 1, num_tags))
        self.register_buffer("mean", torch.zeros(num_layers, dim))
        self.register_buffer("deviation", torch.ones(num_layers, dim))

    def standardise(self, store: TokenStore) -> None:
        """Takes the mean and the deviation of each of a layer's features from a training set."""
        total = numpy.zeros(store.vectors.shape[1:])
        squares = numpy.zeros_like(total)
        for block in store.blocks():
            total += block.vectors.sum(axis=0, dtype=numpy.float64)
            squares += numpy.square(block.vectors).sum(axis=0, dtype=numpy.float64)
        mean = total / len(store)
        deviation = numpy.sqrt(numpy.maximum(squares / len(store) - mean**2, 0))
        self.mean.copy_(torch.from_numpy(mean))
        # A feature that never changes carries no information, and has no scale.
        self.deviation.copy_(torch.from_numpy(numpy.where(deviation > 0, deviation, 1.0)))

    def forward(self, vectors: torch.Tensor) -> torch.Tensor:
        """Scores of the tags, (num_layers, num_tokens, num_tags), for vectors (num_tokens, num_layers, dim)."""
        return torch.baddbmm(self.bias, ((vectors - self.mean) / self.deviation).transpose(0, 1), self.weight)


def train_probes(
    store: TokenStore,
    tag_ids: numpy.ndarray,
    num_tags: int,
    num_epochs: int = 10,
    batch_size: int = 256,
    learning_rate: float = 1e-2,
    seed: int = 0,
    cuda_device: int = -1,
) -> LinearProbes:
    """Trains a classifier on each layer. `tag_ids` has the tag of each token in the store."""
    probes = LinearProbes(store.vectors.shape[1], store.vectors.shape[2], num_tags)
    probes.standardise(store)
    if cuda_device >= 0:
        probes.cuda(cuda_device)
    random = numpy.random.default_rng(seed)
    num_updates = num_epochs * -(-len(store) // batch_size)
    optimizer = torch.optim.Adam(probes.parameters(), lr=learning_rate)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda update: max(0.0, 1 - update / num_updates))
    with Tqdm.tqdm(total=num_updates, desc="training the classifiers", unit=" updates") as bar:
        for _ in range(num_epochs):
            order = random.permutation(len(store))
            for start in range(0, len(store), batch_size):
                # In the file's order, since the order within a batch doesn't matter to the gradient.
                rows = numpy.sort(order[start : start + batch_size])
                vectors = move_to_device(torch.from_numpy(store.vectors[rows].astype(numpy.float32)), cuda_device)
                gold = move_to_device(torch.from_numpy(tag_ids[rows]), cuda_device)
                scores = probes(vectors)
                # The layers share no parameter, so the sum of their losses trains each on its own.
                loss = functional.cross_entropy(scores.flatten(0, 1), gold.repeat(len(scores)), reduction="sum") / len(
                    rows
                )
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                schedule.step()
                bar.update()
    return probes


def predict(probes: LinearProbes, store: TokenStore) -> numpy.ndarray:
    """The tag at each layer, (num_layers, num_tokens)."""
    device = probes.weight.device
    with torch.inference_mode():
        best = [probes(torch.from_numpy(block.vectors).to(device)).argmax(dim=-1).cpu() for block in store.blocks()]
    return torch.cat(best, dim=1).numpy()


def tag_ids_of(corpus: TaggedCorpus, ids: Dict[str, int]) -> numpy.ndarray:
    """The tags of a corpus as numbers; one that isn't in `ids` becomes -1, which no classifier answers."""
    tags = (tag for sentence in corpus.sentences() for tag in sentence.tags)
    return numpy.fromiter((ids.get(tag, _UNKNOWN_TAG) for tag in tags), dtype=numpy.int64)


class Accuracy(NamedTuple):
    """The share of right tags, among all words and among words not seen in training."""

    all_words: float
    unseen_words: Optional[float]


def accuracy(right: numpy.ndarray, is_unseen: numpy.ndarray) -> Accuracy:
    """From one boolean per token."""
    return Accuracy(float(right.mean()), float(right[is_unseen].mean()) if is_unseen.any() else None)


def compare_layers(
    embedder: ElmoEmbedder,
    train: TaggedCorpus,
    test: TaggedCorpus,
    folder: Path,
    batch_size: int = 64,
    num_epochs: int = 10,
    learning_rate: float = 1e-2,
    seed: int = 0,
) -> Tuple[Dict[str, Accuracy], Dict[str, int]]:
    """The accuracy of two baselines and of every layer, and the sizes of the two corpora. Vectors go to `folder`."""
    majority = majority_tags(train.sentences())
    ids = {tag: index for index, tag in enumerate(sorted({tag for s in train.sentences() for tag in s.tags}))}
    words = [token for sentence in test.sentences() for token in sentence.tokens]
    is_unseen = numpy.array([word not in majority.of_word for word in words])
    gold = tag_ids_of(test, ids)
    baseline = numpy.array([ids[majority.guess(word)] for word in words])
    systems = {
        MAJORITY: accuracy(gold == ids[majority.of_all], is_unseen),
        WORD_MAJORITY: accuracy(gold == baseline, is_unseen),
    }
    train_store = train.vectors(embedder, folder / "train", batch_size, "embedding the training set")
    test_store = test.vectors(embedder, folder / "test", batch_size, "embedding the test set")
    probes = train_probes(
        train_store,
        tag_ids_of(train, ids),
        len(ids),
        num_epochs,
        learning_rate=learning_rate,
        seed=seed,
        cuda_device=embedder.cuda_device,
    )
    for layer, tags in zip(train_store.layers, predict(probes, test_store), strict=True):
        systems[layer_name(layer, embedder.name)] = accuracy(gold == tags, is_unseen)
    sizes = {
        "train_tokens": len(train_store),
        "test_tokens": len(test_store),
        "unseen_test_tokens": int(is_unseen.sum()),
        "tags": len(ids),
    }
    return systems, sizes


@Analysis.register("pos")
class PartsOfSpeech(Analysis):
    takes_cove = True
    help = "part-of-speech tags by a linear classifier on each layer (Table 6)"
    description = (
        "Trains a linear classifier on the vectors of each of the frozen biLM's layers, and prints their accuracies "
        "beside those of the most frequent tag and of each word's most frequent tag. Reads CoNLL-U (NAME.conllu, the "
        "column XPOS or UPOS), the Penn Treebank's NAME.pos, or text of word_TAG or word/TAG tokens with one sentence "
        "per line, plain or gzipped; for the first two also all files below a folder."
    )
    example = (
        "allennlp elmo-analyze pos --bilm bilm.tar.gz --train en_ewt-ud-train.conllu.gz --test "
        "en_ewt-ud-dev.conllu.gz --output out"
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--train", required=True, metavar="PATH", help="the tagged text to train on")
        parser.add_argument("--test", required=True, metavar="PATH", help="the tagged text to test on")
        parser.add_argument(
            "--format",
            choices=FORMATS,
            default="auto",
            help="of both; auto decides by file names and the treebank's brackets",
        )
        parser.add_argument("--encoding", default="utf-8", help="of both")
        parser.add_argument("--column", choices=sorted(COLUMNS), default="xpos", help="CoNLL-U's column of tags")
        parser.add_argument("--limit", type=int, metavar="N", help="train on the first N sentences only")
        parser.add_argument("--epochs", type=int, default=10, metavar="N", help="over the training set")
        parser.add_argument("--learning-rate", type=float, default=1e-2, metavar="RATE", help="Adam's initial one")
        parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the order of the training set")
        parser.add_argument(
            "--cache",
            metavar="DIR",
            help="keep the vectors here (6 bytes per token and feature for a three-layer biLM), to continue after an "
            "interruption or to train again; otherwise they go to a temporary folder",
        )

    def run(self, arguments: argparse.Namespace, open_embedder: OpenEmbedder) -> Report:
        require_one_or_more(arguments, "limit", "epochs")
        train = TaggedCorpus(arguments.train, arguments.format, arguments.column, arguments.limit, arguments.encoding)
        test = TaggedCorpus(arguments.test, arguments.format, arguments.column, encoding=arguments.encoding)
        for corpus in (train, test):
            _check(corpus)
        place: ContextManager[str] = (
            nullcontext(arguments.cache) if arguments.cache else tempfile.TemporaryDirectory(prefix="elmo-pos-")
        )
        with place as folder:
            systems, sizes = compare_layers(
                open_embedder(),
                train,
                test,
                Path(folder),
                arguments.batch_size,
                arguments.epochs,
                arguments.learning_rate,
                arguments.seed,
            )
        return report(
            systems, {**sizes, "column": arguments.column, "epochs": arguments.epochs, "seed": arguments.seed}
        )


def _check(corpus: TaggedCorpus) -> None:
    """Reads the whole file, so that an error in it is found before the long work."""
    for _ in corpus.sentences():
        pass


def report(systems: Dict[str, Accuracy], details: Dict[str, object]) -> Report:
    """The table and the picture of `compare_layers`."""
    rows = [
        [system, percent(share.all_words, 2), percent(share.unseen_words, 2), percent(PAPER.get(system))]
        for system, share in systems.items()
    ]
    table = text_table(["accuracy", "all words", "unseen words", "paper (PTB)"], rows)
    table += (
        f"\n\n{details['tags']} tags; {details['train_tokens']} tokens to train on, {details['test_tokens']} to test "
        f"on, of which {details['unseen_test_tokens']} unseen in training."
    )
    results = {
        "accuracy": {system: share._asdict() for system, share in systems.items()},
        **details,
        "paper_accuracy": PAPER,
    }
    return Report(results, table, lambda figure: draw(figure, systems))


def draw(figure: "Figure", systems: Dict[str, Accuracy]) -> None:
    """Accuracies by layer, of all words and of unseen ones, against the per-word baseline."""
    layers: List[str] = [system for system in systems if system not in (MAJORITY, WORD_MAJORITY)]
    figure.set_size_inches(6.4, 3.4)
    panels = figure.subplots(1, 2)
    for axes, kind, title in zip(panels, Accuracy._fields, ("all words", "words unseen in training"), strict=True):
        values = [100 * (getattr(systems[layer], kind) or 0) for layer in layers]
        baseline = 100 * (getattr(systems[WORD_MAJORITY], kind) or 0)
        places = numpy.arange(len(layers))
        axes.axhline(baseline, color="black", linewidth=1, linestyle="--", label=WORD_MAJORITY)
        axes.vlines(places, baseline, values, color="C0", linewidth=1.2, alpha=0.5)
        axes.plot(places, values, "o", color="C0")
        for place, value in zip(places, values, strict=True):
            axes.annotate(
                f"{value:.1f}", (place, value), (7, 0), textcoords="offset points", va="center", fontsize="small"
            )
        axes.set_xticks(places, [layer.partition(", ")[2] for layer in layers])
        axes.set_xlim(-0.5, len(layers) - 0.3)
        axes.set_title(title, fontsize="medium")
        axes.margins(y=0.2)
        axes.grid(axis="y", alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("accuracy, %")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", frameon=False, fontsize="small")
