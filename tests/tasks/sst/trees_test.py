import re

import pytest

from elmo_plugin.tasks.sst.trees import Phrase, parse_tree

LINE = "(3 (2 It) (4 (2 's) (4 (3 quite) (4 lovely))))"


def test_a_tree_has_its_tokens_and_every_phrase_parents_first():
    tree = parse_tree(LINE)
    assert tree.tokens == ["It", "'s", "quite", "lovely"]
    assert tree.phrases == [
        Phrase(3, 0, 4),
        Phrase(2, 0, 1),
        Phrase(4, 1, 4),
        Phrase(2, 1, 2),
        Phrase(4, 2, 4),
        Phrase(3, 2, 3),
        Phrase(4, 3, 4),
    ]
    assert tree.words(tree.phrases[4]) == ["quite", "lovely"]


def test_a_tree_of_one_word_is_a_sentence():
    assert parse_tree("(0 No)") == (["No"], [Phrase(0, 0, 1)])


def test_a_phrase_may_have_any_number_of_parts():
    assert parse_tree("(2 (2 a) (2 b) (2 c))").phrases[0] == Phrase(2, 0, 3)


@pytest.mark.parametrize("line", [f"  {LINE} \r\n", LINE.replace(" ", "\t"), LINE.replace(" (", "(")])
def test_white_space_between_brackets_doesnt_matter(line):
    assert parse_tree(line) == parse_tree(LINE)


def test_a_no_break_space_belongs_to_its_token():
    assert parse_tree("(2 2\u00a01\\/2)").tokens == ["2\u00a01/2"]


def test_escaped_tokens_are_written_plainly():
    assert parse_tree("(2 (1 -LRB-) (3 and\\/or))").tokens == ["(", "and/or"]


def test_no_tree_is_too_deep():
    depth = 50_000
    tree = parse_tree("(2 " * depth + "deep" + ")" * depth)
    assert tree.tokens == ["deep"]
    assert len(tree.phrases) == depth


@pytest.mark.parametrize(
    "line, message",
    [
        ("(3 (2 It)", "the tree ends with 1 '(' still open"),
        ("(3 (2 It)))", "column 11: the tree ends before ')'"),
        ("(3 It) (2 too)", "column 8: the tree ends before '('"),
        ("(3 It) too", "column 8: the tree ends before 'too'"),
        (")", "column 1: ')' where a tree should open"),
        ("It is", "column 1: 'It' where a tree should open"),
        ("((2 It))", "column 2: a phrase opens where its parent's label"),
        ("(3 (2 It) ())", "column 12: a phrase closes without a label"),
        ("(3 (2 It) (2))", "column 13: a phrase closes without a word"),
        ("(5 It)", "column 2: a label must be one of 0, 1, 2, 3, 4, not '5'"),
        ("(-1 It)", "not '-1'"),
        ("(12 It)", "not '12'"),
        ("(It)", "not 'It'"),
        ("(3 It is)", "column 7: the word 'is' has no bracket and label of its own"),
        ("(3 (2 It) is)", "column 11: the word 'is' has no bracket"),
        ("(3 It (2 is))", "column 7: a phrase opens beside the word 'It'"),
        ("", "there is no tree"),
    ],
)
def test_a_broken_tree_is_refused_with_the_place_and_the_reason(line, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        parse_tree(line)
