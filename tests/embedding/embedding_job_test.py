import json
import os
import resource
import signal

import h5py
import numpy
import pytest
import torch
from allennlp.common.checks import ConfigurationError

from elmo_plugin import ElmoEmbedder
from elmo_plugin.embedding.embedding_job import EmbeddingJob
from elmo_plugin.embedding.engines import Processes
from elmo_plugin.embedding.shards import ShardWriter

SENTENCES = [f"line {number} has " + "more " * (number % 5) + "words" for number in range(20)]
WRITER = ShardWriter(batch_size=6)
REFUSED, CRASHED = 3, 4


@pytest.fixture
def files(root):
    return str(root / "fixtures/bilm/options.json"), str(root / "fixtures/bilm/weights.hdf5")


@pytest.fixture
def embedder(files):
    return ElmoEmbedder(*files)


@pytest.fixture
def make_job(embedder, tmp_path):
    def make(name="out.hdf5", writer=WRITER, embedder=embedder, shard_size=6, **arguments):
        return EmbeddingJob(embedder, str(tmp_path / name), writer, shard_size=shard_size, **arguments)

    return make


def contents(path):
    with h5py.File(path) as file:
        return {key: file[key][...] if key != "sentence_to_index" else json.loads(file[key][0]) for key in file}


def assert_same(path, other_path):
    found, expected = contents(path), contents(other_path)
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        if key == "sentence_to_index":
            assert found[key] == value
        else:
            numpy.testing.assert_array_equal(found[key], value)
            assert found[key].dtype == value.dtype


def in_another_process(action):
    """Runs `action` in a copy of this process; returns how that ended, and the message if it was refused."""
    readable, writable = os.pipe()
    pid = os.fork()
    if pid == 0:
        exit_code = CRASHED
        try:
            silence = os.open(os.devnull, os.O_WRONLY)
            os.dup2(silence, 1)
            os.dup2(silence, 2)
            torch.set_num_threads(1)  # OpenMP's threads don't survive a fork
            action()
            exit_code = 0
        except ConfigurationError as error:
            os.write(writable, error.message.encode())
            exit_code = REFUSED
        finally:
            os._exit(exit_code)
    os.close(writable)
    with open(readable, encoding="utf-8") as pipe:
        message = pipe.read()
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), message


def die_at(step, function):
    """Kills the process at the given call of `function`; before it, if the step is even, else after it."""
    calls = iter(range(1_000_000))

    def maybe_die(*arguments, **keywords):
        call = next(calls)
        if call * 2 == step:
            os.kill(os.getpid(), signal.SIGKILL)
        result = function(*arguments, **keywords)
        if call * 2 + 1 == step:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    return maybe_die


def test_each_line_has_the_vectors_of_its_sentence(make_job, embedder, tmp_path):
    make_job().run(SENTENCES)
    found = contents(tmp_path / "out.hdf5")
    assert found.pop("sentence_to_index") == {sentence: str(line) for line, sentence in enumerate(SENTENCES)}
    assert found.keys() == {str(line) for line in range(20)}
    for line, sentence in enumerate(SENTENCES):
        assert found[str(line)].dtype == numpy.float32
        numpy.testing.assert_allclose(found[str(line)], embedder.embed_sentence(sentence.split()), atol=1e-6)


def test_the_size_of_shards_changes_nothing(make_job, tmp_path):
    make_job("small.hdf5", shard_size=1).run(SENTENCES)
    make_job("large.hdf5", shard_size=1000).run(SENTENCES)
    for key, value in contents(tmp_path / "large.hdf5").items():
        if key != "sentence_to_index":
            numpy.testing.assert_allclose(contents(tmp_path / "small.hdf5")[key], value, atol=1e-6)


def test_nothing_is_left_but_the_output(make_job, tmp_path):
    make_job().run(SENTENCES)
    assert [path.name for path in tmp_path.iterdir()] == ["out.hdf5"]


def test_float16_rounds_what_float32_holds(make_job, tmp_path):
    make_job("full.hdf5").run(SENTENCES)
    make_job("half.hdf5", ShardWriter(batch_size=6, float16=True)).run(SENTENCES)
    full, half = contents(tmp_path / "full.hdf5"), contents(tmp_path / "half.hdf5")
    assert half["3"].dtype == numpy.float16
    numpy.testing.assert_array_equal(half["3"], full["3"].astype(numpy.float16))


def test_a_number_too_large_for_float16_is_refused(make_job, embedder, monkeypatch):
    huge = numpy.full((3, 1, 16), 1e5, dtype=numpy.float32)
    monkeypatch.setattr(embedder, "embed_sentences", lambda sentences, batch_size: (huge for _ in sentences))
    with pytest.raises(ConfigurationError, match="line 1 has a number that is too large for float16"):
        make_job(writer=ShardWriter(float16=True)).run(SENTENCES)


