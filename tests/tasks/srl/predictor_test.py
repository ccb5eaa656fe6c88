import json

import pytest
import torch
from allennlp.common.checks import ConfigurationError
from allennlp.data import Vocabulary
from allennlp.models import Model

from elmo_plugin.tasks.srl import PredicateFinder, SpacyPredicateFinder, SrlPredictor, SrlReader


class Neighbours(Model):
    """The two words before a predicate are its agent, the word after it its patient."""

    def __init__(self) -> None:
        super().__init__(Vocabulary())
        self.anything = torch.nn.Parameter(torch.zeros(()))  # a predictor asks for the first parameter's device
        self.batch_sizes = []

    def forward(self, tokens, predicate_indicator, metadata):
        self.batch_sizes.append(len(metadata))
        return {"tags": [self._tag(len(each["tokens"]), each["predicate_index"]) for each in metadata]}

    @staticmethod
    def _tag(length, predicate):
        tags = {predicate - 2: "B-ARG0", predicate - 1: "I-ARG0", predicate: "B-V", predicate + 1: "B-ARG1"}
        return [tags.get(index, "O") for index in range(length)]


class LowerCase(PredicateFinder):
    def find(self, sentences):
        return [[index for index, word in enumerate(words) if word.islower()] for words in sentences]


@pytest.fixture
def predictor():
    return SrlPredictor(Neighbours(), SrlReader(predicate_finder=LowerCase()))


def test_frames_have_labelled_spans_and_a_description(predictor):
    sentence = "Old  Ada met\tBo."
    output = predictor.predict_json({"sentence": sentence, "predicate_indices": [2]})
    assert output == {
        "sentence": sentence,
        "tokens": ["Old", "Ada", "met", "Bo", "."],
        "frames": [
            {
                "predicate": "met",
                "predicate_index": 2,
                "tags": ["B-ARG0", "I-ARG0", "B-V", "B-ARG1", "O"],
                "arguments": [
                    {"type": "ARG0", "text": "Old  Ada", "start": 0, "end": 8, "first_token": 0, "last_token": 1},
                    {"type": "V", "text": "met", "start": 9, "end": 12, "first_token": 2, "last_token": 2},
                    {"type": "ARG1", "text": "Bo", "start": 13, "end": 15, "first_token": 3, "last_token": 3},
                ],
                "description": "[ARG0: Old Ada] [V: met] [ARG1: Bo] .",
            }
        ],
    }
    assert json.loads(predictor.dump_line(output)) == output


def test_tokens_are_taken_as_they_are(predictor):
    output = predictor.predict_json({"tokens": ["He", "isn't", "Bo's"], "predicate_indices": [1]})
    assert output["tokens"] == ["He", "isn't", "Bo's"]
    assert output["sentence"] == "He isn't Bo's"
    assert output["frames"][0]["arguments"][-1]["start"] == 9


def test_predicates_are_found_if_they_arent_given(predictor):
    outputs = predictor.predict_batch_json(
        [{"sentence": "Ada met Bo"}, {"tokens": ["a", "b"], "predicate_indices": [1]}, {"tokens": ["He", "ran", "off"]}]
    )
    assert [[frame["predicate"] for frame in output["frames"]] for output in outputs] == [
        ["met"],
        ["b"],
        ["ran", "off"],
    ]
    assert predictor._model.batch_sizes == [4]


def test_a_sentence_without_predicates_has_no_frames(predictor):
    assert predictor.predict("NOTHING HERE")["frames"] == []
    assert predictor.predict_json({"sentence": "so it is", "predicate_indices": []})["frames"] == []
    assert predictor._model.batch_sizes == []


def test_without_predicates_or_a_way_to_find_them_the_error_says_what_to_give():
    reader = SrlReader(predicate_finder=SpacyPredicateFinder("no_such_pipeline"))
    predictor = SrlPredictor(Neighbours(), reader)
    with pytest.raises(ConfigurationError) as error:
        predictor.predict("Ada left")
    for remedy in (
        '"predicate_indices": [1]',
        "spacy download no_such_pipeline",
        '"predicate_finder": {"type": "tagger"',
    ):
        assert remedy in error.value.message
    assert predictor.predict_json({"sentence": "Ada left", "predicate_indices": [1]})["frames"]


def test_other_input_is_refused(predictor):
    with pytest.raises(ValueError, match="predictor elmo::srl needs 'tokens' or 'sentence', a text or a list of words"):
        predictor.predict_json({"text": "a"})


@pytest.mark.parametrize("indices", [[2], [-1], 1, ["1"], [True], [0.0]])
def test_indices_that_arent_tokens_are_refused(predictor, indices):
    with pytest.raises(ValueError, match="predicate_indices must be a list of numbers from 0 to 1"):
        predictor.predict_json({"tokens": ["Ada", "left"], "predicate_indices": indices})


@pytest.mark.parametrize("names", ["met left", ["left", "met"]])
def test_predicates_may_be_given_as_words(predictor, names):
    output = predictor.predict_json({"sentence": "Old Ada met Bo and left .", "predicates": names})
    assert [frame["predicate_index"] for frame in output["frames"]] == [2, 5]


def test_a_predicate_that_is_no_word_of_the_sentence_is_refused(predictor):
    with pytest.raises(ValueError, match="the predicate 'meets' isn't one of the tokens"):
        predictor.predict_json({"sentence": "Ada met Bo", "predicates": "meets"})
