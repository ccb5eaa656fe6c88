import logging
import os
import random

import pytest
from allennlp.common.checks import ConfigurationError

from elmo_plugin.bilm.layer_store import LayerStore

ROOM = 2**20
ENTRIES = {bytes([65 + number]) * 16: memoryview(bytes([number]) * (50 + number)) for number in range(8)}
KEYS = list(ENTRIES)


def put(store, keys, room=ROOM):
    return store.put({key: ENTRIES[key] for key in keys}, room)


def assert_holds(store, keys):
    """That what is asked for is exactly this."""
    assert store.get(KEYS) == {key: bytearray(ENTRIES[key]) for key in keys}


@pytest.fixture
def path(tmp_path):
    """A folder with four entries."""
    put(LayerStore(str(tmp_path / "cache")), KEYS[:4])
    return tmp_path / "cache"


@pytest.fixture
def warnings(caplog):
    """What was warned of so far."""
    caplog.set_level(logging.WARNING, "elmo_plugin.bilm.layer_store")
    return lambda: [record.message for record in caplog.records]


def in_a_fork(function):
    process_id = os.fork()
    if process_id == 0:
        succeeded = False
        try:
            function()
            succeeded = True
        finally:
            os._exit(0 if succeeded else 1)
    assert os.waitpid(process_id, 0)[1] == 0


def test_entries_are_found_again_and_more_are_added(path, warnings):
    store = LayerStore(str(path))
    assert_holds(store, KEYS[:4])
    put(store, KEYS[2:])
    for each in (store, LayerStore(str(path))):
        assert_holds(each, KEYS)
    assert not warnings()


def test_an_entry_that_is_there_is_not_written_again(path):
    before = LayerStore(str(path)).num_bytes
    put(LayerStore(str(path)), KEYS[:4])
    assert LayerStore(str(path)).num_bytes == before


def test_the_folder_stays_within_its_bounds_whoever_writes(path):
    bound = LayerStore(str(path)).num_bytes + 2 * (60 + 32) + 32  # the second file has a row before its first
    first, second = LayerStore(str(path)), LayerStore(str(path))
    assert put(first, KEYS[4:5], bound)
    assert not put(second, KEYS[5:], bound)
    assert_holds(first, KEYS[:6])
    assert first.num_bytes <= bound


def test_two_stores_at_once_write_to_files_of_their_own_and_read_each_other_s(path):
    first, second = LayerStore(str(path)), LayerStore(str(path))
    for number in range(4, 8):
        put((first, second)[number % 2], [KEYS[number]])
        assert_holds(first, KEYS[: number + 1])
        assert_holds(second, KEYS[: number + 1])
    assert {file.name for file in path.iterdir()} == {"0.index", "0.entries", "1.index", "1.entries"}


def test_a_forked_process_writes_to_a_file_of_its_own(path):
    store = LayerStore(str(path))
    put(store, KEYS[4:5])
    in_a_fork(lambda: put(store, KEYS[5:7]))
    put(store, KEYS[7:])
    assert_holds(store, KEYS)
    assert (path / "1.index").exists()


def test_a_writer_that_ends_leaves_its_file_to_the_next(path):
    for key in KEYS[4:]:
        put(LayerStore(str(path)), [key])
    assert {file.name for file in path.iterdir()} == {"0.index", "0.entries"}


@pytest.mark.parametrize("num_bytes", [1, 31, 33])
def test_a_row_that_was_not_finished_is_written_over(path, warnings, num_bytes):
    with open(path / "0.index", "r+b") as index:
        index.truncate(index.seek(0, os.SEEK_END) - num_bytes)
    store = LayerStore(str(path))
    remaining = KEYS[:3] if num_bytes < 33 else KEYS[:2]
    assert_holds(store, remaining)
    put(store, KEYS[6:])
    for each in (store, LayerStore(str(path))):
        assert_holds(each, remaining + KEYS[6:])
    assert not warnings()


def test_entries_without_rows_are_written_over(path, warnings):
    with open(path / "0.entries", "ab") as entries:
        entries.write(b"of a process that was killed")
    put(LayerStore(str(path)), KEYS[4:])
    assert_holds(LayerStore(str(path)), KEYS)
    assert not warnings()


def test_no_damage_costs_more_than_what_is_damaged(path, warnings, caplog):
    """Any byte changed and any length: what is found is what was written, and the store goes on."""
    rng = random.Random(0)
    originals = {file: file.read_bytes() for file in path.iterdir()}
    for _ in range(300):
        for file, content in originals.items():
            file.write_bytes(content)
        file = rng.choice(sorted(originals))
        content = bytearray(originals[file])
        if rng.random() < 0.5:
            content[rng.randrange(len(content))] ^= rng.randrange(1, 256)
        else:
            del content[rng.randrange(len(content)) :]
        file.write_bytes(content)
        caplog.clear()
        store = LayerStore(str(path))
        found = store.get(KEYS)
        assert all(bytes(found[key]) == bytes(ENTRIES[key]) for key in found)
        assert put(store, KEYS)
        assert_holds(store, KEYS)
        assert_holds(LayerStore(str(path)), KEYS)
        assert len(warnings()) <= 1
        for leftover in path.glob("*.unsound"):
            leftover.unlink()


def test_damage_is_put_aside_with_one_warning(path, warnings):
    (path / "0.index").write_bytes(b"something else, of more than thirty-two bytes")
    store = LayerStore(str(path))
    assert_holds(store, [])
    put(store, KEYS[:1])
    assert_holds(LayerStore(str(path)), KEYS[:1])
    (warning,) = warnings()
    assert str(path) in warning and "doesn't begin as one does" in warning
    assert (path / "0.index.unsound").exists() and (path / "0.entries.unsound").exists()


@pytest.mark.parametrize("name", ["0.index", "0.entries"])
def test_a_file_that_another_process_cuts_short_is_noticed_in_use(path, warnings, name):
    store = LayerStore(str(path))
    put(store, KEYS[4:6])
    os.truncate(path / name, 40)
    assert KEYS[3] not in store.get(KEYS)
    put(store, KEYS)
    assert_holds(store, KEYS)
    assert len(warnings()) == 1


def test_a_folder_in_a_file_s_place_is_put_aside(path, warnings):
    (path / "0.entries").unlink()
    (path / "0.entries").mkdir()
    store = LayerStore(str(path))
    put(store, KEYS[4:])
    assert_holds(store, KEYS[4:])
    assert len(warnings()) == 1


def test_what_can_neither_be_read_nor_renamed_is_left_alone(path, warnings, monkeypatch):
    (path / "0.index").write_bytes(b"?" * 64)

    def refuse(*args):
        raise PermissionError("not yours")

    monkeypatch.setattr(os, "replace", refuse)
    store = LayerStore(str(path))
    put(store, KEYS[4:])
    assert_holds(store, KEYS[4:])
    assert len(warnings()) == 1 and (path / "0.index").read_bytes() == b"?" * 64


def test_a_full_disk_leaves_the_store_as_it_was(path, monkeypatch):
    store = LayerStore(str(path))

    def no_space(*args):
        raise OSError("No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", no_space)
        with pytest.raises(OSError, match="No space"):
            put(store, KEYS[4:])
    assert_holds(store, KEYS[:4])
    put(store, KEYS[4:])
    assert_holds(LayerStore(str(path)), KEYS)


def test_a_path_that_is_a_file_is_refused_by_name(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match="can't open the biLM's cache in .*file"):
        LayerStore(str(tmp_path / "file"))
