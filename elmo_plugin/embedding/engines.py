"""Who embeds the shards of a job: this process, several on this machine, or a Ray cluster."""

import concurrent.futures
import functools
import io
import multiprocessing
import os
import signal
import tempfile
import threading
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional

import h5py
import torch
from allennlp.common.checks import ConfigurationError

from elmo_plugin.bilm import BiLm, checkpoint
from elmo_plugin.embedding.embedder_api import ElmoEmbedder
from elmo_plugin.embedding.hdf5_file import new_hdf5_file
from elmo_plugin.embedding.shards import Shard, ShardFolder, ShardWriter
from elmo_plugin.files import replacing

_SHARDS_AHEAD = 2  # a worker's: one in work, one waiting
_NUM_RETRIES = 5


class Engine:
    """Embeds shards into the files of a folder, and calls `advance` with the number of sentences that were done."""

    def run(
        self,
        embedder: ElmoEmbedder,
        writer: ShardWriter,
        shards: Iterator[Shard],
        folder: ShardFolder,
        advance: Callable[[int], object],
    ) -> None:
        raise NotImplementedError


class ThisProcess(Engine):
    """One shard after the other."""

    def run(self, embedder, writer, shards, folder, advance) -> None:
        for shard in shards:
            with new_hdf5_file(folder.shard_file(shard.number)) as output:
                writer.write(embedder, shard, *output, advance)


class Processes(Engine):
    """`num_workers` processes on this machine, each with the biLM and its part of the cores.

    They aren't forked unless `start_method` says so: a copy of a process that has used CUDA or OpenMP may hang.
    """

    def __init__(self, num_workers: int, start_method: str = "spawn") -> None:
        if num_workers < 1:
            raise ConfigurationError(f"it takes at least 1 worker, got {num_workers}")
        self._num_workers = num_workers
        self._context: Any = multiprocessing.get_context(start_method)

    def run(self, embedder, writer, shards, folder, advance) -> None:
        others = set(multiprocessing.active_children())
        executor = concurrent.futures.ProcessPoolExecutor(
            self._num_workers,
            self._context,
            _begin_worker,
            (_save(embedder.bilm, folder.path), embedder.cuda_device, max(1, _num_cores() // self._num_workers)),
        )
        try:
            waiting: Dict[concurrent.futures.Future, int] = {}
            while True:
                for shard in islice(shards, self._num_workers * _SHARDS_AHEAD - len(waiting)):
                    path = folder.shard_file(shard.number)
                    waiting[executor.submit(_embed_in_worker, writer, shard, path)] = len(shard.sentences)
                if not waiting:
                    break
                done, _ = concurrent.futures.wait(waiting, return_when=concurrent.futures.FIRST_COMPLETED)
                for future in done:
                    future.result()
                    advance(waiting.pop(future))
            executor.shutdown()
        except BrokenProcessPool as error:
            raise ConfigurationError(
                "a worker process died, maybe for lack of memory. What was finished is kept: run the same command "
                "with --resume, and fewer --workers or a smaller --batch-size"
            ) from error
        finally:
            executor.shutdown(wait=False, cancel_futures=True)
            for worker in set(multiprocessing.active_children()) - others:
                worker.terminate()


def _num_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _SavedBiLm(NamedTuple):
    options_file: Path
    weight_file: Path


def _save(bilm: BiLm, folder: Path) -> _SavedBiLm:
    """The biLM in files for the workers, wherever it came from."""
    saved = _SavedBiLm(folder / "options.json", folder / "weights.hdf5")
    checkpoint.write(bilm, saved.weight_file, saved.options_file)
    return saved


_worker_embedder: Optional[ElmoEmbedder] = None


def _begin_worker(saved: _SavedBiLm, cuda_device: int, num_threads: int) -> None:
    global _worker_embedder
    # On Ctrl-C the worker just ends; its parent says what there is to say. And it doesn't outlive its parent.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(num_threads)
    _worker_embedder = ElmoEmbedder(str(saved.options_file), str(saved.weight_file), cuda_device)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _embed_in_worker(writer: ShardWriter, shard: Shard, path: Path) -> None:
    assert _worker_embedder is not None
    with new_hdf5_file(path) as output:
        writer.write(_worker_embedder, shard, *output)


class Ray(Engine):
    """`num_workers` tasks at a time on a Ray cluster: the one at RAY_ADDRESS if that is set, else one on this machine.

    A task takes a shard's lines and returns the bytes of its file; the biLM travels through Ray too, so the other
    machines need the plugin and no file. This process alone writes files, each once and whole: a task that Ray has to
    run again, since its worker died, neither loses nor doubles a line.
    """

    def __init__(self, num_workers: int) -> None:
        if num_workers < 1:
            raise ConfigurationError(f"it takes at least 1 worker, got {num_workers}")
        self._num_workers = num_workers
        try:
            import ray
        except ImportError as error:
            raise ConfigurationError("--engine ray needs Ray: pip install 'elmo-plugin[ray]'") from error
        self._ray = ray

    def run(self, embedder, writer, shards, folder, advance) -> None:
        ray = self._ray
        is_ours = not ray.is_initialized()
        if is_ours:
            ray.init(include_dashboard=False, log_to_driver=False)
        try:
            self._run(embedder, writer, shards, folder, advance)
        except ray.exceptions.RayTaskError as error:
            raise error.cause from error
        except ray.exceptions.WorkerCrashedError as error:
            raise ConfigurationError(
                f"the workers of one shard died {_NUM_RETRIES + 1} times, maybe for lack of memory. What was finished "
                "is kept: run the same command with --resume and a smaller --batch-size"
            ) from error
        finally:
            if is_ours:
                ray.shutdown()

    def _run(self, embedder, writer, shards, folder, advance) -> None:
        ray = self._ray
        saved = ray.put([path.read_bytes() for path in _save(embedder.bilm, folder.path)])
        on_gpu = embedder.cuda_device >= 0
        embed = ray.remote(num_cpus=1, num_gpus=int(on_gpu), max_retries=_NUM_RETRIES)(_embed_on_ray)
        waiting: Dict[Any, Shard] = {}
        while True:
            for shard in islice(shards, self._num_workers - len(waiting)):
                # Within a list the reference isn't resolved: a worker fetches the biLM once, not with each task.
                waiting[embed.remote([saved], 0 if on_gpu else -1, writer, shard)] = shard
            if not waiting:
                return
            (done,), _ = ray.wait(list(waiting), num_returns=1)
            shard = waiting.pop(done)
            contents = ray.get(done)
            with replacing(folder.shard_file(shard.number)) as temporary:
                temporary.write_bytes(contents)
            advance(len(shard.sentences))


def _embed_on_ray(saved: List[Any], cuda_device: int, writer: ShardWriter, shard: Shard) -> bytes:
    """The task: the bytes of the shard's file."""
    target = io.BytesIO()
    with h5py.File(target, "w") as file:
        writer.write(_embedder_on_ray(saved[0], cuda_device), shard, file)
    return target.getvalue()


@functools.lru_cache(maxsize=1)
def _embedder_on_ray(saved: Any, cuda_device: int) -> ElmoEmbedder:
    import ray

    with tempfile.TemporaryDirectory() as folder:
        options_file, weight_file = Path(folder) / "options.json", Path(folder) / "weights.hdf5"
        for path, contents in zip((options_file, weight_file), ray.get(saved), strict=True):
            path.write_bytes(contents)
        return ElmoEmbedder(str(options_file), str(weight_file), cuda_device)
