"""Word sense disambiguation by nearest neighbour: Sec. 5.3 and Table 5.

The biLM reads SemCor, and the vectors of each sense's occurrences are averaged, layer by layer. A target of the test
sets gets the sense whose average is nearest to its own vector, among the senses seen in SemCor for its lemma and part
of speech; a lemma that SemCor doesn't have gets its first sense in WordNet. No layer is trained or tuned.

Readings taken where the paper is silent: nearness is the cosine; the averages are of the plain vectors; an occurrence
with several gold senses counts for each of them; a target of several words has the mean of its words' vectors.
"""

import argparse
from itertools import islice
from typing import TYPE_CHECKING, Dict, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple

import numpy
from allennlp.common import Tqdm
from allennlp.common.checks import ConfigurationError

from elmo_plugin.analysis import token_store
from elmo_plugin.analysis.analysis import Analysis, OpenEmbedder, Report, require_one_or_more
from elmo_plugin.analysis.sense_averages import AveragesFile, SenseAverages
from elmo_plugin.analysis.tables import layer_name, percent, text_table
from elmo_plugin.analysis.wsd_data import (
    Lemma,
    SenseSentence,
    Target,
    check_same_instances,
    data_name,
    keys_path,
    read_first_senses,
    read_keys,
    read_sentences,
)
from elmo_plugin.embedding import ElmoEmbedder

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SENTENCES_PER_SAVE = 2000
FIRST_SENSE = "WordNet first sense"
ALL_SETS = "all"
# F1 on all four test sets together, Table 5.
PAPER = {
    FIRST_SENSE: 0.659,
    layer_name(1): 0.674,
    layer_name(2): 0.690,
    layer_name(1, "CoVe"): 0.594,
    layer_name(2, "CoVe"): 0.647,
}

Answers = Dict[Tuple[str, str], Optional[str]]


class EvaluationSet(NamedTuple):
    """One of the framework's test sets, in memory: they are small."""

    name: str
    sentences: List[SenseSentence]
    keys: Dict[str, List[str]]

    @property
    def targets(self) -> Iterator[Target]:
        return (target for sentence in self.sentences for target in sentence.targets)


class Score(NamedTuple):
    """Counted as the framework's scorer does: an answer is right if it is one of the gold senses."""

    num_right: int
    num_answered: int
    num_instances: int

    @property
    def f1(self) -> float:
        # 2PR / (P + R), with P = right / answered and R = right / instances
        return 2 * self.num_right / max(self.num_answered + self.num_instances, 1)


def read_evaluation_set(data_path: str) -> EvaluationSet:
    key_path = keys_path(data_path)
    test_set = EvaluationSet(data_name(data_path), list(read_sentences(data_path)), read_keys(key_path))
    check_same_instances({target.id for target in test_set.targets}, data_path, test_set.keys, key_path)
    return test_set


def answer_first_senses(test_sets: Sequence[EvaluationSet], first_senses: Dict[Lemma, str]) -> Answers:
    """The baseline: WordNet's first sense for every target, none for a lemma it doesn't have."""
    return {(test.name, target.id): first_senses.get(target.lemma) for test in test_sets for target in test.targets}


def seen_senses(
    train_path: str, keys: Dict[str, List[str]], lemmas: Set[Lemma], limit: Optional[int]
) -> Dict[Lemma, Set[str]]:
    """The senses with which each of `lemmas` occurs in the training text."""
    senses: Dict[Lemma, Set[str]] = {}
    for sentence in _limited(train_path, limit, "finding the senses in"):
        for target in sentence.targets:
            if target.id not in keys:
                raise ConfigurationError(
                    f"{keys_path(train_path)}: the instance {target.id!r} of {train_path} is missing"
                )
            if target.lemma in lemmas:
                senses.setdefault(target.lemma, set()).update(keys[target.id])
    return senses


def average_senses(
    embedder: ElmoEmbedder,
    train_path: str,
    keys: Dict[str, List[str]],
    senses: Dict[Lemma, Set[str]],
    limit: Optional[int] = None,
    batch_size: int = 64,
    file: Optional[AveragesFile] = None,
) -> SenseAverages:
    """Reads the training text once through the biLM, skipping sentences without any of the lemmas in `senses`.
    Continues from what is in `file`, and saves there from time to time.
    """
    averages = SenseAverages(senses)
    num_done = 0 if file is None else file.load(averages)
    wanted = (
        sentence
        for sentence in _limited(train_path, limit, "averaging the senses in")
        if any(target.lemma in averages for target in sentence.targets)
    )
    left = embedder.embed_items(islice(wanted, num_done, None), lambda item: item.tokens, batch_size)
    for sentence, vectors in left:
        for target in sentence.targets:
            if target.lemma in averages:
                averages.add(target.lemma, keys[target.id], vector_of(target, vectors))
        num_done += 1
        if file is not None and num_done % SENTENCES_PER_SAVE == 0:
            file.save(averages, num_done)
    if file is not None:
        file.save(averages, num_done)
    return averages


