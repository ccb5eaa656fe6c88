import copy
import pickle

import pytest
import torch
from allennlp.common.checks import ConfigurationError

from elmo_plugin.bilm import products
from elmo_plugin.bilm.products import (
    Int8Product,
    PackedProduct,
    Product,
    Products,
    TransposedProduct,
    Watch,
    check_precision,
    fastest_float32,
)


@pytest.fixture
def weight():
    return torch.randn(24, 16, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("num_rows", [1, 2, 64, 65])
@pytest.mark.parametrize("kind", [Product, TransposedProduct, PackedProduct])
def test_every_layout_gives_the_same_product(weight, kind, num_rows):
    inputs, sums = torch.randn(num_rows, 16), torch.randn(num_rows, 24)
    expected = inputs @ weight.t()
    with torch.no_grad():
        torch.testing.assert_close(kind(weight)(inputs), expected, atol=1e-5, rtol=0)
        torch.testing.assert_close(kind(weight).add_to_(sums.clone(), inputs), sums + expected, atol=1e-5, rtol=0)


def test_int8_is_near(weight):
    inputs = torch.randn(8, 16, generator=torch.Generator().manual_seed(1))
    error = Int8Product(weight)(inputs) - inputs @ weight.t()
    assert 0 < error.abs().mean() < 0.1


def test_int8_survives_an_output_whose_weights_are_zero(weight):
    weight[3] = 0.0
    assert (Int8Product(weight)(torch.randn(2, 16))[:, 3] == 0).all()


@pytest.mark.parametrize(
    "avx512, shape, num_rows, kind",
    [
        (False, (4096, 512), 64, PackedProduct),
        (False, (4096, 512), 1, TransposedProduct),
        (False, (512, 4096), 1, Product),
        (False, (512, 128), 64, TransposedProduct),
        (True, (4096, 512), 64, TransposedProduct),
        (True, (512, 4096), 1, TransposedProduct),
    ],
)
def test_a_weight_is_laid_out_for_the_processor_its_size_and_the_number_of_rows(
    avx512, shape, num_rows, kind, monkeypatch
):
    monkeypatch.setattr(products, "has_avx512", lambda: avx512)
    assert fastest_float32(torch.empty(shape), num_rows) is kind


def test_without_onednn_weights_are_transposed(monkeypatch):
    monkeypatch.setattr(products, "has_avx512", lambda: False)
    monkeypatch.setattr(products, "_can_pack", lambda: False)
    assert fastest_float32(torch.empty(4096, 512), 64) is TransposedProduct


def test_double_precision_is_left_alone():
    assert fastest_float32(torch.empty(4096, 512, dtype=torch.double), 64) is Product


def test_a_weight_is_laid_out_once(weight):
    made = Products()
    assert made.get("w", weight, PackedProduct) is made.get("w", weight, PackedProduct)


@pytest.mark.parametrize(
    "change",
    [
        lambda weight: weight.mul_(2.0),
        lambda weight: weight.data.mul_(2.0),
        lambda weight: setattr(weight, "data", weight.data * 2.0),
    ],
    ids=["in place", "through .data", "new memory"],
)
def test_a_changed_weight_is_laid_out_again(weight, change):
    made, inputs = Products(), torch.randn(2, 16)
    before = made.get("w", weight, PackedProduct)(inputs)
    change(weight)
    torch.testing.assert_close(made.get("w", weight, PackedProduct)(inputs), 2 * before)


def test_a_weight_that_trains_is_not_laid_out(weight):
    assert type(Products().get("w", weight.requires_grad_(), PackedProduct)) is Product


def test_what_was_laid_out_in_inference_mode_serves_outside_of_it(weight):
    made, inputs = Products(), torch.randn(2, 16)
    with torch.inference_mode():
        inside = made.get("w", weight, PackedProduct)(inputs)
    torch.testing.assert_close(made.get("w", weight, PackedProduct)(inputs), inside.clone())


def test_laid_out_weights_are_neither_copied_nor_pickled(weight):
    made = Products()
    made.get("w", weight, PackedProduct)
    assert copy.deepcopy(made)._made == pickle.loads(pickle.dumps(made))._made == {}


def test_a_watch_notices_another_number_of_tensors(weight):
    assert not Watch([weight]).unchanged([weight, weight])


def test_unknown_precisions_and_missing_kernels_are_refused(monkeypatch):
    with pytest.raises(ConfigurationError, match="one of float32, int8, not 'int4'"):
        check_precision("int4")
    monkeypatch.setattr(products, "_has_int8", lambda: False)
    with pytest.raises(ConfigurationError, match="needs torch's quantised kernels"):
        check_precision("int8")
