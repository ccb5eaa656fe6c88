import json

import pytest
import torch
from allennlp.data import Vocabulary
from allennlp.models import Model

from elmo_plugin.tasks.ner import NerPredictor, NerReader


class Capitals(Model):
    """Tags neighbouring words with a capital as one person."""

    def __init__(self) -> None:
        super().__init__(Vocabulary())
        self.anything = torch.nn.Parameter(torch.zeros(()))  # a predictor asks for the first parameter's device
        self.batch_sizes = []

    def forward(self, tokens, metadata):
        self.batch_sizes.append(len(metadata))
        sentences = [each["tokens"] for each in metadata]
        return {"tokens": sentences, "tags": [self._tag(words) for words in sentences]}

    @staticmethod
    def _tag(words):
        capital = [False, *(word[0].isupper() for word in words), False]
        names = {(False, False): "U", (False, True): "B", (True, False): "L", (True, True): "I"}
        return [
            f"{names[capital[index], capital[index + 2]]}-PER" if capital[index + 1] else "O"
            for index in range(len(words))
        ]


@pytest.fixture
def predictor():
    return NerPredictor(Capitals(), NerReader())


def test_entities_have_places_in_the_sentence(predictor):
    sentence = "  Ada Byron   met\tMc Coy's Bo."
    output = predictor.predict_json({"sentence": sentence})
    assert output["sentence"] == sentence
    assert output["tokens"] == ["Ada", "Byron", "met", "Mc", "Coy", "'s", "Bo", "."]
    assert output["tags"] == ["B-PER", "L-PER", "O", "B-PER", "L-PER", "O", "U-PER", "O"]
    assert output["entities"] == [
        {"type": "PER", "text": "Ada Byron", "start": 2, "end": 11, "first_token": 0, "last_token": 1},
        {"type": "PER", "text": "Mc Coy", "start": 18, "end": 24, "first_token": 3, "last_token": 4},
        {"type": "PER", "text": "Bo", "start": 27, "end": 29, "first_token": 6, "last_token": 6},
    ]
    for entity in output["entities"]:
        assert sentence[entity["start"] : entity["end"]] == entity["text"]


def test_places_count_characters_not_bytes(predictor):
    (entity,) = predictor.predict("straße 😀 東京 Zoë")["entities"]
    assert (entity["start"], entity["end"], entity["text"]) == (12, 15, "Zoë")


def test_tokens_are_taken_as_they_are(predictor):
    output = predictor.predict_json({"tokens": ["Coy's", "hat", "isn't", "Bo's"]})
    assert output["tokens"] == ["Coy's", "hat", "isn't", "Bo's"]
    assert output["sentence"] == "Coy's hat isn't Bo's"
    assert [(entity["text"], entity["start"]) for entity in output["entities"]] == [("Coy's", 0), ("Bo's", 16)]


def test_a_batch_goes_through_the_model_at_once(predictor):
    outputs = predictor.predict_batch_json([{"sentence": "Ada left"}, {"tokens": ["nobody"]}])
    assert predictor._model.batch_sizes == [2]
    assert [len(output["entities"]) for output in outputs] == [1, 0]


def test_output_can_be_written_as_json(predictor):
    output = predictor.predict("Ada left")
    assert json.loads(predictor.dump_line(output)) == output


def test_lines_for_conlleval_are_written_on_demand():
    predictor = NerPredictor(Capitals(), NerReader(), output_format="conll")
    output = {"tokens": ["Ada", "Byron", "left"], "gold_tags": ["U-PER", "O", "O"], "tags": ["B-PER", "L-PER", "O"]}
    assert predictor.dump_line(output) == "Ada B-PER B-PER\nByron O I-PER\nleft O O\n\n"


def test_without_gold_tags_conll_lines_have_two_columns():
    predictor = NerPredictor(Capitals(), NerReader(), output_format="conll")
    assert predictor.dump_line(predictor.predict("Ada left")) == "Ada B-PER\nleft O\n\n"


def test_other_input_is_refused(predictor):
    with pytest.raises(ValueError, match="predictor elmo::ner needs 'tokens' or 'sentence', a text or a list of words"):
        predictor.predict_json({"text": "a"})


def test_an_unknown_output_format_is_refused():
    with pytest.raises(ValueError, match="one of json, conll, not 'xml'"):
        NerPredictor(Capitals(), NerReader(), output_format="xml")
