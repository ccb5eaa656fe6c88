import pytest
import torch
from allennlp.common.checks import ConfigurationError

from elmo_plugin.bilm.bilm import BiLm
from elmo_plugin.bilm.options import BiLmOptions
from elmo_plugin.bilm.softmax_file import WordSoftmax
from elmo_plugin.bilm.widening import widen, widen_softmax
from elmo_plugin.characters import CharacterMapping

OPTIONS = {"projection_dim": 4, "cell_dim": 6, "char_dim": 3, "filters": ((1, 4), (2, 5)), "num_highway": 1}


@pytest.fixture
def bilm():
    torch.manual_seed(0)
    bilm = BiLm(BiLmOptions(**OPTIONS))
    with torch.no_grad():
        for parameter in bilm.parameters():  # biases start at zero: their places wouldn't show
            parameter.copy_(torch.randn_like(parameter))
    return bilm


@pytest.fixture
def character_ids():
    mapping = CharacterMapping()
    sentence = [mapping.ids(word) for word in ("a", "larger", "one")]
    return torch.tensor([sentence])


def layers_of(bilm, character_ids):
    with torch.no_grad():
        return bilm(character_ids).layers.unflatten(-1, (2, -1))  # the two directions apart


@pytest.mark.parametrize("cell_dim, projection_dim", [(6, 5), (8, 4), (11, 7)])
def test_a_wider_bilm_computes_what_the_narrower_does(bilm, character_ids, cell_dim, projection_dim):
    wide = widen(bilm, cell_dim, projection_dim)
    assert (wide.options.cell_dim, wide.options.projection_dim) == (cell_dim, projection_dim)
    expected = layers_of(bilm, character_ids)
    torch.testing.assert_close(layers_of(wide, character_ids)[..., :4], expected)


def test_a_bilm_with_more_filters_computes_what_it_did(bilm, character_ids):
    wide = widen(bilm, 8, 7, filters=((1, 6), (2, 5), (3, 2)))
    assert wide.options.num_filters == 13
    torch.testing.assert_close(layers_of(wide, character_ids)[..., :4], layers_of(bilm, character_ids))


def test_new_filters_get_gradients(bilm, character_ids):
    wide = widen(bilm, 6, 4, filters=((1, 6), (2, 5), (3, 2)))
    wide(character_ids).layers[-1].pow(2).sum().backward()
    from_new_filters = wide.character_cnn.projection.weight.grad[:, [4, 5, 11, 12]]
    assert (from_new_filters.abs().amax(dim=0) > 0).all()


@pytest.mark.parametrize("filters", [((1, 4),), ((1, 3), (2, 5)), ((2, 5), (1, 4))])
def test_filters_that_lack_some_are_refused(bilm, filters):
    with pytest.raises(ConfigurationError, match=r"have to begin with .* \[\[1, 4\], \[2, 5\]\]"):
        widen(bilm, 6, 5, filters=filters)


def test_new_dimensions_are_in_use(bilm, character_ids):
    new = layers_of(widen(bilm, 11, 7), character_ids)[..., 4:]
    assert (new.std(dim=-1) > 0).all()  # of each layer, token and direction


def test_new_cells_and_dimensions_get_gradients(bilm, character_ids):
    wide = widen(bilm, 11, 7)
    (wide(character_ids).layers.unflatten(-1, (2, -1))[..., :4] ** 2).sum().backward()
    first, last = wide.forward_layers
    assert (last.projection_weight.grad[:4, 6:] != 0).all()  # from new cells into old dimensions
    from_new_dimensions = first.state_weight.grad.view(4, 11, 7)[:, :6, 4:]
    assert (from_new_dimensions.abs().amax(dim=0) > 0).all()


def test_a_wider_softmax_gives_the_same_scores(bilm):
    softmax = WordSoftmax(["a", "b"], torch.randn(2, 4), torch.randn(2))
    states = torch.randn(3, 7)
    wide = widen_softmax(softmax, 7)
    torch.testing.assert_close(states @ wide.weight.T, states[:, :4] @ softmax.weight.T)
    assert wide.words == softmax.words and torch.equal(wide.bias, softmax.bias)


@pytest.mark.parametrize("cell_dim, projection_dim", [(5, 4), (6, 3)])
def test_a_narrower_one_is_refused(bilm, cell_dim, projection_dim):
    with pytest.raises(ConfigurationError, match=r"are fewer than the 6 and 4 .* only be made wider"):
        widen(bilm, cell_dim, projection_dim)


@pytest.mark.parametrize("cell_dim, projection_dim", [(8, 8), (12, 9)])
def test_one_without_projections_is_refused(bilm, cell_dim, projection_dim):
    with pytest.raises(ConfigurationError, match=r"into one with projections: projection_dim \(here 4, then"):
        widen(bilm, cell_dim, projection_dim)
