import pytest

from elmo_plugin.corpora import split_columns, unescape


@pytest.mark.parametrize(
    "escaped, plain",
    [
        ("-LRB-", "("),
        ("-RRB-", ")"),
        ("-LSB-", "["),
        ("-RCB-", "}"),
        ("and\\/or", "and/or"),
        ("\\*\\*", "**"),
        ("a\\b", "a\\b"),
        ("-LRB-ish", "-LRB-ish"),
        ("``", "``"),
    ],
)
def test_escaped_tokens_are_written_plainly(escaped, plain):
    assert unescape(escaped) == plain


@pytest.mark.parametrize(
    "line, columns",
    [
        ("EU NNP  O\r\n", ["EU", "NNP", "O"]),
        ("10\xa0000\tCD\t\n", ["10\xa0000", "CD"]),
        ("\u2028 O", ["\u2028", "O"]),
        (" \t\xa0\n", []),
    ],
)
def test_spaces_and_tabs_separate_columns_and_other_white_space_belongs_to_its_word(line, columns):
    assert split_columns(line) == columns
