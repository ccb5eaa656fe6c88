import itertools

import pytest
import torch
from allennlp.common.checks import ConfigurationError
from allennlp.modules import ConditionalRandomField
from allennlp.modules.conditional_random_field import allowed_transitions

from elmo_plugin.tasks.common.decoding import FORBIDDEN, Transitions, tag_constraints, viterbi
from elmo_plugin.tasks.common.spans import spans_to_tags, tags_to_spans

BIO = dict(enumerate(["O", "B-X", "I-X", "B-Y", "I-Y"]))
IOB1 = BIO
BIOUL = dict(enumerate(["O", "U-X", "B-X", "I-X", "L-X", "U-Y", "B-Y", "L-Y"]))
SCHEMES = [("BIO", BIO), ("IOB1", IOB1), ("BIOUL", BIOUL)]


def random_batch(num_tags, lengths=(7, 1, 4, 6, 2), scale=3.0):
    generator = torch.Generator().manual_seed(num_tags)
    mask = torch.arange(max(lengths)) < torch.tensor(lengths).unsqueeze(-1)
    return torch.randn(len(lengths), max(lengths), num_tags, generator=generator) * scale, mask


def no_preference(num_tags):
    return Transitions(torch.zeros(num_tags, num_tags), torch.zeros(num_tags), torch.zeros(num_tags))


def paths(decoded, mask):
    return [row[:length].tolist() for row, length in zip(decoded.tag_ids, mask.sum(-1).tolist(), strict=True)]


@pytest.mark.parametrize("scheme, tags", SCHEMES)
def test_a_crf_is_decoded_as_allennlp_does(scheme, tags):
    torch.manual_seed(1)
    crf = ConditionalRandomField(len(tags), allowed_transitions(scheme, tags))
    emissions, mask = random_batch(len(tags))
    transitions = Transitions(crf.transitions, crf.start_transitions, crf.end_transitions)

    decoded = viterbi(emissions, mask, transitions.plus(tag_constraints(scheme, tags)))

    expected = crf.viterbi_tags(emissions, mask)
    assert paths(decoded, mask) == [path for path, _ in expected]
    assert decoded.scores.tolist() == pytest.approx([score for _, score in expected], abs=1e-4)


@pytest.mark.parametrize("scheme, tags", SCHEMES)
def test_the_best_of_all_well_formed_sequences_is_found(scheme, tags):
    (emissions,), mask = random_batch(len(tags), lengths=(4,))

    def is_well_formed(tag_ids):
        try:
            return tags_to_spans([tags[tag_id] for tag_id in tag_ids], scheme) is not None
        except ValueError:
            return False

    best = max(
        (tag_ids for tag_ids in itertools.product(tags, repeat=4) if is_well_formed(tag_ids)),
        key=lambda tag_ids: sum(emissions[step, tag_id].item() for step, tag_id in enumerate(tag_ids)),
    )
    decoded = viterbi(emissions.unsqueeze(0), mask, tag_constraints(scheme, tags))
    assert tuple(decoded.tag_ids[0].tolist()) == best
    # The highest emissions alone would not have been well-formed, or this shows nothing.
    assert not is_well_formed(emissions.argmax(-1).tolist())


def test_a_sentence_is_decoded_the_same_alone_and_in_any_order():
    emissions, mask = random_batch(len(BIO))
    constraints = tag_constraints("BIO", BIO)
    decoded = viterbi(emissions, mask, constraints)
    flipped = viterbi(emissions.flip(0), mask.flip(0), constraints)
    assert torch.equal(flipped.tag_ids.flip(0), decoded.tag_ids)
    for row, length in enumerate(mask.sum(-1).tolist()):
        alone = viterbi(emissions[row : row + 1, :length], mask[row : row + 1, :length], constraints)
        assert torch.equal(alone.tag_ids[0], decoded.tag_ids[row, :length])
        assert alone.scores[0] == decoded.scores[row]


def test_what_stands_in_the_padding_is_neither_read_nor_left_in_the_tags():
    emissions, mask = random_batch(len(BIO))
    constraints = tag_constraints("BIO", BIO)
    decoded = viterbi(emissions, mask, constraints)
    other = viterbi(emissions.masked_fill(~mask.unsqueeze(-1), 1e6), mask, constraints)
    assert torch.equal(other.tag_ids, decoded.tag_ids)
    assert torch.equal(other.scores, decoded.scores)
    assert not decoded.tag_ids[~mask].any()


def test_without_transitions_each_step_is_for_itself():
    emissions, mask = random_batch(4)
    decoded = viterbi(emissions, mask, no_preference(4))
    assert torch.equal(decoded.tag_ids, emissions.argmax(-1) * mask)


def test_a_transition_may_outweigh_an_emission():
    emissions = torch.tensor([[[1.0, 0.0], [1.0, 0.0]]])
    transitions = no_preference(2)._replace(between=torch.tensor([[0.0, 3.0], [0.0, 0.0]]))
    decoded = viterbi(emissions, torch.ones(1, 2, dtype=torch.bool), transitions)
    assert decoded.tag_ids.tolist() == [[0, 1]]
    assert decoded.scores.tolist() == [4.0]


def test_the_tags_of_an_empty_sentence_score_nothing():
    emissions, mask = random_batch(len(BIO), lengths=(2, 0))
    decoded = viterbi(emissions, mask, tag_constraints("BIO", BIO))
    assert decoded.tag_ids[1].tolist() == [0, 0]
    assert decoded.scores[1] == 0.0


def test_a_sentence_without_any_allowed_sequence_is_refused():
    emissions, mask = random_batch(2)
    with pytest.raises(ValueError, match="no sequence of tags is allowed"):
        viterbi(emissions, mask, no_preference(2)._replace(end=torch.full((2,), FORBIDDEN)))


def test_half_precision_emissions_keep_forbidden_transitions_forbidden():
    emissions, mask = random_batch(len(BIOUL), scale=100.0)
    decoded = viterbi(emissions.half(), mask, tag_constraints("BIOUL", BIOUL))
    for tag_ids in paths(decoded, mask):
        tags = [BIOUL[tag_id] for tag_id in tag_ids]
        assert spans_to_tags(tags_to_spans(tags, "BIOUL"), len(tags), "BIOUL") == tags


def test_tags_of_another_scheme_are_refused():
    with pytest.raises(ConfigurationError, match="'B-X' but no 'L-X'.*set the coding scheme to the dataset reader's"):
        tag_constraints("BIOUL", BIO)
    with pytest.raises(ConfigurationError, match="'L-X' isn't a tag of the scheme BIO"):
        tag_constraints("BIO", BIOUL)


def test_tags_without_an_outside_tag_are_refused():
    with pytest.raises(ConfigurationError, match="have no 'O'"):
        tag_constraints("BIO", {0: "B-X", 1: "I-X"})


def test_an_unknown_scheme_is_refused():
    with pytest.raises(ConfigurationError, match="no tag scheme 'BMES'"):
        tag_constraints("BMES", BIO)
