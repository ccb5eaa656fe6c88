import itertools
from functools import partial

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from elmo_plugin.tasks.coref import modules
from elmo_plugin.tasks.coref.modules import (
    EncodedDocument,
    FeedForwardScorer,
    PairFeatures,
    PairScorer,
    SpanEmbedder,
    Spans,
    candidate_spans,
    keep_best,
    link,
)


def pairs(spans):
    return list(zip(spans.firsts.tolist(), spans.lasts.tolist(), strict=True))


def spans_of(*words):
    return Spans(*torch.tensor(words).T)


def test_candidates_are_within_a_sentence_and_not_too_wide():
    assert pairs(candidate_spans([3, 1], 2)) == [(0, 0), (0, 1), (1, 1), (1, 2), (2, 2), (3, 3)]
    assert len(pairs(candidate_spans([30, 7, 12], 10))) == (30 * 10 - 45) + 28 + (12 * 10 - 45)


def test_spans_that_cross_a_better_one_are_left_out_and_nested_ones_are_kept():
    spans = spans_of((0, 2), (1, 3), (1, 1), (2, 4), (3, 4))
    scores = torch.tensor([0.9, 1.0, 0.1, 0.8, 0.7])
    # (1, 3) is best and crosses all wider ones; (3, 4) begins inside of it and ends outside.
    assert keep_best(spans, scores, 10).tolist() == [1, 2]
    assert keep_best(spans, scores, 1).tolist() == [1]


def test_of_equal_spans_the_first_is_kept():
    assert keep_best(spans_of((0, 0), (1, 1), (2, 2)), torch.zeros(3), 2).tolist() == [0, 1]


def crosses(one, other):
    (first, last), (other_first, other_last) = sorted([one, other])
    return first < other_first <= last < other_last


@pytest.mark.parametrize("seed", range(5))
def test_what_is_kept_is_what_the_plain_definition_keeps(seed):
    torch.manual_seed(seed)
    spans = candidate_spans([9, 4, 12], 5)
    scores = torch.randn(len(spans.firsts))
    all_pairs, expected = pairs(spans), []
    for index in scores.argsort(descending=True).tolist():
        if len(expected) < 11 and not any(crosses(all_pairs[index], all_pairs[other]) for other in expected):
            expected.append(index)
    assert keep_best(spans, scores, 11).tolist() == sorted(expected)


def test_a_span_is_its_ends_its_head_and_its_width():
    torch.manual_seed(0)
    document = EncodedDocument(torch.randn(6, 3), torch.randn(6, 4), torch.randn(6))
    embedder = SpanEmbedder(3, 4, max_width=4, feature_dim=2, dropout=0.5).eval()
    spans = spans_of((1, 1), (1, 4), (2, 3))
    vectors = embedder(document, spans)
    assert vectors.shape == (3, embedder.get_output_dim()) == (3, 13)
    for vector, (first, last) in zip(vectors, pairs(spans), strict=True):
        inside = slice(first, last + 1)
        head = document.head_logits[inside].softmax(0) @ document.inputs[inside]
        width = embedder.width_embedding.weight[last - first]
        expected = torch.cat([document.encoded[first], document.encoded[last], head, width])
        torch.testing.assert_close(vector, expected)


def make_pair_scorer(span_dim=5, dropout=0.0):
    torch.manual_seed(0)
    scorer = partial(FeedForwardScorer, hidden_dim=7, num_layers=2, dropout=dropout)
    return PairScorer(span_dim, num_genres=4, unknown_genre=1, feature_dim=3, scorer=scorer, dropout=dropout)


def naive_score(scorer, spans, features, target, antecedent, distance_bin):
    same_speaker = int(features.speaker_ids[target] == features.speaker_ids[antecedent])
    vector = torch.cat(
        [
            spans[target],
            spans[antecedent],
            spans[target] * spans[antecedent],
            scorer.distance_embedding.weight[distance_bin],
            scorer.speaker_embedding.weight[same_speaker],
            scorer.genre_embedding.weight[features.genre],
        ]
    )
    return scorer.scorer(vector)


