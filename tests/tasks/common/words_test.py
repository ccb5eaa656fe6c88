import pytest
from allennlp.data import Token

from elmo_plugin.tasks.common.words import is_words, joined, located, offsets_of


@pytest.mark.parametrize("value, expected", [(["a", ""], True), ([], True), ("a", False), (["a", 1], False)])
def test_words_are_a_list_of_strings(value, expected):
    assert is_words(value) == expected


def test_joined_words_are_found_in_their_text():
    words = ["Ada", "", "é東", "."]
    text = " ".join(words)
    assert [text[start:end] for start, end in offsets_of(joined(words))] == words


def test_a_token_that_only_says_where_it_begins_ends_after_its_text():
    assert offsets_of([Token("left", idx=4), Token("n't", idx=8, idx_end=10)]) == [(4, 8), (8, 10)]


def test_located_tokens_have_their_text_and_both_places():
    expected = {"text": "left  her", "start": 4, "end": 13, "first_token": 1, "last_token": 2}
    assert located("Ada left  her", [(0, 3), (4, 8), (10, 13)], 1, 2) == expected


def test_joined_tokens_keep_what_is_known_about_them():
    (_, token) = joined(["Ada", Token("left", idx=0, pos_="VERB")])
    assert (token.text, token.idx, token.idx_end, token.pos_) == ("left", 4, 8, "VERB")
