import numpy
import pytest
from allennlp.common.checks import ConfigurationError

from elmo_plugin.analysis.sense_averages import AveragesFile, SenseAverages

BANK = ("bank", "NOUN")


def test_the_nearest_sense_is_that_with_the_highest_cosine_at_each_layer():
    averages = SenseAverages({BANK: {"a", "b"}})
    # At layer 0 b is far longer but lies aside; at layer 1 it is the other way round.
    averages.add(BANK, ["a"], numpy.array([[1.0, 0.1], [0.0, 5.0]]))
    averages.add(BANK, ["b"], numpy.array([[50.0, 50.0], [1.0, 0.0]]))
    assert averages.nearest(BANK, numpy.array([[2.0, 0.0], [2.0, 0.1]])) == ["a", "b"]


def test_lemmas_are_kept_apart_even_where_they_share_a_key():
    other = ("savings_bank", "NOUN")
    averages = SenseAverages({BANK: {"x", "y"}, other: {"x", "z"}})
    averages.add(BANK, ["x"], numpy.array([[1.0, 0.0]]))
    averages.add(BANK, ["y"], numpy.array([[0.0, 1.0]]))
    averages.add(other, ["x"], numpy.array([[0.0, 1.0]]))
    averages.add(other, ["z"], numpy.array([[1.0, 0.0]]))
    assert averages.nearest(BANK, numpy.array([[1.0, 0.0]])) == ["x"]
    assert averages.nearest(other, numpy.array([[1.0, 0.0]])) == ["z"]


def test_saved_averages_are_loaded_as_they_were(tmp_path):
    averages = SenseAverages({BANK: {"a", "b"}})
    averages.add(BANK, ["a"], numpy.array([[1.0, 0.0]]))
    file = AveragesFile(tmp_path / "cache", {"bilm": "x"})
    assert file.load(SenseAverages({BANK: {"a", "b"}})) == 0
    file.save(averages, 7)
    again = SenseAverages({BANK: {"a", "b"}})
    assert file.load(again) == 7
    assert numpy.array_equal(again.sums, averages.sums)


def test_so_are_averages_of_nothing(tmp_path):
    file = AveragesFile(tmp_path, {"text": "x"})
    file.save(SenseAverages({BANK: {"a"}}), 3)
    averages = SenseAverages({BANK: {"a"}})
    assert file.load(averages) == 3
    averages.add(BANK, ["a"], numpy.array([[1.0, 2.0]]))
    assert averages.sums.tolist() == [[[1.0, 2.0]]]


def test_averages_of_something_else_are_refused_by_name(tmp_path):
    AveragesFile(tmp_path, {"text": "one"}).save(SenseAverages({BANK: {"a"}}), 1)
    with pytest.raises(ConfigurationError, match="was started with text 'one', and this is 'other'"):
        AveragesFile(tmp_path, {"text": "other"}).load(SenseAverages({BANK: {"a"}}))


@pytest.mark.parametrize("content", [b"", b"no zip", b"PK\x03\x04 cut"])
def test_a_damaged_file_is_refused_by_name(tmp_path, content):
    (tmp_path / "averages.npz").write_bytes(content)
    with pytest.raises(ConfigurationError, match="averages.npz can't be read.*remove .* to start over"):
        AveragesFile(tmp_path, {"text": "x"}).load(SenseAverages({BANK: {"a"}}))


def test_averages_of_other_senses_are_refused(tmp_path):
    file = AveragesFile(tmp_path, {"text": "x"})
    averages = SenseAverages({BANK: {"a", "b"}})
    averages.add(BANK, ["a"], numpy.array([[1.0, 0.0]]))
    file.save(averages, 1)
    with pytest.raises(ConfigurationError, match=r"sums of shape \(1, 2, 2\) for 3 senses"):
        file.load(SenseAverages({BANK: {"a", "b", "c"}}))
