import json

import pytest
from allennlp.common.checks import ConfigurationError

from elmo_plugin.tasks.srl.conll import Frame, brackets_to_tags
from elmo_plugin.tasks.srl.srl_eval import Argument, SrlCounts, arguments, format_props, score_file, tags_to_brackets


def count(*pairs):
    counts = SrlCounts()
    for gold, predicted in pairs:
        counts.add_proposition(brackets_to_tags(gold.split()), brackets_to_tags(predicted.split()))
    return counts


def excess(counts):
    return counts.predicted - counts.correct


def missed(counts):
    return counts.gold - counts.correct


def totals(counts):
    return counts.correct.total(), excess(counts).total(), missed(counts).total()


def test_a_continuation_is_a_piece_of_the_argument_before_it():
    tags = brackets_to_tags("(ARG1*) (V*) (C-ARG1* *) (ARG2*) (C-ARG1*)".split())
    assert arguments(tags) == {
        Argument("ARG1", ((0, 1), (2, 4), (5, 6))),
        Argument("V", ((1, 2),)),
        Argument("ARG2", ((4, 5),)),
    }


def test_a_continuation_goes_to_the_last_argument_of_its_type():
    tags = brackets_to_tags("(ARG1*) (ARG1*) * (C-ARG1*)".split())
    assert arguments(tags) == {Argument("ARG1", ((0, 1),)), Argument("ARG1", ((1, 2), (3, 4)))}


def test_a_continuation_of_nothing_is_an_argument_that_can_be_continued():
    tags = brackets_to_tags("(C-ARG1*) (V*) (C-ARG1*)".split())
    assert Argument("ARG1", ((0, 1), (2, 3))) in arguments(tags)


def test_a_reference_is_a_type_of_its_own():
    assert arguments(["B-ARG0", "B-R-ARG0", "B-C-R-ARG0"]) == {
        Argument("ARG0", ((0, 1),)),
        Argument("R-ARG0", ((1, 2), (2, 3))),
    }


def test_types_and_boundaries_must_both_be_right():
    counts = count(("(ARG0* *) (V*) (ARG1*) (ARG2*)", "(ARG0*) * (V*) (ARG1*) (ARG3*)"))
    assert counts.correct == {"V": 1, "ARG1": 1}
    assert excess(counts) == {"ARG0": 1, "ARG3": 1}
    assert missed(counts) == {"ARG0": 1, "ARG2": 1}
    assert counts.scores() == pytest.approx((1 / 3, 1 / 3, 1 / 3))


def test_an_argument_in_pieces_is_all_right_or_wrong():
    gold = "(ARG1*) (V*) (C-ARG1*)"
    assert totals(count((gold, gold))) == (2, 0, 0)
    # A piece too few, a piece of another length, pieces that are taken for two arguments, one for two pieces.
    assert totals(count((gold, "(ARG1*) (V*) *"))) == (1, 1, 1)
    assert totals(count((gold + " *", "(ARG1*) (V*) (C-ARG1* *)"))) == (1, 1, 1)
    assert totals(count((gold, "(ARG1*) (V*) (ARG1*)"))) == (1, 2, 1)
    assert totals(count(("(ARG1* *) (V*)", "(ARG1*) (C-ARG1*) (V*)"))) == (1, 1, 1)


def test_v_and_its_continuations_dont_count():
    counts = count(("(ARG0*) (V*) * (C-V*)", "(ARG0*) * (V*) *"))
    assert counts.scores() == (1.0, 1.0, 1.0)
    assert (counts.num_perfect, counts.types) == (1, ["ARG0"])
    assert missed(counts) == excess(counts) == {"V": 1}


def test_the_predicates_of_a_sentence_are_counted_one_by_one():
    # Right words under the wrong predicate are no use.
    counts = count(("(ARG0*) (V*) *", "* (V*) (ARG0*)"), ("* (ARG0*) (V*)", "(ARG0*) * (V*)"))
    assert counts.scores().f1 == 0.0
    assert (counts.num_propositions, counts.num_perfect) == (2, 0)


def test_nothing_to_find_and_nothing_found_is_perfect_and_scores_zero():
    counts = count(("(V*)", "(V*)"))
    assert counts.num_perfect == 1
    assert counts.scores() == (0.0, 0.0, 0.0)


def test_counts_add_up():
    first, second = count(("(ARG0*) (V*)", "(ARG0*) (V*)")), count(("(ARG0*) (V*)", "(ARG1*) (V*)"))
    first += second
    assert first.scores("ARG0") == (1.0, 0.5, pytest.approx(2 / 3))
    assert (first.num_propositions, first.num_perfect) == (2, 1)


