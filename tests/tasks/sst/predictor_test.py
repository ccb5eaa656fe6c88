import copy

import pytest
import torch
from allennlp.common import Params
from allennlp.data import DatasetReader, Vocabulary
from allennlp.models import Model
from allennlp.predictors import Predictor

import elmo_plugin.tasks.sst  # noqa: F401

MODEL = {
    "type": "elmo::sst",
    "text_embedder": {"words": {"token_embedders": {"tokens": {"type": "embedding", "embedding_dim": 4}}}},
    "token_feedforward": {"num_layers": 1, "hidden_dims": 3, "activations": "relu"},
    "encoder": {"type": "lstm", "hidden_size": 2, "bidirectional": True},
    "integrator": {"type": "lstm", "hidden_size": 2, "bidirectional": True},
    "feedforward": {"num_layers": 2, "hidden_dims": [4, 3], "activations": "relu"},
}


@pytest.fixture
def predictor(root) -> Predictor:
    torch.manual_seed(0)
    reader = DatasetReader.from_params(Params({"type": "elmo::sst"}))
    vocab = Vocabulary.from_instances(reader.read(str(root / "fixtures" / "data" / "sst" / "train.txt")))
    model = Model.from_params(Params(copy.deepcopy(MODEL)), vocab=vocab).eval()
    return Predictor.by_name(Model.by_name("elmo::sst").default_predictor)(model, reader)


def test_a_sentence_gets_its_label_probabilities_and_tokens(predictor):
    output = predictor.predict_json({"sentence": "The ending is wonderful."})
    assert output.keys() == {"label", "probabilities", "tokens"}
    assert output["tokens"] == ["The", "ending", "is", "wonderful", "."]
    assert output["probabilities"].keys() == {"very negative", "negative", "neutral", "positive", "very positive"}
    assert sum(output["probabilities"].values()) == pytest.approx(1.0)
    assert output["label"] == max(output["probabilities"], key=output["probabilities"].get)


def test_tokens_are_taken_as_they_are(predictor):
    assert predictor.predict_json({"tokens": ["wonderful."]})["tokens"] == ["wonderful."]


def test_a_sentence_and_its_tokens_give_the_same(predictor):
    tokens = ["Wonderful", "scenes", "!"]
    assert predictor.predict("Wonderful scenes!") == predictor.predict(tokens)


def test_a_batch_gives_what_single_inputs_give(predictor):
    inputs = [{"sentence": "Dull."}, {"tokens": ["A", "gentle", "ending", "to", "a", "story"]}]
    for alone, batched in zip(
        [predictor.predict_json(each) for each in inputs], predictor.predict_batch_json(inputs), strict=True
    ):
        assert alone["label"] == batched["label"]
        assert alone["probabilities"] == pytest.approx(batched["probabilities"], abs=1e-5)


def test_other_input_is_refused(predictor):
    with pytest.raises(ValueError, match="predictor elmo::sst needs 'tokens' or 'sentence', a text or a list of words"):
        predictor.predict_json({"text": "Dull."})