def answer_nearest(
    embedder: ElmoEmbedder,
    test_sets: Sequence[EvaluationSet],
    averages: SenseAverages,
    only_senses: Dict[Lemma, str],
    fall_back: Answers,
    batch_size: int = 64,
) -> List[Answers]:
    """Every layer's answers. `only_senses` has the lemmas seen with one sense, which need no vector."""
    answers: List[Answers] = []
    items = [(test.name, sentence) for test in test_sets for sentence in test.sentences]
    progress = Tqdm.tqdm(items, desc="disambiguating the test sets", unit=" sentences")
    for (name, sentence), vectors in embedder.embed_items(progress, lambda item: item[1].tokens, batch_size):
        answers = answers or [dict(fall_back) for _ in vectors]
        for target in sentence.targets:
            if target.lemma in averages:
                chosen = averages.nearest(target.lemma, vector_of(target, vectors))
            elif target.lemma in only_senses:
                chosen = [only_senses[target.lemma]] * len(answers)
            else:
                continue
            for answer, sense in zip(answers, chosen, strict=True):
                answer[name, target.id] = sense
    return answers


def vector_of(target: Target, vectors: numpy.ndarray) -> numpy.ndarray:
    """The target's vector at each layer, (num_layers, dim): the mean over its words."""
    return vectors[:, target.start : target.end].mean(axis=1)


def score(answers: Answers, test_sets: Sequence[EvaluationSet], part_of_speech: Optional[str] = None) -> Score:
    """Counts over all given sets together, optionally for one part of speech only."""
    num_right = num_answered = num_instances = 0
    for test in test_sets:
        for target in test.targets:
            if part_of_speech in (None, target.lemma[1]):
                answer = answers[test.name, target.id]
                num_instances += 1
                num_answered += answer is not None
                num_right += answer in test.keys[target.id]
    return Score(num_right, num_answered, num_instances)


def _limited(path: str, limit: Optional[int], doing: str) -> Iterator[SenseSentence]:
    progress = Tqdm.tqdm(read_sentences(path), desc=f"{doing} {data_name(path)}", unit=" sentences")
    for index, sentence in enumerate(progress):
        if index == limit:
            break
        yield sentence


