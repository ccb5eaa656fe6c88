"""Words and their places in a text."""

from dataclasses import replace
from typing import Any, Dict, List, Sequence, Tuple, Union

from allennlp.data import Token

Offsets = Sequence[Tuple[int, int]]


def is_words(value: Any) -> bool:
    """Whether this piece of JSON is a list of words."""
    return isinstance(value, list) and all(isinstance(word, str) for word in value)


def joined(words: Sequence[Union[str, Token]]) -> List[Token]:
    """The words as tokens of the text `" ".join(words)`."""
    tokens: List[Token] = []
    start = 0
    for word in words:
        if isinstance(word, str):
            token = Token(word, start, start + len(word))
        else:
            token = replace(word, idx=start, idx_end=start + len(str(word)))
        tokens.append(token)
        start = token.idx_end + 1  # type: ignore[operator]
    return tokens


def offsets_of(tokens: Sequence[Token]) -> Offsets:
    """The first character of each token, and the one past its last. Some tokenizers only say where one begins."""
    return [
        (token.idx, token.idx + len(str(token)) if token.idx_end is None else token.idx_end)  # type: ignore
        for token in tokens
    ]


def located(text: str, offsets: Offsets, first: int, last: int) -> Dict[str, Any]:
    """The tokens `first` to `last`, the latter included, as predictors give them: `text[start:end]` is their text."""
    start, end = offsets[first][0], offsets[last][1]
    return {"text": text[start:end], "start": start, "end": end, "first_token": first, "last_token": last}
