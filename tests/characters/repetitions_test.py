import torch

from elmo_plugin.characters import repetitions, unique_rows


def test_unique_rows_puts_every_row_back():
    rows = torch.randint(0, 3, (200, 4))
    unique, inverse = unique_rows(rows)
    assert torch.equal(unique[inverse], rows)
    assert len(unique) == len(set(map(tuple, rows.tolist())))


def test_unique_rows_survives_a_collision_of_hashes(monkeypatch):
    monkeypatch.setattr(
        repetitions.torch, "randint", lambda *args, **kwargs: torch.full(args[2], -1)
    )  # all multipliers -1
    rows = torch.tensor([[1, 2], [2, 1], [1, 2]])  # equal sums
    unique, inverse = unique_rows(rows)
    assert torch.equal(unique[inverse], rows) and len(unique) == 2
