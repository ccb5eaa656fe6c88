import gzip

import pytest
from allennlp.common.checks import ConfigurationError

from elmo_plugin.analysis.tagged_text import TaggedSentence, majority_tags, read_tagged


@pytest.fixture
def data(root):
    return root / "fixtures" / "data" / "pos"


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_ranges_and_empty_nodes_are_no_words(data):
    first, second, third = read_tagged(str(data / "train.conllu"))
    assert first == TaggedSentence(["The", "miller", "did", "n't", "sleep", "."], ["DT", "NN", "VBD", "RB", "VB", "."])
    assert second.tokens == ["A", "river", "runs", "slowly", "."]
    assert third.tokens[-1] == "."


def test_the_other_column_can_be_chosen(data):
    first, *_ = read_tagged(str(data / "train.conllu"), column="upos")
    assert first.tags == ["DET", "NOUN", "AUX", "PART", "VERB", "PUNCT"]


def test_a_sentence_without_a_blank_line_after_it_counts(tmp_path):
    path = write(tmp_path / "a.conllu", "1\tGo\tgo\tVERB\tVB\t_\t0\troot\t_\t_")
    assert list(read_tagged(path)) == [TaggedSentence(["Go"], ["VB"])]


def test_a_word_with_a_blank_inside_stays_one_token(tmp_path):
    path = write(tmp_path / "a.conllu", "1\t20 000\t_\tNUM\tCD\t_\t0\troot\t_\t_\n")
    assert list(read_tagged(path)) == [TaggedSentence(["20000"], ["CD"])]


def test_underscores_part_words_and_tags_and_brackets_are_plain(data):
    first, second = read_tagged(str(data / "tagged_underscore.txt"))
    assert first.tokens == ["The", "mills", "grind", "(", "slowly", ")", "."]
    assert first.tags == ["DT", "NNS", "VBP", "-LRB-", "RB", "-RRB-", "."]
    assert second == TaggedSentence(["A", "river"], ["DT", "NN"])


def test_slashes_part_words_and_tags_and_escaped_ones_are_plain(data):
    (sentence,) = read_tagged(str(data / "tagged_slash.txt"))
    assert sentence == TaggedSentence(["The", "1/2", "mills", "."], ["DT", "CD", "NNS", "."])


TREEBANK = """\
*x*x*x*x*x*x*x*x*x*x*x*x*x*
*x*  Copyright of nobody *x*

[ The/DT Fell/NNP Race/NNP ]
,/,
[ 3\\/4/CD miles/NNS ]
long/JJ|RB ,/, ``/`` ended/VBD
[ today/NN ] ./. ''/''
[ She/PRP ]
won/VBD -LRB-/-LRB- ?/. -RRB-/-RRB-
================================

[ RAIN/NN ]

No/DT one/NN minds/VBZ
"""


@pytest.mark.parametrize("name", ["race.pos", "race.pos.gz", "race.txt"])
def test_a_treebank_sentence_goes_on_to_its_full_stop_whatever_the_lines(tmp_path, name):
    data = TREEBANK.encode()
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    sentences = list(read_tagged(str(tmp_path / name)))
    assert [" ".join(sentence.tokens) for sentence in sentences] == [
        "The Fell Race , 3/4 miles long , `` ended today . ''",
        "She won ( ? )",
        "RAIN",
        "No one minds",
    ]
    assert sentences[0].tags == "DT NNP NNP , CD NNS JJ , `` VBD NN . ''".split()


@pytest.mark.parametrize("name", ["a.pos", "a.txt"])
def test_a_token_keeps_its_no_break_space_and_stars_lose_their_escapes(tmp_path, name):
    (sentence,) = read_tagged(write(tmp_path / name, "2\xa01\\/2/CD \\*/SYM\u2028/SYM\n"))
    assert sentence == TaggedSentence(["2\xa01/2", "*/SYM\u2028"], ["CD", "SYM"])


