import gzip
import json
import logging

import pytest
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader, Vocabulary
from allennlp.data.token_indexers import SingleIdTokenIndexer

from elmo_plugin.tasks.snli import SnliReader

PAIR = {
    "gold_label": "entailment",
    "sentence1": "Two cooks (in white) don't rest.",
    "sentence2": "They work.",
    "sentence1_binary_parse": "( ( ( Two cooks ) ( -LRB- ( ( in white ) -RRB- ) ) ) ( ( ( do n't ) rest ) . ) )",
    "sentence2_binary_parse": "( They ( work . ) )",
}


def write_jsonl(path, *pairs):
    path.write_text("".join(json.dumps(pair) + "\n" for pair in pairs), encoding="utf-8")
    return str(path)


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return str(path)


def read(path, **kwargs):
    return list(SnliReader(**kwargs).read(path))


def tokens(field):
    return [token.text for token in field]


def words(field):
    return " ".join(tokens(field))


def summary(instances):
    return [(words(each["premise"]), words(each["hypothesis"]), each["label"].label) for each in instances]


def test_reader_is_registered():
    assert isinstance(DatasetReader.from_params(Params({"type": "elmo::snli"})), SnliReader)


def test_raw_text_is_tokenised(tmp_path):
    (instance,) = read(write_jsonl(tmp_path / "a.jsonl", PAIR))
    assert tokens(instance["premise"]) == ["Two", "cooks", "(", "in", "white", ")", "do", "n't", "rest", "."]
    assert tokens(instance["hypothesis"]) == ["They", "work", "."]
    assert instance["label"].label == "entailment"


def test_leaves_of_the_parse_are_taken_with_their_brackets_unescaped(tmp_path):
    pair = {**PAIR, "sentence1": "not used", "sentence2": "not used"}
    (instance,) = read(write_jsonl(tmp_path / "a.jsonl", pair), tokens_from="parse")
    assert tokens(instance["premise"]) == ["Two", "cooks", "(", "in", "white", ")", "do", "n't", "rest", "."]
    assert tokens(instance["hypothesis"]) == ["They", "work", "."]


def test_pairs_without_a_gold_label_are_skipped_and_counted(tmp_path, caplog):
    path = write_jsonl(tmp_path / "a.jsonl", PAIR, {**PAIR, "gold_label": "-"}, PAIR, {**PAIR, "gold_label": "-"})
    with caplog.at_level(logging.INFO):
        assert len(read(path)) == 2
    assert f"{path}: skipped 2 pairs, which have no gold label" in caplog.text


def test_nothing_is_said_where_nothing_is_skipped(tmp_path, caplog):
    with caplog.at_level(logging.INFO):
        read(write_jsonl(tmp_path / "a.jsonl", PAIR))
    assert "skipped" not in caplog.text


def test_gzipped_file_reads_as_the_plain_one_whatever_its_name(tmp_path):
    plain = write_jsonl(tmp_path / "a.jsonl", PAIR, PAIR)
    for name in ("b.jsonl.gz", "c.jsonl"):
        (tmp_path / name).write_bytes(gzip.compress((tmp_path / "a.jsonl").read_bytes()))
        assert summary(read(str(tmp_path / name))) == summary(read(plain))


def test_fixtures_of_all_formats_hold_the_same_pairs(root):
    folder = root / "fixtures" / "data" / "snli"
    expected = summary(read(str(folder / "dev.jsonl")))
    assert summary(read(str(folder / "dev.tsv"))) == summary(read(str(folder / "dev.txt"))) == expected


def test_parse_and_text_of_the_fixtures_agree(root):
    path = str(root / "fixtures" / "data" / "snli" / "train.jsonl")
    assert summary(read(path, tokens_from="parse")) == summary(read(path))


def test_tsv_is_premise_hypothesis_label_by_default(tmp_path):
    path = write(tmp_path / "a.tsv", "A dog .\tA cat .\tneutral\n\nA hen .\tAn ox .\t-\n")
    assert summary(read(path)) == [("A dog .", "A cat .", "neutral")]


def test_tsv_columns_can_be_told_and_others_are_ignored(tmp_path):
    path = write(tmp_path / "a.tsv", "17\tneutral\tA cat .\tA dog .\n")
    assert summary(read(path, columns=["id", "label", "hypothesis", "premise"])) == [("A dog .", "A cat .", "neutral")]


