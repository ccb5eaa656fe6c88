import multiprocessing
import os
import signal
import sys
import threading
import time

import h5py
import numpy
import pytest
from allennlp.common.checks import ConfigurationError

from elmo_plugin import ElmoEmbedder
from elmo_plugin.embedding import engines
from elmo_plugin.embedding.embedding_job import EmbeddingJob
from elmo_plugin.embedding.engines import Processes, Ray, ThisProcess
from elmo_plugin.embedding.pieces import PieceEmbedder

SENTENCES = [f"line {number} has some words" for number in range(40)]


@pytest.fixture
def run(root, tmp_path, monkeypatch):
    embedder = ElmoEmbedder(str(root / "fixtures/bilm/options.json"), str(root / "fixtures/bilm/weights.hdf5"))

    # A thread a worker: OpenMP's don't survive a fork.
    monkeypatch.setattr(engines, "_num_cores", lambda: 2)

    def run(engine, resume=False, sentences=SENTENCES):
        job = EmbeddingJob(
            embedder, str(tmp_path / "out.hdf5"), PieceEmbedder(batch_size=4), piece_size=4, engine=engine
        )
        job.run(sentences, resume=resume)
        with h5py.File(tmp_path / "out.hdf5") as file:
            assert set(file) == {*map(str, range(len(SENTENCES))), "sentence_to_index"}
            return [file[str(line)][...] for line in range(len(SENTENCES))]

    return run


def assert_equal(found, expected):
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        numpy.testing.assert_allclose(one, other, atol=1e-6)


def test_workers_give_what_one_process_gives_and_are_gone_afterwards(run):
    found = run(Processes(2, "fork"))
    assert_equal(found, run(ThisProcess()))
    deadline = time.monotonic() + 30
    while multiprocessing.active_children() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not multiprocessing.active_children()


def test_a_worker_that_dies_is_told_and_the_job_can_resume(run, tmp_path):
    others = multiprocessing.active_children()  # what other tests may have left

    def kill_a_worker():
        while not list((tmp_path / "out.hdf5.partial").glob("progress.npz")):
            time.sleep(0.02)
        worker = next(child for child in multiprocessing.active_children() if child not in others)
        os.kill(worker.pid, signal.SIGKILL)

    def slowly():
        for number, line in enumerate(SENTENCES):
            yield line
            # The last lines wait for the kill, however fast the workers are.
            while number > 30 and killer.is_alive():
                time.sleep(0.02)

    killer = threading.Thread(target=kill_a_worker, daemon=True)
    killer.start()
    with pytest.raises(ConfigurationError, match="a worker process died.* --resume"):
        run(Processes(2, "fork"), sentences=slowly())
    assert_equal(run(ThisProcess(), resume=True), run(ThisProcess()))


@pytest.mark.parametrize("engine", [Processes, Ray])
def test_no_workers_are_refused(engine):
    with pytest.raises(ConfigurationError, match="at least 1 worker, got 0"):
        engine(0)


def test_ray_that_is_not_installed_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'elmo-plugin\[ray\]'"):
        Ray(1)


def test_ray_neither_loses_nor_doubles_a_line_when_a_worker_is_killed(run, tmp_path, monkeypatch):
    ray = pytest.importorskip("ray")
    marker = tmp_path / "killed"
    embed = engines._embed_on_ray

    def embed_or_die(saved, cuda_device, piece_embedder, piece):
        if piece.number == 3 and not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return embed(saved, cuda_device, piece_embedder, piece)

    monkeypatch.setattr(engines, "_embed_on_ray", embed_or_die)
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        found = run(Ray(2))
    finally:
        ray.shutdown()
    assert marker.exists()
    assert_equal(found, run(ThisProcess()))
