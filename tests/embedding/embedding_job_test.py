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
from elmo_plugin.embedding.hdf5_file import GrowingHdf5File
from elmo_plugin.embedding.pieces import PieceEmbedder

SENTENCES = [f"line {number} has " + "more " * (number % 5) + "words" for number in range(20)]
PIECE_EMBEDDER = PieceEmbedder(batch_size=6)
REFUSED, CRASHED = 3, 4


@pytest.fixture
def files(root):
    return str(root / "fixtures/bilm/options.json"), str(root / "fixtures/bilm/weights.hdf5")


@pytest.fixture
def embedder(files):
    return ElmoEmbedder(*files)


@pytest.fixture
def make_job(embedder, tmp_path):
    def make(name="out.hdf5", piece_embedder=PIECE_EMBEDDER, embedder=embedder, piece_size=6, **arguments):
        return EmbeddingJob(embedder, str(tmp_path / name), piece_embedder, piece_size=piece_size, **arguments)

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


def test_the_size_of_pieces_changes_nothing(make_job, tmp_path):
    make_job("small.hdf5", piece_size=1).run(SENTENCES)
    make_job("large.hdf5", piece_size=1000).run(SENTENCES)
    for key, value in contents(tmp_path / "large.hdf5").items():
        if key != "sentence_to_index":
            numpy.testing.assert_allclose(contents(tmp_path / "small.hdf5")[key], value, atol=1e-6)


def test_nothing_is_left_but_the_output(make_job, tmp_path):
    make_job().run(SENTENCES)
    assert [path.name for path in tmp_path.iterdir()] == ["out.hdf5"]


def test_float16_rounds_what_float32_holds(make_job, tmp_path):
    make_job("full.hdf5").run(SENTENCES)
    make_job("half.hdf5", PieceEmbedder(batch_size=6, float16=True)).run(SENTENCES)
    full, half = contents(tmp_path / "full.hdf5"), contents(tmp_path / "half.hdf5")
    assert half["3"].dtype == numpy.float16
    numpy.testing.assert_array_equal(half["3"], full["3"].astype(numpy.float16))


def test_a_number_too_large_for_float16_is_refused(make_job, embedder, monkeypatch):
    huge = numpy.full((3, 1, 16), 1e5, dtype=numpy.float32)
    monkeypatch.setattr(embedder, "embed_sentences", lambda sentences, batch_size: (huge for _ in sentences))
    with pytest.raises(ConfigurationError, match="line 1 has a value that is too large for float16"):
        make_job(piece_embedder=PieceEmbedder(float16=True)).run(SENTENCES)


def test_carried_states_go_through_the_whole_text_as_in_one_batch_after_the_other(make_job, files, tmp_path):
    make_job(embedder=ElmoEmbedder(*files, stateful=True)).run(SENTENCES)
    expected = ElmoEmbedder(*files, stateful=True).embed_sentences([line.split() for line in SENTENCES], 6)
    found = contents(tmp_path / "out.hdf5")
    for line, vectors in enumerate(expected):
        numpy.testing.assert_allclose(found[str(line)], vectors, atol=1e-6)


def test_carried_states_are_for_one_process(make_job, files):
    with pytest.raises(ConfigurationError, match="one process has to read them all"):
        make_job(embedder=ElmoEmbedder(*files, stateful=True), engine=Processes(2))


@pytest.mark.parametrize("stateful", [False, True])
def test_a_job_killed_at_any_rename_resumes_to_the_same_output(make_job, files, tmp_path, stateful):
    embedder = ElmoEmbedder(*files, stateful=stateful)
    sentences = SENTENCES[:8]  # two pieces
    make_job("expected.hdf5", embedder=embedder).run(sentences)
    for step in range(8):  # the records of two pieces and of the whole, and the output
        job = make_job(f"{step}.hdf5", embedder=embedder)

        def run_and_die(job=job, step=step):
            os.replace = die_at(step, os.replace)
            job.run(sentences)

        assert in_another_process(run_and_die) == (-signal.SIGKILL, "")
        job.run(sentences, resume=True)
        assert (tmp_path / f"{step}.hdf5").read_bytes() == (tmp_path / "expected.hdf5").read_bytes()
        assert not job.partial_folder.exists()


