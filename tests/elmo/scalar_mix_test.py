import pytest
import torch
from allennlp.common.checks import ConfigurationError
from allennlp.modules.scalar_mix import ScalarMix as AllenNlpScalarMix
from allennlp.nn.regularizers import RegularizerApplicator
from allennlp.nn.regularizers.regularizers import L2Regularizer

from elmo_plugin.elmo import ScalarMix

LAYERS = torch.randn(3, 2, 5, 4, generator=torch.Generator().manual_seed(0))
MASK = torch.tensor([[True] * 5, [True, True, True, False, False]])


def set_weights(mix, weights=(0.3, -0.2, 1.0), gamma=1.7):
    with torch.no_grad():
        for parameter, weight in zip(mix.scalar_parameters, weights, strict=True):
            parameter.fill_(weight)
        mix.gamma.fill_(gamma)
    return mix


def test_equation_1():
    weights = torch.softmax(torch.tensor([0.3, -0.2, 1.0]), dim=0)
    expected = 1.7 * sum(weight * layer for weight, layer in zip(weights, LAYERS, strict=True))
    torch.testing.assert_close(set_weights(ScalarMix(3))(LAYERS, MASK), expected)


@pytest.mark.parametrize("ours, theirs", [(False, False), ("legacy", True)])
def test_mixing_equals_allennlps_with_and_without_its_layer_norm(ours, theirs):
    mix, reference = set_weights(ScalarMix(3, layer_norm=ours)), set_weights(AllenNlpScalarMix(3, do_layer_norm=theirs))
    real = MASK.unsqueeze(-1)
    torch.testing.assert_close(mix(LAYERS, MASK) * real, reference(list(LAYERS), MASK) * real)


def test_state_dict_names_are_allennlps():
    assert ScalarMix(3).state_dict().keys() == AllenNlpScalarMix(3).state_dict().keys()


def test_layer_norm_is_over_each_tokens_features():
    mixed = ScalarMix(3, layer_norm=True, weights=[1.0, 0.0, 0.0])(LAYERS, MASK)
    torch.testing.assert_close(mixed.mean(-1), torch.zeros(2, 5), atol=1e-6, rtol=0)
    torch.testing.assert_close(mixed.var(-1, unbiased=False), torch.ones(2, 5), atol=1e-3, rtol=0)


def test_layer_norm_does_not_depend_on_batch_mates_but_legacy_does():
    for layer_norm, expected in ((True, True), ("legacy", False)):
        mix = ScalarMix(3, layer_norm=layer_norm)
        assert torch.allclose(mix(LAYERS, MASK)[:1], mix(LAYERS[:, :1], MASK[:1])) is expected


def test_fixed_weights_are_used_as_they_are_and_not_trained():
    mix = ScalarMix(3, weights=[0.0, 0.25, 0.75])
    torch.testing.assert_close(mix(LAYERS, MASK), 0.25 * LAYERS[1] + 0.75 * LAYERS[2])
    assert [name for name, parameter in mix.named_parameters() if parameter.requires_grad] == ["gamma"]


def test_gamma_can_be_fixed_at_one():
    mix = ScalarMix(3, gamma=False)
    mix(LAYERS, MASK).sum().backward()
    assert mix.gamma.item() == 1.0 and mix.gamma.grad is None


def test_lambda_touches_layer_weights_only():
    mix = set_weights(ScalarMix(3))
    penalty = RegularizerApplicator([("scalar_parameters", L2Regularizer(0.1))])(mix)
    torch.testing.assert_close(penalty, torch.tensor(0.1 * (0.3**2 + 0.2**2 + 1.0**2)))
    penalty.backward()
    assert mix.gamma.grad is None


def test_a_wrong_number_of_fixed_weights_is_refused():
    with pytest.raises(ConfigurationError, match="2 fixed layer weights were given for a biLM with 3 layers"):
        ScalarMix(3, weights=[0.5, 0.5])


def test_an_unknown_layer_norm_is_refused():
    with pytest.raises(ConfigurationError, match="not 'batch'"):
        ScalarMix(3, layer_norm="batch")
