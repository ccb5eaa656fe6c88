import pytest
import torch

from elmo_plugin.bilm import BiLmOptions, char_tables
from elmo_plugin.bilm.char_cnn import CharacterCnn
from elmo_plugin.characters import CharacterMapping

OPTIONS = BiLmOptions(projection_dim=4, cell_dim=6, char_dim=3, filters=((1, 4), (2, 5)), max_characters_per_token=6)


def test_any_leading_shape_is_kept():
    cnn = CharacterCnn(OPTIONS)
    ids = torch.randint(0, 262, (2, 3, 5, 6))
    assert cnn(ids).shape == (2, 3, 5, 4)
    torch.testing.assert_close(cnn(ids)[1, 2], cnn(ids[1, 2]))


def test_the_masking_id_is_a_row_of_zeros_that_is_no_parameter():
    cnn = CharacterCnn(OPTIONS)
    assert cnn.char_embedding.shape == (261, 3)
    zeroed = CharacterCnn(OPTIONS)
    zeroed.load_state_dict(cnn.state_dict())
    with torch.no_grad():
        zeroed.char_embedding.zero_()
    masked = torch.zeros(1, 6, dtype=torch.long)
    assert torch.equal(cnn(masked), zeroed(masked))


def some_ids():
    """Words of all lengths, a repetitive one, masking, boundaries and ids that no word has."""
    mapping = CharacterMapping(9)
    words = ["", "a", "abc", "abcd", "abcdefgh", "abcdefghijkl", "aaaaaa", "b", "abc"]
    special = [mapping.begin_sentence_ids, mapping.end_sentence_ids, [0] * 9, [5, 0, 5, 0, 0, 7, 7, 7, 7]]
    return torch.tensor([*map(mapping.ids, words), *special])


@pytest.mark.parametrize("numbers_at_once", [1, 100, 10**6])
def test_looking_windows_up_equals_convolving_gradients_included(numbers_at_once, monkeypatch):
    monkeypatch.setattr(char_tables, "_MAX_WINDOW_NUMBERS", numbers_at_once)
    torch.manual_seed(0)
    cnn = CharacterCnn(
        BiLmOptions(
            projection_dim=4, cell_dim=6, char_dim=3, filters=((1, 4), (3, 5), (9, 2)), max_characters_per_token=9
        )
    )
    for convolution in cnn.convolutions:
        torch.nn.init.normal_(convolution.bias)
    weight = torch.randn(len(some_ids()), 11)
    results = []
    for pooled in (cnn._look_up(some_ids()), cnn._convolve(some_ids())):
        cnn.zero_grad()
        (pooled * weight).sum().backward()
        results.append([pooled.detach(), *(p.grad for p in (cnn.char_embedding, *cnn.convolutions.parameters()))])
    torch.testing.assert_close(*results)


def test_looking_up_is_what_a_cpu_does_and_needs_no_gradient(monkeypatch):
    cnn = CharacterCnn(OPTIONS)
    ids = torch.tensor([CharacterMapping(6).ids("ab")])
    expected = cnn(ids)
    monkeypatch.setattr(cnn, "_convolve", None)
    with torch.inference_mode():
        torch.testing.assert_close(cnn(ids), expected.detach())


def test_short_words_make_less_work():
    words = ["", "ab", "abcdef", "abcdefghijkl"]
    # The word's own marks count, and one window after it represents all others.
    ids = torch.tensor([CharacterMapping(9).ids(word) for word in words])
    assert char_tables._num_windows(ids).tolist() == [3, 5, 9, 9]


def test_weights_that_are_no_numbers_give_vectors_that_are_none():
    cnn = CharacterCnn(OPTIONS)
    with torch.no_grad():
        cnn.convolutions[1].weight.fill_(float("nan"))
    vectors = cnn(torch.tensor([CharacterMapping(6).ids("ab")]))
    vectors.sum().backward()
    assert vectors.isnan().any()


def test_no_words_have_no_vectors():
    assert CharacterCnn(OPTIONS)(torch.zeros(0, 6, dtype=torch.long)).shape == (0, 4)
