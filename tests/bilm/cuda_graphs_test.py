"""What can be shown without a GPU: what is captured is `BiLm.run`, once a shape, and what it gives is put together."""

import copy

import pytest
import torch

from elmo_plugin import lstm_kernels
from elmo_plugin.bilm import BiLm, BiLmOptions
from elmo_plugin.bilm.cuda_graphs import WindowRunner


@pytest.fixture
def bilm():
    torch.manual_seed(0)
    return BiLm(BiLmOptions(projection_dim=4, cell_dim=6, char_dim=3, filters=((1, 4),)))


@pytest.fixture
def captured(monkeypatch):
    """The shapes that were captured; the graph is the module itself."""
    shapes = []

    def make_graphed_callables(module, samples, allow_unused_input):
        assert all(isinstance(sample, torch.Tensor) for sample in samples) and allow_unused_input
        shapes.append(tuple(samples[0].shape))
        return module

    monkeypatch.setattr(torch.cuda, "make_graphed_callables", make_graphed_callables)
    monkeypatch.setattr(torch.Tensor, "is_cuda", True)
    monkeypatch.setattr(lstm_kernels, "triton", None)  # whose kernels need a real GPU
    return shapes


def windows(num_steps=5):
    return torch.randn(2, 3, num_steps, 4), torch.rand(3, num_steps) < 0.3


@pytest.mark.parametrize("with_resets", [False, True])
def test_graphs_give_what_run_gives_window_after_window(bilm, captured, with_resets):
    runner, state, expected_state = WindowRunner(use_graphs=True), None, None
    for _ in range(2):
        inputs, resets = windows()
        resets = resets if with_resets else None
        expected = bilm.run(*inputs, state=expected_state, resets=resets)
        output = runner.run(bilm, *inputs, state, resets)
        torch.testing.assert_close(output, expected)
        state, expected_state = output.state, expected.state
    assert captured == [(3, 5, 4)]


def test_another_shape_is_another_graph(bilm, captured):
    runner = WindowRunner(use_graphs=True)
    for num_steps in (5, 3, 5):
        inputs, resets = windows(num_steps)
        runner.run(bilm, *inputs, None, resets)
    assert captured == [(3, 5, 4), (3, 3, 4)]


@pytest.mark.parametrize("why", ["not asked for", "evaluating", "no gradients"])
def test_there_is_no_graph_where_none_is_wanted(bilm, captured, why):
    runner = copy.deepcopy(WindowRunner(use_graphs=why != "not asked for"))
    bilm.train(why != "evaluating")
    inputs, resets = windows()
    with torch.set_grad_enabled(why != "no gradients"):
        torch.testing.assert_close(runner.run(bilm, *inputs, None, resets), bilm.run(*inputs, resets=resets))
    assert captured == []
