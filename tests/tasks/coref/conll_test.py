import gzip

import pytest
from allennlp.common.checks import ConfigurationError

from elmo_plugin.tasks.coref.conll import coreference_column, format_document, read_documents

TWO_PARTS = """#begin document (nw/a/00/a_0001); part 000
nw/a/00/a_0001 0 0 Ada NNP (TOP* - - - Bo * (0
nw/a/00/a_0001 0 1 Byron NNP * - - - Bo * 0)
nw/a/00/a_0001 0 2 left VBD *) - - - Bo * -

nw/a/00/a_0001 0 0 Her PRP$ (TOP* - - - Cy * (1|(0)
nw/a/00/a_0001 0 1 hat NN * - - - Cy * 1)
nw/a/00/a_0001 0 2 fell VBD *) - - - Cy * -

#end document
#begin document (nw/a/00/a_0001); part 001
nw/a/00/a_0001\t1\t0\tNobody\tNN\t(TOP*)\t-\t-\t-\t-\t*\t-

#end document
"""


@pytest.fixture
def write(tmp_path):
    def write(text, name="data.conll"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8"))
        return str(path)

    return write


def document(*columns):
    """A document of one sentence whose words have these in their last columns."""
    lines = [f"d 0 {number} w{number} {column}" for number, column in enumerate(columns)]
    return "\n".join(["#begin document (d); part 000", *lines, "", "#end document", ""])


def clusters(path):
    (only,) = read_documents(path)
    return only.clusters


def test_parts_sentences_speakers_and_clusters_are_read(write):
    first, second = read_documents(write(TWO_PARTS))
    assert (first.id, first.part) == ("nw/a/00/a_0001", 0)
    assert first.sentences == [["Ada", "Byron", "left"], ["Her", "hat", "fell"]]
    assert first.speakers == [["Bo"] * 3, ["Cy"] * 3]
    assert first.clusters == [[(0, 1), (3, 3)], [(3, 4)]]
    assert (second.part, second.sentences, second.clusters) == (1, [["Nobody"]], [])


def test_gzipped_files_are_read(write):
    assert len(list(read_documents(write(gzip.compress(TWO_PARTS.encode()), "any_name")))) == 2


def test_windows_line_ends_a_byte_order_mark_and_a_missing_part_do_no_harm(write):
    text = "\ufeff#begin document (d)\r\nd 0 0 a\u00a0b (3)\r\n\r\n#end document\r\n"
    (only,) = read_documents(write(text))
    assert (only.id, only.part, only.sentences, only.clusters) == ("d", 0, [["a\u00a0b"]], [[(0, 0)]])


def test_nested_mentions_of_one_cluster_close_from_the_inside(write):
    assert clusters(write(document("(0", "(0", "0)", "0)"))) == [[(0, 3), (1, 2)]]


def test_crossing_mentions_of_two_clusters_are_kept(write):
    assert clusters(write(document("(0", "(1", "0)", "1)"))) == [[(0, 2)], [(1, 3)]]


def test_clusters_are_in_the_order_in_which_the_official_scorer_meets_them(write):
    path = write(document("(7|(5|(9)", "5)", "7)|(2)|(4", "4)", "(9)"))
    assert clusters(path) == [[(0, 0), (4, 4)], [(0, 2)], [(0, 1)], [(2, 2)], [(2, 3)]]


def test_the_same_words_may_be_mentions_of_two_clusters_or_twice_of_one(write):
    assert clusters(write(document("(0|(1", "0)|1)", "(2)|(2)"))) == [[(0, 1)], [(0, 1)], [(2, 2), (2, 2)]]


def test_a_mention_may_go_on_in_the_next_sentence(write):
    text = "#begin document (d); part 000\nd 0 0 a (0\n\nd 0 0 b 0)\n\n#end document\n"
    assert clusters(write(text)) == [[(0, 1)]]


@pytest.mark.parametrize(
    "text, message",
    [
        (document("(0", "-"), r"line 2: the mention '\(0' that opens here never closes"),
        (document("-", "0)"), r"line 3: '0\)' closes a mention of 0 that was never opened"),
        (document("(0", "1)"), r"line 3: '1\)' closes a mention of 1"),
        (document("0"), "line 2: '0' isn't a mention's bracket"),
        (document("(0||0)"), "line 2: '' isn't a mention's bracket"),
        (document("(0)1)"), r"line 2: '\(0\)1\)' isn't a mention's bracket"),
        ("#begin document (d); part 000\nd 0 0 a\n", "line 2: expected 5 columns or more.*got 4"),
        ("d 0 0 a -\n", "line 1: expected '#begin document"),
        ("#begin document d\n", "line 1: expected '#begin document"),
        ("#end document\n", "line 1: a document ends here, but none has begun"),
        ("#begin document (d); part 000\n#begin document (e); part 000\n", "line 2: .*has no '#end document'"),
        ("#begin document (d); part 000\nd 0 0 a -\n", "line 2: the file ends, but its last document doesn't"),
        ("#begin document (d); part 000\n\n#end document\n", "line 3: the document d ends, but holds no word"),
        (b"#begin document (d); part 000\nd 0 0 \xf8 -\n", ":2: this line isn.t UTF-8"),
        (gzip.compress(TWO_PARTS.encode())[:-20], "the gzip data is cut off"),
    ],
)
def test_what_is_wrong_in_a_file_is_named_with_its_line(write, text, message):
    with pytest.raises(ConfigurationError, match=f"data.conll.*{message}"):
        list(read_documents(write(text)))


def test_a_written_document_is_read_as_it_was(write):
    sentences = [["Ada", "Byron", "left"], ["Her", "hat", "fell"]]
    expected = [[(0, 2), (3, 5)], [(0, 1), (3, 3)], [(3, 4), (5, 5)]]
    (only,) = read_documents(write(format_document("x/y", 7, sentences, expected)))
    assert (only.id, only.part, only.sentences, only.clusters) == ("x/y", 7, sentences, expected)


def test_longer_mentions_open_first_and_close_last():
    column = coreference_column(4, [[[0, 3], [3, 3]], [[0, 1]], [[2, 3]]])
    assert column == ["(0|(1", "1)", "(2", "(0)|2)|0)"]


def test_a_mention_outside_of_the_document_cant_be_written():
    with pytest.raises(ValueError, match=r"1\.\.2 isn't within the document's 2 words"):
        coreference_column(2, [[[1, 2]]])
