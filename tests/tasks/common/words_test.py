import pytest

from elmo_plugin.tasks.common.words import is_text, is_words, joined


@pytest.mark.parametrize("value, words, text", [(["a", ""], True, True), ([], True, True), ("a", False, True)])
def test_texts_are_strings_or_lists_of_words(value, words, text):
    assert (is_words(value), is_text(value)) == (words, text)


@pytest.mark.parametrize("value", [None, 1, ["a", 1], {"a": "b"}, ("a",)])
def test_nothing_else_is_a_text(value):
    assert not is_words(value) and not is_text(value)


def test_joined_words_are_found_in_their_text():
    words = ["Ada", "", "é東", "."]
    text = " ".join(words)
    assert [text[token.idx : token.idx_end] for token in joined(words)] == words
