import pytest

from elmo_plugin.tasks.common.predictor import text_in


@pytest.mark.parametrize("value", ["Ada left.", "", ["Ada", "left"], []])
def test_a_text_is_a_string_or_a_list_of_words(value):
    assert text_in({"tokens": value}, "elmo::ner") == text_in({"sentence": value}, "elmo::ner") == value


def test_tokens_come_before_their_sentence():
    assert text_in({"sentence": "Ada left", "tokens": ["Ada", "left"]}, "elmo::ner") == ["Ada", "left"]


@pytest.mark.parametrize("value", [None, 1, ["a", 1], {"a": "b"}, ("a",)])
def test_nothing_else_is_a_text(value):
    with pytest.raises(ValueError, match="predictor elmo::snli needs 'premise', a text or .*; 'premise' is .* in "):
        text_in({"premise": value}, "elmo::snli", "premise")


@pytest.mark.parametrize("inputs", [{}, {"text": "a"}, {"tokens": None, "sentence": "a"}])
def test_an_input_without_a_text_is_refused(inputs):
    with pytest.raises(ValueError, match="predictor elmo::ner needs 'tokens' or 'sentence'"):
        text_in(inputs, "elmo::ner")
