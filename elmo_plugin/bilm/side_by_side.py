"""Two computations at once, each with half of torch's threads."""

import threading
from typing import Callable, List, Tuple, TypeVar, Union

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
    modes = _Modes()
    results: List[Union[T, BaseException]] = []

    def run_second() -> None:
        torch.set_num_threads(max(1, num_threads // 2))
        try:
            results.append(modes.run(second))
        except BaseException as error:
            results.append(error)

    # The setting applies to the calling thread and to threads that start later.
    torch.set_num_threads(max(1, num_threads // 2))
    thread = threading.Thread(target=run_second)
    try:
        thread.start()
        first_result = first()
    finally:
        thread.join()
        torch.set_num_threads(num_threads)
    (second_result,) = results
    if isinstance(second_result, BaseException):
        raise second_result
    return first_result, second_result


class _Modes:
    """The modes that torch keeps for each thread, as they are at construction."""

    def __init__(self) -> None:
        self._grad = torch.is_grad_enabled()
        self._inference = torch.is_inference_mode_enabled()
        self._autocast = torch.is_autocast_enabled("cpu")
        self._autocast_dtype = torch.get_autocast_dtype("cpu")

    def run(self, function: Callable[[], T]) -> T:
        with (
            torch.inference_mode(self._inference),
            torch.set_grad_enabled(self._grad),
            torch.autocast("cpu", self._autocast_dtype, enabled=self._autocast),
        ):
            return function()
