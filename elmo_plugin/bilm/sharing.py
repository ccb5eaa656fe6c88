"""What stands in a batch several times, and has to be computed once: words and sentences."""

from typing import Optional, Tuple

import torch

from elmo_plugin.characters import unique_rows


def distinct_words(character_ids: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
    """The different words' ids, (num_words, num_characters), of ids (..., num_characters), and (...) which one stands
    where.
    """
    words, places = unique_rows(character_ids.flatten(end_dim=-2))
    return words, places.view(character_ids.shape[:-1])


def distinct_sentences(
    sentences: torch.Tensor, lengths: torch.Tensor
) -> Tuple[torch.Tensor, torch.Tensor, Optional[torch.Tensor]]:
    """The different sentences, (num_sentences, num_tokens), their lengths, and for each row its sentence; or what was
    given and None where all are different.
    """
    distinct, places = unique_rows(sentences)
    if len(distinct) == len(sentences):
        return sentences, lengths, None
    return distinct, lengths.new_empty(len(distinct)).scatter_(0, places, lengths), places
