import errno

import h5py
import numpy
import pytest

from elmo_plugin.embedding import hdf5_file
from elmo_plugin.embedding.hdf5_file import GrowingHdf5File, new_hdf5_file


def test_the_file_appears_when_it_is_complete(tmp_path):
    with new_hdf5_file(tmp_path / "out.hdf5") as (file, check):
        file["a"] = numpy.arange(3)
        check()
        assert not (tmp_path / "out.hdf5").exists()
    with h5py.File(tmp_path / "out.hdf5") as file:
        assert file["a"][...].tolist() == [0, 1, 2]
    assert len(list(tmp_path.iterdir())) == 1


def test_a_block_that_fails_leaves_no_file(tmp_path):
    with pytest.raises(KeyError), new_hdf5_file(tmp_path / "out.hdf5") as (file, _):
        file["a"] = 1
        raise KeyError
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def full_disk(monkeypatch):
    """A disk with room for this many writes."""

    class Disk(hdf5_file._Sink):
        num_writes = 0

        def write(self, data):
            Disk.num_writes += 1
            if Disk.num_writes > 3 and self._error is None:
                self._error = OSError(errno.ENOSPC, "No space left on device")
            return super().write(data)

    monkeypatch.setattr(hdf5_file, "_Sink", Disk)


def test_an_error_is_raised_when_asked_for(tmp_path, full_disk):
    with (
        pytest.raises(OSError, match="No space left on device: .*out.hdf5"),
        new_hdf5_file(tmp_path / "out.hdf5") as (
            file,
            check,
        ),
    ):
        for name in range(100):
            file[str(name)] = numpy.zeros(1000)
            check()
    assert list(tmp_path.iterdir()) == []


def test_an_error_is_raised_at_the_end_if_nobody_asked(tmp_path, full_disk):
    with pytest.raises(OSError, match="No space left"), new_hdf5_file(tmp_path / "out.hdf5") as (file, _):
        for name in range(100):
            file[str(name)] = numpy.zeros(1000)
    assert list(tmp_path.iterdir()) == []


def append(file, number):
    """A piece that also changes what earlier pieces have left: the root group's table of contents."""
    with file.piece() as (output, check):
        for name in range(20 * number, 20 * number + 20):
            output.create_dataset(str(name), data=numpy.full(100, name))
            check()


def names_in(path):
    with h5py.File(path) as file:
        assert all((file[name][...] == int(name)).all() for name in file)
        return len(file)


def test_a_file_grows_piece_by_piece(tmp_path):
    with GrowingHdf5File(tmp_path / "file") as file:
        for number in range(10):
            append(file, number)
            file.accept()
    assert names_in(tmp_path / "file") == 200


@pytest.mark.parametrize("num_pieces", [1, 2, 7])
def test_a_piece_that_was_not_accepted_is_made_or_undone_as_the_record_says(tmp_path, num_pieces):
    with GrowingHdf5File(tmp_path / "file") as file:
        for number in range(num_pieces):
            append(file, number)
            changes = file.changes()
            file.accept()
        append(file, num_pieces)
        later_changes = file.changes()
    undone, made = tmp_path / "undone", tmp_path / "made"
    for path, record in ((undone, changes), (made, later_changes)):
        path.write_bytes((tmp_path / "file").read_bytes())
        with GrowingHdf5File(path) as file:
            file.restore(record)
    assert names_in(undone) == 20 * num_pieces and names_in(made) == 20 * (num_pieces + 1)
    with GrowingHdf5File(undone) as file:
        file.restore(changes)
        append(file, num_pieces)
        file.accept()
    assert undone.read_bytes() == made.read_bytes()


def test_earlier_pieces_stay_as_they_are_until_the_changes_are_accepted(tmp_path):
    with GrowingHdf5File(tmp_path / "file") as file:
        append(file, 0)
        file.accept()
        before = (tmp_path / "file").read_bytes()
        append(file, 1)
        assert (tmp_path / "file").read_bytes()[: len(before)] == before
        assert len(file.changes()["places"]) > 0


def test_a_file_that_lost_bytes_is_not_restored(tmp_path):
    with GrowingHdf5File(tmp_path / "file") as file:
        append(file, 0)
        changes = file.changes()
        file.accept()
    (tmp_path / "file").write_bytes(b"short")
    with GrowingHdf5File(tmp_path / "file") as file, pytest.raises(OSError, match="shorter than the"):
        file.restore(changes)
