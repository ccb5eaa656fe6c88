"""ELMo's byte mapping, in pure Python.

A word is its UTF-8 bytes between a begin-of-word and an end-of-word id, cut to fit and padded to a fixed number of
slots. Every id is one more than in the original's table, so that 0 is free to mean "no token here".
"""

from typing import Dict, List, Optional, Tuple

NUM_BYTES = 256
BEGIN_SENTENCE = 256
END_SENTENCE = 257
BEGIN_WORD = 258
END_WORD = 259
PADDING = 260
NUM_CHARACTERS = 261
"""Rows of the published `char_embed`; with the masking id in front there are 262."""

DEFAULT_MAX_CHARACTERS = 50
BEGIN_SENTENCE_TOKEN = "<S>"
END_SENTENCE_TOKEN = "</S>"

_CACHE_SIZE = 200_000
_LONGEST_CACHED = 100
"""In characters. The cache holds the words themselves, and 44,000 characters may be one."""


class CharacterMapping:
    """Maps a word to its `max_characters_per_token` ids.

    `tokens_to_add` gives whole tokens their own character id (an unused byte such as 1 to 31), as in AllenNLP.

    By default the ids equal AllenNLP's for every string, its corner cases included: a word longer than the slots is cut
    between bytes, perhaps inside a character, and the literal words `<S>` and `</S>` become the sentence boundaries.
    `strict` does neither: it cuts at a character boundary, and treats `<S>` as the plain text it is.
    """

    def __init__(
        self,
        max_characters_per_token: int = DEFAULT_MAX_CHARACTERS,
        tokens_to_add: Optional[Dict[str, int]] = None,
        strict: bool = False,
    ) -> None:
        if max_characters_per_token < 3:
            raise ValueError(
                f"max_characters_per_token is {max_characters_per_token}, but a word needs at least 3 slots: its "
                "begin, one byte and its end"
            )
        for token, character_id in (tokens_to_add or {}).items():
            if not 0 <= character_id < NUM_CHARACTERS:
                raise ValueError(
                    f"tokens_to_add gives {token!r} the id {character_id}; ids go from 0 to {NUM_CHARACTERS - 1}"
                )
        self.max_characters_per_token = max_characters_per_token
        self.tokens_to_add = dict(tokens_to_add or {})
        self.strict = strict
        self.begin_sentence_ids = self._wrap([BEGIN_SENTENCE])
        self.end_sentence_ids = self._wrap([END_SENTENCE])
        self._cache: Dict[str, Tuple[int, ...]] = {}

    def ids(self, word: str) -> Tuple[int, ...]:
        """The ids of a word; each word type is computed once."""
        ids = self._cache.get(word)
        if ids is None:
            ids = self._compute(word)
            if len(self._cache) < _CACHE_SIZE and len(word) <= _LONGEST_CACHED:
                self._cache[word] = ids
        return ids

    def _compute(self, word: str) -> Tuple[int, ...]:
        if word in self.tokens_to_add:
            return self._wrap([self.tokens_to_add[word]])
        if not self.strict and word == BEGIN_SENTENCE_TOKEN:
            return self.begin_sentence_ids
        if not self.strict and word == END_SENTENCE_TOKEN:
            return self.end_sentence_ids
        return self._wrap(list(self._fitting_bytes(word)))

    def _fitting_bytes(self, word: str) -> bytes:
        # "ignore" drops what UTF-8 can't express: lone surrogates.
        encoded = word.encode("utf-8", "ignore")[: self.max_characters_per_token - 2]
        if self.strict:
            encoded = encoded.decode("utf-8", "ignore").encode("utf-8")
        return encoded

    def _wrap(self, characters: List[int]) -> Tuple[int, ...]:
        ids = [BEGIN_WORD, *characters, END_WORD]
        ids += [PADDING] * (self.max_characters_per_token - len(ids))
        return tuple(character + 1 for character in ids)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CharacterMapping):
            return NotImplemented
        mine = (self.max_characters_per_token, self.tokens_to_add, self.strict)
        return mine == (other.max_characters_per_token, other.tokens_to_add, other.strict)

    def __getstate__(self) -> dict:
        return {**self.__dict__, "_cache": {}}
