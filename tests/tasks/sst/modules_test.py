import torch

from elmo_plugin.tasks.sst.modules import FourfoldPooling, SelfBiattention

ENCODED = torch.tensor([[[1.0, 0.0], [0.0, 2.0], [9.0, 9.0]]])
MASK = torch.tensor([[True, True, False]])


def test_biattention_sets_each_token_beside_its_context_by_hand():
    # The affinities are x . x: 1 and 0 for the first token, 0 and 4 for the second.
    first = torch.softmax(torch.tensor([1.0, 0.0]), dim=0) @ ENCODED[0, :2]
    second = torch.softmax(torch.tensor([0.0, 4.0]), dim=0) @ ENCODED[0, :2]
    attended = SelfBiattention()(ENCODED, MASK)
    for position, context in enumerate([first, second]):
        token = ENCODED[0, position]
        torch.testing.assert_close(attended[0, position], torch.cat([token, token - context, token * context]))


def test_a_token_alone_finds_itself():
    alone = ENCODED[:, :1]
    attended = SelfBiattention()(alone, MASK[:, :1])
    assert attended.tolist() == [[[1.0, 0.0, 0.0, 0.0, 1.0, 0.0]]]


def test_biattention_doesnt_see_padding():
    biattention = SelfBiattention()
    torch.testing.assert_close(biattention(ENCODED, MASK)[:, :2], biattention(ENCODED[:, :2], MASK[:, :2]))


def test_the_width_biattention_announces_is_the_width_it_gives():
    assert SelfBiattention().get_output_dim(2) == SelfBiattention()(ENCODED, MASK).size(-1) == 6


def test_pooling_is_max_mean_min_and_self_attentive_in_that_order():
    pooling = FourfoldPooling(2)
    with torch.no_grad():
        pooling.self_attentive.score.weight.copy_(torch.tensor([[1000.0, 0.0]]))
    pooled = pooling(ENCODED, MASK)
    # The score all but selects the first token.
    torch.testing.assert_close(pooled, torch.tensor([[1.0, 2.0, 0.5, 1.0, 0.0, 0.0, 1.0, 0.0]]))
    assert pooling.get_output_dim() == pooled.size(-1)
