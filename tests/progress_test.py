import io
import multiprocessing
import pickle

import numpy
import pytest
from allennlp.common.checks import ConfigurationError

from elmo_plugin.progress import Record, only_process


@pytest.fixture
def record(tmp_path):
    return Record(tmp_path / "work" / "progress.npz", {"text": "a.txt", "sizes": (1, 2)}, "delete it to start over")


def test_what_was_saved_last_is_loaded(record):
    assert record.load() is None
    record.save(num_lines=1)
    record.save(num_lines=2, vectors=numpy.ones((2, 3), dtype=numpy.float16))
    saved = record.load()
    assert int(saved["num_lines"]) == 2 and saved["vectors"].tolist() == [[1.0] * 3] * 2
    assert [path.name for path in record.path.parent.iterdir()] == ["progress.npz"]


def test_other_work_is_refused_by_what_differs(record):
    record.save(num_lines=1)
    other = Record(record.path, {"text": "b.txt", "sizes": [1, 2]}, "delete it to start over")
    with pytest.raises(ConfigurationError, match="started with text 'a.txt', and this is 'b.txt'; .* to start over"):
        other.load()


class Harmful:
    ran = False

    def __reduce__(self):
        return setattr, (Harmful, "ran", True)


def a_zip_with(**arrays):
    file = io.BytesIO()
    numpy.savez(file, **arrays)
    return file.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no zip",
        b"PK\x03\x04 cut",
        pickle.dumps(Harmful()),
        a_zip_with(identity=numpy.array([Harmful()], dtype=object)),
        a_zip_with(identity="[]"),
        a_zip_with(identity="3"),
        a_zip_with(num_lines=3),
    ],
)
def test_a_damaged_record_is_named_and_nothing_in_it_runs(record, content):
    Harmful.ran = False
    record.path.parent.mkdir()
    record.path.write_bytes(content)
    with pytest.raises(ConfigurationError, match="progress.npz can't be read|was started with"):
        record.load()
    assert not Harmful.ran


def test_every_cut_and_every_changed_byte_is_noticed_or_harmless(record):
    record.save(num_lines=7, vectors=numpy.arange(5))
    content = record.path.read_bytes()
    for place in range(0, len(content), 7):
        for damaged in (content[:place], content[:place] + bytes([content[place] ^ 255]) + content[place + 1 :]):
            record.path.write_bytes(damaged)
            try:
                saved = record.load()
            except ConfigurationError:
                continue
            assert saved.get("num_lines", 7) == 7 and numpy.array_equal(saved.get("vectors", numpy.arange(5)), range(5))


def test_a_folder_in_its_place_is_named(record):
    record.path.mkdir(parents=True)
    with pytest.raises(ConfigurationError, match="progress.npz can't be read .*directory"):
        record.load()


def enter(folder, answers):
    try:
        with only_process(folder):
            answers.put("entered")
    except ConfigurationError as error:
        answers.put(error.message)


def test_a_second_process_is_refused_until_the_first_has_left(tmp_path):
    context = multiprocessing.get_context("fork")
    answers = context.Queue()

    def ask():
        process = context.Process(target=enter, args=(tmp_path / "work", answers))
        process.start()
        process.join()
        return answers.get(timeout=30)

    with only_process(tmp_path / "work"):
        assert ask() == f"another process is at work in {tmp_path / 'work'}; wait for it, or end it"
    assert ask() == "entered"


def test_a_folder_that_cannot_be_made_is_named():
    with pytest.raises(ConfigurationError, match="can't create the folder /proc/work"), only_process("/proc/work"):
        pass
