import pickle
from typing import List

import pytest
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data.tokenizers import SentenceSplitter, Token, Tokenizer
from hypothesis import given, settings
from hypothesis import strategies as st

from elmo_plugin import words
from elmo_plugin.text.tokenizer import RuleBasedTokenizer

TEXT = "Don't play here.\n\nThe play, a 3.5-hour one, opened!  Was it good?"
SENTENCES = ["Don't play here.", "The play, a 3.5-hour one, opened!", "Was it good?"]


def texts_of(tokens: List[Token]) -> List[str]:
    return [token.text for token in tokens]


def tokenizer(**settings_) -> RuleBasedTokenizer:
    return Tokenizer.from_params(Params({"type": "elmo::spacy", **settings_}))


def test_words_are_split_by_the_rules_of_the_language():
    assert texts_of(tokenizer().tokenize("Don't play.")) == ["Do", "n't", "play", "."]
    assert texts_of(tokenizer(language="it").tokenize("L'acqua.")) == ["L'", "acqua", "."]


def test_white_space_is_no_token():
    assert texts_of(tokenizer().tokenize("  a \n\n b\t ")) == ["a", "b"]


@pytest.mark.parametrize("text", ["", " \n "])
def test_a_text_without_words_has_no_tokens_and_no_sentences(text):
    assert tokenizer().tokenize(text) == []
    assert tokenizer().split_sentences(text) == []
    assert tokenizer().tokenize_sentences(text) == []


def test_sentences_stand_as_in_the_text_without_white_space_around_them():
    assert tokenizer().split_sentences("  " + TEXT + "\n") == SENTENCES


def test_the_tokens_of_sentences_keep_their_offsets_in_the_whole_text():
    sentences = tokenizer().tokenize_sentences(TEXT)
    assert [TEXT[tokens[0].idx : tokens[-1].idx_end] for tokens in sentences] == SENTENCES


def test_texts_that_are_already_tokenised_are_split_at_spaces_only():
    text = "Do n't  split 3.5-hour !\tOr 10\u00a0000 .\n"
    pretokenised = tokenizer(split_on_spaces=True)
    assert texts_of(pretokenised.tokenize(text)) == ["Do", "n't", "split", "3.5-hour", "!", "Or", "10\u00a0000", "."]
    assert pretokenised.split_sentences(text) == ["Do n't  split 3.5-hour !", "Or 10\u00a0000 ."]


def test_start_and_end_tokens_surround_each_text_and_each_sentence():
    surrounding = tokenizer(start_tokens=["<a>", "<b>"], end_tokens=["<y>", "<z>"])
    assert texts_of(surrounding.tokenize("Hi.")) == ["<a>", "<b>", "Hi", ".", "<y>", "<z>"]
    assert [texts_of(tokens) for tokens in surrounding.tokenize_sentences("Hi. Ho.")] == [
        ["<a>", "<b>", "Hi", ".", "<y>", "<z>"],
        ["<a>", "<b>", "Ho", ".", "<y>", "<z>"],
    ]
    assert surrounding.tokenize("Hi.")[0].idx is None


def test_the_lists_of_start_and_end_tokens_are_left_alone():
    start = ["<a>", "<b>"]
    RuleBasedTokenizer(start_tokens=start).tokenize("Hi.")
    assert start == ["<a>", "<b>"]


@pytest.mark.parametrize("split_on_spaces", [True, False])
def test_a_batch_gives_what_single_texts_give(split_on_spaces):
    texts = [TEXT, "", "One."]
    one = tokenizer(split_on_spaces=split_on_spaces)
    assert one.batch_tokenize(texts) == [one.tokenize(text) for text in texts]
    assert one.batch_split_sentences(texts) == [one.split_sentences(text) for text in texts]


@settings(deadline=None, max_examples=60)
@given(text=st.text(max_size=60) | st.text("ab.!?' \n\u00a0\u3000\u3002\U0001f600", max_size=60), split=st.booleans())
def test_a_token_is_found_at_its_offset_and_sentences_hold_all_tokens_in_order(text, split):
    one = RuleBasedTokenizer(split_on_spaces=split)
    tokens = one.tokenize(text)
    for token in tokens:
        assert text[token.idx : token.idx + len(token.text)] == token.text
        assert token.idx_end == token.idx + len(token.text)
    assert [token for sentence in one.tokenize_sentences(text) for token in sentence] == tokens
    assert all(earlier.idx_end <= later.idx for earlier, later in zip(tokens, tokens[1:], strict=False))


