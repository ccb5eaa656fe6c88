import itertools

import pytest
from allennlp.common.checks import ConfigurationError

from elmo_plugin.tasks.common.spans import (
    Span,
    TagError,
    chunks,
    irregular_tags,
    parse_tag,
    spans_to_tags,
    tags_to_spans,
)

# Ada Byron met Bo Cy: three people, the last two side by side.
SPANS = [Span(0, 2, "PER"), Span(3, 4, "PER"), Span(4, 5, "PER")]
NOTATIONS = {
    "BIO": "B-PER I-PER O B-PER B-PER",
    "IOB1": "I-PER I-PER O I-PER B-PER",
    "BIOUL": "B-PER L-PER O U-PER U-PER",
}


@pytest.mark.parametrize("from_scheme, to_scheme", list(itertools.product(NOTATIONS, repeat=2)))
def test_tags_convert_between_all_schemes(from_scheme, to_scheme):
    spans = tags_to_spans(NOTATIONS[from_scheme].split(), from_scheme)
    assert spans_to_tags(spans, 5, to_scheme) == NOTATIONS[to_scheme].split()


@pytest.mark.parametrize("scheme", NOTATIONS)
def test_spans_come_back_from_their_tags(scheme):
    assert tags_to_spans(NOTATIONS[scheme].split(), scheme) == SPANS


@pytest.mark.parametrize("scheme", NOTATIONS)
def test_every_well_formed_sequence_survives_a_round_trip(scheme):
    letters = ["O"] + [f"{prefix}-{type_}" for prefix in "BIUL" for type_ in ("X", "Y")]
    num_well_formed = 0
    for tags in itertools.product(letters, repeat=4):
        try:
            spans = tags_to_spans(tags, scheme)
        except TagError:
            continue
        num_well_formed += 1
        assert spans_to_tags(spans, 4, scheme) == list(tags)
    # One notation for each set of spans: n tokens have f(n) = f(n-1) + 2 (f(n-1) + ... + f(0)) of them, f(0) = 1.
    assert num_well_formed == 153


def test_adjacent_spans_of_different_types_need_no_b_in_iob1():
    assert spans_to_tags([Span(0, 1, "PER"), Span(1, 2, "LOC")], 2, "IOB1") == ["I-PER", "I-LOC"]


def test_a_type_may_hold_hyphens():
    assert parse_tag("B-C-ARG0") == ("B", "C-ARG0")


@pytest.mark.parametrize(
    "scheme, tags, index",
    [
        ("BIO", "O I-PER", 1),
        ("BIO", "I-PER", 0),
        ("BIO", "B-PER I-LOC", 1),
        ("BIO", "B-PER L-PER", 1),
        ("IOB1", "B-PER", 0),
        ("IOB1", "O B-PER", 1),
        ("IOB1", "I-PER B-LOC", 1),
        ("BIOUL", "O L-PER", 1),
        ("BIOUL", "B-PER O", 0),
        ("BIOUL", "B-PER L-LOC", 0),
        ("BIOUL", "B-PER U-PER", 0),
        ("BIOUL", "O B-PER", 1),
        ("BIOUL", "U-PER I-PER", 0),
        ("BIO", "O X-PER", 1),
        ("BIO", "O B", 1),
        ("BIO", "O B-", 1),
        ("BIO", "O -PER", 1),
        ("BIO", "O BI-PER", 1),
    ],
)
def test_an_impossible_tag_is_found_where_it_stands(scheme, tags, index):
    with pytest.raises(TagError) as error:
        tags_to_spans(tags.split(), scheme)
    assert error.value.index == index
    assert tags.split()[index] in str(error.value)


def test_irregular_tags_come_with_what_the_scheme_has_in_their_place():
    assert irregular_tags("B-X O B-X B-X I-Y".split(), "IOB1") == [(0, "I-X"), (2, "I-X")]
    assert irregular_tags("I-X O B-X B-X I-Y".split(), "BIO") == [(0, "B-X"), (4, "B-Y")]


def test_overlapping_spans_have_no_tags():
    with pytest.raises(ValueError, match="1:3 overlaps"):
        spans_to_tags([Span(0, 2, "X"), Span(1, 3, "X")], 3, "BIO")


def test_a_span_beyond_the_sentence_has_no_tags():
    with pytest.raises(ValueError, match="isn't within the 2 tokens"):
        spans_to_tags([Span(1, 3, "X")], 2, "BIO")


def test_an_unknown_scheme_is_refused():
    with pytest.raises(ConfigurationError, match="no tag scheme 'BILOU'; choose one of BIO, IOB1, BIOUL"):
        tags_to_spans(["O"], "BILOU")


@pytest.mark.parametrize(
    "tags, spans",
    [
        ("O I-X I-X O", [Span(1, 3, "X")]),
        ("I-X I-Y", [Span(0, 1, "X"), Span(1, 2, "Y")]),
        ("B-X I-Y I-Y", [Span(0, 1, "X"), Span(1, 3, "Y")]),
        ("I-X B-X I-X", [Span(0, 1, "X"), Span(1, 3, "X")]),
        ("B-X B-X", [Span(0, 1, "X"), Span(1, 2, "X")]),
        ("L-X U-X L-X", [Span(0, 1, "X"), Span(1, 3, "X")]),
        ("O O", []),
        ("", []),
    ],
)
def test_chunks_of_malformed_tags_are_those_of_conlleval(tags, spans):
    assert chunks(tags.split()) == spans
