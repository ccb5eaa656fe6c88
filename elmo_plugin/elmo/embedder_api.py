"""ELMo vectors from Python, with the methods of AllenNLP 0.9's ElmoEmbedder."""

import json
from itertools import islice
from typing import IO, Dict, Iterable, Iterator, List, Tuple

import h5py
import numpy
import torch
from allennlp.common import Tqdm
from allennlp.common.checks import ConfigurationError, check_for_gpu
from allennlp.nn.util import move_to_device

from elmo_plugin.bilm import BiLm, BiLmSource
from elmo_plugin.bilm.checkpoint import replacing
from elmo_plugin.characters import CharacterMapping

OUTPUT_FORMATS = ("all", "top", "average")


class ElmoEmbedder:
    """Embeds tokenised sentences with a biLM given as options.json + HDF5, each a path or a URL.

    A sentence always gets the same vectors. `stateful` carries the LSTM states from batch to batch instead, as AllenNLP
    0.9 did.

        elmo = ElmoEmbedder("options.json", "weights.hdf5")
        vectors = elmo.embed_sentence(["I", "ate", "an", "apple", "."])   # float32 array, (layers, tokens, dim)
    """

    def __init__(self, options_file: str, weight_file: str, cuda_device: int = -1, *, stateful: bool = False) -> None:
        check_for_gpu(cuda_device)
        self.cuda_device = cuda_device
        self.bilm: BiLm = (
            BiLmSource.from_files(options_file, weight_file, stateful=stateful).requires_grad_(False).eval()
        )
        if cuda_device >= 0:
            self.bilm = self.bilm.cuda(cuda_device)
        self._mapping = CharacterMapping(self.bilm.options.max_characters_per_token)

    def batch_to_embeddings(self, batch: List[List[str]]) -> Tuple[torch.Tensor, torch.Tensor]:
        """Tensors of a batch: vectors, (batch_size, layers, longest, dim), and mask, (batch_size, longest)."""
        longest = max((len(sentence) for sentence in batch), default=0)
        ids = numpy.zeros((len(batch), longest, self._mapping.max_characters_per_token), dtype=numpy.int64)
        for row, sentence in enumerate(batch):
            if isinstance(sentence, str):
                raise ValueError(f"a sentence must be a list of tokens, not the string {sentence!r}; split it first")
            if sentence:
                ids[row, : len(sentence)] = [self._mapping.ids(token) for token in sentence]
        character_ids = move_to_device(torch.from_numpy(ids), self.cuda_device)
        with torch.inference_mode():
            layers, _ = self.bilm(character_ids)
        mask = (character_ids > 0).any(dim=-1)
        # Shape: (batch_size, num_layers, longest, dim), without the boundaries
        vectors = layers[:, :, 1:-1].transpose(0, 1) * mask[:, None, :, None]
        return vectors, mask

    def embed_sentence(self, sentence: List[str]) -> numpy.ndarray:
        """The vectors of one sentence: float32, (layers, tokens, dim)."""
        return self.embed_batch([sentence])[0]

    def embed_batch(self, batch: List[List[str]]) -> List[numpy.ndarray]:
        """The vectors of each sentence, run together as one batch."""
        if not batch:
            return []
        vectors = self.batch_to_embeddings(batch)[0].cpu().numpy()
        # Copies, so that keeping one sentence doesn't keep the whole batch.
        return [vectors[row, :, : len(sentence)].copy() for row, sentence in enumerate(batch)]

    def embed_sentences(self, sentences: Iterable[List[str]], batch_size: int = 64) -> Iterator[numpy.ndarray]:
        """The vectors of each of any number of sentences, in their order, reading no more than a batch ahead."""
        remaining = iter(sentences)
        while batch := list(islice(remaining, batch_size)):
            yield from self.embed_batch(batch)

    def embed_file(
        self,
        input_file: IO[str],
        output_file_path: str,
        output_format: str = "all",
        batch_size: int = 64,
        forget_sentences: bool = False,
        use_sentence_keys: bool = False,
    ) -> None:
        """Embeds a file of tokenised sentences, one a line, into HDF5 datasets keyed by line index from 0.

        Each holds float32 of shape (layers, tokens, dim) for the format `all`, (tokens, dim) for `top` and `average`.
        `sentence_to_index` maps sentences to keys unless `forget_sentences`. `use_sentence_keys` keys the datasets by
        sentence instead. The output file appears when it is complete.
        """
        if output_format not in OUTPUT_FORMATS:
            raise ConfigurationError(f"output_format must be one of {', '.join(OUTPUT_FORMATS)}, not {output_format!r}")
        index_of: Dict[str, str] = {}
        with replacing(output_file_path) as temporary, h5py.File(temporary, "w") as output:
            for index, (sentence, layers) in enumerate(Tqdm.tqdm(self._embed_lines(input_file, batch_size))):
                key = _sentence_key(sentence, output, index) if use_sentence_keys else str(index)
                output.create_dataset(key, data=_in_format(layers, output_format))
                if not forget_sentences:
                    index_of[sentence] = key
            if not forget_sentences:
                text = output.create_dataset("sentence_to_index", (1,), dtype=h5py.string_dtype())
                text[0] = json.dumps(index_of)

    def _embed_lines(self, file: IO[str], batch_size: int) -> Iterator[Tuple[str, numpy.ndarray]]:
        lines = _non_blank_lines(file)
        while batch := list(islice(lines, batch_size)):
            yield from zip(batch, self.embed_batch([line.split() for line in batch]), strict=True)


def _non_blank_lines(file: IO[str]) -> Iterator[str]:
    for number, line in enumerate(file, start=1):
        sentence = line.strip()
        if not sentence:
            name = getattr(file, "name", "the input")
            raise ConfigurationError(f"line {number} of {name} is blank; remove blank lines or put a token on them")
        yield sentence


def _in_format(layers: numpy.ndarray, output_format: str) -> numpy.ndarray:
    return {"all": layers, "top": layers[-1], "average": layers.mean(axis=0)}[output_format]


def _sentence_key(sentence: str, output: h5py.File, index: int) -> str:
    if "/" in sentence or sentence in output:
        problem = 'holds a "/", which HDF5 reads as a path' if "/" in sentence else "stands in the file twice"
        raise ConfigurationError(
            f"line {index + 1} can't be its own key, since it {problem}: {sentence!r}; use line indices as keys"
        )
    return sentence
