import argparse

import numpy
import pytest
from allennlp.common.checks import ConfigurationError

from elmo_plugin.analysis import wsd
from elmo_plugin.analysis.analysis import Analysis
from elmo_plugin.analysis.wsd_data import keys_path, read_first_senses, read_keys, read_sentences
from elmo_plugin.embedding import ElmoEmbedder

BANK = ("bank", "NOUN")
RIVER_BANK, MONEY_BANK = "bank%1:17:01::", "bank%1:14:00::"


@pytest.fixture
def data(root):
    return root / "fixtures" / "data" / "wsd"


@pytest.fixture(scope="module")
def embedder(root):
    return ElmoEmbedder(str(root / "fixtures/bilm/options.json"), str(root / "fixtures/bilm/weights.hdf5"))


@pytest.fixture
def train(data):
    return str(data / "train.data.xml")


@pytest.fixture
def run(data, train, embedder):
    def run(**changes):
        arguments = {
            "train": train,
            "test": [str(data / "hill.data.xml"), str(data / "town.data.xml")],
            "wordnet": str(data),
            "limit": None,
            "cache": None,
            "first_sense_only": False,
            "batch_size": 2,
        }
        return Analysis.by_name("wsd")().run(argparse.Namespace(**{**arguments, **changes}), lambda: embedder)

    return run


def test_averages_are_those_of_all_occurrences_computed_one_by_one(embedder, train):
    keys = read_keys(keys_path(train))
    senses = {BANK: {RIVER_BANK, MONEY_BANK}, ("take_place", "VERB"): {"take_place%2:30:00::", "take_place%2:30:01::"}}
    averages = wsd.average_senses(embedder, train, keys, senses, batch_size=3)
    expected = {}
    for sentence in read_sentences(train):
        vectors = embedder.embed_sentence(sentence.tokens)
        for target in sentence.targets:
            for key in keys[target.id]:
                words = [vectors[:, place] for place in range(target.start, target.end)]
                expected.setdefault((target.lemma, key), []).append(sum(words) / len(words))
    for (lemma, key), row in averages._row_of.items():
        numpy.testing.assert_allclose(averages.sums[:, row], sum(expected[lemma, key]), rtol=0, atol=1e-5)


def test_sentences_without_a_wanted_lemma_are_not_embedded(embedder, train, monkeypatch):
    embedded = []
    original = embedder.embed_sentences

    def spy(sentences, batch_size):
        for sentence, vectors in zip(batch := list(sentences), original(batch, batch_size), strict=True):
            embedded.append(sentence)
            yield vectors

    monkeypatch.setattr(embedder, "embed_sentences", spy)
    senses = {("grain_market", "NOUN"): {"grain_market%1:06:00::", "grain_market%1:14:00::"}}
    wsd.average_senses(embedder, train, read_keys(keys_path(train)), senses)
    assert [sentence[1] for sentence in embedded] == ["fair", "markets"]


