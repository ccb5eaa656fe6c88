import random

import numpy
import torch

from elmo_plugin.training.randomness import randomness_of, seed_all


def test_seeding_depends_on_every_part_of_the_key():
    draws = set()
    for key in [(1, 0, 0, 0), (2, 0, 0, 0), (1, 1, 0, 0), (1, 0, 1, 0), (1, 0, 0, 1), (1, 0, 0), (10, 0, 0)]:
        seed_all(*key)
        draws.add((torch.rand(1).item(), numpy.random.rand(), random.random()))
    assert len(draws) == 7


def test_randomness_of_a_batch_leaves_the_generators_as_they_were():
    def draw():
        return torch.rand(1).item(), numpy.random.rand(), random.random()

    seed_all(1)
    expected = [draw(), draw()]
    seed_all(1)
    first = draw()
    with randomness_of(1, 2):
        within = draw()
    with randomness_of(1, 2):
        assert draw() == within
    assert [first, draw()] == expected
