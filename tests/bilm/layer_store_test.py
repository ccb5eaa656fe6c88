import logging
import os
import random
import shutil
import time
from types import SimpleNamespace

import pytest
from allennlp.common.checks import ConfigurationError

from elmo_plugin.bilm import layer_store
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
    bound = LayerStore(str(path)).num_bytes + 2 * (32 + 60 + 32)  # a header, a row and an entry, twice
    first, second = LayerStore(str(path)), LayerStore(str(path))
    assert put(first, KEYS[4:5], bound)
    assert not put(second, KEYS[5:], bound)
    assert_holds(first, KEYS[:6])
    assert sum(file.stat().st_size for file in path.iterdir()) == first.num_bytes <= bound


def test_two_stores_at_once_read_each_other_s_entries(path):
    first, second = LayerStore(str(path)), LayerStore(str(path))
    for number in range(4, 8):
        put((first, second)[number % 2], [KEYS[number]])
        assert_holds(first, KEYS[: number + 1])
        assert_holds(second, KEYS[: number + 1])


def test_a_forked_process_may_write_too(path):
    store = LayerStore(str(path))
    put(store, KEYS[4:5])
    in_a_fork(lambda: put(store, KEYS[5:7]))
    put(store, KEYS[7:])
    assert_holds(store, KEYS)


def test_what_a_killed_process_was_writing_is_not_there(path, warnings):
    (path / f".{'0' * 32}.layers.12.tmp").write_bytes(b"half a file")
    assert_holds(LayerStore(str(path)), KEYS[:4])
    assert not warnings()


def test_the_folder_is_looked_through_only_when_it_has_changed(path, monkeypatch):
    store = LayerStore(str(path))
    os.utime(path, (0, 0))
    assert_holds(store, KEYS[:4])
    monkeypatch.setattr(os, "listdir", None)
    assert_holds(store, KEYS[:4])


def test_a_folder_that_is_deleted_in_use_is_an_empty_one(path):
    store = LayerStore(str(path))
    shutil.rmtree(path)
    assert_holds(store, [])
    with pytest.raises(FileNotFoundError):
        put(store, KEYS)


def test_no_damage_costs_more_than_what_is_damaged(path, warnings, caplog):
    """Any byte changed and any length: what is found is what was written, and the store goes on."""
    rng = random.Random(0)
    originals = {file: file.read_bytes() for file in path.iterdir()}
    for _ in range(300):
        for file in path.iterdir():
            file.unlink()
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


def only_file(path):
    (file,) = path.iterdir()
    return file


def test_damage_is_set_aside_with_one_warning(path, warnings):
    damaged = only_file(path)
    damaged.write_bytes(b"something else, of more than thirty-two bytes")
    store = LayerStore(str(path))
    assert_holds(store, [])
    put(store, KEYS[:1])
    assert_holds(LayerStore(str(path)), KEYS[:1])
    (warning,) = warnings()
    assert str(path) in warning and "doesn't begin as it should" in warning
    assert (path / f"{damaged.name}.unsound").exists()


@pytest.mark.parametrize("num_bytes", [0, 40, 200])
def test_a_file_that_another_process_cuts_short_is_noticed_in_use(path, warnings, num_bytes):
    file = only_file(path)
    store = LayerStore(str(path))
    put(store, KEYS[4:6])
    os.truncate(file, num_bytes)
    assert KEYS[3] not in store.get(KEYS)
    put(store, KEYS)
    assert_holds(store, KEYS)
    assert len(warnings()) == 1


def test_a_folder_in_a_file_s_place_is_set_aside(path, warnings):
    file = only_file(path)
    file.unlink()
    file.mkdir()
    store = LayerStore(str(path))
    put(store, KEYS[4:])
    assert_holds(store, KEYS[4:])
    assert len(warnings()) == 1


def test_what_can_neither_be_read_nor_renamed_is_left_alone(path, warnings, monkeypatch):
    file = only_file(path)
    file.write_bytes(b"?" * 64)
    rename = os.replace

    def refuse(source, destination):
        if source == file:
            raise PermissionError("not yours")
        rename(source, destination)

    monkeypatch.setattr(os, "replace", refuse)
    store = LayerStore(str(path))
    put(store, KEYS[4:])
    assert_holds(store, KEYS[4:])
    assert len(warnings()) == 1 and file.read_bytes() == b"?" * 64


def test_a_full_disk_leaves_the_store_as_it_was(path, monkeypatch):
    store = LayerStore(str(path))

    def no_space(*args):
        raise OSError("No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", no_space)
        with pytest.raises(OSError, match="No space"):
            put(store, KEYS[4:])
    assert len(list(path.iterdir())) == 1
    assert_holds(store, KEYS[:4])
    put(store, KEYS[4:])
    assert_holds(LayerStore(str(path)), KEYS)


def test_a_path_that_is_a_file_is_refused_by_name(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match="can't open the biLM's cache in .*file"):
        LayerStore(str(tmp_path / "file"))


def test_many_files_are_listed_a_twentieth_of_the_time_at_most(path, monkeypatch):
    seconds, listings = [0.0], []

    def listdir(folder):
        listings.append(seconds[0])
        seconds[0] += 0.5
        return [each.name for each in os.scandir(folder)]

    monkeypatch.setattr(layer_store, "_MANY_FILES", 0)
    monkeypatch.setattr(layer_store, "time", SimpleNamespace(monotonic=lambda: seconds[0], time_ns=time.time_ns))
    monkeypatch.setattr(layer_store.os, "listdir", listdir)
    store = LayerStore(str(path))
    put(LayerStore(str(path)), KEYS[4:6])
    listings.clear()
    for _ in range(30):
        store.get(KEYS)
        seconds[0] += 1.0
    assert len(listings) == 2
    assert_holds(store, KEYS[:6])
