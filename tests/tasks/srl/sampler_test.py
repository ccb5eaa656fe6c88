import random
from collections import Counter

import pytest
from allennlp.common import Params
from allennlp.data.samplers import BatchSampler

from elmo_plugin.tasks.srl import SentenceBatchSampler, SrlReader


@pytest.fixture
def instances():
    reader = SrlReader()
    rng = random.Random(0)
    made = []
    for number in range(40):
        words = [f"sentence{number}"] + ["word"] * rng.randrange(3, 9)
        made += [reader.text_to_instance(words, index) for index in range(3)]
    return made


def test_every_instance_is_in_one_batch(instances):
    sampler = SentenceBatchSampler(batch_size=7)
    batches = list(sampler.get_batch_indices(instances))
    assert sorted(index for batch in batches for index in batch) == list(range(120))
    assert len(batches) == sampler.get_num_batches(instances) == 18
    assert sorted(map(len, batches)) == [1] + [7] * 17


def test_a_sentence_is_in_two_batches_at_a_seam_only(instances):
    random.seed(0)
    batches = list(SentenceBatchSampler(batch_size=12).get_batch_indices(instances))
    num_batches = Counter(name for batch in batches for name in {instances[i]["metadata"]["tokens"][0] for i in batch})
    # 12 is four whole sentences, so there is no seam inside of one.
    assert set(num_batches.values()) == {1}


def test_batches_change_from_epoch_to_epoch_unless_told_not_to(instances):
    def batches(**kwargs):
        sampler = SentenceBatchSampler(batch_size=12, **kwargs)
        return [sorted(map(sorted, sampler.get_batch_indices(instances))) for _ in range(2)]

    first, second = batches()
    assert first != second
    first, second = batches(shuffle=False)
    assert first == second


def test_lengths_are_similar(instances):
    for batch in SentenceBatchSampler(batch_size=12, padding_noise=0.0).get_batch_indices(instances):
        lengths = [len(instances[index]["tokens"]) for index in batch]
        assert max(lengths) - min(lengths) <= 2


def test_it_is_registered():
    assert isinstance(
        BatchSampler.from_params(Params({"type": "elmo::sentences", "batch_size": 3})), SentenceBatchSampler
    )
