"""Words that occur in a batch several times, found by their character ids."""

from typing import Tuple

import torch

_HASH_SEED = 20180215


def unique_rows(rows: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
    """The distinct rows of an integer matrix, and for each row its index among them.

    Rows are compared by a 64-bit hash, which is many times faster than sorting them, and then checked: should two
    different rows ever share a hash, torch's own slow comparison decides.
    """
    generator = torch.Generator().manual_seed(_HASH_SEED)  # the same every time, so that runs are reproducible
    multipliers = torch.randint(-(2**62), 2**62, (rows.size(1),), generator=generator).to(rows.device) * 2 + 1
    hashes = (rows * multipliers).sum(dim=1)
    unique_hashes, inverse = torch.unique(hashes, return_inverse=True)
    representatives = torch.empty_like(unique_hashes).scatter_(0, inverse, torch.arange(len(rows), device=rows.device))
    unique = rows[representatives]
    if not torch.equal(unique[inverse], rows):
        return torch.unique(rows, dim=0, return_inverse=True)
    return unique, inverse
