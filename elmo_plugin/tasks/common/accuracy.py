"""How often the most probable label is the right one."""

from typing import Dict

import torch
from allennlp.nn.util import dist_reduce_sum
from allennlp.training.metrics import Metric


class Accuracy(Metric):
    """AllenNLP's `categorical_accuracy`, which on a GPU makes the host wait twice per batch; this one counts on the
    labels' device, and is read when it is asked for.
    """

    supports_distributed = True
    _counts: torch.Tensor  # the numbers of right and of wrong labels

    def __init__(self) -> None:
        self.reset()

    def __call__(self, probabilities: torch.Tensor, labels: torch.Tensor) -> None:  # type: ignore[override]
        """`probabilities`, (batch_size, num_labels), and `labels`, (batch_size,)."""
        is_right = probabilities.detach().argmax(dim=-1) == labels
        counts = dist_reduce_sum(torch.stack([is_right.sum(), (~is_right).sum()]))
        self._counts = self._counts.to(counts.device) + counts

    def get_metric(self, reset: bool = False) -> Dict[str, float]:
        num_right, num_wrong = self._counts.tolist()
        if reset:
            self.reset()
        return {"accuracy": num_right / max(1, num_right + num_wrong)}

    def reset(self) -> None:
        self._counts = torch.zeros(2, dtype=torch.long)
