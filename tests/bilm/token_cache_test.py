import copy
import pickle

import pytest
import torch
from allennlp.common.checks import ConfigurationError

from elmo_plugin.bilm.token_cache import TokenCache

DIM = 4


class Computer:
    """Vectors that depend on the ids, and a list of how many were asked for."""

    def __init__(self):
        # Whole numbers, whose products are the same in whatever company and order they are computed.
        self.weight = torch.randint(1, 10, (3, DIM)).float()
        self.asked = []

    def __call__(self, types):
        self.asked.append(len(types))
        return types.float() @ self.weight

    def through(self, cache, types):
        return cache.vectors(types, self, [self.weight])


@pytest.fixture
def compute():
    return Computer()


TYPES = torch.tensor([[1, 2, 3], [261, 0, 0], [3, 2, 1]])


def test_a_word_is_computed_once(compute):
    cache = TokenCache()
    first, second = compute.through(cache, TYPES), compute.through(cache, TYPES.flip(0))
    assert torch.equal(first, second.flip(0)) and torch.equal(first, TYPES.float() @ compute.weight)
    assert compute.asked == [3] and len(cache) == 3


def test_known_and_unknown_words_come_together(compute):
    cache = TokenCache()
    compute.through(cache, TYPES[1:])
    both = torch.tensor([[9, 9, 9], [261, 0, 0], [8, 8, 8], [3, 2, 1]])
    assert torch.equal(compute.through(cache, both), both.float() @ compute.weight)
    assert compute.asked == [2, 2]


def test_a_full_cache_admits_no_more_and_stays_right(compute):
    cache = TokenCache(megabytes=2 * (DIM * 4 + 400) / 2**20)
    many = torch.arange(30).view(10, 3)
    for _ in range(2):
        assert torch.equal(compute.through(cache, many), many.float() @ compute.weight)
    assert len(cache) == 2 and compute.asked == [10, 8]


@pytest.mark.parametrize("change", [lambda w: w.mul_(2.0), lambda w: w.data.mul_(2.0)], ids=["in place", "by .data"])
def test_a_changed_weight_empties_it(compute, change):
    cache = TokenCache()
    compute.through(cache, TYPES)
    change(compute.weight)
    assert torch.equal(compute.through(cache, TYPES), TYPES.float() @ compute.weight)
    assert compute.asked == [3, 3]


def test_vectors_given_out_are_not_the_caches_own(compute):
    cache = TokenCache()
    compute.through(cache, TYPES).zero_()
    compute.through(cache, TYPES).zero_()
    assert torch.equal(compute.through(cache, TYPES), TYPES.float() @ compute.weight)


def test_inference_mode_may_come_and_go(compute):
    cache = TokenCache()
    with torch.inference_mode():
        compute.through(cache, TYPES[:1])
    assert torch.equal(compute.through(cache, TYPES), TYPES.float() @ compute.weight)


def test_copies_and_pickles_are_empty(compute):
    cache = TokenCache(megabytes=3)
    compute.through(cache, TYPES)
    for other in (copy.deepcopy(cache), pickle.loads(pickle.dumps(cache))):
        assert len(other) == 0 and other.megabytes == 3


def test_a_negative_size_is_refused():
    with pytest.raises(ConfigurationError, match="at least 0, got -1"):
        TokenCache(-1)
