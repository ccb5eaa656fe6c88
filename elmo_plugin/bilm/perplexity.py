"""Metric "elmo::bilm_perplexity": how well each direction of a biLM predicts."""

from typing import Dict

import torch
from allennlp.nn.util import dist_reduce_sum
from allennlp.training.metrics import Metric


@Metric.register("elmo::bilm_perplexity")
class BiLmPerplexity(Metric):
    """Sums the negative log likelihoods of both directions, in float64, over real targets. `</S>` forward and `<S>`
    backward are targets.

    - `forward_perplexity`, `backward_perplexity`: exp of a direction's mean negative log likelihood per target.
    - `perplexity`: their arithmetic mean, the paper's figure.
    - `exp_mean_loss_perplexity`: exp of the mean of the two directions' losses, bilm-tf's figure; never above
      `perplexity`.

    All are nan until something is counted. Sums stay on the device where they were made until `get_metric` is called.
    """

    supports_distributed = True
    _totals: torch.Tensor

    def __init__(self) -> None:
        self.reset()

    def __call__(  # type: ignore[override]
        self, forward_nll: torch.Tensor, backward_nll: torch.Tensor, mask: torch.Tensor
    ) -> None:
        """Adds a batch; all three have the same shape, and positions where `mask` is False don't count."""
        sums = [nll.detach().double().masked_fill(~mask, 0.0).sum() for nll in (forward_nll, backward_nll)]
        batch = torch.stack([*sums, mask.sum().double()])
        # Reduced here, where every process passes once per batch; get_metric may be called by one process alone.
        self._totals = self._totals.to(batch.device) + dist_reduce_sum(batch)

    def get_metric(self, reset: bool = False) -> Dict[str, float]:
        forward_nll, backward_nll, num_targets = self._totals.cpu()
        losses = torch.stack([forward_nll, backward_nll]) / num_targets
        forward_perplexity, backward_perplexity = losses.exp().tolist()
        if reset:
            self.reset()
        return {
            "forward_perplexity": forward_perplexity,
            "backward_perplexity": backward_perplexity,
            "perplexity": (forward_perplexity + backward_perplexity) / 2,
            "exp_mean_loss_perplexity": losses.mean().exp().item(),
        }

    def reset(self) -> None:
        # Forward and backward negative log likelihood, and the number of targets, which both directions share.
        self._totals = torch.zeros(3, dtype=torch.float64)
