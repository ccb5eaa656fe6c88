import pytest
from allennlp.common.checks import ConfigurationError

from elmo_plugin.tasks.ner.conlleval import ConllCounts, as_conll_tags, count_file, format_sentence


def count(*pairs):
    counts = ConllCounts()
    for gold, predicted in pairs:
        counts.add_sentence(gold.split(), predicted.split())
    return counts


def test_spans_count_if_their_tokens_and_their_type_are_right():
    counts = count(("B-PER I-PER O B-LOC B-LOC B-ORG", "B-PER I-PER O B-ORG B-LOC O"))
    assert (counts.gold, counts.predicted) == ({"PER": 1, "LOC": 2, "ORG": 1}, {"PER": 1, "LOC": 1, "ORG": 1})
    assert counts.correct == {"PER": 1, "LOC": 1}
    assert counts.scores() == pytest.approx((2 / 3, 2 / 4, 4 / 7))
    assert counts.scores("LOC") == pytest.approx((1.0, 0.5, 2 / 3))
    assert counts.scores("ORG") == (0.0, 0.0, 0.0)
    assert counts.accuracy == pytest.approx(4 / 6)


# By the rules of the official script (version 2004-01-26): the phrases in the gold tags, those found, those correct,
# and the correct tags.
@pytest.mark.parametrize(
    "gold, predicted, expected",
    [
        ("B-X I-X O", "I-X I-X O", (1, 1, 1, 2)),  # a span may begin with I
        ("B-X I-X O", "B-X I-Y O", (1, 2, 0, 2)),  # another type is another span
        ("B-X I-X", "B-X B-X", (1, 2, 0, 1)),
        ("O B-X I-X", "I-X I-X I-X", (1, 1, 0, 1)),  # one token too many
        ("B-X B-Y", "I-X I-Y", (2, 2, 2, 0)),  # all spans right, no tag
        ("I-X B-X I-X", "B-X B-X I-X", (2, 2, 2, 2)),
        ("B-X O B-X", "B-X I-X I-X", (2, 1, 0, 1)),
        ("O O", "O O", (0, 0, 0, 2)),
        ("O", "I-X", (0, 1, 0, 0)),
        ("B-A-B I-A-B", "B-A-B I-A", (1, 2, 0, 1)),  # a type may hold hyphens
    ],
)
def test_malformed_sequences_count_as_they_do_in_conlleval(gold, predicted, expected):
    counts = count((gold, predicted))
    assert (counts.gold.total(), counts.predicted.total(), counts.correct.total(), counts.num_correct_tags) == expected


def test_a_span_doesnt_reach_into_the_next_sentence():
    counts = count(("B-X", "B-X"), ("I-X", "I-X"))
    assert (counts.gold.total(), counts.correct.total()) == (2, 2)


def test_bioul_counts_as_the_bio_it_stands_for():
    bioul = count(("B-X L-X U-Y O", "B-X L-X O U-Y"))
    assert bioul == count(("B-X I-X B-Y O", "B-X I-X O B-Y"))


# What the official script prints for the predictions below.
REPORT = """\
processed 11 tokens with 5 phrases; found: 5 phrases; correct: 3.
accuracy:  54.55%; precision:  60.00%; recall:  60.00%; FB1:  60.00
              LOC: precision: 100.00%; recall:  50.00%; FB1:  66.67  1
             MISC: precision:   0.00%; recall:   0.00%; FB1:   0.00  1
              ORG: precision:  50.00%; recall: 100.00%; FB1:  66.67  2
              PER: precision: 100.00%; recall: 100.00%; FB1: 100.00  1
"""
PREDICTIONS = """\
Ada B-PER I-PER
Byron I-PER I-PER
left O O
Northport B-LOC B-ORG
for O O
Oslo B-LOC B-LOC
. O O

The O B-MISC
Brass B-ORG I-ORG
Owls I-ORG I-ORG
won B-MISC O
"""


def test_the_report_is_conllevals(tmp_path):
    (tmp_path / "predictions.txt").write_text(PREDICTIONS, encoding="utf-8")
    report = count_file(str(tmp_path / "predictions.txt")).report()
    assert report == REPORT


def test_a_report_on_nothing_says_so():
    assert ConllCounts().report() == "processed 0 tokens with 0 phrases; found: 0 phrases; correct: 0.\n"


def test_halves_are_rounded_as_conlleval_rounds_them():
    # 17 of 33 are found, of 31: 53.125, which its arithmetic makes a little more than that.
    counts = ConllCounts(num_tokens=64, num_correct_tags=64)
    counts.gold["X"], counts.predicted["X"], counts.correct["X"] = 31, 33, 17
    assert "FB1:  53.13  33" in counts.report()


def test_what_is_written_can_be_counted(tmp_path):
    gold, predicted = ["B-X", "L-X", "U-Y"], ["B-X", "L-X", "O"]
    text = format_sentence(["a", "b", "c"], gold, predicted) * 2
    assert text.startswith("a B-X B-X\nb I-X I-X\nc B-Y O\n\n")
    (tmp_path / "predictions.txt").write_text(text, encoding="utf-8")
    counts = ConllCounts()
    counts.add_sentence(gold, predicted)
    counts.add_sentence(gold, predicted)
    assert count_file(str(tmp_path / "predictions.txt")) == counts


def test_tags_conlleval_knows_stay_as_they_are():
    assert as_conll_tags(["O", "B-U-L", "I-X", "U-X", "L-X"]) == ["O", "B-U-L", "I-X", "B-X", "I-X"]


def test_a_line_without_two_tags_is_named(tmp_path):
    (tmp_path / "predictions.txt").write_text("Ada B-PER B-PER\nleft O\n", encoding="utf-8")
    with pytest.raises(
        ConfigurationError, match="predictions.txt, line 2: expected a token, its gold tag and its predicted tag"
    ):
        count_file(str(tmp_path / "predictions.txt"))


def test_sequences_of_different_lengths_are_refused():
    with pytest.raises(ValueError, match="2 gold tags but 1 predicted"):
        ConllCounts().add_sentence(["O", "O"], ["O"])
