import threading

import pytest
import torch

from elmo_plugin.bilm.side_by_side import side_by_side


def test_both_results_come_back_in_order_from_two_threads():
    (one, first_thread), (two, second_thread) = side_by_side(
        lambda: (1, threading.get_ident()), lambda: (2, threading.get_ident())
    )
    assert (one, two) == (1, 2) and first_thread != second_thread


@pytest.mark.parametrize("num_threads, half", [(1, 1), (2, 1), (4, 2)])
def test_each_gets_half_of_the_threads_and_the_caller_all_of_them_back(num_threads, half):
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(num_threads)
        assert side_by_side(torch.get_num_threads, torch.get_num_threads) == (half, half)
        assert torch.get_num_threads() == num_threads
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_the_callers_modes_hold_in_both(mode):
    def modes():
        return torch.is_grad_enabled(), torch.is_inference_mode_enabled()

    with mode():
        expected = modes()
        assert side_by_side(modes, modes) == (expected, expected)


def test_autocast_holds_in_both():
    def product():
        return (torch.ones(2, 2) @ torch.ones(2, 2)).dtype

    with torch.autocast("cpu", torch.bfloat16):
        assert side_by_side(product, product) == (torch.bfloat16, torch.bfloat16)


@pytest.mark.parametrize("which", ["first", "second"])
def test_an_error_in_either_reaches_the_caller_after_both_have_ended(which):
    before = torch.get_num_threads()
    ended = threading.Event()

    def fail():
        raise KeyError("missing")

    with pytest.raises(KeyError, match="missing"):
        side_by_side(*((fail, ended.set) if which == "first" else (ended.set, fail)))
    assert ended.is_set() and torch.get_num_threads() == before
