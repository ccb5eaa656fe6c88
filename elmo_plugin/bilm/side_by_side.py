"""Two computations at once, each with half of torch's threads."""

from concurrent.futures import ThreadPoolExecutor
from typing import Callable, Tuple, TypeVar

import torch

T = TypeVar("T")


def side_by_side(first: Callable[[], T], second: Callable[[], T]) -> Tuple[T, T]:
    """The results of both; `second` runs in its own thread.

    torch releases Python's lock while it computes. Two independent chains of operations keep two cores busier this way
    than one after the other with both cores for each operation, since nothing has to wait for the slower core thousands
    of times. Both see the caller's grad, inference and autocast modes, and neither may draw random numbers or need
    gradients.
    """
    num_threads = torch.get_num_threads()
    half = max(1, num_threads // 2)
    # The setting applies to the calling thread and to threads that start later.
    torch.set_num_threads(half)
    try:
        with ThreadPoolExecutor(1, initializer=torch.set_num_threads, initargs=(half,)) as thread:
            second_result = thread.submit(_in_the_same_modes(second))
            return first(), second_result.result()
    finally:
        torch.set_num_threads(num_threads)


def _in_the_same_modes(function: Callable[[], T]) -> Callable[[], T]:
    """The function in the modes that torch keeps for each thread, as they are in this one."""
    grad, inference = torch.is_grad_enabled(), torch.is_inference_mode_enabled()
    autocast, dtype = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")

    def run() -> T:
        with (
            torch.inference_mode(inference),
            torch.set_grad_enabled(grad),
            torch.autocast("cpu", dtype, enabled=autocast),
        ):
            return function()

    return run
