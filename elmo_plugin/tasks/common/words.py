"""Texts that may be given as words."""

from typing import Any, List, Sequence

from allennlp.data import Token


def is_words(value: Any) -> bool:
    """Whether this piece of JSON is a list of words."""
    return isinstance(value, list) and all(isinstance(word, str) for word in value)


def is_text(value: Any) -> bool:
    """Whether it is a text, or the words of one."""
    return isinstance(value, str) or is_words(value)


def joined(words: Sequence[str]) -> List[Token]:
    """The words as tokens of the text `" ".join(words)`."""
    tokens: List[Token] = []
    start = 0
    for word in words:
        tokens.append(Token(word, idx=start, idx_end=start + len(word)))
        start += len(word) + 1
    return tokens
