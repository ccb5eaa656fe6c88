"""Word vectors that know every word of their file: TokenIndexer "elmo::words" and TokenEmbedder "elmo::word_vectors".

A vocabulary holds the words of the training and development data. AllenNLP's embedding takes the vectors of these from
the file and forgets the rest, so that a word that occurs only in the test data is unknown, even if the file has it.
Here the whole file goes into the archive. Only the vocabulary's words are a parameter that can be trained; any other
word is indexed by its `word_key`, and the embedder looks it up.
"""

import logging
import re
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence

import numpy
import torch
from allennlp.common.checks import ConfigurationError
from allennlp.data import Token, TokenIndexer, Vocabulary
from allennlp.data.token_indexers import SingleIdTokenIndexer
from allennlp.modules import TokenEmbedder
from allennlp.modules.token_embedders import Embedding

from elmo_plugin.archive_records import WhenFirstSaved, read_record, write_record
from elmo_plugin.text.vector_table import TableBuilder, VectorTable, word_key
from elmo_plugin.text.vectors_file import read_vectors

logger = logging.getLogger(__name__)

# In a run's vocabulary folder, which AllenNLP puts into the archive; what begins with a dot isn't read as a vocabulary.
TABLES_FOLDER = ".word_vectors"
RECORD_NAME = ".word_vectors.json"

# What Senna's own tokenizer treats as a number.
_NUMBER = re.compile(r"[+-]?[.,]?[0-9]+(?:[.,][0-9]+)*")


@TokenIndexer.register("elmo::words")
class WordIndexer(SingleIdTokenIndexer):
    """AllenNLP's `single_id`, except that words not in the vocabulary get their `word_key`, which is below zero.

    lowercase_tokens: whether words are written in lower case, as they are in some files of vectors.
    zero_numbers: whether numbers, alone and within words, become `0`, as they are in Senna's list: `1,234.5` and `-7`
        are `0`, and `1996-08-22` is `000`, since the hyphens are read as signs.
    """

    def __init__(
        self,
        namespace: str = "tokens",
        lowercase_tokens: bool = False,
        zero_numbers: bool = False,
        token_min_padding_length: int = 0,
    ) -> None:
        super().__init__(namespace, lowercase_tokens, token_min_padding_length=token_min_padding_length)
        self.zero_numbers = zero_numbers

    def count_vocab_items(self, token: Token, counter: Dict[str, Dict[str, int]]) -> None:
        counter[self.namespace][self._written(token)] += 1  # type: ignore[index]

    def tokens_to_indices(self, tokens: List[Token], vocabulary: Vocabulary) -> Dict[str, List[int]]:
        ids = vocabulary.get_token_to_index_vocabulary(self.namespace)  # type: ignore[arg-type]
        words = map(self._written, tokens)
        return {"tokens": [ids[word] if word in ids else word_key(word) for word in words]}

    def _written(self, token: Token) -> str:
        word = token.text or ""
        word = word.lower() if self.lowercase_tokens else word
        return _NUMBER.sub("0", word) if self.zero_numbers else word

    def _to_params(self) -> Dict[str, Any]:
        return {
            "namespace": self.namespace,
            "lowercase_tokens": self.lowercase_tokens,
            "zero_numbers": self.zero_numbers,
            "token_min_padding_length": self._token_min_padding_length,
        }


