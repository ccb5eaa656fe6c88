import pytest
from allennlp.training.metrics import Metric

from elmo_plugin.tasks.coref import CoreferenceMetric
from elmo_plugin.tasks.coref.conll import format_document
from elmo_plugin.tasks.coref.metrics import METRICS, CoreferenceCounts, score_files


def counts_of(gold, predicted):
    """Clusters are words: each letter is a mention."""
    counts = CoreferenceCounts()
    counts.add_document(gold.split(), predicted.split())
    return counts


def f1(precision, recall):
    return 2 * precision * recall / (precision + recall)


# Recall and precision in the official scorer's own tests TC-A-1 to TC-A-4, for the key {a}, {b, c}, {d, e, f}: the
# same, missing mentions, spurious ones, and both; w to z are in the response only. The last was worked out by hand.
@pytest.mark.parametrize(
    "predicted, muc, b_cubed, ceaf_e",
    [
        ("a bc def", (1, 1), (1, 1), (1, 1)),
        ("a de", (1 / 3, 1), ((7 / 3) / 6, 1), (0.6, 0.9)),
        ("a bcx defy z", (1, 3 / 5), (1, (4 + 7 / 12) / 9), (0.88571, 0.66429)),
        ("a bcx dy z", (1 / 3, 1 / 3), ((3 + 1 / 3) / 6, (1 + 4 / 3 + 1 / 2) / 7), (0.73333, 0.55)),
        ("a bcxw dy z", (1 / 3, 1 / 4), ((3 + 1 / 3) / 6, 2.5 / 8), (0.68889, 0.51667)),
    ],
)
def test_recall_and_precision_are_those_in_the_official_scorers_tests(predicted, muc, b_cubed, ceaf_e):
    counts = counts_of("a bc def", predicted)
    for name, (recall, precision) in {"muc": muc, "b_cubed": b_cubed, "ceaf_e": ceaf_e}.items():
        expected = (precision, recall, f1(precision, recall))
        assert counts.scores(name) == pytest.approx(expected, abs=2e-5), name


# F1 of MUC, B-cubed and CEAF-e for the clusters of more of those tests: singletons and one big cluster, on either side
# and with mentions that only one has.
@pytest.mark.parametrize(
    "gold, predicted, expected",
    [
        ("a bc def", "a b c d e f", (0, 0.667, 0.481)),  # TC-A-10
        ("a bc def", "abcdef", (0.75, 0.56, 0.333)),
        ("a bc def", "a x y c d e z", (0, 0.443, 0.433)),
        ("a bc def", "axycdez", (0.222, 0.194, 0.2)),
        ("ab cde", "bcx de", (0.333, 0.478, 0.6)),  # TC-B-1
        ("ab cde fg", "bcx de fg", (0.5, 0.629, 0.733)),  # TC-C-1
        ("abcdef", "a b c d e f", (0, 0.286, 0.082)),  # TC-M-2
        ("abcdef", "ab cde f", (0.75, 0.56, 0.333)),
        ("abcdef", "abcxyz", (0.4, 0.25, 0.5)),
        ("abcdef", "a b c x y z", (0, 0.143, 0.082)),
        ("abcdef", "ab cxy z", (0.25, 0.205, 0.25)),
        ("a b c d e f", "a b c d e f", (0, 1, 1)),  # TC-N-1
        ("a b c d e f", "abcdef", (0, 0.286, 0.082)),
        ("a b c d e f", "ab cde f", (0, 0.667, 0.481)),
        ("a b c d e f", "a b c x y z", (0, 0.5, 0.5)),
        ("a b c d e f", "abcxyz", (0, 0.143, 0.082)),
        ("a b c d e f", "ab cxy z", (0, 0.308, 0.259)),
    ],
)
def test_f1_of_singletons_and_of_one_big_cluster(gold, predicted, expected):
    counts = counts_of(gold, predicted)
    scores = [counts.scores(name).f1 for name in ("muc", "b_cubed", "ceaf_e")]
    assert scores == pytest.approx(expected, abs=6e-4)


