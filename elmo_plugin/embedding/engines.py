"""Who embeds the pieces of a job: this process, several on this machine, or a Ray cluster."""

import concurrent.futures
import functools
import multiprocessing
import os
import signal
import tempfile
import threading
from collections import deque
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any, Callable, Deque, Generator, Iterable, Iterator, List, Optional, Tuple, TypeVar

import numpy
import torch

from elmo_plugin.bilm import BiLm, checkpoint
from elmo_plugin.embedding.embedder_api import ElmoEmbedder
from elmo_plugin.embedding.pieces import Piece, PieceEmbedder
from elmo_plugin.errors import ConfigurationError

_PIECES_AHEAD = 2  # per worker: one in progress, one waiting
_NUM_RETRIES = 5

Started = TypeVar("Started")
Embedded = Generator[Tuple[Piece, Iterable[numpy.ndarray]], None, None]


class Engine:
    """Embeds pieces, and yields each with its vectors, in order."""

    def __init__(self, num_workers: int = 1) -> None:
        if num_workers < 1:
            raise ConfigurationError(f"it takes at least 1 worker, got {num_workers}")
        self._num_workers = num_workers

    def embed(
        self, embedder: ElmoEmbedder, piece_embedder: PieceEmbedder, pieces: Iterator[Piece], folder: Path
    ) -> Embedded:
        """`folder` is for what has to be on disk in the meantime."""
        raise NotImplementedError


def _in_order(
    pieces: Iterator[Piece], start: Callable[[Piece], Started], num_ahead: int
) -> Iterator[Tuple[Piece, Started]]:
    """Starts work on `num_ahead` pieces, and yields the first one's result before it starts another."""
    waiting: Deque[Tuple[Piece, Started]] = deque()
    for piece in pieces:
        waiting.append((piece, start(piece)))
        if len(waiting) == num_ahead:
            yield waiting.popleft()
    yield from waiting


class ThisProcess(Engine):
    """One piece after the other."""

    def embed(self, embedder, piece_embedder, pieces, folder) -> Embedded:
        for piece in pieces:
            yield piece, piece_embedder.embed(embedder, piece)


