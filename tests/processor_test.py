import pytest
import torch

from elmo_plugin import processor


@pytest.mark.parametrize("avx512", [False, True])
def test_tanh_is_tanh_on_every_processor(avx512, monkeypatch):
    monkeypatch.setattr(processor, "has_avx512", lambda: avx512)
    numbers = torch.cat([torch.linspace(-12, 12, 999), torch.tensor([0.0, -200.0, 200.0])])
    torch.testing.assert_close(
        processor.tanh(numbers, out=torch.empty_like(numbers)), numbers.tanh(), atol=2e-7, rtol=0
    )


def test_tanh_can_take_its_argument_s_place():
    numbers = torch.randn(3, 8)
    expected = numbers.clone().tanh()
    half = numbers[:, :4]
    processor.tanh(half, out=half)
    torch.testing.assert_close(numbers[:, :4], expected[:, :4])
