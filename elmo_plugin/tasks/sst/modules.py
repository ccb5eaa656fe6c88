"""The parts of the biattentive classification network (McCann et al. 2017, section 5)."""

import torch

from elmo_plugin.tasks.common.pooling import SelfAttentivePooling, masked_max, masked_mean, masked_min, masked_softmax


class SelfBiattention(torch.nn.Module):
    """Biattention of a sequence with itself: each token with what it finds in the others.

    For two sequences X and Y, A = X Y^T, C_y = softmax(A) Y is each x's summary of Y, and [X; X - C_y; X * C_y] goes
    on; likewise for Y. With X = Y, as for a single sentence, A is symmetric and both sides are the same, so only one is
    computed.
    """

    def get_output_dim(self, input_dim: int) -> int:
        return 3 * input_dim

    def forward(self, encoded: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        # Shape: (batch_size, num_tokens, num_tokens)
        affinity = encoded @ encoded.transpose(1, 2)
        # Shape: (batch_size, num_tokens, dim)
        context = masked_softmax(affinity, mask.unsqueeze(1).expand_as(affinity)) @ encoded
        # Shape: (batch_size, num_tokens, 3 * dim)
        return torch.cat([encoded, encoded - context, encoded * context], dim=-1)


class FourfoldPooling(torch.nn.Module):
    """[max; mean; min; self-attentive] over the tokens: (batch_size, num_tokens, dim) -> (batch_size, 4 * dim)."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.self_attentive = SelfAttentivePooling(dim)
        self._output_dim = 4 * dim

    def get_output_dim(self) -> int:
        return self._output_dim

    def forward(self, vectors: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        pooled = [
            masked_max(vectors, mask),
            masked_mean(vectors, mask),
            masked_min(vectors, mask),
            self.self_attentive(vectors, mask),
        ]
        return torch.cat(pooled, dim=-1)
