"""From one vector per token to one vector per text. Padding never counts, and a text without tokens gives zeros."""

import torch


def masked_max(vectors: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The largest value of each dimension: (batch_size, num_tokens, dim) -> (batch_size, dim)."""
    lowest = torch.finfo(vectors.dtype).min
    largest = vectors.masked_fill(~mask.unsqueeze(-1), lowest).max(dim=1).values
    return largest.masked_fill(~mask.any(dim=1, keepdim=True), 0.0)


def masked_min(vectors: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The smallest value of each dimension: (batch_size, num_tokens, dim) -> (batch_size, dim)."""
    return -masked_max(-vectors, mask)


def masked_mean(vectors: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The mean of each dimension: (batch_size, num_tokens, dim) -> (batch_size, dim)."""
    num_tokens = mask.sum(dim=1, keepdim=True).clamp(min=1)
    return vectors.masked_fill(~mask.unsqueeze(-1), 0.0).sum(dim=1) / num_tokens


def masked_softmax(logits: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Weights over the last dimension that sum to 1 where `mask` is True and are 0 elsewhere, or all 0 if nothing is.

    AllenNLP's default lets padding into the normaliser and takes it out again, so that logits far below zero underflow
    beside padding but not without it; here padding makes no difference.
    """
    lowest = torch.finfo(logits.dtype).min
    return torch.softmax(logits.masked_fill(~mask, lowest), dim=-1).masked_fill(~mask, 0.0)


class SelfAttentivePooling(torch.nn.Module):
    """A mean weighted by a softmax over a learned score of each token: X^T softmax(X v + d) (McCann et al. 2017)."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.score = torch.nn.Linear(dim, 1)

    def forward(self, vectors: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        # Shape: (batch_size, num_tokens)
        weights = masked_softmax(self.score(vectors).squeeze(-1), mask)
        # A weight of zero would still spread a value that isn't finite.
        vectors = vectors.masked_fill(~mask.unsqueeze(-1), 0.0)
        # Shape: (batch_size, dim)
        return torch.einsum("bt,btd->bd", weights, vectors)
