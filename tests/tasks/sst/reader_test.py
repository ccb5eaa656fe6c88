from collections import Counter
from typing import List, Tuple

import pytest
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader, Instance, Token
from allennlp.data.dataset_readers.dataset_reader import WorkerInfo

import elmo_plugin.tasks.sst  # noqa: F401

LINES = [
    "(3 (2 It) (4 (2 's) (4 (2 a) (4 (3 lovely) (2 film)))))",
    "(0 (1 No) (2 .))",
    "(2 (2 It) (2 (1 (2 -LRB-) (1 (2 may) (2 (2 and\\/or) (2 will)))) (2 end)))",
]


@pytest.fixture
def write(tmp_path):
    def write_lines(lines: List[str], encoding: str = "utf-8") -> str:
        path = tmp_path / "trees.txt"
        path.write_bytes("\n".join(lines).encode(encoding))
        return str(path)

    return write_lines


def reader(**settings) -> DatasetReader:
    return DatasetReader.from_params(Params({"type": "elmo::sst", **settings}))


def labelled(instance: Instance) -> Tuple[str, str]:
    return " ".join(token.text for token in instance["tokens"]), instance["label"].label


def read(path: str, **settings) -> List[Tuple[str, str]]:
    return [labelled(instance) for instance in reader(**settings).read(path)]


def test_whole_sentences_are_read_with_their_fine_grained_label(write):
    assert read(write(LINES)) == [
        ("It 's a lovely film", "positive"),
        ("No .", "very negative"),
        ("It ( may and/or will end", "neutral"),
    ]


def test_the_binary_task_leaves_out_neutral_sentences_and_joins_the_others(write):
    lines = [f"({label} word{label})" for label in range(5)]
    assert read(write(lines), granularity="2-class") == [
        ("word0", "negative"),
        ("word1", "negative"),
        ("word3", "positive"),
        ("word4", "positive"),
    ]


def test_the_five_labels_are_named_from_very_negative_to_very_positive(write):
    labels = [label for _, label in read(write([f"({label} word)" for label in range(5)]))]
    assert labels == ["very negative", "negative", "neutral", "positive", "very positive"]


def test_phrases_of_at_least_min_tokens_are_read_besides_the_sentence(write):
    assert read(write(LINES), phrases=True) == [
        ("It 's a lovely film", "positive"),
        ("'s a lovely film", "very positive"),
        ("No .", "very negative"),
        ("It ( may and/or will end", "neutral"),
        ("( may and/or will end", "neutral"),
        ("( may and/or will", "negative"),
    ]


def test_all_phrases_down_to_single_words_are_read_with_min_tokens_1(write):
    assert Counter(read(write(LINES[1:2]), phrases=True, min_tokens=1)) == Counter(
        [("No .", "very negative"), ("No", "negative"), (".", "neutral")]
    )


def test_a_whole_sentence_is_kept_whatever_its_length(write):
    assert ("No .", "very negative") in read(write(LINES), phrases=True, min_tokens=100)


def test_min_tokens_doesnt_matter_without_phrases(write):
    assert read(write(LINES), min_tokens=100) == read(write(LINES), min_tokens=1)


def test_neutral_phrases_of_a_sentence_that_isnt_neutral_are_left_out_of_the_binary_task(write):
    assert read(write(LINES), granularity="2-class", phrases=True) == [
        ("It 's a lovely film", "positive"),
        ("'s a lovely film", "positive"),
        ("No .", "negative"),
        ("( may and/or will", "negative"),
    ]


def test_empty_lines_and_a_byte_order_mark_dont_count(write):
    assert read(write(["", LINES[1], "  ", ""], encoding="utf-8-sig")) == [("No .", "very negative")]


@pytest.mark.parametrize("line", ["(3 (2 It)", "(3 (2 It)))", "(3 (7 It))", "((2 It))", "(3 It) more"])
def test_a_broken_tree_is_named_by_file_and_line(write, line):
    with pytest.raises(ConfigurationError, match=r"trees.txt, line 3: broken tree: "):
        read(write([LINES[0], "", line, LINES[1]]))


def test_text_that_isnt_utf_8_is_named_by_file_and_line(write):
    with pytest.raises(ConfigurationError, match=r"trees.txt:2: this line isn.t UTF-8: .* at byte"):
        read(write([LINES[0], "(3 caf\u00e9)"], encoding="latin-1"))


@pytest.mark.parametrize("lines, granularity", [([], "5-class"), (["(2 word)"], "2-class")])
def test_a_file_without_a_labelled_sentence_is_refused(write, lines, granularity):
    with pytest.raises(ConfigurationError, match=r"trees.txt holds no labelled sentence"):
        read(write(lines), granularity=granularity)


def test_an_unknown_granularity_is_refused():
    with pytest.raises(ConfigurationError, match="one of '5-class', '2-class', not '3-class'"):
        reader(granularity="3-class")


def test_text_is_tokenised_and_tokens_stand_as_they_are():
    def tokens(text, **settings):
        return reader(**settings).text_to_instance(text)["metadata"].metadata["tokens"]

    assert tokens("It isn't (bad).") == ["It", "is", "n't", "(", "bad", ")", "."]
    assert tokens(["It", "isn't"]) == ["It", "isn't"]
    assert tokens([Token("It"), Token("isn't")]) == ["It", "isn't"]
    assert tokens("It isn't.", tokenizer={"type": "whitespace"}) == ["It", "isn't."]


def test_an_instance_without_a_label_has_none():
    assert "label" not in reader().text_to_instance("Fine.").fields


def test_workers_share_out_the_phrases(write):
    path = write(LINES)
    shares = []
    for worker in range(2):
        one = reader(phrases=True)
        one._set_worker_info(WorkerInfo(num_workers=2, id=worker))
        shares.append([labelled(instance) for instance in one.read(path)])
    assert [len(share) for share in shares] == [3, 3]
    assert sorted(shares[0] + shares[1]) == sorted(read(path, phrases=True))


def test_the_fixture_has_every_class_in_both_files(root):
    for name in ("train", "dev"):
        labels = {label for _, label in read(str(root / "fixtures" / "data" / "sst" / f"{name}.txt"))}
        assert len(labels) == 5
