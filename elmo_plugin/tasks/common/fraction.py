"""DatasetReader "elmo::fraction": part of a training set, for the sample-size curves of Figure 1."""

import hashlib
from itertools import islice
from typing import Any, Iterable, Iterator, TypeVar

from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader, Instance

Item = TypeVar("Item")


@DatasetReader.register("elmo::fraction")
class FractionReader(DatasetReader):
    """Keeps a `fraction` of what another `reader` reads, chosen by `seed`.

        {"type": "elmo::fraction", "reader": {"type": "elmo::snli", ...}, "fraction": 0.01, "seed": 0}

    Each instance has a number in [0, 1), a hash of the seed and of its position in the file, and is kept if that is
    below `fraction`. So the choice needs no second pass, is the same on any machine, and is nested: the 1 % is inside
    the 10 %. How many are kept is the given fraction on average. The inner reader's `max_instances` cuts before the
    choice, this one's after it.

    Every process reads all of the file, since an instance's position must not depend on how many processes there are;
    what is kept is then distributed among ranks and workers here, and the inner reader knows nothing about them.
    """

    def __init__(self, reader: DatasetReader, fraction: float, seed: int = 0, **kwargs) -> None:
        super().__init__(manual_distributed_sharding=True, manual_multiprocess_sharding=True, **kwargs)
        if not 0.0 < fraction <= 1.0:
            raise ConfigurationError(
                f"reader elmo::fraction: fraction must be above 0 and at most 1 (0.01 for one per cent), not {fraction}"
            )
        self._reader = reader
        self._fraction = fraction
        self._seed = seed
        _let_read_everything(reader)

    def _read(self, file_path: Any) -> Iterator[Instance]:
        return self._share(self._kept(file_path))

    def _kept(self, file_path: Any) -> Iterator[Instance]:
        # Not `read`, which would attach token indexers in worker processes too.
        instances = islice(self._reader._read(file_path), self._reader.max_instances)
        num_read = num_kept = 0
        for index, instance in enumerate(instances):
            num_read += 1
            if _place_in_unit_interval(self._seed, index) < self._fraction:
                num_kept += 1
                yield instance
        self._check_enough(file_path, num_read, num_kept)

    def _check_enough(self, file_path: Any, num_read: int, num_kept: int) -> None:
        distributed = self.get_distributed_info()
        num_needed = 1 if distributed is None else distributed.world_size
        if num_kept < num_needed:
            raise ConfigurationError(
                f"reader elmo::fraction: a fraction of {self._fraction} (seed {self._seed}) of the {num_read} "
                f"instances in {file_path} leaves {num_kept}, but {num_needed} or more are needed, one for each "
                "training process; use a larger fraction, or another seed"
            )

    def _share(self, instances: Iterable[Item]) -> Iterator[Item]:
        """This rank's and worker's share. Like `shard_iterable`, which doesn't know the rank in a spawned worker."""
        share = iter(instances)
        distributed, worker = self.get_distributed_info(), self.get_worker_info()
        if distributed is not None:
            share = islice(share, distributed.global_rank, None, distributed.world_size)
        if worker is not None:
            share = islice(share, worker.id, None, worker.num_workers)
        return share

    def text_to_instance(self, *args, **kwargs) -> Instance:
        return self._reader.text_to_instance(*args, **kwargs)

    def apply_token_indexers(self, instance: Instance) -> None:
        self._reader.apply_token_indexers(instance)


def _let_read_everything(reader: DatasetReader) -> None:
    reader._set_worker_info(None)
    reader._set_distributed_info(None)
    # The method asks torch for the rank, whatever the reader is told.
    reader.shard_iterable = iter  # type: ignore[assignment, method-assign]


def _place_in_unit_interval(seed: int, index: int) -> float:
    digest = hashlib.blake2b(f"{seed}:{index}".encode(), digest_size=6).digest()
    # 48 bits, which a float holds exactly: never rounded up to 1.
    return int.from_bytes(digest, "big") / 2**48