def test_carried_states_go_through_the_whole_text_as_in_one_batch_after_the_other(make_job, files, tmp_path):
    make_job(embedder=ElmoEmbedder(*files, stateful=True)).run(SENTENCES)
    expected = ElmoEmbedder(*files, stateful=True).embed_sentences([line.split() for line in SENTENCES], 6)
    found = contents(tmp_path / "out.hdf5")
    for line, vectors in enumerate(expected):
        numpy.testing.assert_allclose(found[str(line)], vectors, atol=1e-6)


def test_carried_states_are_for_one_process(make_job, files):
    with pytest.raises(ConfigurationError, match="one process has to read them all"):
        make_job(embedder=ElmoEmbedder(*files, stateful=True), engine=Processes(2))


@pytest.mark.parametrize("stateful, num_renames", [(False, 5), (True, 7)])
def test_a_job_killed_at_any_rename_resumes_to_the_same_output(make_job, files, tmp_path, stateful, num_renames):
    embedder = ElmoEmbedder(*files, stateful=stateful)
    sentences = SENTENCES[:8]  # two shards
    make_job("expected.hdf5", embedder=embedder).run(sentences)
    for step in range(2 * num_renames):
        job = make_job(f"{step}.hdf5", embedder=embedder)

        def run_and_die(job=job, step=step):
            os.replace = die_at(step, os.replace)
            job.run(sentences)

        assert in_another_process(run_and_die) == (-signal.SIGKILL, "")
        job.run(sentences, resume=True)
        assert_same(tmp_path / f"{step}.hdf5", tmp_path / "expected.hdf5")
        assert not job.partial_folder.exists()


@pytest.mark.parametrize("step", [0, 9, 24, 33, 48])
def test_a_job_killed_while_it_writes_resumes_to_the_same_output(make_job, tmp_path, step):
    def run_and_die():
        h5py.Group.create_dataset = die_at(step, h5py.Group.create_dataset)
        make_job().run(SENTENCES)

    assert in_another_process(run_and_die) == (-signal.SIGKILL, "")
    make_job().run(SENTENCES, resume=True)
    make_job("expected.hdf5").run(SENTENCES)
    assert_same(tmp_path / "out.hdf5", tmp_path / "expected.hdf5")


def interrupt(make_job, after=2, **arguments):
    """A job that was interrupted when `after` shards were finished."""

    def lines():
        yield from SENTENCES[: 6 * after]
        raise KeyboardInterrupt

    job = make_job(**arguments)
    with pytest.raises(KeyboardInterrupt):
        job.run(lines())
    return job


def test_finished_shards_are_not_made_again(make_job, embedder, monkeypatch, tmp_path):
    job = interrupt(make_job)
    assert len(list(job.partial_folder.glob("0*.hdf5"))) == 2 and not (tmp_path / "out.hdf5").exists()
    embedded = []
    embed = embedder.embed_sentences

    def record(sentences, batch_size):
        sentences = list(sentences)
        embedded.extend(sentences)
        return embed(sentences, batch_size)

    monkeypatch.setattr(embedder, "embed_sentences", record)
    job.run(SENTENCES, resume=True)
    assert embedded == [line.split() for line in SENTENCES[12:]]


def test_a_shard_that_cannot_be_read_is_made_again(make_job, tmp_path):
    make_job("expected.hdf5").run(SENTENCES)
    job = interrupt(make_job)
    (job.partial_folder / "00000000.hdf5").write_bytes(b"damaged")
    job.run(SENTENCES, resume=True)
    assert_same(tmp_path / "out.hdf5", tmp_path / "expected.hdf5")


def test_a_finished_part_is_not_thrown_away_unasked(make_job):
    job = interrupt(make_job)
    with pytest.raises(ConfigurationError, match="out.hdf5.partial holds the finished part .* --resume, or delete"):
        make_job().run(SENTENCES)
    assert len(list(job.partial_folder.glob("0*.hdf5"))) == 2


def test_a_job_that_finished_nothing_leaves_nothing(make_job, tmp_path):
    interrupt(make_job, after=0)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"writer": ShardWriter("top", batch_size=6)}, "started with output format 'all', and this one has 'top'"),
        ({"writer": ShardWriter(batch_size=3)}, "started with batch size 6, and this one has 3"),
        ({"writer": ShardWriter(batch_size=6, float16=True)}, "started with float16 False, and this one has True"),
        ({"shard_size": 8}, "started with shard size 6, and this one has 12"),
    ],
)
def test_another_kind_of_run_cannot_resume_it(make_job, changes, message):
    interrupt(make_job)
    with pytest.raises(ConfigurationError, match=message):
        make_job(**changes).run(SENTENCES, resume=True)


