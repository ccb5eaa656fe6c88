import json

import pytest
import torch
from allennlp.common import Params
from allennlp.data import Vocabulary
from allennlp.models import Model
from allennlp.predictors import Predictor

from elmo_plugin.tasks.snli import SnliPredictor, SnliReader


@pytest.fixture
def predictor() -> SnliPredictor:
    reader = SnliReader()
    instances = [reader.text_to_instance("A dog runs.", "A cat sits.", label) for label in ("entailment", "neutral")]
    for instance in instances:
        reader.apply_token_indexers(instance)
    bilstm = {"type": "lstm", "hidden_size": 3, "bidirectional": True}
    layer = {"num_layers": 1, "hidden_dims": 3, "activations": "relu"}
    torch.manual_seed(0)
    model = Model.from_params(
        vocab=Vocabulary.from_instances(instances),
        params=Params(
            {
                "type": "elmo::snli",
                "text_embedder": {"words": {"token_embedders": {"tokens": {"embedding_dim": 4}}}},
                "encoder": bilstm,
                "projection": layer,
                "composition": dict(bilstm),
                "classifier": dict(layer),
            }
        ),
    )
    return Predictor.by_name("elmo::snli")(model, reader)


def test_prediction_has_what_the_docstring_says(predictor):
    output = predictor.predict_json({"premise": "Two dogs run.", "hypothesis": "An animal moves."})
    documented = SnliPredictor.__doc__.split("tokenised)")[1].split("`premise_attention` has")[0]
    example = json.loads(documented.replace(", ...]", "]"))
    assert output.keys() == example.keys()
    assert output["premise_tokens"] == example["premise_tokens"]
    assert output["hypothesis_tokens"] == example["hypothesis_tokens"]
    assert output["label"] in output["probabilities"]


def test_tokens_are_taken_as_they_are(predictor):
    output = predictor.predict_json({"premise": ["can't", "stop"], "hypothesis": "It can't stop."})
    assert output["premise_tokens"] == ["can't", "stop"]
    assert output["hypothesis_tokens"] == ["It", "ca", "n't", "stop", "."]


def test_text_and_its_tokens_give_the_same_prediction(predictor):
    from_text = predictor.predict("Two dogs run.", "A cat sits.")
    from_tokens = predictor.predict(["Two", "dogs", "run", "."], ["A", "cat", "sits", "."])
    assert from_text == from_tokens


def test_batch_gives_what_single_inputs_give(predictor):
    inputs = [
        {"premise": "A dog.", "hypothesis": "A cat sits and sits and sits."},
        {"premise": "A dog runs to a cat.", "hypothesis": "Run!"},
    ]
    together = predictor.predict_batch_json(inputs)
    for output, input_ in zip(together, inputs, strict=True):
        alone = predictor.predict_json(input_)
        assert output["label"] == alone["label"]
        assert output["probabilities"] == pytest.approx(alone["probabilities"], abs=1e-5)
        for output_row, alone_row in zip(output["premise_attention"], alone["premise_attention"], strict=True):
            assert output_row == pytest.approx(alone_row, abs=1e-5)


@pytest.mark.parametrize(
    "inputs, complaint",
    [
        ({"premise": "A dog."}, "'hypothesis' is None"),
        ({"premise": 3, "hypothesis": "A cat."}, "'premise' is 3"),
        ({"premise": "A dog.", "hypothesis": ["A", 3]}, r"'hypothesis' is \['A', 3\]"),
        ({"premise": " ", "hypothesis": "A cat."}, "the premise holds no token"),
        ({"premise": "A dog.", "hypothesis": []}, "the hypothesis holds no token"),
    ],
)
def test_input_without_two_texts_is_refused(predictor, inputs, complaint):
    with pytest.raises(ValueError, match=complaint):
        predictor.predict_json(inputs)
