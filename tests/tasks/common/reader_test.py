import logging

import pytest
from allennlp.common.checks import ConfigurationError
from allennlp.data.tokenizers import WhitespaceTokenizer

from elmo_plugin.tasks.common.reader import Notes, TaskReader, json_value, some
from elmo_plugin.tasks.common.words import offsets_of


def tokens_of(text, **settings):
    tokens, plain_text = TaskReader(**settings).tokens_of(text)
    assert [plain_text[start:end] for start, end in offsets_of(tokens)] == list(map(str, tokens))
    return list(map(str, tokens)), plain_text


def test_text_is_tokenised_and_stays_as_it_is():
    assert tokens_of("Ada  left.") == (["Ada", "left", "."], "Ada  left.")


def test_words_stand_as_they_are_in_a_text_of_their_own():
    assert tokens_of(["Ada's", "hat"]) == (["Ada's", "hat"], "Ada's hat")


def test_tokens_without_places_get_those_in_a_text_of_their_own():
    assert tokens_of("Ada  left.", tokenizer=WhitespaceTokenizer()) == (["Ada", "left."], "Ada left.")


@pytest.mark.parametrize("text", ["", "  ", []])
def test_a_text_without_tokens_is_refused(text):
    with pytest.raises(ValueError, match="the premise holds no token: "):
        TaskReader().tokens_of(text, "premise")


def test_some_items_come_as_they_are():
    assert list(some(iter("ab"), "nothing")) == ["a", "b"]


def test_no_items_are_an_error():
    with pytest.raises(ConfigurationError, match="a.txt holds no sentence"):
        list(some([], "a.txt holds no sentence"))


def test_an_unknown_encoding_is_refused():
    with pytest.raises(ConfigurationError, match="'latin-x' isn't an encoding"):
        TaskReader(encoding="latin-x")


def test_notes_are_counted_and_logged_with_their_first_place(caplog):
    notes = Notes(logging.getLogger("reader"))
    for number, place in ((0, "a.txt:1"), (2, "a.txt:4"), (1, "a.txt:9")):
        notes.add(logging.WARNING, "left out {} sentences", number, place)
    notes.add(logging.WARNING, "found {} words")
    notes.log("a.txt")
    assert caplog.messages == ["a.txt: left out 3 sentences; the first is at a.txt:4", "a.txt: found 1 words"]


def test_a_value_is_found_in_a_json_object():
    assert json_value({"id": "a"}, "id", str, "a.json") == "a"


@pytest.mark.parametrize(
    "parent, complaint",
    [
        (["a"], r"a.json, line 3: expected an object with 'id', got \['a'\]"),
        ({"text": "a", "name": "b"}, "a.json, line 3: 'id' must be a str, but is missing; there are name, text"),
        ({"id": 3}, "a.json, line 3: 'id' must be a str, but is 3"),
    ],
)
def test_a_value_that_isnt_there_is_named(parent, complaint):
    with pytest.raises(ConfigurationError, match=complaint):
        json_value(parent, "id", str, "a.json, line 3")