class Processes(Engine):
    """`num_workers` processes on this machine, each with the biLM and its part of the cores.

    They aren't forked unless `start_method` says so: a copy of a process that has used CUDA or OpenMP may hang.
    """

    def __init__(self, num_workers: int, start_method: str = "spawn") -> None:
        super().__init__(num_workers)
        self._context: Any = multiprocessing.get_context(start_method)

    def embed(self, embedder, piece_embedder, pieces, folder) -> Embedded:
        others = set(multiprocessing.active_children())
        _save(embedder.bilm, folder)
        executor = concurrent.futures.ProcessPoolExecutor(
            self._num_workers,
            self._context,
            _begin_worker,
            (folder, embedder.cuda_device, max(1, _num_cores() // self._num_workers)),
        )
        try:
            for piece, future in _in_order(
                pieces,
                lambda piece: executor.submit(
                    _embed_in_worker, piece_embedder, piece, folder / f"{os.getpid()}-{piece.number}.npy"
                ),
                self._num_workers * _PIECES_AHEAD,
            ):
                path = future.result()
                with open(path, "rb") as file:
                    yield piece, (numpy.load(file, allow_pickle=False) for _ in piece.sentences)
                path.unlink()
            executor.shutdown()
        except BrokenProcessPool as error:
            raise ConfigurationError(
                "a worker process died, perhaps for lack of memory. What was finished is kept: run the same command "
                "with --resume, and fewer --workers or a smaller --batch-size"
            ) from error
        finally:
            executor.shutdown(wait=False, cancel_futures=True)
            for worker in set(multiprocessing.active_children()) - others:
                worker.terminate()


def _num_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_BILM_FILES = ("options.json", "weights.hdf5")


def _save(bilm: BiLm, folder: Path) -> List[Path]:
    """The biLM in files for the workers, wherever it came from."""
    options_file, weight_file = (folder / name for name in _BILM_FILES)
    checkpoint.write(bilm, weight_file, options_file)
    return [options_file, weight_file]


_worker_embedder: Optional[ElmoEmbedder] = None


def _begin_worker(folder: Path, cuda_device: int, num_threads: int) -> None:
    global _worker_embedder
    # On Ctrl-C the worker just ends, and its parent prints the message. It doesn't outlive its parent.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(num_threads)
    _worker_embedder = ElmoEmbedder(str(folder), cuda_device=cuda_device)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _embed_in_worker(piece_embedder: PieceEmbedder, piece: Piece, path: Path) -> Path:
    """Writes the sentences' vectors to `path`, one array after the other."""
    assert _worker_embedder is not None
    with open(path, "wb") as file:
        for vectors in piece_embedder.embed(_worker_embedder, piece):
            try:
                numpy.save(file, vectors, allow_pickle=False)
            except OSError as error:  # which doesn't name the file
                raise OSError(error.errno, error.strerror or str(error), str(path)) from error
    return path


class Ray(Engine):
    """`num_workers` tasks at a time on a Ray cluster: the one at RAY_ADDRESS if that is set, else one on this machine.

    A task takes a piece's lines and returns their vectors; the biLM travels through Ray too, so the other machines need
    the plugin and no file. This process alone writes: a task that Ray has to run again because its worker died neither
    loses nor duplicates a line.
    """

    def __init__(self, num_workers: int) -> None:
        super().__init__(num_workers)
        try:
            import ray
        except ImportError as error:
            raise ConfigurationError("--engine ray needs Ray: pip install 'elmo-plugin[ray]'") from error
        self._ray = ray

    def embed(self, embedder, piece_embedder, pieces, folder) -> Embedded:
        ray = self._ray
        is_ours = not ray.is_initialized()
        if is_ours:
            ray.init(include_dashboard=False, log_to_driver=False)
        try:
            yield from self._embed(embedder, piece_embedder, pieces, folder)
        except ray.exceptions.RayTaskError as error:
            raise error.cause from error
        except ray.exceptions.WorkerCrashedError as error:
            raise ConfigurationError(
                f"the workers of one piece died {_NUM_RETRIES + 1} times, perhaps for lack of memory. What was "
                "finished is kept: run the same command with --resume and a smaller --batch-size"
            ) from error
        finally:
            if is_ours:
                ray.shutdown()

    def _embed(self, embedder, piece_embedder, pieces, folder) -> Embedded:
        ray = self._ray
        saved = ray.put([path.read_bytes() for path in _save(embedder.bilm, folder)])
        on_gpu = embedder.cuda_device >= 0
        embed = ray.remote(num_cpus=1, num_gpus=int(on_gpu), max_retries=_NUM_RETRIES)(_embed_on_ray)
        # Within a list the reference isn't resolved: a worker fetches the biLM once, not with each task.
        for piece, task in _in_order(
            pieces,
            lambda piece: embed.remote([saved], 0 if on_gpu else -1, piece_embedder, piece),
            self._num_workers,
        ):
            yield piece, ray.get(task)


def _embed_on_ray(
    saved: List[Any], cuda_device: int, piece_embedder: PieceEmbedder, piece: Piece
) -> List[numpy.ndarray]:
    """The task."""
    return list(piece_embedder.embed(_embedder_on_ray(saved[0], cuda_device), piece))


@functools.lru_cache(maxsize=1)
def _embedder_on_ray(saved: Any, cuda_device: int) -> ElmoEmbedder:
    import ray

    with tempfile.TemporaryDirectory() as folder:
        for name, contents in zip(_BILM_FILES, ray.get(saved), strict=True):
            (Path(folder) / name).write_bytes(contents)
        return ElmoEmbedder(folder, cuda_device=cuda_device)
