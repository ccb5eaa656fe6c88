"""What the tasks' metrics share."""

from typing import List, NamedTuple, TypeVar

import torch
from allennlp.common.util import is_distributed

T = TypeVar("T")


class F1Scores(NamedTuple):
    """Fractions of 1, or percentages. What has no denominator is 0, as in the official scorers."""

    precision: float
    recall: float
    f1: float


def of_all_processes(counts: T) -> List[T]:
    """What each process has counted; only its own if there is just one. Processes may have seen different labels, so a
    tensor won't do.
    """
    if not is_distributed():
        return [counts]
    gathered: List[T] = [counts] * torch.distributed.get_world_size()
    torch.distributed.all_gather_object(gathered, counts)
    return gathered