@settings(deadline=None, max_examples=60)
@given(text=st.text("ab.!?' \n\u3002", max_size=60))
def test_the_sentences_are_what_the_text_holds_apart_from_white_space(text):
    sentences = tokenizer().split_sentences(text)
    assert "".join("".join(sentences).split()) == "".join(text.split())
    assert all(sentence == sentence.strip() != "" for sentence in sentences)


def test_no_text_is_too_long():
    assert texts_of(tokenizer().tokenize("first" + " " * 1_000_000 + "last")) == ["first", "last"]


def test_half_a_character_is_refused_with_a_remedy():
    with pytest.raises(ValueError, match=r"lone surrogate '\\ud800'.*errors='replace'"):
        tokenizer().tokenize("fine \ud800")


@pytest.mark.parametrize("language", ["qq", "", "en_core_web_sm"])
def test_an_unknown_language_is_refused_with_a_remedy(language):
    with pytest.raises(ConfigurationError, match=f"can't tokenise the language '{language}'.*one of spaCy's codes"):
        RuleBasedTokenizer(language=language)


@pytest.mark.parametrize(
    "language, package", [("ja", "sudachipy"), ("th", "pythainlp"), ("vi", "pyvi"), ("ko", "natto")]
)
def test_a_language_whose_package_is_missing_names_the_package(language, package, monkeypatch):
    def blank(_):
        raise ImportError("not there")

    monkeypatch.setattr(words.spacy, "blank", blank)
    words.pipeline_of.cache_clear()
    with pytest.raises(ConfigurationError, match=f"pip install {package}.*not there"):
        RuleBasedTokenizer(language=language)


def test_a_pickled_tokenizer_is_small_and_works_where_nothing_is_loaded_yet():
    pickled = pickle.dumps(RuleBasedTokenizer(language="de", end_tokens=["<z>"]))
    assert len(pickled) < 500
    words.pipeline_of.cache_clear()
    assert texts_of(pickle.loads(pickled).tokenize("Er kam.")) == ["Er", "kam", ".", "<z>"]


def test_a_tokenizer_is_rebuilt_from_its_params():
    original = RuleBasedTokenizer(language="de", split_on_spaces=True, start_tokens=["<a>", "<b>"])
    rebuilt = Tokenizer.from_params(original.to_params())
    assert rebuilt.tokenize("Er kam.") == original.tokenize("Er kam.")


def test_the_sentence_splitter_splits_as_the_tokenizer_does():
    splitter = SentenceSplitter.from_params(Params({"type": "elmo::spacy"}))
    assert splitter.split_sentences(TEXT) == SENTENCES
    assert splitter.batch_split_sentences([TEXT, ""]) == [SENTENCES, []]


@pytest.mark.parametrize(
    "text, num_words",
    [
        ("(" * 20_000, 20_000),
        ("'s" * 3000, 3000),
        ("a" * 44_000, 1),
        ("a" * 44_000 + "(" * 3000, 3001),
        ("(" * 3000 + "a" * 44_000, 3001),
        ("Play here: " + "!" * 2001 + " and\tthere.", 2007),
    ],
)
def test_a_long_stretch_without_white_space_takes_time_in_proportion_to_its_length(text, num_words):
    tokens = tokenizer().tokenize(text)
    assert len(tokens) == num_words
    assert all(text[token.idx : token.idx_end] == token.text for token in tokens)


@given(st.text("ab1.,()'-/\"!$% ", max_size=60))
@settings(deadline=None, max_examples=30)
def test_words_in_long_stretches_are_whole_and_in_order(text):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(words, "LONGEST_STRETCH", 9)
        tokens = tokenizer().tokenize(text)
    assert "".join(texts_of(tokens)) == "".join(text.split())
    assert all(text[token.idx : token.idx_end] == token.text for token in tokens)


def test_ordinary_words_are_the_same_in_long_stretches(monkeypatch):
    text = "(((one--two--three...four--five--six--seven)))!"
    expected = texts_of(tokenizer().tokenize(text))
    monkeypatch.setattr(words, "LONGEST_STRETCH", 20)
    assert texts_of(tokenizer().tokenize(text)) == expected