@pytest.mark.parametrize("step", [0, 9, 24, 33, 40])
def test_a_job_killed_while_it_writes_resumes_to_the_same_output(make_job, tmp_path, step):
    def run_and_die():
        h5py.Group.create_dataset = die_at(step, h5py.Group.create_dataset)
        make_job().run(SENTENCES)

    assert in_another_process(run_and_die) == (-signal.SIGKILL, "")
    make_job().run(SENTENCES, resume=True)
    make_job("expected.hdf5").run(SENTENCES)
    assert (tmp_path / "out.hdf5").read_bytes() == (tmp_path / "expected.hdf5").read_bytes()


@pytest.mark.parametrize("step", [3, 61, 100, 121, 141, 160, 181])
def test_a_job_killed_between_any_two_writes_resumes_to_the_same_output(make_job, tmp_path, step):
    def run_and_die():
        GrowingHdf5File.seek = die_at(step, GrowingHdf5File.seek)
        make_job().run(SENTENCES[:15])

    assert in_another_process(run_and_die) == (-signal.SIGKILL, "")
    make_job().run(SENTENCES[:15], resume=True)
    make_job("expected.hdf5").run(SENTENCES[:15])
    assert (tmp_path / "out.hdf5").read_bytes() == (tmp_path / "expected.hdf5").read_bytes()


def interrupt(make_job, after=2, **arguments):
    """A job that was interrupted when `after` pieces were finished."""

    def lines():
        yield from SENTENCES[: 6 * after]
        raise KeyboardInterrupt

    job = make_job(**arguments)
    with pytest.raises(KeyboardInterrupt):
        job.run(lines())
    return job


def test_finished_pieces_are_not_made_again(make_job, embedder, monkeypatch, tmp_path):
    job = interrupt(make_job)
    assert not (tmp_path / "out.hdf5").exists()
    embedded = []
    embed = embedder.embed_sentences

    def record(sentences, batch_size):
        sentences = list(sentences)
        embedded.extend(sentences)
        return embed(sentences, batch_size)

    monkeypatch.setattr(embedder, "embed_sentences", record)
    job.run(SENTENCES, resume=True)
    assert embedded == [line.split() for line in SENTENCES[12:]]


def damage(path, kind):
    if kind == "a folder":
        path.unlink()
        path.mkdir()
    else:
        content = path.read_bytes()
        path.write_bytes({"empty": b"", "cut": content[: len(content) // 2], "other": b"x" * len(content)}[kind])


@pytest.mark.parametrize("name", ["progress.npz", "vectors.hdf5"])
@pytest.mark.parametrize("kind", ["empty", "cut", "other", "a folder"])
def test_a_damaged_file_is_named_and_what_to_do(make_job, name, kind):
    job = interrupt(make_job)
    damage(job.partial_folder / name, kind)
    with pytest.raises(ConfigurationError, match=f"out.hdf5.partial/{name}.* (to start over|--resume)"):
        make_job().run(SENTENCES, resume=True)
    assert job.partial_folder.exists()


def test_a_number_that_changed_among_the_vectors_is_noticed(make_job):
    job = interrupt(make_job)
    path = job.partial_folder / "vectors.hdf5"
    with h5py.File(path) as file:
        place = file["11"].id.get_offset()
    with open(path, "r+b") as file:
        file.seek(place)
        file.write(bytes(4))
    with pytest.raises(ConfigurationError, match="out.hdf5.partial/vectors.hdf5 is damaged .* to start over"):
        make_job().run(SENTENCES, resume=True)


def test_a_record_without_what_it_should_hold_is_damaged(make_job):
    job = interrupt(make_job)
    job._record.save(num_lines=12)
    with pytest.raises(ConfigurationError, match="progress.npz can't be read .*text.* to start over"):
        make_job().run(SENTENCES, resume=True)


def test_a_pickle_in_the_record_is_not_opened(make_job):
    job = interrupt(make_job)
    numpy.savez(job._record.path, identity=numpy.array([{"a": 1}], dtype=object))
    with pytest.raises(ConfigurationError, match="progress.npz can't be read .*allow_pickle=False"):
        make_job().run(SENTENCES, resume=True)


def test_a_finished_part_is_not_thrown_away_unasked(make_job):
    job = interrupt(make_job)
    with pytest.raises(ConfigurationError, match="out.hdf5.partial holds the finished part .* --resume, or delete"):
        make_job().run(SENTENCES)
    assert job._record.load()["num_lines"] == 12


def test_a_job_that_finished_nothing_leaves_nothing(make_job, tmp_path):
    interrupt(make_job, after=0)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"piece_embedder": PieceEmbedder("top", batch_size=6)}, "started with output format 'all', and this is 'top'"),
        ({"piece_embedder": PieceEmbedder(batch_size=3)}, "started with batch size 6, and this is 3"),
        ({"piece_embedder": PieceEmbedder(batch_size=6, float16=True)}, "started with float16 False, and this is True"),
        ({"use_sentence_keys": True}, "started with sentence keys False, and this is True"),
        ({"piece_size": 8}, "started with piece size 6, and this is 12"),
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
        ([*SENTENCES[:7], "another", *SENTENCES[8:]], "has embedded 12 lines, and this text isn't the same"),
        (SENTENCES[:6], "has embedded 12 lines, and this text ends before that"),
    ],
)
@pytest.mark.parametrize("use_sentence_keys", [False, True])
def test_another_text_cannot_resume_it(make_job, text, message, use_sentence_keys):
    interrupt(make_job, use_sentence_keys=use_sentence_keys)
    with pytest.raises(ConfigurationError, match=message):
        make_job(use_sentence_keys=use_sentence_keys).run(text, resume=True)