@Analysis.register("wsd")
class WordSenses(Analysis):
    takes_cove = True
    help = "word sense disambiguation by nearest neighbour, layer by layer (Table 5)"
    description = (
        "Averages the biLM's vectors of each sense in SemCor and gives every target of the test sets the nearest sense "
        "of its lemma and part of speech, at each layer; a lemma that SemCor lacks gets WordNet's first sense. Prints "
        "F1 as the evaluation framework of Raganato et al. (2017) scores it, and the first-sense baseline. The sense "
        "keys of NAME.data.xml are read from NAME.gold.key.txt beside it; all files may be gzipped. A target of "
        "several words is represented by the mean of their vectors."
    )
    example = (
        "allennlp elmo-analyze wsd --bilm bilm.tar.gz --train semcor.data.xml.gz --test senseval2.data.xml "
        "senseval3.data.xml --wordnet wordnet/index.sense.gz --output out"
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--train", metavar="FILE", help="SemCor, as NAME.data.xml")
        parser.add_argument("--test", required=True, nargs="+", metavar="FILE", help="test sets, as NAME.data.xml")
        parser.add_argument("--wordnet", required=True, metavar="PATH", help="WordNet's index.sense, or its folder")
        parser.add_argument("--limit", type=int, metavar="N", help="read only the first N sentences of --train")
        parser.add_argument(
            "--cache", metavar="DIR", help="keep the sense averages here, to continue after an interruption"
        )
        parser.add_argument("--first-sense-only", action="store_true", help="score the baseline only, without a biLM")

    def run(self, arguments: argparse.Namespace, open_embedder: OpenEmbedder) -> Report:
        if arguments.train is None and not arguments.first_sense_only:
            raise ConfigurationError("--train is missing; --first-sense-only scores the baseline without it")
        require_one_or_more(arguments, "limit")
        test_sets = [read_evaluation_set(path) for path in arguments.test]
        if len({test.name for test in test_sets}) < len(test_sets):
            raise ConfigurationError(f"--test names a set twice: {', '.join(test.name for test in test_sets)}")
        fall_back = answer_first_senses(test_sets, read_first_senses(arguments.wordnet))
        systems = {FIRST_SENSE: fall_back}
        details: Dict[str, object] = {}
        if not arguments.first_sense_only:
            keys = read_keys(keys_path(arguments.train))
            lemmas = {target.lemma for test in test_sets for target in test.targets}
            senses = seen_senses(arguments.train, keys, lemmas, arguments.limit)
            details = {"train": data_name(arguments.train), "limit": arguments.limit, **coverage(test_sets, senses)}
            ambiguous = {lemma: seen for lemma, seen in senses.items() if len(seen) > 1}
            only_senses = {lemma: min(seen) for lemma, seen in senses.items() if len(seen) == 1}
            embedder = open_embedder()
            file = None if arguments.cache is None else _averages_file(arguments, embedder)
            averages = average_senses(
                embedder, arguments.train, keys, ambiguous, arguments.limit, arguments.batch_size, file
            )
            layers = answer_nearest(embedder, test_sets, averages, only_senses, fall_back, arguments.batch_size)
            systems.update({layer_name(layer, embedder.name): answers for layer, answers in enumerate(layers)})
        return report(systems, test_sets, details)


def _averages_file(arguments: argparse.Namespace, embedder: ElmoEmbedder) -> AveragesFile:
    # The test sets are in it because only their lemmas are averaged.
    texts = [arguments.train, keys_path(arguments.train), *arguments.test]
    identity = {
        "bilm": embedder.fingerprint(),
        "files": [token_store.file_identity(path) for path in texts],
        "limit": arguments.limit,
    }
    return AveragesFile(arguments.cache, identity)


def coverage(test_sets: Sequence[EvaluationSet], senses: Dict[Lemma, Set[str]]) -> Dict[str, int]:
    """How many targets are decided in which way."""
    num_seen = [len(senses.get(target.lemma, ())) for test in test_sets for target in test.targets]
    return {
        "by_nearest_neighbour": sum(num > 1 for num in num_seen),
        "by_only_sense_seen": sum(num == 1 for num in num_seen),
        "by_first_sense": sum(num == 0 for num in num_seen),
    }


def report(systems: Dict[str, Answers], test_sets: Sequence[EvaluationSet], details: Dict[str, object]) -> Report:
    """F1 of each system on each set and on all together, and by part of speech on all together."""
    f1: Dict[str, Dict[str, float]] = {}
    by_part_of_speech: Dict[str, Dict[str, float]] = {}
    tags = [
        tag for tag in ("NOUN", "VERB", "ADJ", "ADV") if any(t.lemma[1] == tag for s in test_sets for t in s.targets)
    ]
    for system, answers in systems.items():
        f1[system] = {test.name: score(answers, [test]).f1 for test in test_sets}
        f1[system][ALL_SETS] = score(answers, test_sets).f1
        by_part_of_speech[system] = {tag: score(answers, test_sets, tag).f1 for tag in tags}
    columns = [test.name for test in test_sets] + [ALL_SETS]
    rows = [
        [system, *(percent(f1[system][name]) for name in columns)]
        + [percent(by_part_of_speech[system][tag]) for tag in tags]
        + [percent(PAPER.get(system))]
        for system in systems
    ]
    sizes = {test.name: len(test.keys) for test in test_sets}
    sizes[ALL_SETS] = sum(sizes.values())
    rows.append(["instances", *(str(sizes[name]) for name in columns), *("" for _ in tags), ""])
    table = text_table(["F1", *columns, *(f"all {tag}" for tag in tags), "paper, all"], rows)
    if details:
        table += (
            f"\n\nSenses learnt from {details['train']}"
            + (f" (the first {details['limit']} sentences)" if details["limit"] else "")
            + f". Decided by the nearest of several senses: {details['by_nearest_neighbour']}; by the only sense seen: "
            f"{details['by_only_sense_seen']}; by WordNet's first sense: {details['by_first_sense']}."
        )
    results = {
        "f1": f1,
        "f1_by_part_of_speech": by_part_of_speech,
        "instances": sizes,
        **details,
        "paper_f1_all": PAPER,
    }
    return Report(results, table, lambda figure: draw(figure, f1))


def draw(figure: "Figure", f1: Dict[str, Dict[str, float]]) -> None:
    """A dot for each layer on each set, against the first-sense baseline as a bar."""
    names = list(f1[FIRST_SENSE])
    figure.set_size_inches(1.1 + 1.15 * len(names), 3.6)
    axes = figure.add_subplot()
    layers = [system for system in f1 if system != FIRST_SENSE]
    places = numpy.arange(len(names))
    baseline = [100 * f1[FIRST_SENSE][name] for name in names]
    axes.hlines(baseline, places - 0.4, places + 0.4, color="black", linewidth=1.5, label=FIRST_SENSE)
    for index, system in enumerate(layers):
        shift = 0.22 * (index - (len(layers) - 1) / 2)
        shade = f"C{index}"
        values = [100 * f1[system][name] for name in names]
        axes.vlines(places + shift, baseline, values, color=shade, linewidth=1.2, alpha=0.5)
        axes.plot(places + shift, values, "o", color=shade, label=system)
    axes.set_xticks(places, names)
    axes.set_ylabel("F1")
    axes.margins(y=0.15)
    axes.grid(axis="y", alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.axvline(len(names) - 1.5, color="grey", linewidth=0.6)
    figure.legend(loc="outside upper center", ncols=2, frameon=False, fontsize="small")
