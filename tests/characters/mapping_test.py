import pickle

import pytest
from allennlp.data.token_indexers.elmo_indexer import ELMoCharacterMapper
from hypothesis import given
from hypothesis import strategies as st

from elmo_plugin.characters.mapping import BEGIN_WORD, END_WORD, PADDING, CharacterMapping

ANY_TEXT = st.text(st.characters(exclude_categories=()))  # lone surrogates included
SPECIAL = st.sampled_from(["<S>", "</S>", "", "\U0001f600" * 20, "x" * 48, "x" * 49, "x" * 60, "é" * 30, "\x00"])


@given(ANY_TEXT | SPECIAL)
def test_ids_equal_allennlps_for_every_string(word):
    assert list(CharacterMapping().ids(word)) == ELMoCharacterMapper().convert_word_to_char_ids(word)


@given(ANY_TEXT)
def test_added_tokens_equal_allennlps(word):
    added = {"[SEP]": 3, word: 7}
    ours, theirs = CharacterMapping(tokens_to_add=added), ELMoCharacterMapper(added)
    for token in ("[SEP]", word, "other"):
        assert list(ours.ids(token)) == theirs.convert_word_to_char_ids(token)


@given(ANY_TEXT, st.integers(min_value=3, max_value=80))
def test_any_number_of_slots_is_filled_exactly(word, slots):
    ids = CharacterMapping(max_characters_per_token=slots).ids(word)
    assert len(ids) == slots
    assert ids[0] == BEGIN_WORD + 1 and END_WORD + 1 in ids and 0 not in ids


def test_an_empty_word_is_its_two_marks():
    assert CharacterMapping(5).ids("") == (BEGIN_WORD + 1, END_WORD + 1, PADDING + 1, PADDING + 1, PADDING + 1)


def test_strict_cuts_at_a_character_boundary():
    word = "xxé"  # four bytes; five slots leave room for three
    assert CharacterMapping(5).ids(word)[1:4] == tuple(byte + 1 for byte in word.encode()[:3])
    assert CharacterMapping(5, strict=True).ids(word) == CharacterMapping(5).ids("xx")


def test_strict_reads_a_boundary_symbol_as_text():
    mapping = CharacterMapping(strict=True)
    assert mapping.ids("<S>") != mapping.begin_sentence_ids
    assert mapping.ids("<S>")[1] == ord("<") + 1


def test_too_few_slots_are_refused():
    with pytest.raises(ValueError, match="max_characters_per_token is 2"):
        CharacterMapping(2)


def test_an_added_token_needs_an_id_that_exists():
    with pytest.raises(ValueError, match=r"'x' the id 261"):
        CharacterMapping(tokens_to_add={"x": 261})


def test_a_word_of_many_characters_is_not_remembered():
    mapping = CharacterMapping()
    assert mapping.ids("x" * 44_000) == mapping.ids("x" * 60)
    assert list(mapping._cache) == ["x" * 60]


def test_a_mapping_is_pickled_without_its_cache():
    mapping = CharacterMapping()
    mapping.ids("word")
    copy = pickle.loads(pickle.dumps(mapping))
    assert copy == mapping and copy._cache == {} and mapping._cache
