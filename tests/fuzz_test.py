"""A few damaged files of each format; `make fuzz` tries thousands."""

import os
import random
import signal

import fuzzing
import pytest
from fuzzing import FORMATS, READ, REFUSED, Format, damaged, run

NUM_CASES = 12


@pytest.mark.parametrize("name", FORMATS)
def test_a_damaged_file_is_read_or_refused_by_name(name, tmp_path):
    result = run(name, seed=0, num_cases=NUM_CASES, folder=tmp_path)
    assert not result.failures
    assert result.outcomes.total() == NUM_CASES


@pytest.mark.parametrize("name", FORMATS)
def test_a_sound_file_is_read(name, tmp_path, monkeypatch):
    monkeypatch.setattr(fuzzing, "damaged", lambda data, source: data)
    assert run(name, seed=0, num_cases=1, folder=tmp_path).outcomes == {READ: 1}


def test_a_case_is_made_again_by_its_seed():
    first, again, other = (damaged(b"some words " * 9, random.Random(seed)) for seed in ("a", "a", "b"))
    assert first == again != other


@pytest.mark.parametrize(
    "read, reason",
    [
        (lambda path: 1 / 0, "ZeroDivisionError"),
        (lambda path: bytearray(2**31), "MemoryError"),
        (lambda path: path.joinpath("x").read_text(), "NotADirectoryError"),
        (lambda path: os.kill(os.getpid(), signal.SIGKILL), "signal 9"),
    ],
)
def test_what_breaks_the_promise_is_found_and_the_other_cases_are_tried(monkeypatch, tmp_path, read, reason):
    def write(folder):
        (folder / "file").write_text("text")
        return folder / "file"

    monkeypatch.setitem(FORMATS, "broken", Format(write, read))
    result = run("broken", seed=0, num_cases=3, folder=tmp_path)
    assert [failure.case for failure in result.failures] == [0, 1, 2]
    assert all(reason in failure.reason for failure in result.failures)
    assert READ not in result.outcomes and REFUSED not in result.outcomes