def test_an_interrupted_analysis_goes_on_from_its_cache_with_the_same_outcome(run, embedder, tmp_path, monkeypatch):
    whole = run().results
    monkeypatch.setattr(wsd, "SENTENCES_PER_SAVE", 1)
    embedded = []
    original = embedder.embed_sentences

    def interrupted(sentences, batch_size):
        for number, sentence in enumerate(sentences):
            if number == 2:
                raise KeyboardInterrupt
            yield from original([sentence], batch_size)

    def spy(sentences, batch_size):
        embedded.append(batch := list(sentences))
        return original(batch, batch_size)

    monkeypatch.setattr(embedder, "embed_sentences", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(cache=str(tmp_path))
    monkeypatch.setattr(embedder, "embed_sentences", spy)
    assert run(cache=str(tmp_path)).results == whole
    num_left = len(embedded[0])
    run(cache=str(tmp_path))
    assert num_left > 0 and embedded[2] == []  # the third time, nothing of the training text is left


def test_a_cache_of_other_test_sets_is_refused(run, tmp_path, data):
    run(cache=str(tmp_path))
    with pytest.raises(ConfigurationError, match="was started with files"):
        run(cache=str(tmp_path), test=[str(data / "hill.data.xml")])


def test_the_score_is_that_of_the_framework():
    # P = 6/8, R = 6/10, F1 = 2PR/(P+R)
    assert wsd.Score(6, 8, 10).f1 == pytest.approx(2 * 0.75 * 0.6 / (0.75 + 0.6))
    assert wsd.Score(0, 0, 10).f1 == 0


def test_an_answer_is_right_if_it_is_one_of_the_gold_senses(data):
    sets = [wsd.read_evaluation_set(str(data / f"{name}.data.xml")) for name in ("hill", "town")]
    first = wsd.answer_first_senses(sets, read_first_senses(str(data)))
    # take has another first sense; steep's second gold sense is its first in WordNet.
    assert wsd.score(first, sets[:1]) == wsd.Score(4, 5, 5)
    # bank has another first sense, grain_market too; WordNet has no blibber.
    assert wsd.score(first, sets[1:]) == wsd.Score(1, 3, 4)
    assert wsd.score(first, sets) == wsd.Score(5, 8, 9)
    assert wsd.score(first, sets, "VERB") == wsd.Score(2, 3, 3)


def test_instances_of_different_sets_with_the_same_id_are_kept_apart(run):
    results = run().results
    assert results["instances"] == {"hill": 5, "town": 4, "all": 9}


def test_every_target_is_decided_by_what_was_seen(run, data):
    results = run().results
    # Nearest of several: bank twice, take_place, grain_market. Only sense: miller, take. Unseen: be, steep, blibber.
    assert (results["by_nearest_neighbour"], results["by_only_sense_seen"], results["by_first_sense"]) == (4, 2, 3)
    # take: its only sense in training is the right one, though not the first in WordNet.
    assert results["f1"]["biLM, layer 2"]["hill"] > results["f1"][wsd.FIRST_SENSE]["hill"]
    assert list(results["f1"]) == [wsd.FIRST_SENSE, "biLM, token layer", "biLM, layer 1", "biLM, layer 2"]


def test_a_target_seen_in_the_very_same_sentence_gets_its_sense(embedder, train):
    keys = read_keys(keys_path(train))
    senses = {("take_place", "VERB"): {"take_place%2:30:00::", "take_place%2:30:01::"}}
    averages = wsd.average_senses(embedder, train, keys, senses)
    sets = [wsd.EvaluationSet("train", list(read_sentences(train)), keys)]
    fall_back = {("train", name): None for name in keys}
    for answers in wsd.answer_nearest(embedder, sets, averages, {}, fall_back):
        assert answers["train", "d001.s000.t000"] == "take_place%2:30:00::"
        assert answers["train", "d001.s001.t000"] == "take_place%2:30:01::"
        assert answers["train", "d000.s000.t002"] is None


def test_the_baseline_alone_needs_no_bilm(data):
    arguments = argparse.Namespace(
        train=None, test=[str(data / "hill.data.xml")], wordnet=str(data), limit=None, first_sense_only=True
    )

    def refuse():
        raise AssertionError("the biLM was opened")

    report = wsd.WordSenses().run(arguments, refuse)
    assert report.results["f1"] == {wsd.FIRST_SENSE: {"hill": 0.8, "all": 0.8}}


def test_a_limit_cuts_the_training_text(run):
    results = run(limit=1).results
    # Of the first sentence: miller and bank, each with one sense.
    assert (results["by_nearest_neighbour"], results["by_only_sense_seen"]) == (0, 3)
    assert results["limit"] == 1


def test_the_table_has_a_row_for_each_layer_and_the_papers_figures(run):
    rows = [line.split() for line in run().table.splitlines()]
    assert rows[2][:5] == ["WordNet", "first", "sense", "80.0", "28.6"]
    assert rows[5][:3] == ["biLM,", "layer", "2"] and rows[5][-1] == "69.0"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train": None}, "--train is missing"),
        ({"limit": 0}, "--limit must be 1 or more, not 0"),
    ],
)
def test_wrong_arguments_are_refused(run, changes, message):
    with pytest.raises(ConfigurationError, match=message):
        run(**changes)


def test_a_set_given_twice_is_refused(run, data):
    with pytest.raises(ConfigurationError, match="--test names a set twice: hill, hill"):
        run(test=[str(data / "hill.data.xml")] * 2)


def test_training_data_without_a_key_is_named(run, data, tmp_path):
    (tmp_path / "train.data.xml").write_bytes((data / "train.data.xml").read_bytes())
    (tmp_path / "train.gold.key.txt").write_text("d000.s000.t000 miller%1:18:00::\n")
    with pytest.raises(ConfigurationError, match=r"train.gold.key.txt: the instance 'd000.s000.t001' .* is missing"):
        run(train=str(tmp_path / "train.data.xml"))
