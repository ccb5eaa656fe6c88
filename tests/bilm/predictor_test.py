import json
import math

import pytest
import torch
from allennlp.common import Lazy, Params
from allennlp.data import Vocabulary
from allennlp.predictors import Predictor

from elmo_plugin.bilm.bilm import BiLm
from elmo_plugin.bilm.language_model import BiLmLanguageModel
from elmo_plugin.bilm.options import BiLmOptions
from elmo_plugin.bilm.predictor import BiLmPredictor
from elmo_plugin.bilm.softmax import BiLmSoftmax
from elmo_plugin.characters.indexer import ElmoCharactersIndexer
from elmo_plugin.training.reader import BiLmReader

WORDS = ["<S>", "</S>", "<UNK>", "the", "cat", "sat", "dog", "ran"]


@pytest.fixture(params=["full", "adaptive"])
def predictor(request) -> BiLmPredictor:
    torch.manual_seed(0)
    vocab = Vocabulary(non_padded_namespaces=["bilm_words"])
    vocab.add_tokens_to_namespace(WORDS, "bilm_words")
    options = BiLmOptions(
        projection_dim=8, cell_dim=12, char_dim=4, filters=((1, 4), (2, 4)), num_highway=1, max_characters_per_token=10
    )
    softmax = Lazy(BiLmSoftmax, params=Params({"type": request.param, "max_chunk_elements": 12}))
    model = BiLmLanguageModel(vocab, BiLm(options, dropout=0.5), softmax, dropout=0.5)
    reader = BiLmReader(token_indexers={"elmo": ElmoCharactersIndexer(max_characters_per_token=10)})
    return BiLmPredictor(model, reader)


def exp_mean(scores) -> float:
    return math.exp(-sum(score["log_prob"] for score in scores) / len(scores))


def test_every_word_and_one_boundary_is_scored_in_each_direction(predictor):
    output = predictor.predict_json({"sentence": "the cat sat"})
    assert output["tokens"] == ["the", "cat", "sat"]
    assert [score["token"] for score in output["forward"]] == ["the", "cat", "sat", "</S>"]
    assert [score["token"] for score in output["backward"]] == ["<S>", "the", "cat", "sat"]
    assert all(score["scored_as"] == score["token"] for score in output["forward"] + output["backward"])
    json.dumps(output)


def test_perplexities_are_the_models(predictor):
    perplexity = predictor.predict_json({"tokens": ["dog", "ran", "oov"]})["perplexity"]
    instance = predictor._json_to_instance({"tokens": ["dog", "ran", "oov"]})
    predictor._dataset_reader.apply_token_indexers(instance)
    predictor._model.forward_on_instance(instance)
    figures = predictor._model.get_metrics()
    assert perplexity["forward"] == pytest.approx(figures["forward_perplexity"], rel=1e-5)
    assert perplexity["backward"] == pytest.approx(figures["backward_perplexity"], rel=1e-5)
    assert perplexity["mean"] == pytest.approx(figures["perplexity"], rel=1e-5)


def test_perplexities_are_those_of_the_listed_log_probabilities(predictor):
    output = predictor.predict_json({"sentence": "the cat sat"})
    assert output["perplexity"]["forward"] == pytest.approx(exp_mean(output["forward"]))
    assert output["perplexity"]["backward"] == pytest.approx(exp_mean(output["backward"]))


def test_an_unknown_word_is_scored_as_unknown(predictor):
    output = predictor.predict_json({"sentence": "the zebra"})
    assert output["forward"][1]["token"] == "zebra" and output["forward"][1]["scored_as"] == "<UNK>"
    assert output["backward"][2]["token"] == "zebra" and output["backward"][2]["scored_as"] == "<UNK>"


def test_substitutes_are_ranked_by_each_context_and_by_both(predictor):
    output = predictor.predict_json({"sentence": "the cat sat", "top_k": len(WORDS)})
    assert [entry["token"] for entry in output["substitutes"]] == ["the", "cat", "sat"]
    for place, entry in enumerate(output["substitutes"]):
        by_name = {name: {s["word"]: s["log_prob"] for s in entry[name]} for name in ("both", "forward", "backward")}
        for substitutes in by_name.values():
            assert sorted(substitutes) == sorted(WORDS)
            assert list(substitutes.values()) == sorted(substitutes.values(), reverse=True)
        for word, score in by_name["both"].items():
            assert score == pytest.approx(by_name["forward"][word] + by_name["backward"][word], abs=1e-5)
        # The word itself has the log probability that it is listed with.
        assert by_name["forward"][entry["token"]] == pytest.approx(output["forward"][place]["log_prob"], abs=1e-5)
        assert by_name["backward"][entry["token"]] == pytest.approx(output["backward"][place + 1]["log_prob"], abs=1e-5)


def test_the_number_of_substitutes_is_by_input(predictor):
    assert len(predictor.predict_json({"sentence": "the cat", "top_k": 2})["substitutes"][0]["both"]) == 2
    assert predictor.predict_json({"sentence": "the cat", "top_k": 0})["substitutes"][0]["both"] == []
    assert len(predictor.predict_json({"sentence": "the cat"})["substitutes"][0]["both"]) == len(WORDS)  # fewer than 10


def test_a_batch_gives_what_its_sentences_give(predictor):
    inputs = [{"sentence": "the cat sat on the dog"}, {"sentence": "ran", "top_k": 3}]
    for expected, got in zip(map(predictor.predict_json, inputs), predictor.predict_batch_json(inputs), strict=True):
        assert got["tokens"] == expected["tokens"]
        assert got["perplexity"] == pytest.approx(expected["perplexity"], rel=1e-5)
        assert [len(entry["both"]) for entry in got["substitutes"]] == [
            len(entry["both"]) for entry in expected["substitutes"]
        ]


def test_instances_are_predicted_too(predictor):
    instance = predictor._json_to_instance({"sentence": "the cat"})
    expected = predictor.predict_json({"sentence": "the cat"})
    assert predictor.predict_instance(instance) == expected
    assert predictor.predict_batch_instance([instance]) == [expected]


@pytest.mark.parametrize(
    "inputs", [{}, {"sentence": " "}, {"sentence": None}, {"tokens": []}, {"tokens": "the cat"}, {"tokens": [1]}]
)
def test_inputs_without_words_are_refused(predictor, inputs):
    with pytest.raises(ValueError, match='needs {"sentence": "some words"}'):
        predictor.predict_json(inputs)


@pytest.mark.parametrize("top_k", [-1, "3", 1.5])
def test_an_impossible_number_of_substitutes_is_refused(predictor, top_k):
    with pytest.raises(ValueError, match="top_k has to be a number of words"):
        predictor.predict_json({"sentence": "the cat", "top_k": top_k})


def test_it_is_the_models_predictor():
    assert Predictor.by_name(BiLmLanguageModel.default_predictor) is BiLmPredictor
