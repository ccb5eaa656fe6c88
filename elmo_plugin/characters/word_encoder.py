"""TokenEmbedder "elmo::character_encoding": words by their characters."""

import torch
from allennlp.modules.token_embedders import TokenCharactersEncoder, TokenEmbedder

from elmo_plugin.characters.repetitions import unique_rows


@TokenEmbedder.register("elmo::character_encoding")
class WordCharactersEncoder(TokenCharactersEncoder):
    """AllenNLP's `character_encoding`, which on a CPU encodes a word once, however often it occurs in the batch.

    On a GPU, finding out which words are the same would make the host wait, and the encoder takes next to no time.
    """

    def forward(self, token_characters: torch.Tensor) -> torch.Tensor:
        """(batch_size, num_tokens, num_characters) -> (batch_size, num_tokens, dim)"""
        if not token_characters.is_cpu:
            return super().forward(token_characters)
        words, places = unique_rows(token_characters.flatten(end_dim=-2))
        # The wrapped modules, which take words without a sentence dimension.
        embedding, encoder = self._embedding._module, self._encoder._module
        vectors = encoder(embedding(words), words != 0)
        return self._dropout(vectors[places].unflatten(0, token_characters.shape[:-1]))
