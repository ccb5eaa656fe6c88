import copy
import pickle

import pytest
import torch
from allennlp.common.checks import ConfigurationError

from elmo_plugin.bilm import frozen
from elmo_plugin.bilm.frozen import (
    FrozenProducts,
    Int8Product,
    PackedProduct,
    Product,
    Snapshot,
    TransposedProduct,
    are_frozen,
    check_precision,
)


@pytest.fixture
def weight():
    return torch.randn(24, 16, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def packing(monkeypatch):
    monkeypatch.setattr(frozen, "mkl_has_avx512", lambda: False)
    monkeypatch.setattr(frozen, "_LEAST_PACKED_NUMBERS", 0)


def times(product, inputs, output_dim=24):
    outputs = torch.empty(*inputs.shape[:-1], output_dim)
    product.write_to_(outputs, inputs)
    return outputs


@pytest.mark.parametrize("num_rows", [1, 2, 64, 65])
@pytest.mark.parametrize("kind", [Product, TransposedProduct, PackedProduct])
def test_every_layout_gives_the_same_product(weight, kind, num_rows):
    inputs, sums, bias = torch.randn(num_rows, 16), torch.randn(num_rows, 24), torch.randn(24)
    expected = inputs @ weight.t()
    with torch.no_grad():
        product = kind(weight)
        torch.testing.assert_close(times(product, inputs), expected, atol=1e-5, rtol=0)
        torch.testing.assert_close(product.plus(bias, inputs), expected + bias, atol=1e-5, rtol=0)
        product.add_to_(added := sums.clone(), inputs)
        torch.testing.assert_close(added, sums + expected, atol=1e-5, rtol=0)


def test_several_weights_have_inputs_of_their_own(weight):
    inputs, bias = torch.randn(2, 3, 16), torch.randn(2, 24)
    expected = torch.stack([inputs[0] @ weight.t(), inputs[1] @ -weight.t()])
    product = Product(torch.stack([weight, -weight]))
    torch.testing.assert_close(times(product, inputs), expected)
    torch.testing.assert_close(product.plus(bias, inputs), expected + bias[:, None])
    product.add_to_(added := expected.clone(), inputs)
    torch.testing.assert_close(added, 2 * expected)


def test_int8_is_near(weight):
    inputs = torch.randn(8, 16, generator=torch.Generator().manual_seed(1))
    error = Int8Product(weight)(inputs) - inputs @ weight.t()
    assert 0 < error.abs().mean() < 0.1


def test_int8_survives_an_output_whose_weights_are_zero(weight):
    weight[3] = 0.0
    assert (Int8Product(weight)(torch.randn(2, 16))[:, 3] == 0).all()


@pytest.mark.parametrize(
    "avx512, can_pack, shape, num_rows, kind",
    [
        (False, True, (4096, 512), 2, PackedProduct),
        (False, True, (4096, 512), 1, TransposedProduct),
        (False, True, (512, 4096), 1, PackedProduct),
        (False, True, (128, 512), 64, Product),
        (False, False, (4096, 512), 64, Product),
        (True, True, (4096, 512), 64, TransposedProduct),
        (True, True, (128, 512), 64, TransposedProduct),
    ],
)
def test_a_weight_is_laid_out_for_the_processor_its_size_and_the_number_of_rows(
    avx512, can_pack, shape, num_rows, kind, monkeypatch
):
    monkeypatch.setattr(frozen, "mkl_has_avx512", lambda: avx512)
    monkeypatch.setattr(frozen, "_can_pack", lambda: can_pack)
    assert type(FrozenProducts().get("w", torch.empty(shape), num_rows, "float32")) is kind


def test_double_precision_autocast_and_weights_that_train_are_left_alone(weight, packing):
    assert type(FrozenProducts().get("w", weight.double(), 64, "float32")) is Product
    assert type(FrozenProducts().get("w", weight.clone().requires_grad_(), 64, "float32")) is Product
    with torch.autocast("cpu", torch.bfloat16):
        assert type(FrozenProducts().get("w", weight, 64, "float32")) is Product
    assert type(FrozenProducts().get("w", weight, 64, "float32")) is PackedProduct


def test_a_weight_is_laid_out_once(weight, packing):
    made = FrozenProducts()
    assert made.get("w", weight, 64, "float32") is made.get("w", weight, 64, "float32")


CHANGES = {
    "in place": lambda weight: weight.mul_(2.0),
    "through .data": lambda weight: weight.data.mul_(2.0),
    "new memory": lambda weight: setattr(weight, "data", weight.data * 2.0),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_changed_weight_is_laid_out_again(weight, change, packing):
    made, inputs = FrozenProducts(), torch.randn(2, 16)
    before = times(made.get("w", weight, 64, "float32"), inputs)
    change(weight)
    torch.testing.assert_close(times(made.get("w", weight, 64, "float32"), inputs), 2 * before)


def test_what_was_laid_out_in_inference_mode_serves_outside_of_it(weight, packing):
    made, inputs = FrozenProducts(), torch.randn(2, 16)
    with torch.inference_mode():
        inside = times(made.get("w", weight, 64, "float32"), inputs)
    torch.testing.assert_close(times(made.get("w", weight, 64, "float32"), inputs), inside.clone())


def test_laid_out_weights_are_neither_copied_nor_pickled(weight, packing):
    made = FrozenProducts()
    made.get("w", weight, 64, "float32")
    assert copy.deepcopy(made)._made == pickle.loads(pickle.dumps(made))._made == {}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_snapshot_notices_changes_and_another_number_of_weights(weight, change):
    snapshot = Snapshot([weight])
    assert snapshot.is_of([weight]) and not snapshot.is_of([weight, weight])
    change(weight)
    assert not snapshot.is_of([weight])


def test_weights_are_frozen_where_none_trains_and_changes_are_counted(weight):
    with torch.inference_mode():
        uncounted = torch.zeros(2)
    assert are_frozen([weight])
    assert not are_frozen([weight, torch.zeros(2, requires_grad=True)])
    assert not are_frozen([weight, uncounted])


def test_unknown_precisions_and_missing_kernels_are_refused(monkeypatch):
    with pytest.raises(ConfigurationError, match="one of float32, tf32, bfloat16, int8, not 'int4'"):
        check_precision("int4")
    monkeypatch.setattr(frozen, "_has_int8", lambda: False)
    with pytest.raises(ConfigurationError, match="needs torch's quantised kernels"):
        check_precision("int8")