def test_first_line_with_the_columns_names_is_no_pair(tmp_path):
    path = write(tmp_path / "a.tsv", "premise\thypothesis\tlabel\nA dog .\tA cat .\tneutral\n")
    assert len(read(path)) == 1


def test_format_can_be_told_where_the_name_does_not_tell(tmp_path):
    path = write(tmp_path / "pairs.dat", "A dog .\tA cat .\tneutral\n")
    assert len(read(path, file_format="tsv")) == 1
    with pytest.raises(ConfigurationError, match=r"pairs\.dat by its name.*file_format"):
        read(path)


OFFICIAL = (
    "gold_label\tsentence1_binary_parse\tsentence2_binary_parse\tsentence1_parse\tsentence2_parse\tsentence1\tsentence2"
    "\tcaptionID\tpairID\tlabel1\tlabel2\tlabel3\tlabel4\tlabel5\n"
    "neutral\t( A ( cat . ) )\t( It -LRB- ( purrs . ) )\t(S A)\t(S It)\tA cat.\tIt ( purrs.\t1#0\t1#0r1n\tneutral"
    "\t\t\t\t\n"
    "-\t( A )\t( B )\t(S A)\t(S B)\tA\tB\t2.jpg#0\t2.jpg#0r1n\tneutral\tentailment\t\t\t\n"
    'entailment\t( " Up " )\t( Up )\t(S)\t(S)\t"Up"\tUp\t3.jpg#0\t3.jpg#0r1e\tentailment\n'
)


def test_the_published_txt_reads_by_its_own_header(tmp_path):
    path = write(tmp_path / "snli_1.0_dev.txt", OFFICIAL)
    assert summary(read(path)) == [
        ("A cat .", "It ( purrs .", "neutral"),
        ('" Up "', "Up", "entailment"),
    ]
    assert summary(read(path, tokens_from="parse"))[0] == ("A cat .", "It ( purrs .", "neutral")


def test_a_line_too_short_for_the_named_columns_is_named(tmp_path):
    path = write(tmp_path / "a.txt", OFFICIAL + "neutral\tonly\tthree\n")
    with pytest.raises(ConfigurationError, match=r"a\.txt, line 5: expected 7 cells .* got 3"):
        read(path)


def test_pairs_with_no_word_on_a_side_are_skipped_and_counted(tmp_path, caplog):
    path = write(tmp_path / "a.tsv", "A cat\t \tneutral\nA cat\tIt\tneutral\n")
    with caplog.at_level(logging.INFO):
        assert len(read(path)) == 1
    assert "skipped 1 pairs, which have no word" in caplog.text


@pytest.mark.parametrize("text", ["", "\n\n", "premise\thypothesis\tlabel\n", "A\tB\t-\n"])
def test_a_file_without_a_labelled_pair_is_refused(tmp_path, text):
    with pytest.raises(ConfigurationError, match=r"a\.tsv holds no pair with a gold label"):
        read(write(tmp_path / "a.tsv", text))


def test_a_label_that_the_model_has_never_seen_is_named():
    instance = SnliReader().text_to_instance("A cat", "It", "neutral")
    vocab = Vocabulary({"labels": {"entailment": 1, "contradiction": 1}})
    with pytest.raises(ConfigurationError, match="label 'neutral', but .* only 'entailment', 'contradiction'"):
        instance["label"].index(vocab)


def test_labels_can_be_others(tmp_path):
    path = write(tmp_path / "a.tsv", "A dog .\tA cat .\tentails\n")
    assert summary(read(path, labels=["entails", "neutral"]))[0][2] == "entails"


@pytest.mark.parametrize(
    "line, complaint",
    [
        ('{"gold_label": "neutral", ', r"a\.jsonl, line 2: not JSON"),
        ('["neutral"]', r"a\.jsonl, line 2: expected an object with 'sentence1', got \['neutral'\]"),
        (
            json.dumps({**PAIR, "gold_label": "maybe"}),
            r"a\.jsonl, line 2: the label is 'maybe'.*'entailment', 'neutral'",
        ),
        (json.dumps({**PAIR, "sentence2": 7}), r"a\.jsonl, line 2: 'sentence2' must be a str, but is 7"),
        (
            json.dumps({key: value for key, value in PAIR.items() if key != "sentence1"}),
            r"a\.jsonl, line 2: 'sentence1' must be a str, but is missing; there are gold_label, sentence1_bina",
        ),
    ],
)
def test_errors_in_jsonl_name_file_and_line(tmp_path, line, complaint):
    path = write(tmp_path / "a.jsonl", json.dumps(PAIR) + "\n" + line + "\n")
    with pytest.raises(ConfigurationError, match=complaint):
        read(path)


