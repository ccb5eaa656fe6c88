import gzip
import zipfile

import numpy
import pytest
from allennlp.common.checks import ConfigurationError

from elmo_plugin.text import vectors_file
from elmo_plugin.text.vectors_file import read_vectors

LINES = "the 0.5 -1 2e-3\nZürich 1 2 3\n. . . 4 5 6\n"
WORDS = ["the", "Zürich", ". . ."]


def read(path, dim=3):
    blocks = list(read_vectors(str(path), dim))
    return [word for block in blocks for word in block.words], numpy.concatenate([block.vectors for block in blocks])


@pytest.fixture
def write(tmp_path):
    def write_file(content, name="vectors.txt"):
        (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
        return tmp_path / name

    return write_file


def test_words_and_vectors_are_read_and_words_may_hold_spaces(write):
    words, vectors = read(write(LINES))
    assert words == WORDS
    assert vectors.dtype == numpy.float32
    numpy.testing.assert_allclose(vectors, [[0.5, -1, 2e-3], [1, 2, 3], [4, 5, 6]])


@pytest.mark.parametrize("block_size", [1, 2, 3])
def test_blocks_hold_all_lines(write, monkeypatch, block_size):
    monkeypatch.setattr(vectors_file, "_LINES_PER_BLOCK", block_size)
    assert read(write(LINES))[0] == WORDS


@pytest.mark.parametrize(
    "text",
    [
        "3 3\n" + LINES,  # word2vec's and fastText's first line
        LINES.replace("\n", " \n"),  # fastText's lines end with a space
        LINES.replace("\n", "\r\n"),
        LINES.replace(" 1 2 3", "\t1\t2\t3"),
        LINES.replace(" 1 2 3", "  1  2 3"),
        "\ufeff" + LINES,
        LINES + "\n\n",
        LINES.rstrip("\n"),
    ],
)
def test_other_writings_are_read_too(write, text):
    words, vectors = read(write(text))
    assert words == WORDS and vectors[1].tolist() == [1, 2, 3]


@pytest.mark.parametrize("text", [LINES, "3 3\n" + LINES, LINES.replace(" ", "\t", 1)])
def test_without_a_number_of_dimensions_the_first_vectors_counts(write, text):
    words, vectors = read(write(text), dim=None)
    assert words == WORDS and vectors.shape == (3, 3)
    with pytest.raises(
        ConfigurationError, match=r"vectors.txt, line \d: expected a word and 3 numbers, got 2 after 'a'"
    ):
        read(write(text + "a 1 2\n"), dim=None)


def test_only_the_lines_of_some_words_are_parsed(write):
    path = write(LINES + "broken one two three\n")
    (block,) = read_vectors(str(path), only={"Zürich"})
    assert block.words == ["Zürich"] and block.vectors.tolist() == [[1, 2, 3]]
    assert list(read_vectors(str(path), only={"unknown"})) == []


def test_a_no_break_space_belongs_to_its_word(write):
    assert read(write("a\u00a0b 1 2 3\nc\u2028 1 2 3\n"))[0] == ["a\u00a0b", "c\u2028"]


def test_gzipped_and_zipped_files_are_read_by_their_content(write, tmp_path):
    assert read(write(gzip.compress(LINES.encode()), "vectors"))[0] == WORDS
    with zipfile.ZipFile(tmp_path / "one.zip", "w") as archive:
        archive.writestr("vectors.txt", LINES)
    assert read(tmp_path / "one.zip")[0] == WORDS


def test_a_file_of_a_zip_of_several_is_named(tmp_path):
    with zipfile.ZipFile(tmp_path / "two.zip", "w") as archive:
        archive.writestr("50d.txt", "the 1 2\n")
        archive.writestr("300d.txt", LINES)
    assert read(f"({tmp_path}/two.zip)#300d.txt")[0] == WORDS
    with pytest.raises(ConfigurationError, match=r"holds 2 files \(50d.txt, 300d.txt\); name the one .*#50d.txt"):
        read(tmp_path / "two.zip")


@pytest.mark.parametrize(
    "content, complaint",
    [
        ("the 1 2 3\na 1 2\n", "vectors.txt, line 2: expected a word and 3 numbers, got 2 after 'a'; set the embed"),
        ("the 1 2 3 4\n", "vectors.txt, line 1: expected a word and 3 numbers, got 4 after 'the'"),
        ("the 1 2 3\n\na 1 x 3\n", "vectors.txt, line 3: 'x' isn't a number that a word vector can have"),
        ("the 1 2 nan\n", "vectors.txt, line 1: 'nan' isn't a number"),
        ("the 1 2 -1e9\n", "vectors.txt, line 1: '-1e9' isn't a number"),
        ("2 100\nthe 1 2 3\n", "line 1: the vectors have 100 dimensions, but the embedding_dim is 3; set it"),
        ("", "vectors.txt holds no word vectors; expected lines of a word and 3 numbers"),
        ("7 3\n", "vectors.txt holds no word vectors"),
        ("\n \n", "vectors.txt holds no word vectors"),
        ("the 1 2 3\nna\u00efve 1 2 3\n".encode("latin-1"), "vectors.txt:2: this line isn't UTF-8.*iconv"),
        (gzip.compress(LINES.encode())[:-12], "vectors.txt:.*the gzip data is cut off or damaged"),
    ],
)
def test_what_cannot_be_read_is_named(write, content, complaint):
    with pytest.raises(ConfigurationError, match=complaint):
        read(write(content))


def test_a_missing_file_is_named():
    with pytest.raises(ConfigurationError, match="there is no file of word vectors nowhere.txt"):
        read("nowhere.txt")