@TokenEmbedder.register("elmo::word_vectors")
class WordVectors(Embedding):
    """AllenNLP's `embedding`, with the vectors of all the words in its file; in training, only those of the vocabulary.

    Words in the vocabulary have a row of the parameter `weight`, which starts as the file's vector and is trained if
    `trainable`. Other words, as `elmo::words` indexes them, have the file's vector as it is, rounded to half precision;
    if the file doesn't have them either, they all are the one unknown word, where `--extend-vocab` would draw a vector
    for each. In training all words outside the vocabulary are unknown, so that there are examples to learn the unknown
    word's vector from.

    embedding_dim: the number of dimensions, which the file must have.
    pretrained_file: the vectors; see vectors_file.py. Without it they start at random, and only the vocabulary's exist.
    unit_length: whether vectors are scaled to length 1.
    missing: how words of the vocabulary that aren't in the file start: with `random` numbers that have the mean and the
        variance of the others, or `zeros`.
    name: what the vectors are called in the archive; a model that reads two files has to name one of them.
    """

    def __init__(
        self,
        embedding_dim: int,
        vocab: Vocabulary,
        vocab_namespace: str = "tokens",
        pretrained_file: Optional[str] = None,
        trainable: bool = True,
        unit_length: bool = False,
        missing: str = "random",
        name: str = "words",
        serialization_dir: Optional[str] = None,
    ) -> None:
        if missing not in ("random", "zeros"):
            raise ConfigurationError(f"elmo::word_vectors: missing must be 'random' or 'zeros', not {missing!r}")
        self._unit_length, self._missing, self._name = unit_length, missing, name
        table, weight = None, None
        if pretrained_file is not None:
            words = _words(vocab, vocab_namespace)
            with TableBuilder(serialization_dir) as builder:
                weight = self._read(pretrained_file, embedding_dim, words, builder)
                table = builder.finish()
        elif serialization_dir is not None:
            table = _open_table(Path(serialization_dir), name, embedding_dim)
        super().__init__(
            embedding_dim,
            weight=weight,  # type: ignore[arg-type]
            trainable=trainable,
            vocab_namespace=vocab_namespace,
            vocab=vocab,
        )
        self._unknown_id = vocab.get_token_index(vocab._oov_token, vocab_namespace)
        self._table = table
        if pretrained_file is not None and serialization_dir is not None:
            self.register_state_dict_pre_hook(WhenFirstSaved(Path(serialization_dir), _save_table))

    @property
    def table(self) -> Optional[VectorTable]:
        """The vectors of all words of the file, if there is one."""
        return self._table

    @property
    def name(self) -> str:
        return self._name

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        is_outside = tokens < 0
        embedded = super().forward(tokens.masked_fill(is_outside, self._unknown_id))
        if self.training or self._table is None:
            return embedded
        found = self._table.find(tokens[is_outside].cpu().numpy())
        is_found = torch.zeros_like(is_outside)
        is_found[is_outside] = torch.from_numpy(found.is_found).to(is_found.device)
        vectors = torch.from_numpy(found.vectors).to(embedded)
        return embedded.masked_scatter(is_found.unsqueeze(-1), vectors)

    def extend_vocab(
        self,
        extended_vocab: Vocabulary,
        vocab_namespace: Optional[str] = None,
        extension_pretrained_file: Optional[str] = None,
        model_path: Optional[str] = None,
    ) -> None:
        """Gives words that are added to the vocabulary their rows: from a file that is named here, or else from the
        table.
        """
        words = _words(extended_vocab, vocab_namespace or self._vocab_namespace)[self.num_embeddings :]
        dim = self.weight.size(-1)
        if extension_pretrained_file is not None:
            rows = self._read(extension_pretrained_file, dim, words)
        elif self._table is not None:
            found = self._table.find_words(words)
            vectors = numpy.zeros((len(words), dim), dtype=numpy.float32)
            vectors[found.is_found] = found.vectors
            rows = self._complete(vectors, found.is_found)
        else:
            rows = torch.nn.init.xavier_uniform_(torch.empty(len(words), dim)) if words else torch.empty(0, dim)
        extended = torch.cat([self.weight.data, rows.to(self.weight.data)])
        self.weight = torch.nn.Parameter(extended, requires_grad=self.weight.requires_grad)
        self.num_embeddings = len(extended)

    def _read(self, file: str, dim: int, words: Sequence[str], builder: Optional[TableBuilder] = None) -> torch.Tensor:
        """The vectors of `words`; they and all others in the file go to `builder`."""
        row_of = {word: row for row, word in enumerate(words)}
        vectors = numpy.zeros((len(words), dim), dtype=numpy.float32)
        is_found = numpy.zeros(len(words), dtype=bool)
        for block in read_vectors(file, dim):
            of_block = _scaled(block.vectors) if self._unit_length else block.vectors
            if builder is not None:
                builder.add(block.words, of_block)
            for word, vector in zip(block.words, of_block, strict=True):
                row = row_of.pop(word, None)  # so that of several vectors of one word the first counts
                if row is not None:
                    vectors[row], is_found[row] = vector, True
        logger.info("%s has the vectors of %d of %d words in the vocabulary", file, is_found.sum(), len(words))
        return self._complete(vectors, is_found)

    def _complete(self, vectors: numpy.ndarray, is_found: numpy.ndarray) -> torch.Tensor:
        """Fills the rows that weren't found as `missing` says."""
        weight = torch.from_numpy(vectors)
        if self._missing == "random" and not is_found.all():
            found = vectors[is_found]
            mean, deviation = (float(found.mean()), float(found.std())) if len(found) else (0.0, 1.0)
            is_missing = torch.from_numpy(~is_found)
            weight[is_missing] = torch.empty(int(is_missing.sum()), weight.size(1)).normal_(mean, deviation)
        return weight


def _save_table(embedder: WordVectors, folder: Path) -> None:
    assert embedder.table is not None
    digests = read_record(folder, RECORD_NAME)
    if digests.get(embedder.name, embedder.table.digest) != embedder.table.digest:
        raise ConfigurationError(
            f"two different files of word vectors are called {embedder.name!r} in {folder / 'vocabulary'}: give one of "
            "the elmo::word_vectors another 'name'; or, in a recovered run, the file it began with"
        )
    embedder.table.save(folder / "vocabulary" / TABLES_FOLDER)
    write_record(folder, RECORD_NAME, {**digests, embedder.name: embedder.table.digest})


def _open_table(folder: Path, name: str, dim: int) -> Optional[VectorTable]:
    digest = read_record(folder, RECORD_NAME).get(name)
    return None if digest is None else VectorTable.open(folder / "vocabulary" / TABLES_FOLDER, digest, dim)


def _words(vocab: Vocabulary, namespace: Optional[str]) -> List[str]:
    """The words of a namespace, in the order of their ids."""
    words = vocab.get_index_to_token_vocabulary(namespace)  # type: ignore[arg-type]
    return [words[index] for index in range(len(words))]


def _scaled(vectors: numpy.ndarray) -> numpy.ndarray:
    """Scales each to length 1, except those of length 0, which stay."""
    lengths = numpy.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / numpy.where(lengths == 0, 1, lengths)