def test_sentences_before_an_interruption_are_in_the_index(make_job, tmp_path):
    interrupt(make_job)
    make_job().run(SENTENCES, resume=True)
    assert contents(tmp_path / "out.hdf5")["sentence_to_index"][SENTENCES[0]] == "0"


def test_sentences_before_an_interruption_keep_their_keys(make_job, tmp_path):
    interrupt(make_job, use_sentence_keys=True)
    make_job(use_sentence_keys=True).run(SENTENCES * 2, resume=True)
    assert contents(tmp_path / "out.hdf5").keys() == {*SENTENCES, "sentence_to_index"}


def test_there_is_nothing_to_resume_of_a_complete_output(make_job):
    make_job().run(SENTENCES)
    with pytest.raises(ConfigurationError, match="nothing to resume: .*out.hdf5 exists"):
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
    assert exit_code == REFUSED and "vectors.hdf5: File too large. What was finished is kept in" in message
    make_job().run(SENTENCES, resume=True)
    assert_same(tmp_path / "out.hdf5", tmp_path / "expected.hdf5")


@pytest.mark.parametrize("num_bytes", [1000, 3000, 5000])
def test_a_disk_too_full_for_a_piece_is_told(make_job, tmp_path, num_bytes):
    def run_with_no_room():
        resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, num_bytes))
        make_job().run(SENTENCES)

    exit_code, message = in_another_process(run_with_no_room)
    assert exit_code == REFUSED and "vectors.hdf5: File too large. Nothing has been finished yet" in message
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"piece_size": 0}, "at least 1 line, got 0"),
        ({"piece_embedder": lambda: PieceEmbedder("mean")}, "not 'mean'"),
        ({"piece_embedder": lambda: PieceEmbedder(batch_size=0)}, "at least 1, got 0"),
    ],
)
def test_impossible_settings_are_refused(make_job, arguments, message):
    with pytest.raises(ConfigurationError, match=message):
        make_job(**{name: value() if callable(value) else value for name, value in arguments.items()})


def test_an_empty_text_is_refused(make_job, tmp_path):
    with pytest.raises(ConfigurationError, match="the text has no lines"):
        make_job().run([])
    assert list(tmp_path.iterdir()) == []


def test_an_output_that_is_a_folder_is_refused(make_job, tmp_path):
    (tmp_path / "out.hdf5").mkdir()
    with pytest.raises(ConfigurationError, match="is a folder; name a file"):
        make_job().run(SENTENCES)


def test_a_place_that_cannot_be_written_to_is_named(embedder):
    with pytest.raises(ConfigurationError, match="can't create the folder /proc/out.hdf5.partial"):
        EmbeddingJob(embedder, "/proc/out.hdf5", PIECE_EMBEDDER).run(SENTENCES)


def test_a_job_holds_no_more_of_the_text_than_a_piece(make_job, embedder, monkeypatch):
    read, embedded = [], []
    embed = embedder.embed_sentences
    monkeypatch.setattr(embedder, "embed_sentences", lambda *a: embedded.append(len(read)) or embed(*a))
    make_job(forget_sentences=True).run(read.append(line) or line for line in SENTENCES)
    assert embedded == [6, 12, 18, 20]


@pytest.mark.parametrize("size", [1, 2, 7])
def test_several_workers_write_the_file_that_one_writes(make_job, tmp_path, size):
    make_job("one.hdf5", piece_size=size).run(SENTENCES)
    make_job("several.hdf5", piece_size=size, engine=Processes(2, "fork")).run(SENTENCES)
    assert (tmp_path / "one.hdf5").read_bytes() == (tmp_path / "several.hdf5").read_bytes()
