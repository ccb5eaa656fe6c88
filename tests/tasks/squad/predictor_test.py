import json

import pytest
import torch
from allennlp.common import Params
from allennlp.data import Vocabulary
from allennlp.models import Model
from allennlp.predictors import Predictor

from elmo_plugin.tasks.squad import SquadPredictor, SquadReader


@pytest.fixture
def predictor() -> SquadPredictor:
    reader = SquadReader()
    instance = reader.text_to_instance("Where does Ada live?", "Ada lives in London.")
    reader.apply_token_indexers(instance)
    bigru = {"type": "gru", "hidden_size": 3, "bidirectional": True}
    torch.manual_seed(0)
    model = Model.from_params(
        vocab=Vocabulary.from_instances([instance]),
        params=Params(
            {
                "type": "elmo::squad",
                "text_embedder": {"words": {"token_embedders": {"tokens": {"embedding_dim": 4}}}},
                "encoder": bigru,
                "projection": {"num_layers": 1, "hidden_dims": 5, "activations": "relu"},
                "modeling": dict(bigru),
                "num_best": 3,
            }
        ),
    )
    return Predictor.by_name("elmo::squad")(model, reader)


def test_prediction_has_what_the_docstring_says(predictor):
    output = predictor.predict_json({"passage": "Ada lives in London.", "question": "Where does Ada live?", "id": "17"})
    documented = SquadPredictor.__doc__.split("`)\n\n")[1].split("`start` and `end` count")[0]
    example = json.loads(documented.replace(", ...]", "]"))
    assert output.keys() == example.keys()
    assert output["n_best"][0].keys() == example["n_best"][0].keys()
    for name in ("id", "passage", "question", "passage_tokens", "question_tokens"):
        assert output[name] == example[name]
    assert example["passage"][example["start"] : example["end"]] == example["answer"]


def test_answers_are_places_in_the_passage_best_first(predictor):
    output = predictor.predict("Ada  lives in\nLondon.", "Where does Ada live?")
    assert len(output["n_best"]) == 3
    assert {name: output[name] for name in output["n_best"][0]} == output["n_best"][0]
    probabilities = [answer["probability"] for answer in output["n_best"]]
    assert probabilities == sorted(probabilities, reverse=True) and 0 < probabilities[0] < 1
    for answer in output["n_best"]:
        assert output["passage"][answer["start"] : answer["end"]] == answer["answer"]
        assert answer["answer"].split()[0].startswith(output["passage_tokens"][answer["first_token"]])


def test_passage_of_one_token_has_one_answer(predictor):
    output = predictor.predict("London", "Where?")
    assert [answer["answer"] for answer in output["n_best"]] == ["London"]


def test_tokens_are_taken_as_they_are(predictor):
    output = predictor.predict(["can't", "stop"], ["Ca", "n't", "it", "?"])
    assert output["passage_tokens"] == ["can't", "stop"]
    assert output["question_tokens"] == ["Ca", "n't", "it", "?"]
    assert output["passage"] == "can't stop"


def test_batch_gives_what_single_inputs_give(predictor):
    inputs = [
        {"passage": "Ada.", "question": "Who lives in London, and who doesn't?"},
        {"passage": "Ada lives in London, where it rains, and Bo in Paris.", "question": "Where?"},
    ]
    for output, input_ in zip(predictor.predict_batch_json(inputs), inputs, strict=True):
        alone = predictor.predict_json(input_)
        assert [answer["answer"] for answer in output["n_best"]] == [answer["answer"] for answer in alone["n_best"]]
        assert output["probability"] == pytest.approx(alone["probability"], abs=1e-5)


@pytest.mark.parametrize(
    "inputs, complaint",
    [
        ({"passage": "Ada."}, "'question' is None"),
        ({"passage": 3, "question": "Who?"}, "'passage' is 3"),
        ({"passage": "Ada.", "question": ["Who", 3]}, r"'question' is \['Who', 3\]"),
        ({"passage": "Ada.", "question": "Who?", "id": 3}, "'id' must be a string, not 3"),
        ({"passage": " ", "question": "Who?"}, "the passage holds no token"),
        ({"passage": "Ada.", "question": []}, "the question holds no token"),
    ],
)
def test_input_without_two_texts_is_refused(predictor, inputs, complaint):
    with pytest.raises(ValueError, match=complaint):
        predictor.predict_json(inputs)
