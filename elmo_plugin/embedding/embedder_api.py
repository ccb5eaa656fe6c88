"""ELMo vectors from Python, with the methods of AllenNLP 0.9's ElmoEmbedder."""

from collections import deque
from typing import IO, Callable, Deque, Dict, Iterable, Iterator, List, Optional, Tuple, TypeVar, Union

import numpy
import torch
from tqdm import tqdm

from elmo_plugin.bilm import BiLm
from elmo_plugin.characters import CharacterMapping
from elmo_plugin.embedding.hdf5_file import new_hdf5_file
from elmo_plugin.embedding.hdf5_layout import VectorWriter, check_layers, select_layers
from elmo_plugin.embedding.long_sequences import MAX_TOKENS_PER_BLOCK, run_in_blocks
from elmo_plugin.errors import ConfigurationError

Item = TypeVar("Item")

MAX_TOKENS_AHEAD = 2**14
"""How many tokens' vectors are held at once, padding included: 12 KB each at the paper's size, 200 MB in all."""


class ElmoEmbedder:
    """Embeds tokenised sentences with a biLM that is named as for `BiLm.load`, by default the one that ships, or with a
    `BiLm` object. AllenNLP 0.9's arguments, `ElmoEmbedder(options_file, weight_file, cuda_device)`, are taken too.

    A sentence always gets the same vectors. `stateful` carries the LSTM states from batch to batch instead, as AllenNLP
    0.9 did. `precision` "int8" rounds the LSTMs' weights, for more speed on a CPU; see `BiLm`.

        elmo = ElmoEmbedder("wiki-base")
        vectors = elmo.embed_sentence(["I", "ate", "an", "apple", "."])   # float32 array, (layers, tokens, dim)
    """

    def __init__(
        self,
        bilm: Union[str, BiLm, None] = None,
        weight_file: Optional[str] = None,
        cuda_device: int = -1,
        *,
        options_file: Optional[str] = None,
        stateful: bool = False,
        precision: str = "float32",
    ) -> None:
        device = _device(cuda_device)
        if precision == "int8" and cuda_device >= 0:
            raise ConfigurationError("precision int8 is for CPUs; on a GPU take float32, tf32 or bfloat16")
        self.cuda_device = cuda_device
        if not isinstance(bilm, BiLm):
            bilm = BiLm.load(bilm, weight_file, options_file=options_file)
        self.bilm: BiLm = bilm.requires_grad_(False).eval()
        self.bilm.stateful = stateful or self.bilm.stateful
        self.bilm.precision = precision
        self.bilm = self.bilm.to(device)
        self._mapping = CharacterMapping(self.bilm.options.max_characters_per_token)

    name = "biLM"  # what tables call it

    @property
    def num_layers(self) -> int:
        return self.bilm.num_layers

    @property
    def dim(self) -> int:
        return self.bilm.get_output_dim()

    @property
    def stateful(self) -> bool:
        return self.bilm.stateful

    def fingerprint(self) -> str:
        """A digest of everything the vectors depend on apart from the sentence."""
        from elmo_plugin.bilm.cache import fingerprint  # imported here, since it imports AllenNLP

        return fingerprint(self.bilm).hex()

    def batch_to_embeddings(self, batch: List[List[str]]) -> Tuple[torch.Tensor, torch.Tensor]:
        """Tensors of a batch: vectors, (batch_size, layers, longest, dim), and mask, (batch_size, longest)."""
        longest = max((len(sentence) for sentence in batch), default=0)
        ids = numpy.zeros((len(batch), longest, self._mapping.max_characters_per_token), dtype=numpy.int64)
        for row, sentence in enumerate(batch):
            if isinstance(sentence, str):
                raise ValueError(f"a sentence must be a list of tokens, not the string {sentence!r}; split it first")
            if sentence:
                ids[row, : len(sentence)] = [self._mapping.ids(token) for token in sentence]
        character_ids = torch.from_numpy(ids)
        device = next(self.bilm.parameters()).device  # it may have been moved in the meantime
        mask = (character_ids > 0).any(dim=-1).to(device)
        # Not in inference mode: its tensors can't be trained on.
        with torch.no_grad():
            if character_ids[..., 0].numel() > MAX_TOKENS_PER_BLOCK:
                return run_in_blocks(self.bilm, character_ids), mask
            layers, _ = self.bilm(character_ids.to(device))
            # Shape: (batch_size, num_layers, longest, dim), without the boundaries
            return layers[:, :, 1:-1].transpose(0, 1) * mask[:, None, :, None], mask

    def embed_sentence(self, sentence: List[str]) -> numpy.ndarray:
        """The vectors of one sentence: float32, (layers, tokens, dim)."""
        return self.embed_batch([sentence])[0]

    def embed_batch(self, batch: List[List[str]]) -> List[numpy.ndarray]:
        """The vectors of each sentence. They are run as one batch, or as several of about the same length if together
        they have more than `MAX_TOKENS_AHEAD` tokens.
        """
        return list(self.embed_sentences(batch, batch_size=max(1, len(batch)), look_ahead=1))

    def _embed_together(self, batch: List[List[str]]) -> List[numpy.ndarray]:
        vectors = self.batch_to_embeddings(batch)[0].cpu().numpy()
        if len(batch) == 1:
            return [vectors[0]]
        # Copies, so that keeping one sentence doesn't keep the whole batch.
        return [vectors[row, :, : len(sentence)].copy() for row, sentence in enumerate(batch)]

    def embed_sentences(
        self, sentences: Iterable[List[str]], batch_size: int = 64, look_ahead: int = 8
    ) -> Iterator[numpy.ndarray]:
        """The vectors of each of any number of sentences, in their order.

        Sentences of about the same length are run together. For that, `look_ahead` batches of `batch_size` sentences
        are read at once, or fewer when they reach `MAX_TOKENS_AHEAD`; 1 reads no further than a batch. A batch takes up
        to `batch_size` sentences and `MAX_TOKENS_AHEAD` tokens. A longer sentence goes alone, in blocks: apart from its
        vectors it takes no more memory than a short one.

        A `stateful` embedder runs the sentences as they come, `batch_size` at a time.
        """
        if batch_size < 1 or look_ahead < 1:
            raise ValueError(f"batch_size and look_ahead have to be at least 1, got {batch_size} and {look_ahead}")
        if self.stateful:
            for batch in _groups(sentences, batch_size):
                yield from self._embed_together(batch)
            return
        for group in _groups(sentences, batch_size * look_ahead, MAX_TOKENS_AHEAD):
            vectors: Dict[int, numpy.ndarray] = {}
            for places in _batches_by_length([len(sentence) for sentence in group], batch_size):
                vectors.update(zip(places, self._embed_together([group[place] for place in places]), strict=True))
            for place in range(len(group)):
                yield vectors.pop(place)

    def embed_items(
        self, items: Iterable[Item], tokens_of: Callable[[Item], List[str]], batch_size: int = 64
    ) -> Iterator[Tuple[Item, numpy.ndarray]]:
        """Each item with the vectors of its tokens; no more items are held than are looked ahead."""
        waiting: Deque[Item] = deque()

        def sentences() -> Iterator[List[str]]:
            for item in items:
                waiting.append(item)
                yield tokens_of(item)

        for vectors in self.embed_sentences(sentences(), batch_size):
            yield waiting.popleft(), vectors

    def embed_apart(self, sentences: Iterable[List[str]], batch_size: int = 64) -> Iterator[numpy.ndarray]:
        """Makes the vectors the same, to the last bit, whatever was embedded before.

        A multiplication's last bits depend on what is multiplied beside it; so the words that are remembered from
        earlier sentences are forgotten.
        """
        self.bilm.token_cache.clear()
        return self.embed_sentences(sentences, batch_size)

    def embed_file(
        self,
        input_file: IO[str],
        output_file_path: str,
        output_format: str = "all",
        batch_size: int = 64,
        forget_sentences: bool = False,
        use_sentence_keys: bool = False,
    ) -> None:
        """Embeds a file of tokenised sentences, one per line, into HDF5 datasets keyed by line index from 0.

        `hdf5_layout.py` describes the layout; `output_format` is `all`, `top` or `average`. The output file appears
        when it is complete. `allennlp elmo` does the same, and can be interrupted.
        """
        check_layers(output_format)
        writer = VectorWriter(forget_sentences, use_sentence_keys, unique_keys=self.bilm.stateful)
        with new_hdf5_file(output_file_path) as (output, check):
            embedded = self.embed_items(tqdm(_non_blank_lines(input_file)), str.split, batch_size)
            for index, (sentence, layers) in enumerate(embedded):
                writer.write(output, index, sentence, select_layers(layers, output_format))
                check()
            writer.write_index(output)


