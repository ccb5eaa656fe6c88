import numpy
import pytest
from allennlp.common.checks import ConfigurationError

from elmo_plugin.text.vector_table import TableBuilder, VectorTable, word_key

WORDS = ["the", "Zürich", "東京", "the", ". . ."]
VECTORS = numpy.arange(10, dtype=numpy.float32).reshape(5, 2) / 4


@pytest.fixture
def table():
    with TableBuilder() as builder:
        builder.add(WORDS[:3], VECTORS[:3])
        builder.add(WORDS[3:], VECTORS[3:])
        return builder.finish()


def test_keys_are_negative_and_the_same_everywhere():
    assert word_key("the") == -1665570760474094896
    assert all(-(2**63) <= word_key(word) < 0 for word in (*WORDS, "", "\ud800"))


def test_words_are_found_by_their_keys_and_others_are_not(table):
    found = table.find_words(["東京", "nowhere", "the", ". . .", "The"])
    assert found.is_found.tolist() == [True, False, True, True, False]
    # Of two vectors of "the", the first.
    assert found.vectors.tolist() == [VECTORS[2].tolist(), VECTORS[0].tolist(), VECTORS[4].tolist()]
    assert len(table) == 4


def test_looking_up_nothing_finds_nothing(table):
    found = table.find_words([])
    assert found.is_found.shape == (0,) and found.vectors.shape == (0, 2)


def test_a_saved_table_is_opened_again_and_outlives_its_files(table, tmp_path):
    table.save(tmp_path / "tables")
    opened = VectorTable.open(tmp_path / "tables", table.digest, 2)
    for file in (tmp_path / "tables").iterdir():
        file.unlink()
    found = opened.find_words(["Zürich"])
    assert found.vectors.tolist() == [VECTORS[1].tolist()]


def test_tables_in_one_folder_are_told_apart_by_their_content(table, tmp_path):
    with TableBuilder(tmp_path) as builder:
        builder.add(["the"], VECTORS[1:2])
        other = builder.finish()
    for each in (table, other, table):
        each.save(tmp_path / "tables")
    assert len(list((tmp_path / "tables").iterdir())) == 4
    assert VectorTable.open(tmp_path / "tables", other.digest, 2).find_words(["the"]).vectors.tolist() == [[0.5, 0.75]]


def test_a_folder_that_is_not_there_yet_is_done_without(tmp_path):
    with TableBuilder(tmp_path / "nowhere") as builder:
        builder.add(["the"], VECTORS[:1])
        assert len(builder.finish()) == 1


def test_vectors_are_kept_in_half_precision():
    with TableBuilder() as builder:
        builder.add(["pi"], numpy.array([[3.14159274]], dtype=numpy.float32))
        (vector,) = builder.finish().find_words(["pi"]).vectors
    assert vector.dtype == numpy.float32 and abs(vector[0] - 3.14159274) < 3.2 * 2**-11


def cut(file):
    file.write_bytes(file.read_bytes()[:-2])


@pytest.mark.parametrize("spoil", [cut, lambda file: file.unlink(), lambda file: file.write_bytes(b"")])
@pytest.mark.parametrize("pattern", ["*.float16", "*.npy"])
def test_a_damaged_table_is_refused(table, tmp_path, spoil, pattern):
    table.save(tmp_path)
    (file,) = tmp_path.glob(pattern)
    spoil(file)
    with pytest.raises(ConfigurationError, match=f"the word vectors '{table.digest}' in .* are damaged"):
        VectorTable.open(tmp_path, table.digest, 2)


def test_a_table_is_named_by_its_digest_and_never_by_a_path(tmp_path):
    with pytest.raises(ConfigurationError, match="the word vectors '../other' in .* are damaged"):
        VectorTable.open(tmp_path, "../other", 2)
