"""What occurs in a batch several times and needs to be computed once: words and sentences."""

from typing import Optional, Tuple

import torch

from elmo_plugin.characters import unique_rows


def distinct_words(character_ids: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
    """The distinct words' ids, (num_words, num_characters), among ids (..., num_characters), and (...) which of them is
    where.
    """
    words, places = unique_rows(character_ids.flatten(end_dim=-2))
    return words, places.view(character_ids.shape[:-1])


def distinct_sentences(
    sentences: torch.Tensor, lengths: torch.Tensor
) -> Tuple[torch.Tensor, torch.Tensor, Optional[torch.Tensor]]:
    """The distinct sentences, (num_sentences, num_tokens), their lengths, and for each row its sentence; or the
    arguments and None if all are distinct.
    """
    distinct, places = unique_rows(sentences)
    if len(distinct) == len(sentences):
        return sentences, lengths, None
    return distinct, lengths.new_empty(len(distinct)).scatter_(0, places, lengths), places