def _device(cuda_device: int) -> torch.device:
    if cuda_device >= torch.cuda.device_count():
        raise ConfigurationError(
            f"cuda_device is {cuda_device}, but torch sees {torch.cuda.device_count()} GPUs; -1 is the CPU"
        )
    return torch.device("cuda", cuda_device) if cuda_device >= 0 else torch.device("cpu")


def _groups(
    sentences: Iterable[List[str]], max_sentences: int, max_tokens: float = float("inf")
) -> Iterator[List[List[str]]]:
    """Successive sentences, up to a number of them and of their tokens."""
    group: List[List[str]] = []
    num_tokens = 0
    for sentence in sentences:
        group.append(sentence)
        num_tokens += len(sentence)
        if len(group) == max_sentences or num_tokens >= max_tokens:
            yield group
            group, num_tokens = [], 0
    if group:
        yield group


def _batches_by_length(lengths: List[int], batch_size: int) -> Iterator[List[int]]:
    """Places of sentences, longest first, that fit in a batch together."""
    batch: List[int] = []
    for place in sorted(range(len(lengths)), key=lambda place: -lengths[place]):
        # The first of a batch is its longest: all others are padded to its length.
        if len(batch) == batch_size or (batch and (len(batch) + 1) * lengths[batch[0]] > MAX_TOKENS_AHEAD):
            yield batch
            batch = []
        batch.append(place)
    if batch:
        yield batch


def _non_blank_lines(file: IO[str]) -> Iterator[str]:
    for number, line in enumerate(file, start=1):
        sentence = line.strip()
        if not sentence:
            name = getattr(file, "name", "the input")
            raise ConfigurationError(f"line {number} of {name} is blank; remove blank lines or put a token on them")
        yield sentence