def test_the_report_is_srl_evals():
    counts = count(("(ARG0* *) (V*) (ARG1*)", "(ARG0* *) (V*) (ARG2*)"), ("(ARGM-TMP*) (V*)", "(ARGM-TMP*) (V*)"))
    assert counts.report(num_sentences=2) == (
        "Number of Sentences    :           2\n"
        "Number of Propositions :           2\n"
        "Percentage of perfect props :  50.00\n"
        "\n"
        "              corr.  excess  missed    prec.    rec.      F1\n"
        "------------------------------------------------------------\n"
        "   Overall        2       1       1    66.67   66.67   66.67\n"
        "----------\n"
        "      ARG0        1       0       0   100.00  100.00  100.00\n"
        "      ARG1        0       0       1     0.00    0.00    0.00\n"
        "      ARG2        0       1       0     0.00    0.00    0.00\n"
        "  ARGM-TMP        1       0       0   100.00  100.00  100.00\n"
        "------------------------------------------------------------\n"
        "         V        2       0       0   100.00  100.00  100.00\n"
        "------------------------------------------------------------\n"
    )


def test_tags_of_another_length_are_refused():
    with pytest.raises(ValueError, match="2 gold tags but 1 predicted"):
        SrlCounts().add_proposition(["O", "O"], ["O"])


def test_brackets_and_tags_are_the_same_thing():
    brackets = ["(ARG0*", "*", "*)", "(V*)", "*", "(C-ARG0*)", "(R-ARGM-TMP*", "*)"]
    assert tags_to_brackets(brackets_to_tags(brackets)) == brackets


def test_props_have_a_column_for_each_predicate_in_their_order():
    frames = [Frame(3, ["O", "O", "B-ARG0", "B-V"]), Frame(1, ["B-ARG0", "B-V", "B-ARG1", "I-ARG1"])]
    expected = "- (ARG0*) *\nsays (V*) *\n- (ARG1* (ARG0*)\nleft *) (V*)\n\n"
    assert format_props(["Ada", "says", "Bo", "left"], frames) == expected


def test_a_sentence_without_predicates_has_one_column():
    assert format_props(["Quiet", "!"], []) == "-\n-\n\n"


def test_a_word_cant_be_two_predicates():
    with pytest.raises(ValueError, match="two frames have the predicate 'left', word 1"):
        format_props(["Ada", "left"], [Frame(1, ["O", "B-V"]), Frame(1, ["B-ARG0", "B-V"])])


def test_a_file_of_predictions_is_scored_and_turned_into_props(tmp_path):
    rows = [
        {"place": "a:1", "predicate_index": 1, "gold_tags": ["B-ARG0", "B-V", "O"], "tags": ["B-ARG0", "B-V", "O"]},
        {"place": "a:1", "predicate_index": 2, "gold_tags": ["B-ARG0", "O", "B-V"], "tags": ["O", "O", "B-V"]},
        {"place": "a:5", "predicate_index": 1, "gold_tags": ["B-ARG0", "B-V", "O"], "tags": ["O", "B-V", "O"]},
    ]
    predictions, gold, predicted = (tmp_path / name for name in ("predictions", "gold", "predicted"))
    predictions.write_text("".join(json.dumps({**row, "tokens": ["Bo", "ran", "off"]}) + "\n" for row in rows))
    report = score_file(str(predictions), str(gold), str(predicted))
    assert "Number of Sentences    :           2\nNumber of Propositions :           3\n" in report
    assert gold.read_text() == "- (ARG0*) (ARG0*)\nran (V*) *\noff * (V*)\n\n- (ARG0*)\nran (V*)\n- *\n\n"
    assert predicted.read_text() == "- (ARG0*) *\nran (V*) *\noff * (V*)\n\n- *\nran (V*)\n- *\n\n"


@pytest.mark.parametrize(
    "changes", [{"tags": ["O", "O"]}, {"predicate_index": 1}, {"tokens": "B"}, {"gold_tags": [None]}, {"place": ...}]
)
def test_other_lines_are_named(tmp_path, changes):
    predictions = tmp_path / "predictions"
    predicate = {
        "place": "a:1",
        "predicate_index": 0,
        "tokens": ["Go"],
        "tags": ["B-V"],
        "gold_tags": ["B-V"],
        **changes,
    }
    predictions.write_text(json.dumps({key: value for key, value in predicate.items() if value is not ...}))
    with pytest.raises(ConfigurationError, match="predictions, line 1: expected a predicate with the keys place"):
        score_file(str(predictions))
