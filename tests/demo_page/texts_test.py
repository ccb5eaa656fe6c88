import pytest

from elmo_plugin.demo_page.texts import TextError, check_text, words_of


def test_a_text_is_taken_without_the_space_around_it():
    assert check_text("  A text. \n", "Sentence") == "A text."


@pytest.mark.parametrize("text", ["", " \n\t "])
def test_no_text_is_refused(text):
    with pytest.raises(TextError, match="^Premise: there is no text yet.$"):
        check_text(text, "Premise")


def test_a_long_text_is_refused_with_the_limit_and_how_to_change_it():
    assert check_text("a" * 1000, "Passage", 1000)
    with pytest.raises(TextError, match=r"1,001 characters; the page takes up to 1,000 .*\(--max-characters\)"):
        check_text("a" * 1001, "Passage", 1000)


def test_punctuation_is_split_off_words():
    assert words_of("They didn't, in the bank.") == ["They", "did", "n't", ",", "in", "the", "bank", "."]