BINS = {1: 1, 2: 2, 3: 3, 4: 4, 5: 5, 7: 5, 8: 6, 15: 6, 16: 7, 31: 7, 32: 8, 63: 8, 64: 9, 69: 9}


@pytest.mark.parametrize("block", [1, 8, 1000])
def test_pairs_are_scored_as_the_equation_says_whatever_the_blocks(block, monkeypatch):
    monkeypatch.setattr(modules, "TARGET_BLOCK", block)
    scorer = make_pair_scorer().eval()
    spans = torch.randn(71, 5)
    features = PairFeatures(torch.randint(2, (71,)), torch.tensor(2))
    scores = scorer(spans, features, max_antecedents=69)
    assert scores.shape == (71, 69)
    for distance, target in itertools.product(BINS, (0, 1, 5, 33, 70)):
        if target < distance:
            assert scores[target, distance - 1] == -torch.inf
        else:
            expected = naive_score(scorer, spans, features, target, target - distance, BINS[distance])
            torch.testing.assert_close(scores[target, distance - 1], expected)


@pytest.mark.parametrize("share_kept, num_computed_again", [(0, 3), (0.5, 2), (1, 0)])
def test_gradients_through_blocks_are_those_of_the_equation(share_kept, num_computed_again, monkeypatch):
    computed_again = []
    monkeypatch.setattr(modules, "TARGET_BLOCK", 2)
    scorer = make_pair_scorer()
    num_numbers = 5 * 3 * (5 + 3 * sum(layer.out_features for layer in scorer.scorer.hidden))
    monkeypatch.setattr(modules, "KEPT_NUMBERS", share_kept * num_numbers)
    monkeypatch.setattr(
        modules, "checkpoint", lambda *args, **kwargs: computed_again.append(1) or checkpoint(*args, **kwargs)
    )
    spans = torch.randn(5, 5, requires_grad=True)
    features = PairFeatures(torch.tensor([0, 1, 0, 0, 1]), torch.tensor(3))
    scores = scorer(spans, features, max_antecedents=3)
    assert len(computed_again) == num_computed_again
    total = scores[scores.isfinite()].sum()
    reachable = [(i, j) for i in range(5) for j in range(5) if 1 <= i - j <= 3]
    expected = sum(naive_score(scorer, spans, features, i, j, BINS[i - j]) for i, j in reachable)
    torch.testing.assert_close(total, expected)
    parameters = [spans, *scorer.parameters()]
    for actual, wanted in zip(
        torch.autograd.grad(total, parameters), torch.autograd.grad(expected, parameters), strict=True
    ):
        torch.testing.assert_close(actual, wanted, rtol=1e-4, atol=1e-5)


def test_dropout_draws_the_same_masks_when_a_block_is_computed_again():
    scorer = make_pair_scorer(dropout=0.5).train()
    spans = torch.randn(6, 5)
    features = PairFeatures(torch.zeros(6, dtype=torch.long), torch.tensor(2))
    scores = scorer(spans, features, 5)
    bias = scorer.scorer.output.bias
    (gradient,) = torch.autograd.grad(scores[scores.isfinite()].sum(), bias)
    assert gradient.item() == 15


def test_a_single_span_has_no_antecedents():
    features = PairFeatures(torch.tensor([0]), torch.tensor(2))
    assert make_pair_scorer()(torch.randn(1, 5), features, 250).shape == (1, 0)


def test_an_unknown_genre_adds_nothing():
    assert make_pair_scorer().genre_embedding(torch.tensor(1)).tolist() == [0.0] * 3


def test_links_become_clusters():
    assert link([-1, 0, -1, 1, -1, 2, -1]) == [[0, 1, 3], [2, 5]]
    assert link([-1, -1]) == []
    # Clusters are in the order of their first mentions, not of their first links.
    assert link([-1, -1, 1, 0]) == [[0, 3], [1, 2]]
