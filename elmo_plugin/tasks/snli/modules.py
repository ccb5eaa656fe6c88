"""ESIM's own steps: the soft alignment of two sentences, and what is computed from it. Sections are Chen et al.'s
(2017).
"""

from typing import NamedTuple

import torch

from elmo_plugin.tasks.common.pooling import masked_max, masked_mean, masked_softmax


class Alignment(NamedTuple):
    """How strongly each token of a sentence is aligned with each token of the other, and the weighted sums of those
    vectors.
    """

    premise: torch.Tensor  # a~_i: (batch_size, premise_length, dim), made of vectors of the hypothesis
    hypothesis: torch.Tensor  # b~_j: (batch_size, hypothesis_length, dim), made of vectors of the premise
    premise_attention: torch.Tensor  # (batch_size, premise_length, hypothesis_length), rows sum to 1
    hypothesis_attention: torch.Tensor  # (batch_size, hypothesis_length, premise_length), rows sum to 1


def align(
    premise: torch.Tensor, premise_mask: torch.Tensor, hypothesis: torch.Tensor, hypothesis_mask: torch.Tensor
) -> Alignment:
    """Section 3.2: e_ij = a_i . b_j, normalised over j for a~_i and over i for b~_j.

    The sentences are (batch_size, length, dim), their masks (batch_size, length). Rows of padding are zero.
    """
    # Shape: (batch_size, premise_length, hypothesis_length)
    similarity = torch.bmm(premise, hypothesis.transpose(1, 2))
    both = premise_mask.unsqueeze(2) & hypothesis_mask.unsqueeze(1)
    premise_attention = masked_softmax(similarity, both)
    hypothesis_attention = masked_softmax(similarity.transpose(1, 2), both.transpose(1, 2))
    return Alignment(
        torch.bmm(premise_attention, hypothesis),
        torch.bmm(hypothesis_attention, premise),
        premise_attention,
        hypothesis_attention,
    )


def local_inference(encoded: torch.Tensor, aligned: torch.Tensor) -> torch.Tensor:
    """Section 3.2: m = [a; a~; a - a~; a * a~], four times as wide as `encoded`."""
    return torch.cat([encoded, aligned, encoded - aligned, encoded * aligned], dim=-1)


def average_and_max(composed: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Section 3.3: the average and the maximum over a sentence's tokens, (batch_size, 2 * dim)."""
    return torch.cat([masked_mean(composed, mask), masked_max(composed, mask)], dim=-1)
