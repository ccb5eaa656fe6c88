import pytest
import torch

from elmo_plugin.bilm import BiLmOptions, char_cnn
from elmo_plugin.bilm.char_cnn import CharacterCnn, unique_rows
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


@pytest.mark.parametrize("word", ["", "a", "abc", "abcd", "abcdefgh"])
def test_slots_behind_the_longest_word_are_cut_without_changing_a_vector(word, monkeypatch):
    cnn = CharacterCnn(
        BiLmOptions(projection_dim=4, cell_dim=6, char_dim=3, filters=((1, 4), (3, 5)), max_characters_per_token=9)
    )
    ids = torch.tensor([CharacterMapping(9).ids(word), CharacterMapping(9).ids("b")])
    vectors = cnn(ids)
    monkeypatch.setattr(cnn, "_without_idle_padding", lambda ids: ids)
    torch.testing.assert_close(vectors, cnn(ids))


def test_short_words_make_less_work():
    cnn = CharacterCnn(BiLmOptions(filters=((1, 4), (3, 5)), max_characters_per_token=50))
    ids = torch.tensor([CharacterMapping(50).ids("ab")])
    assert cnn._without_idle_padding(ids).shape == (1, 4 + 3)


def test_unique_rows_puts_every_row_back():
    rows = torch.randint(0, 3, (200, 4))
    unique, inverse = unique_rows(rows)
    assert torch.equal(unique[inverse], rows)
    assert len(unique) == len(set(map(tuple, rows.tolist())))


def test_unique_rows_survives_a_collision_of_hashes(monkeypatch):
    monkeypatch.setattr(
        char_cnn.torch, "randint", lambda *args, **kwargs: torch.full(args[2], -1)
    )  # all multipliers -1
    rows = torch.tensor([[1, 2], [2, 1], [1, 2]])  # equal sums
    unique, inverse = unique_rows(rows)
    assert torch.equal(unique[inverse], rows) and len(unique) == 2
