"""Randomness that follows from a place in the training run, not from what was drawn before."""

import hashlib
import random
from contextlib import contextmanager
from typing import Iterator, Union

import numpy
import torch


def seed_all(*key: Union[int, str]) -> None:
    """Seeds torch, numpy and Python with a number that follows from the key alone."""
    digest = hashlib.sha256(repr(key).encode()).digest()
    torch_seed = int.from_bytes(digest[:8], "little")
    # Where no GPU is in use, torch.manual_seed would take a millisecond to record where it was called.
    torch.default_generator.manual_seed(torch_seed)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(torch_seed)
    numpy.random.seed(int.from_bytes(digest[8:12], "little"))
    random.seed(int.from_bytes(digest[12:20], "little"))


@contextmanager
def randomness_of(*key: Union[int, str], device: torch.device = torch.device("cpu")) -> Iterator[None]:
    """Inside the block, randomness follows from the key. Afterwards the generators go on as if nothing had happened: a
    loader that draws from them during an epoch draws the same when the epoch is replayed without its batches being
    trained.
    """
    python_state, numpy_state = random.getstate(), numpy.random.get_state()
    with torch.random.fork_rng(devices=[] if device.type == "cpu" else [device]):
        seed_all(*key)
        try:
            yield
        finally:
            random.setstate(python_state)
            numpy.random.set_state(numpy_state)
