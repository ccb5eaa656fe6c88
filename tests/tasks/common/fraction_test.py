import itertools
import pickle
from typing import Iterator, List

import pytest
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader, Instance, Token, Vocabulary
from allennlp.data.data_loaders import MultiProcessDataLoader
from allennlp.data.dataset_readers.dataset_reader import DistributedInfo, WorkerInfo
from allennlp.data.fields import MetadataField, TextField
from allennlp.data.token_indexers import SingleIdTokenIndexer

from elmo_plugin.tasks.common.fraction import FractionReader

NUM_INSTANCES = 2000


class NumbersReader(DatasetReader):
    """Reads the numbers below `file_path`; shards them itself if asked to."""

    def __init__(self, shards_itself: bool = False, **kwargs) -> None:
        super().__init__(
            manual_distributed_sharding=shards_itself, manual_multiprocess_sharding=shards_itself, **kwargs
        )
        self._shards_itself = shards_itself
        self.num_read = 0

    def _read(self, file_path: str) -> Iterator[Instance]:
        numbers = range(int(file_path))
        for number in self.shard_iterable(numbers) if self._shards_itself else numbers:
            self.num_read += 1
            yield self.text_to_instance(number)

    def text_to_instance(self, number: int) -> Instance:
        return Instance({"number": MetadataField(number), "text": TextField([Token(str(number))])})

    def apply_token_indexers(self, instance: Instance) -> None:
        instance["text"].token_indexers = {"tokens": SingleIdTokenIndexer()}


def kept(
    fraction: float, seed: int = 0, num_instances: int = NUM_INSTANCES, reader: DatasetReader = None, **kwargs
) -> List[int]:
    outer = FractionReader(reader or NumbersReader(), fraction, seed, **kwargs)
    return numbers(outer.read(str(num_instances)))


def numbers(instances: Iterator[Instance]) -> List[int]:
    return [instance["number"].metadata for instance in instances]


@pytest.mark.parametrize("fraction", [0.01, 0.1, 0.5])
def test_about_the_given_fraction_is_kept_in_file_order(fraction):
    some = kept(fraction)
    spread = (NUM_INSTANCES * fraction * (1 - fraction)) ** 0.5
    assert abs(len(some) - NUM_INSTANCES * fraction) < 4 * spread
    assert some == sorted(set(some))


def test_the_choice_is_spread_over_the_file():
    assert [min(kept(0.1)) < 200, max(kept(0.1)) > NUM_INSTANCES - 200] == [True, True]


def test_smaller_fractions_lie_inside_larger_ones():
    choices = [set(kept(fraction)) for fraction in (0.001, 0.01, 0.1, 0.5, 1.0)]
    for smaller, larger in itertools.pairwise(choices):
        assert smaller < larger


def test_all_is_kept_at_one():
    assert kept(1.0) == list(range(NUM_INSTANCES))


def test_a_choice_is_repeated_by_its_seed_and_changed_by_another():
    assert kept(0.1, seed=3) == kept(0.1, seed=3)
    assert kept(0.1, seed=3) != kept(0.1, seed=4)


def test_a_choice_stays_what_it_was_in_earlier_releases():
    assert kept(0.01, seed=0)[:5] == [25, 199, 343, 571, 576]


def test_a_longer_file_doesnt_change_the_choice_in_its_beginning():
    assert kept(0.1)[:50] == kept(0.1, num_instances=10 * NUM_INSTANCES)[:50]


def test_instances_are_read_one_by_one():
    inner = NumbersReader()
    next(iter(FractionReader(inner, 0.5).read(str(NUM_INSTANCES))))
    assert inner.num_read < 20


def test_the_inner_readers_limit_cuts_before_the_choice_and_the_outer_ones_after_it():
    assert kept(0.1, reader=NumbersReader(max_instances=100)) == kept(0.1, num_instances=100)
    assert kept(0.1, max_instances=3) == kept(0.1)[:3]


@pytest.mark.parametrize("fraction", [0.0, -0.1, 1.5, 100])
def test_a_fraction_outside_of_zero_and_one_is_refused(fraction):
    with pytest.raises(ConfigurationError, match=f"above 0 and at most 1 .* not {fraction}"):
        FractionReader(NumbersReader(), fraction)


def test_a_fraction_that_leaves_nothing_is_refused_with_the_file_and_a_remedy():
    with pytest.raises(
        ConfigurationError, match=r"0.0001 \(seed 0\) of the 20 instances in 20 leaves 0, .* larger fraction"
    ):
        kept(0.0001, num_instances=20)


def test_fewer_instances_than_training_processes_are_refused():
    reader = FractionReader(NumbersReader(), 1.0)
    reader._set_distributed_info(DistributedInfo(world_size=3, global_rank=0))
    with pytest.raises(ConfigurationError, match="leaves 2, but 3 or more are needed"):
        list(reader.read("2"))


@pytest.mark.parametrize("shards_itself", [False, True])
def test_ranks_and_workers_share_out_what_one_process_would_keep(shards_itself, monkeypatch):
    shares = []
    for rank, worker in itertools.product(range(2), range(3)):
        # A reader that shards itself asks torch.
        monkeypatch.setattr("allennlp.common.util.is_distributed", lambda: True)
        monkeypatch.setattr("torch.distributed.get_rank", lambda rank=rank: rank)
        monkeypatch.setattr("torch.distributed.get_world_size", lambda: 2)
        reader = FractionReader(NumbersReader(shards_itself), 0.1)
        reader._set_distributed_info(DistributedInfo(world_size=2, global_rank=rank))
        reader._set_worker_info(WorkerInfo(num_workers=3, id=worker))
        shares.append(numbers(reader.read(str(NUM_INSTANCES))))
    monkeypatch.undo()
    assert sorted(itertools.chain(*shares)) == kept(0.1)
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_data_loader_with_workers_gives_the_same_instances(num_workers):
    reader = FractionReader(NumbersReader(shards_itself=True), 0.05)
    loader = MultiProcessDataLoader(reader, str(NUM_INSTANCES), batch_size=8, num_workers=num_workers)
    loader.index_with(Vocabulary())
    batches = list(loader)
    assert sorted(number for batch in batches for number in batch["number"]) == kept(0.05)
    assert all("tokens" in batch["text"] for batch in batches)


def test_instances_are_made_and_indexed_by_the_inner_reader():
    reader = FractionReader(NumbersReader(), 0.5)
    instance = reader.text_to_instance(7)
    reader.apply_token_indexers(instance)
    assert instance["number"].metadata == 7
    assert instance["text"].token_indexers.keys() == {"tokens"}


def test_token_indexers_are_not_attached_in_a_worker():
    reader = FractionReader(NumbersReader(), 1.0)
    reader._set_worker_info(WorkerInfo(num_workers=1, id=0))
    assert next(iter(reader.read("3")))["text"]._token_indexers is None


def test_the_reader_can_be_sent_to_a_spawned_worker():
    reader = pickle.loads(pickle.dumps(FractionReader(NumbersReader(shards_itself=True), 0.1)))
    assert numbers(reader.read(str(NUM_INSTANCES))) == kept(0.1)


def test_it_is_built_by_its_registered_name(tmp_path):
    DatasetReader.register("numbers_of_fraction_test", exist_ok=True)(NumbersReader)
    params = {"type": "elmo::fraction", "reader": {"type": "numbers_of_fraction_test"}, "fraction": 0.1, "seed": 5}
    assert numbers(DatasetReader.from_params(Params(params)).read(str(NUM_INSTANCES))) == kept(0.1, seed=5)