# Table 1 of Luo (2005): one truth, four systems; F1 of MUC, B-cubed and the entity-based CEAF.
@pytest.mark.parametrize(
    "predicted, muc, b_cubed, ceaf_e",
    [
        ("12345 6789ABC", 0.947, 0.865, 0.733),
        ("1234589ABC 67", 0.947, 0.737, 0.667),
        ("123456789ABC", 0.900, 0.545, 0.294),
        ("1 2 3 4 5 6 7 8 9 A B C", 0.0, 0.400, 0.178),
    ],
)
def test_scores_are_those_in_luos_table(predicted, muc, b_cubed, ceaf_e):
    counts = counts_of("12345 67 89ABC", predicted)
    scores = [counts.scores(name).f1 for name in ("muc", "b_cubed", "ceaf_e")]
    assert scores == pytest.approx([muc, b_cubed, ceaf_e], abs=6e-4)
    assert counts.average_f1() == pytest.approx(sum(scores) / 3)


def test_the_links_of_vilain_et_al():
    # Their example: the key holds A to D together by three links, of which A-B and C-D are found.
    assert counts_of("ABCD", "AB CD").scores("muc") == pytest.approx((1.0, 2 / 3, 0.8))
    assert counts_of("AB CD", "ABCD").scores("muc") == pytest.approx((2 / 3, 1.0, 0.8))


def test_the_best_alignment_isnt_the_greedy_one():
    # The most similar pair is (abcdef, abcdgh) at 2/3, but it leaves nothing for gh and ef; the other two are at 1/2.
    assert counts_of("abcdef gh", "abcdgh ef").scores("ceaf_e") == pytest.approx((1 / 2, 1 / 2, 1 / 2))


def test_singletons_have_no_links_but_count_as_mentions_and_entities():
    counts = counts_of("ab c", "ab")
    assert counts.scores("muc") == pytest.approx((1, 1, 1))
    assert counts.scores("b_cubed")[:2] == pytest.approx((1, 2 / 3))
    assert counts.scores("ceaf_e")[:2] == pytest.approx((1, 1 / 2))


@pytest.mark.parametrize("gold, predicted", [("", ""), ("ab", ""), ("", "ab"), ("ab", "cd")])
def test_where_nothing_is_right_every_score_is_zero(gold, predicted):
    counts = counts_of(gold, predicted)
    assert all(counts.scores(name) == (0, 0, 0) for name in METRICS)


def test_order_of_clusters_and_mentions_doesnt_matter():
    expected, reordered = counts_of("abc de", "ab cde"), counts_of("ed cab", "edc ba")
    for name in METRICS:
        assert reordered.scores(name) == pytest.approx(expected.scores(name))


def test_a_prediction_that_is_repeated_counts_in_its_first_cluster():
    assert counts_of("ab cd", "ab bcd") == counts_of("ab cd", "ab cd")
    assert counts_of("ab cd", "aab cd") == counts_of("ab cd", "ab cd")


def test_a_repeated_prediction_thats_no_gold_mention_counts_each_time():
    assert counts_of("ab", "abx x").b_cubed.precision_denominator == 4


# The official scorer's fractions, recall and then precision, worked out by hand.
@pytest.mark.parametrize(
    "gold, predicted, muc, b_cubed, ceaf_e",
    [
        # a is looked for in the cluster ac, which shares it alone with ab.
        ("ab ac", "ab cx", (0, 2, 0, 2), (2, 4, 2, 4), (1.5, 2, 1.5, 2)),
        ("ab ac", "ac", (1, 2, 1, 1), (2, 4, 2, 2), (1, 2, 1, 1)),
        ("aab", "ab", (1, 2, 1, 1), (4 / 3, 3, 2, 2), (1.2, 1, 1.2, 1)),
    ],
)
def test_a_gold_mention_in_two_clusters_counts_as_in_the_official_scorer(gold, predicted, muc, b_cubed, ceaf_e):
    counts = counts_of(gold, predicted)
    for name, expected in {"muc": muc, "b_cubed": b_cubed, "ceaf_e": ceaf_e}.items():
        assert tuple(vars(getattr(counts, name)).values()) == pytest.approx(expected), name


