"""TokenIndexer "elmo::characters"."""

from typing import Dict, List, Optional

import numpy
import torch
from allennlp.common.checks import ConfigurationError
from allennlp.data import TokenIndexer, Vocabulary
from allennlp.data.token_indexers.token_indexer import IndexedTokenList
from allennlp.data.tokenizers import Token

from elmo_plugin.characters.mapping import DEFAULT_MAX_CHARACTERS, CharacterMapping


@TokenIndexer.register("elmo::characters")
class ElmoCharactersIndexer(TokenIndexer):
    """Indexes each token by the ids of its characters.

    The tensor is called `elmo_tokens`, as with AllenNLP's own indexer. Its width, `max_characters_per_token`, has to be
    the one the biLM was trained with (50 for the published ones); the biLM refuses any other.
    """

    def __init__(
        self,
        max_characters_per_token: int = DEFAULT_MAX_CHARACTERS,
        tokens_to_add: Optional[Dict[str, int]] = None,
        strict: bool = False,
        token_min_padding_length: int = 0,
    ) -> None:
        super().__init__(token_min_padding_length)
        try:
            self.mapping = CharacterMapping(max_characters_per_token, tokens_to_add, strict)
        except ValueError as error:
            raise ConfigurationError(f"elmo::characters: {error}") from error

    def count_vocab_items(self, token: Token, counter: Dict[str, Dict[str, int]]) -> None:
        pass  # bytes need no vocabulary

    def get_empty_token_list(self) -> IndexedTokenList:
        return {"elmo_tokens": []}

    def tokens_to_indices(self, tokens: List[Token], vocabulary: Vocabulary) -> IndexedTokenList:
        return {"elmo_tokens": [self.mapping.ids(token.ensure_text()) for token in tokens]}

    def as_padded_tensor_dict(
        self, tokens: IndexedTokenList, padding_lengths: Dict[str, int]
    ) -> Dict[str, torch.Tensor]:
        ids = tokens["elmo_tokens"]
        # Shape: (padded_length, max_characters_per_token)
        padded = numpy.zeros((padding_lengths["elmo_tokens"], self.mapping.max_characters_per_token), dtype=numpy.int64)
        if ids:
            padded[: len(ids)] = ids
        return {"elmo_tokens": torch.from_numpy(padded)}
