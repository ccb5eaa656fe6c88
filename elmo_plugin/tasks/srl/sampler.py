"""BatchSampler "elmo::sentences": batches of similar lengths in which a sentence's predicates stay together."""

from itertools import groupby
from typing import Iterable, List, Tuple

from allennlp.data import Instance
from allennlp.data.samplers import BatchSampler, BucketBatchSampler
from allennlp.data.samplers.bucket_batch_sampler import add_noise_to_value


@BatchSampler.register("elmo::sentences")
class SentenceBatchSampler(BucketBatchSampler):
    """AllenNLP's `bucket`, with the same noise for all instances of a sentence, so that they stay adjacent when sorted.

    A model can then embed the sentence once for all of them. Batches still have `batch_size` instances, except for the
    last: a sentence at the border of two batches is in both.
    """

    def __init__(
        self, batch_size: int, padding_noise: float = 0.1, drop_last: bool = False, shuffle: bool = True
    ) -> None:
        super().__init__(batch_size, ["tokens"], padding_noise, drop_last, shuffle)

    def _argsort_by_padding(self, instances: Iterable[Instance]) -> Tuple[List[int], List[List[int]]]:
        instances = list(instances)
        keyed = []
        for _, group in groupby(range(len(instances)), key=lambda index: _words(instances[index])):
            indices = list(group)
            length = len(instances[indices[0]]["tokens"])
            keyed.append((add_noise_to_value(length, self.padding_noise), length, indices))
        keyed.sort(key=lambda item: item[0])
        flat = [(index, length) for _, length, indices in keyed for index in indices]
        return [index for index, _ in flat], [[length] for _, length in flat]


def _words(instance: Instance) -> List[str]:
    return instance["metadata"]["tokens"]  # type: ignore[index]
