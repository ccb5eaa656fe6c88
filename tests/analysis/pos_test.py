import argparse

import numpy
import pytest
import torch
from allennlp.common.checks import ConfigurationError

from elmo_plugin.analysis import pos, token_store
from elmo_plugin.analysis.analysis import Analysis
from elmo_plugin.embedding import ElmoEmbedder


@pytest.fixture
def embedder(root):
    return ElmoEmbedder(str(root / "fixtures/bilm/options.json"), str(root / "fixtures/bilm/weights.hdf5"))


@pytest.fixture
def data(root):
    return root / "fixtures" / "data" / "pos"


@pytest.fixture
def run(data, embedder):
    def run(**changes):
        arguments = {
            "train": str(data / "train.conllu"),
            "test": str(data / "dev.conllu"),
            "format": "auto",
            "column": "xpos",
            "encoding": "utf-8",
            "limit": None,
            "epochs": 20,
            "learning_rate": 0.05,
            "seed": 0,
            "cache": None,
            "batch_size": 2,
        }
        return Analysis.by_name("pos")().run(argparse.Namespace(**{**arguments, **changes}), lambda: embedder)

    return run


@pytest.fixture
def store(tmp_path, embedder):
    sentences = [[f"w{number * step % 17}" for number in range(6)] for step in range(1, 9)]
    return token_store.build(tmp_path / "store", embedder, sentences, "text", dtype="float32")


def test_features_are_standardised_by_the_training_set(store):
    probes = pos.LinearProbes(3, 16, 2)
    probes.standardise(store)
    numpy.testing.assert_allclose(probes.mean, store.vectors.mean(axis=0), atol=1e-5)
    numpy.testing.assert_allclose(probes.deviation, store.vectors.std(axis=0), rtol=1e-3, atol=1e-5)


def test_a_feature_that_never_changes_does_no_harm(tmp_path, embedder):
    probes = pos.LinearProbes(3, 16, 2)
    probes.standardise(token_store.build(tmp_path / "one", embedder, [["same"]], "text"))
    assert probes(torch.zeros(1, 3, 16)).isfinite().all()


def test_layers_are_trained_independently(store, tmp_path, embedder):
    tag_ids = numpy.arange(len(store)) % 3
    together = pos.train_probes(store, tag_ids, 3, num_epochs=2, batch_size=10)
    sentences = list(store.sentences())
    alone_store = token_store.build(tmp_path / "alone", embedder, sentences, "text", layers=[1], dtype="float32")
    alone = pos.train_probes(alone_store, tag_ids, 3, num_epochs=2, batch_size=10)
    torch.testing.assert_close(together.weight[1], alone.weight[0], rtol=0, atol=1e-6)
    assert not torch.allclose(together.weight[1], together.weight[2], atol=1e-3)


def test_the_same_seed_gives_the_same_classifier(store):
    tag_ids = numpy.arange(len(store)) % 3
    first, same, other = (pos.train_probes(store, tag_ids, 3, 1, 10, seed=seed) for seed in (5, 5, 6))
    assert torch.equal(first.weight, same.weight) and not torch.equal(first.weight, other.weight)


def test_what_a_layer_holds_is_learnt(store):
    # The tag is the word, which the token layer tells by itself.
    words = [token for sentence in store.sentences() for token in sentence]
    ids = {word: number for number, word in enumerate(sorted(set(words)))}
    gold = numpy.array([ids[word] for word in words])
    probes = pos.train_probes(store, gold, len(ids), num_epochs=100, batch_size=16, learning_rate=0.05)
    assert (pos.predict(probes, store) == gold).mean(axis=1)[0] == 1.0


def test_random_tags_are_not_guessed_beyond_training(store):
    predicted = pos.predict(pos.LinearProbes(3, 16, 4), store)
    assert predicted.shape == (3, len(store)) and (predicted == 0).all()


def test_baselines_count_what_training_did_not_have(run):
    results = run().results
    # DT NN VBZ IN DT NN . with 'past', 'the' and 'mill' unseen; seen once are miller, did, ... most of them NN.
    assert results["accuracy"]["each word's most frequent tag"] == {
        "all_words": pytest.approx(5 / 7),
        "unseen_words": pytest.approx(1 / 3),
    }
    # '.', DT and NN are equally frequent in training.
    assert results["accuracy"]["most frequent tag"]["all_words"] == pytest.approx(1 / 7)
    assert (results["train_tokens"], results["test_tokens"], results["unseen_test_tokens"]) == (16, 7, 3)


def test_a_tag_that_training_did_not_have_is_never_right(data):
    ids = {tag: number for number, tag in enumerate(("DT", "NN", "VBZ", "."))}
    assert pos.tag_ids_of(pos.TaggedCorpus(str(data / "dev.conllu")), ids).tolist() == [0, 1, 2, -1, 0, 1, 3]


def test_every_layer_is_scored(run):
    report = run()
    layers = [system for system in report.results["accuracy"] if system.startswith("biLM")]
    assert layers == ["biLM, token layer", "biLM, layer 1", "biLM, layer 2"]
    assert all(1 / 7 <= report.results["accuracy"][layer]["all_words"] <= 6 / 7 for layer in layers)
    assert "biLM, layer 1" in report.table and "97.3" in report.table


def test_vectors_are_kept_where_asked_and_used_again(run, tmp_path, monkeypatch, embedder):
    first = run(cache=str(tmp_path / "cache"))
    monkeypatch.setattr(embedder, "embed_sentences", None)
    assert run(cache=str(tmp_path / "cache")).results == first.results


def test_a_cache_of_a_shorter_training_set_is_refused(run, tmp_path):
    run(cache=str(tmp_path / "cache"), limit=1)
    with pytest.raises(ConfigurationError, match="built from another source"):
        run(cache=str(tmp_path / "cache"))


def test_a_limit_cuts_the_training_set_only(run):
    results = run(limit=1).results
    assert (results["train_tokens"], results["test_tokens"]) == (6, 7)


@pytest.mark.parametrize(("changes", "message"), [({"limit": 0}, "--limit"), ({"epochs": 0}, "--epochs must be 1")])
def test_wrong_arguments_are_refused(run, changes, message):
    with pytest.raises(ConfigurationError, match=message):
        run(**changes)


def test_a_mistake_in_the_test_set_is_found_before_the_bilm_is_opened(data, tmp_path):
    (tmp_path / "bad.conllu").write_text("1\tGo\n")

    def refuse():
        raise AssertionError("the biLM was opened")

    arguments = argparse.Namespace(
        train=str(data / "train.conllu"),
        test=str(tmp_path / "bad.conllu"),
        format="auto",
        column="xpos",
        encoding="utf-8",
        limit=None,
        epochs=1,
    )
    with pytest.raises(ConfigurationError, match="bad.conllu:1"):
        pos.PartsOfSpeech().run(arguments, refuse)