def test_missing_parse_names_file_and_line(tmp_path):
    pair = {key: value for key, value in PAIR.items() if "parse" not in key}
    with pytest.raises(ConfigurationError, match=r"a\.jsonl, line 1: 'sentence1_binary_parse' must be a str"):
        read(write_jsonl(tmp_path / "a.jsonl", pair), tokens_from="parse")


@pytest.mark.parametrize(
    "line, complaint",
    [
        ("A dog .\tA cat .", r"line 2: expected 3 cells separated by tabs \(premise, hypothesis, label\), got 2"),
        ("A dog .\tA cat .\t", r"line 2: the label is ''"),
    ],
)
def test_errors_in_tsv_name_file_and_line(tmp_path, line, complaint):
    path = write(tmp_path / "a.tsv", "A dog .\tA cat .\tneutral\n" + line + "\n")
    with pytest.raises(ConfigurationError, match=r"a\.tsv, " + complaint):
        read(path)


def test_bytes_that_are_not_utf8_name_file_and_line(tmp_path):
    (tmp_path / "a.tsv").write_bytes(b"A dog .\tA cat .\tneutral\nA d\xff\tA cat .\tneutral\n")
    with pytest.raises(ConfigurationError, match=r"a\.tsv:2: this line isn.t UTF-8"):
        read(str(tmp_path / "a.tsv"))


def test_truncated_gzip_file_names_where_it_breaks(tmp_path):
    packed = gzip.compress("".join(f"A dog {i} .\tA cat .\tneutral\n" for i in range(9)).encode())
    (tmp_path / "a.tsv.gz").write_bytes(packed[:-12])
    with pytest.raises(ConfigurationError, match=r"a\.tsv\.gz:\d+: the gzip data is cut off"):
        read(str(tmp_path / "a.tsv.gz"))


@pytest.mark.parametrize(
    "arguments, complaint",
    [
        ({"tokens_from": "tree"}, "tokens_from must be"),
        ({"columns": ["premise", "label"]}, "columns must name 'premise', 'hypothesis', 'label' once each"),
        ({"columns": ["premise", "hypothesis", "label", "label"]}, "once each"),
        ({"file_format": "csv"}, "file_format must be"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(arguments, complaint):
    with pytest.raises(ConfigurationError, match=complaint):
        SnliReader(**arguments)


def test_parses_are_not_looked_for_in_tsv(tmp_path):
    with pytest.raises(ConfigurationError, match=r"a\.tsv, line 1: there are no parses"):
        read(write(tmp_path / "a.tsv", "A dog .\tA cat .\tneutral\n"), tokens_from="parse")


def test_tokens_are_taken_as_they_are():
    instance = SnliReader().text_to_instance(["don't", "a b"], "They work.")
    assert tokens(instance["premise"]) == ["don't", "a b"]
    assert instance["metadata"].metadata == {
        "premise_tokens": ["don't", "a b"],
        "hypothesis_tokens": ["They", "work", "."],
    }
    assert "label" not in instance.fields


def test_both_texts_get_the_indexers():
    reader = SnliReader(token_indexers={"words": SingleIdTokenIndexer()})
    instance = reader.text_to_instance("A dog.", "A cat.")
    reader.apply_token_indexers(instance)
    assert [list(instance[name].token_indexers) for name in ("premise", "hypothesis")] == [["words"], ["words"]]


def test_workers_share_the_labelled_pairs(tmp_path):
    from allennlp.data.dataset_readers.dataset_reader import WorkerInfo

    labels = ["-", "neutral", "-", "entailment", "contradiction"]
    path = write_jsonl(tmp_path / "a.jsonl", *({**PAIR, "gold_label": label} for label in labels))
    shares = []
    for worker in range(2):
        reader = SnliReader()
        reader._set_worker_info(WorkerInfo(num_workers=2, id=worker))
        shares.append([instance["label"].label for instance in reader.read(path)])
    assert shares == [["neutral", "contradiction"], ["entailment"]]
