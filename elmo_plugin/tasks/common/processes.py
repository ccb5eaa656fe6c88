"""What metrics need in distributed training."""

from typing import List, TypeVar

import torch
from allennlp.common.util import is_distributed

T = TypeVar("T")


def of_all_processes(counts: T) -> List[T]:
    """What each process has counted; only its own if there is just one. Processes may have seen different labels, so a
    tensor won't do.
    """
    if not is_distributed():
        return [counts]
    gathered: List[T] = [counts] * torch.distributed.get_world_size()
    torch.distributed.all_gather_object(gathered, counts)
    return gathered
