"""What a task's model gets for a text."""

from typing import Dict, NamedTuple

import torch


class EmbeddedText(NamedTuple):
    """An embedded batch of text. A task encodes `input`, then lets `enhance` add what its configuration places further
    up.

    For equation (1)'s two uses: `input` is [x_k; ELMo_k] where the placement `input` is configured and x_k elsewhere,
    and `enhance(h, at="output")` is [h_k; ELMo_k] or h_k likewise.
    """

    words: torch.Tensor  # x_k, (..., num_tokens, words_dim)
    input: torch.Tensor  # (..., num_tokens, input_dim)
    mask: torch.Tensor  # (..., num_tokens), bool
    placed: Dict[str, torch.Tensor]  # the contextual vectors by placement

    def enhance(self, encoded: torch.Tensor, at: str = "output") -> torch.Tensor:
        """`encoded`, with the vectors of the placement `at` beside it if there are any."""
        if at not in self.placed:
            return encoded
        return torch.cat([encoded, self.placed[at]], dim=-1)
