"""What a visitor has typed: checked, and split into words."""

from typing import List

from elmo_plugin.text.tokenizer import RuleBasedTokenizer

MAX_CHARACTERS = 5000


class TextError(ValueError):
    """A text that can't be processed; its message is a sentence for the visitor."""


def check_text(text: str, name: str, max_characters: int = MAX_CHARACTERS) -> str:
    """The text without white space around it, unless it is empty or too long."""
    stripped = text.strip()
    if not stripped:
        raise TextError(f"{name}: there is no text yet.")
    if len(stripped) > max_characters:
        raise TextError(
            f"{name}: this text has {len(stripped):,} characters; the page takes up to {max_characters:,} at a time "
            "(--max-characters)."
        )
    return stripped


def words_of(sentence: str) -> List[str]:
    """The words and punctuation marks of a sentence, by the rules for English that tasks split text with."""
    return [str(token) for token in RuleBasedTokenizer().tokenize(sentence)]