def test_nested_and_crossing_mentions_are_told_apart_by_their_words():
    counts = CoreferenceCounts()
    counts.add_document([[(0, 3), (1, 2)], [(2, 5), (7, 7)]], [[(0, 3), (1, 3)], [(2, 5), (7, 7)]])
    assert counts.scores("muc") == pytest.approx((1 / 2, 1 / 2, 1 / 2))


def test_documents_add_up_by_their_sums():
    counts = counts_of("ab", "ab")
    counts.add_document(["abcd"], ["ab"])
    assert counts.scores("muc") == pytest.approx((1.0, 2 / 4, 2 / 3))
    # The same letters in another document are other mentions.
    assert counts.scores("b_cubed").recall == pytest.approx((2 + 1) / 6)


GOLD = [[[(0, 1), (4, 4)]], [[(0, 0), (2, 2), (5, 5)], [(7, 7), (8, 8)]], []]
PREDICTED = [[[(0, 1), (4, 4)]], [[(0, 0), (2, 2)]], [[(0, 0), (1, 1)]]]
CONSIDERED = [[(0, 1), (4, 4), (2, 3)], [(0, 0), (2, 2), (8, 8)], [(0, 0), (1, 1)]]


def test_the_metric_names_averages_parts_and_mention_recall():
    metric = CoreferenceMetric()
    metric(PREDICTED, GOLD, CONSIDERED)
    metrics = metric.get_metric(reset=True)
    assert metrics["mention_recall"] == pytest.approx(5 / 7)
    assert metrics["muc_recall"] == pytest.approx(2 / 4)
    assert metrics["muc_precision"] == pytest.approx(2 / 3)
    assert metrics["f1"] == pytest.approx((metrics["muc_f1"] + metrics["b_cubed_f1"] + metrics["ceaf_e_f1"]) / 3)
    assert set(metric.get_metric().values()) == {0.0}


def test_processes_add_up(count_in_two_processes):
    metric = CoreferenceMetric()
    metric(PREDICTED, GOLD, CONSIDERED)
    first, second = count_in_two_processes(CoreferenceMetric(), PREDICTED, GOLD, CONSIDERED)
    assert first == second == pytest.approx(metric.get_metric())


def test_it_is_registered():
    assert Metric.by_name("elmo::coref") is CoreferenceMetric


@pytest.fixture
def write(tmp_path):
    def write(name, *documents):
        text = "".join(format_document(*document[:2], [["w"] * 9], document[2]) for document in documents)
        (tmp_path / name).write_text(text, encoding="utf-8")
        return str(tmp_path / name)

    return write


def test_two_files_are_scored_by_document_and_part(write):
    key = write("key", ("d", 0, GOLD[0]), ("d", 1, GOLD[1]))
    response = write("response", ("d", 1, PREDICTED[1]), ("d", 0, PREDICTED[0]))
    counts = CoreferenceCounts()
    for gold, predicted in zip(GOLD[:2], PREDICTED[:2], strict=True):
        counts.add_document(gold, predicted)
    scored = score_files(key, response)
    assert scored == counts
    assert scored.report() == (
        "              recall  precision      F1\n"
        "muc            50.00     100.00   66.66\n"
        "b_cubed        47.61     100.00   64.51\n"
        "ceaf_e         60.00      90.00   72.00\n"
        "average                           67.72\n"
    )


def test_a_document_that_the_response_lacks_has_no_cluster_there(write):
    scored = score_files(write("key", ("d", 0, GOLD[0]), ("e", 0, GOLD[0])), write("response", ("d", 0, GOLD[0])))
    assert scored.scores("muc").recall == pytest.approx(1 / 2)


def test_a_document_that_the_key_lacks_is_refused(write):
    with pytest.raises(ValueError, match=r"response holds documents that .*key doesn't: \[\('e', 0\)\]"):
        score_files(write("key", ("d", 0, [])), write("response", ("e", 0, [])))