def test_another_bilm_cannot_resume_it(make_job, make_bilm_files):
    interrupt(make_job)
    with pytest.raises(ConfigurationError, match="started with biLM"):
        make_job(embedder=ElmoEmbedder(*make_bilm_files(seed=1))).run(SENTENCES, resume=True)


@pytest.mark.parametrize(
    "text, message",
    [
        ([*SENTENCES[:7], "another", *SENTENCES[8:]], "lines 7 to 12 aren't the text that the run"),
        (SENTENCES[:6], "the text ends before line 7, which was embedded already"),
    ],
)
def test_another_text_cannot_resume_it(make_job, text, message):
    interrupt(make_job)
    with pytest.raises(ConfigurationError, match=message):
        make_job().run(text, resume=True)


def test_how_lines_are_keyed_may_change_when_it_resumes(make_job, tmp_path):
    interrupt(make_job)
    make_job(use_sentence_keys=True, forget_sentences=True).run(SENTENCES, resume=True)
    assert contents(tmp_path / "out.hdf5").keys() == set(SENTENCES)


def test_there_is_nothing_to_resume_of_a_complete_output(make_job):
    make_job().run(SENTENCES)
    with pytest.raises(ConfigurationError, match="nothing to resume: .*out.hdf5 is there"):
        make_job().run(SENTENCES, resume=True)


def test_resuming_what_was_never_begun_begins_it(make_job, tmp_path):
    make_job().run(SENTENCES, resume=True)
    assert (tmp_path / "out.hdf5").exists()


def test_two_jobs_cannot_share_an_output(make_job):
    def lines():
        yield from SENTENCES
        make_job().run(SENTENCES, resume=True)

    with pytest.raises(ConfigurationError, match="another process is at work in"):
        make_job().run(lines())


def test_a_full_disk_is_told_and_the_job_can_resume(make_job, tmp_path):
    make_job("expected.hdf5").run(SENTENCES)
    largest = (tmp_path / "expected.hdf5").stat().st_size

    def run_with_little_room():
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest // 2, largest // 2))
        make_job().run(SENTENCES)

    exit_code, message = in_another_process(run_with_little_room)
    assert exit_code == REFUSED and "merged.hdf5: File too large. What was finished is kept in" in message
    make_job().run(SENTENCES, resume=True)
    assert_same(tmp_path / "out.hdf5", tmp_path / "expected.hdf5")


@pytest.mark.parametrize("num_bytes", [1000, 3000, 5000])
def test_a_disk_too_full_for_a_shard_is_told(make_job, tmp_path, num_bytes):
    def run_with_no_room():
        resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, num_bytes))
        make_job().run(SENTENCES)

    exit_code, message = in_another_process(run_with_no_room)
    assert exit_code == REFUSED and "00000000.hdf5: File too large. Nothing was finished yet" in message
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"shard_size": 0}, "at least 1 line, got 0"),
        ({"writer": lambda: ShardWriter("mean")}, "not 'mean'"),
        ({"writer": lambda: ShardWriter(batch_size=0)}, "at least 1, got 0"),
    ],
)
def test_impossible_settings_are_refused(make_job, arguments, message):
    with pytest.raises(ConfigurationError, match=message):
        make_job(**{name: value() if callable(value) else value for name, value in arguments.items()})


def test_an_empty_text_is_refused(make_job, tmp_path):
    with pytest.raises(ConfigurationError, match="isn't a single line"):
        make_job().run([])
    assert list(tmp_path.iterdir()) == []


def test_an_output_that_is_a_folder_is_refused(make_job, tmp_path):
    (tmp_path / "out.hdf5").mkdir()
    with pytest.raises(ConfigurationError, match="is a folder; name a file"):
        make_job().run(SENTENCES)


def test_a_place_that_cannot_be_written_to_is_named(embedder):
    with pytest.raises(ConfigurationError, match="can't create the folder /proc/out.hdf5.partial"):
        EmbeddingJob(embedder, "/proc/out.hdf5", WRITER).run(SENTENCES)


def test_a_job_holds_no_more_of_the_text_than_a_shard(make_job, monkeypatch):
    read, written = [], []
    job = make_job(forget_sentences=True)
    write = WRITER.write

    def record(self, embedder, shard, *arguments):
        written.append(len(read))
        write(embedder, shard, *arguments)

    monkeypatch.setattr(ShardWriter, "write", record)
    job.run(read.append(line) or line for line in SENTENCES)
    assert written == [6, 12, 18, 20]
