import pytest

from elmo_plugin.analysis.marked_sentence import MarkedSentence
from elmo_plugin.demo_page import words
from elmo_plugin.demo_page.texts import TextError
from elmo_plugin.demo_page.words import Pick


def test_each_line_is_a_sentence_and_blank_ones_are_passed_over():
    assert words.read_sentences("A bank.\n\n  The river \n") == [["A", "bank", "."], ["The", "river"]]


def test_every_occurrence_of_the_word_most_sentences_share_is_suggested():
    sentences = [["The", "bank", "by", "the", "bank"], ["a", "Bank", "."], ["a", "bank", "."], ["no", "word", "."]]
    assert words.suggested_picks(sentences) == [Pick(0, 1), Pick(0, 4), Pick(1, 1), Pick(2, 1)]


def test_nothing_is_suggested_where_nothing_is_shared_but_punctuation():
    assert words.suggested_picks([["one", "."], ["two", "."]]) == []


def test_picked_words_come_in_the_order_of_the_text():
    sentences = [["a", "b"], ["c"]]
    chosen = words.occurrences(sentences, {Pick(1, 0), Pick(0, 1)})
    assert chosen == [MarkedSentence(["a", "b"], 1), MarkedSentence(["c"], 0)]


@pytest.mark.parametrize("num_picks", [0, 1, words.MAX_OCCURRENCES + 1])
def test_a_comparison_needs_at_least_two_words_and_not_too_many(num_picks):
    with pytest.raises(TextError, match=f"Pick 2 to {words.MAX_OCCURRENCES} words to compare; {num_picks} are picked"):
        words.occurrences([["a"] * 20], {Pick(0, place) for place in range(num_picks)})
