import json

import pytest
import torch
from allennlp.data import Vocabulary
from allennlp.models import Model

from elmo_plugin.tasks.coref import CoreferencePredictor, CoreferenceReader


class SameWords(Model):
    """Puts words that begin with the same capital into a cluster, and whole sentences of three words into another."""

    def __init__(self) -> None:
        super().__init__(Vocabulary())
        self.anything = torch.nn.Parameter(torch.zeros(()))  # a predictor asks for the first parameter's device
        self.batches = []

    def forward(self, text, speaker_ids, genre, metadata):
        self.batches.append((speaker_ids.tolist(), genre.tolist()))
        output = {name: [each[name] for each in metadata] for name in ("document_id", "part", "sentences")}
        return {**output, "clusters": [self._clusters(each["sentences"]) for each in metadata]}

    @staticmethod
    def _clusters(sentences):
        by_letter, whole, place = {}, [], 0
        for sentence in sentences:
            if len(sentence) == 3:
                whole.append((place, place + 2))
            for word in sentence:
                if word[0].isupper():
                    by_letter.setdefault(word[0], []).append((place, place))
                place += 1
        return [cluster for cluster in [*by_letter.values(), whole] if len(cluster) > 1]


@pytest.fixture
def predictor():
    return CoreferencePredictor(SameWords(), CoreferenceReader())


def test_mentions_have_places_in_the_text(predictor):
    text = "  Ada left.\nAb  waved. Bo?"
    output = predictor.predict(text)
    assert output["text"] == text
    assert output["sentences"] == [["Ada", "left", "."], ["Ab", "waved", "."], ["Bo", "?"]]
    assert output["clusters"] == [[[0, 0], [3, 3]], [[0, 2], [3, 5]]]
    assert output["mentions"][1][1] == {
        "text": "Ab  waved.",
        "start": 12,
        "end": 22,
        "first_token": 3,
        "last_token": 5,
    }
    for mention in (mention for cluster in output["mentions"] for mention in cluster):
        assert text[mention["start"] : mention["end"]] == mention["text"]


def test_mentions_are_marked_in_the_text_with_longer_ones_outside(predictor):
    output = predictor.predict("  Ada left.\nAb  waved. Bo?")
    assert output["marked_text"] == "  [1 [0 Ada] left.]\n[1 [0 Ab]  waved.] Bo?"


def test_mentions_side_by_side_close_before_they_open(predictor):
    output = predictor.predict_json({"document": "AdaAb Ada"})
    assert output["marked_text"] == "[0 AdaAb] [0 Ada]"


def test_sentences_are_taken_as_they_are_and_may_have_speakers_and_a_genre(predictor):
    inputs = {"sentences": [["Coy's", "hat"], [], ["Cy"]], "speakers": ["Bo", "Ada"], "genre": "bc"}
    output = predictor.predict_json(inputs)
    assert output["text"] == "Coy's hat Cy"
    assert output["marked_text"] == "[0 Coy's] hat [0 Cy]"
    assert predictor._model.batches[0][0] == [[0, 0, 1]]
    instance = predictor._json_to_instance(inputs)
    assert instance["genre"].label == "bc"


def test_a_batch_goes_through_the_model_at_once(predictor):
    outputs = predictor.predict_batch_json([{"document": "Ada left"}, {"sentences": [["Bo"], ["Bo"]]}])
    assert len(predictor._model.batches) == 1
    assert [len(output["clusters"]) for output in outputs] == [0, 1]


def test_output_can_be_written_as_json(predictor):
    output = predictor.predict("Ada left. Ab waved.")
    assert json.loads(predictor.dump_line(output))["marked_text"] == output["marked_text"]


def test_the_official_scorers_format_is_written_on_demand():
    predictor = CoreferencePredictor(SameWords(), CoreferenceReader(), output_format="conll")
    line = predictor.dump_line(predictor.predict_json({"sentences": [["Ada", "left"], ["Ab"]]}))
    assert line == (
        "#begin document (document); part 000\n"
        "document\t0\t0\tAda\t(0)\ndocument\t0\t1\tleft\t-\n\ndocument\t0\t0\tAb\t(0)\n\n#end document\n"
    )


@pytest.mark.parametrize(
    "inputs",
    [{}, {"document": ["a"]}, {"sentences": "a b"}, {"sentences": ["a"]}, {"sentences": [["a", 1]]}, {"text": "a"}],
)
def test_other_input_is_refused(predictor, inputs):
    with pytest.raises(ValueError, match='predictor elmo::coref needs {"document": "Some text."} or'):
        predictor.predict_json(inputs)


@pytest.mark.parametrize(
    "inputs", [{"sentences": [["a"], ["b"]], "speakers": ["Bo"]}, {"document": "a", "speakers": []}]
)
def test_speakers_that_dont_fit_are_refused(predictor, inputs):
    with pytest.raises(ValueError, match='"speakers"'):
        predictor.predict_json(inputs)


@pytest.mark.parametrize("inputs", [{"document": " "}, {"sentences": []}])
def test_a_document_without_words_is_refused(predictor, inputs):
    with pytest.raises(ValueError, match="no word to read"):
        predictor.predict_json(inputs)


def test_an_unknown_output_format_is_refused():
    with pytest.raises(ValueError, match="one of json, conll, not 'xml'"):
        CoreferencePredictor(SameWords(), CoreferenceReader(), output_format="xml")
