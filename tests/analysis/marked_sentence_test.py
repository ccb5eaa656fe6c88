import pytest
from allennlp.common.checks import ConfigurationError

from elmo_plugin.analysis.marked_sentence import MarkedSentence, parse_marked


def test_the_word_in_brackets_is_the_marked_one():
    assert parse_marked("On the [bank] .") == MarkedSentence(["On", "the", "bank", "."], 2)


def test_brackets_that_are_tokens_are_left_alone():
    sentence = parse_marked("[ sic ] the [bank] []")
    assert sentence.tokens == ["[", "sic", "]", "the", "bank", "[]"]
    assert sentence.word == "bank"


@pytest.mark.parametrize(("text", "num_marked"), [("the bank", 0), ("", 0), ("[the] [bank]", 2)])
def test_exactly_one_word_has_to_be_marked(text, num_marked):
    with pytest.raises(ConfigurationError, match=f"file:3: exactly one word .* but here {num_marked} are"):
        parse_marked(text, "file:3")


def test_an_excerpt_says_where_it_was_cut():
    sentence = parse_marked("They sat on the [bank] of the river .")
    assert sentence.excerpt(2) == "... on the [bank] of the ..."
    assert sentence.excerpt(4) == "They sat on the [bank] of the river ."