def test_a_token_without_a_tag_in_a_treebank_is_named(tmp_path):
    with pytest.raises(ConfigurationError, match=r"a.pos:2: 'mill' isn't 'word/TAG'"):
        list(read_tagged(write(tmp_path / "a.pos", "[ The/DT\nmill ]\n")))


def test_all_files_below_a_folder_are_read_in_order(tmp_path):
    (tmp_path / "empty").mkdir()
    for name in ("b/x.pos", "a/y.pos", "a/readme.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        write(tmp_path / name, f"{name}/NN\n")
    assert [tokens for tokens, _ in read_tagged(str(tmp_path))] == [["a/y.pos"], ["b/x.pos"]]
    with pytest.raises(ConfigurationError, match="holds no file whose name ends with .conllu or .pos"):
        list(read_tagged(str(tmp_path / "empty")))


def test_sentences_with_an_untagged_word_are_left_out_and_counted(tmp_path, caplog):
    tagged, untagged = (f"1\tGo\tgo\tVERB\t{tag}\t_\t0\troot\t_\t_\n" for tag in ("VB", "_"))
    path = write(tmp_path / "a.conllu", f"{tagged}\n{untagged}\n{tagged}")
    assert len(list(read_tagged(path))) == 2
    assert f"left out 1 of 3 sentences; {path}:3: the word 'Go' has no tag" in caplog.text


def test_another_encoding_is_read_if_it_is_named(tmp_path):
    (tmp_path / "a.txt").write_bytes("Café/NN".encode("latin-1"))
    assert next(read_tagged(str(tmp_path / "a.txt"), encoding="latin-1")).tokens == ["Café"]


def test_gzipped_conllu_is_known_by_its_name(data, tmp_path):
    (tmp_path / "a.conllu.gz").write_bytes(gzip.compress((data / "dev.conllu").read_bytes()))
    assert list(read_tagged(str(tmp_path / "a.conllu.gz"))) == list(read_tagged(str(data / "dev.conllu")))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.conllu", "# x\n1\tGo\tgo\n", r"a.conllu:2: a line of CoNLL-U has 10 columns separated by tabs, .* has 3"),
        ("a.conllu", "1\tGo\t_\tVERB\t_\t_\t_\t_\t_\t_\n", r"a.conllu:1: the word 'Go' has no tag in the column xpos"),
        ("a.conllu", "# nothing\n\n", r"a.conllu: this file has no tagged sentences"),
        ("a.txt", "", r"a.txt: this file has no tagged sentences"),
        ("a.txt", "The_DT mill\n", r"a.txt:1: 'mill' isn't 'word_TAG'"),
        ("a.txt", "\nThe mill\n", r"a.txt:2: 'The' is neither 'word_TAG' nor 'word/TAG'"),
        ("a.txt", "The_DT _NN\n", r"a.txt:1: '_NN' isn't 'word_TAG'"),
    ],
)
def test_what_is_wrong_is_named_by_file_and_line(tmp_path, name, text, message):
    path = write(tmp_path / name, text)
    with pytest.raises(ConfigurationError, match=message):
        list(read_tagged(path))


def test_unknown_formats_and_columns_are_refused():
    with pytest.raises(ConfigurationError, match="the format must be one of auto, conllu, tagged, treebank, not 'xml'"):
        next(read_tagged("a", "xml"))
    with pytest.raises(ConfigurationError, match="the column must be one of upos, xpos, not 'lemma'"):
        next(read_tagged("a", column="lemma"))


def test_an_unseen_word_is_taken_for_one_that_was_seen_once():
    majority = majority_tags(
        [
            TaggedSentence(["the", "the", "run", "run", "run"], ["DT", "DT", "VB", "NN", "VB"]),
            TaggedSentence(["the", "mill"], ["DT", "NN"]),
        ]
    )
    assert majority.guess("run") == "VB"
    assert majority.guess("brook") == "NN"
    assert majority.of_all == "DT"


def test_of_equally_frequent_tags_the_first_in_the_alphabet_wins():
    majority = majority_tags([TaggedSentence(["run", "run"], ["VB", "NN"])])
    assert majority.guess("run") == "NN"
