import errno

import h5py
import numpy
import pytest

from elmo_plugin.embedding import hdf5_file
from elmo_plugin.embedding.hdf5_file import new_hdf5_file


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
    """A disk with room for so many writes."""

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
