"""Epochs of a tagger on a frozen biLM: with this plugin's cache, with AllenNLP's Elmo, and with no biLM at all.

The model is the paper's named entity tagger without its character CNN: 50-dimensional word vectors beside the vectors
under test, a biLSTM of 200, a biLSTM of 100, a CRF with 17 tags; whole training steps with Adam. The vectors are

- ELMo from this plugin, from the second epoch on: every sentence is in the cache;
- ELMo from AllenNLP, which runs the biLM again in every epoch;
- no biLM: word vectors as wide as ELMo's, looked up.

The text is invented: words drawn by Zipf's law, sentences of 5 to 45. Batches are made once, so that only the models
are timed, in turns of one epoch each; AllenNLP's Elmo takes its turns on some of the batches and is scaled to all.
"""

import random
import tempfile
from pathlib import Path
from typing import Callable, Dict, List, NamedTuple

import torch
from allennlp.modules import ConditionalRandomField, Embedding
from allennlp.modules.elmo import Elmo as AllenNlpElmo
from allennlp.modules.seq2seq_encoders import LstmSeq2SeqEncoder
from interleave import compare, interleaved, new_parser, parse, report

from elmo_plugin.bilm import BiLm, BiLmOptions, checkpoint
from elmo_plugin.bilm.cache import RamCache
from elmo_plugin.characters import CharacterMapping
from elmo_plugin.elmo import Elmo

SIZES = {
    "1024/128": BiLmOptions(cell_dim=1024, projection_dim=128, num_highway=1),
    "4096/512": BiLmOptions(),
}
NUM_WORDS, WORD_DIM, NUM_TAGS = 20_000, 50, 17
CACHED, UNCACHED, WITHOUT = "elmo_plugin", "AllenNLP's Elmo", "no biLM"


class Batch(NamedTuple):
    character_ids: torch.Tensor  # (batch_size, num_tokens, num_characters)
    word_ids: torch.Tensor  # (batch_size, num_tokens), 0 for padding
    tags: torch.Tensor


class Tagger(torch.nn.Module):
    """`embed` gives a batch's vectors, (batch_size, num_tokens, dim)."""

    def __init__(self, embedder: torch.nn.Module, embed: Callable[[Batch], torch.Tensor], dim: int) -> None:
        super().__init__()
        self.embedder = embedder
        self._embed = embed
        self.words = Embedding(WORD_DIM, NUM_WORDS + 1)
        self.dropout = torch.nn.Dropout(0.5)
        self.lower = LstmSeq2SeqEncoder(WORD_DIM + dim, 200, bidirectional=True)
        self.upper = LstmSeq2SeqEncoder(400, 100, bidirectional=True)
        self.output_layer = torch.nn.Linear(200, NUM_TAGS)
        self.crf = ConditionalRandomField(NUM_TAGS)

    def forward(self, batch: Batch) -> torch.Tensor:
        mask = batch.word_ids > 0
        inputs = torch.cat([self.words(batch.word_ids), self._embed(batch)], dim=-1)
        lower = self.lower(self.dropout(inputs), mask)
        emissions = self.output_layer(self.upper(self.dropout(lower), mask))
        return -self.crf(emissions, batch.tags, mask) / len(batch.tags)


def with_plugin(bilm: BiLm, megabytes: float) -> Tagger:
    elmo = Elmo(bilm, dropout=0.5, cache=RamCache(megabytes))
    return Tagger(elmo, lambda batch: elmo.embed(batch.character_ids)["input"], elmo.get_output_dim())


def with_allennlp(bilm: BiLm) -> Tagger:
    with tempfile.TemporaryDirectory() as folder:
        files = Path(folder, "options.json"), Path(folder, "weights.hdf5")
        checkpoint.write(bilm, files[1], files[0])
        elmo = AllenNlpElmo(str(files[0]), str(files[1]), num_output_representations=1, dropout=0.5)
    return Tagger(elmo, lambda batch: elmo(batch.character_ids)["elmo_representations"][0], elmo.get_output_dim())


def without_bilm(dim: int) -> Tagger:
    vectors = Embedding(dim, NUM_WORDS + 1, trainable=False)
    dropout = torch.nn.Dropout(0.5)
    return Tagger(vectors, lambda batch: dropout(vectors(batch.word_ids)), dim)


def invented_batches(num_batches: int, batch_size: int) -> List[Batch]:
    """Sentences of similar lengths side by side, as a bucketing sampler has them."""
    rng = random.Random(0)
    words = ["".join(rng.choices("etaoinshrdlucmfwypvbgk", k=rng.randint(2, 10))) for _ in range(NUM_WORDS)]
    weights = [1.0 / rank for rank in range(1, NUM_WORDS + 1)]
    mapping = CharacterMapping()
    lengths = sorted(rng.randint(5, 45) for _ in range(num_batches * batch_size))
    batches = []
    for start in range(0, len(lengths), batch_size):
        rows = [rng.choices(range(NUM_WORDS), weights, k=length) for length in lengths[start : start + batch_size]]
        word_ids = torch.nn.utils.rnn.pad_sequence([torch.tensor(row) + 1 for row in rows], batch_first=True)
        characters = torch.nn.utils.rnn.pad_sequence(
            [torch.tensor([mapping.ids(words[word]) for word in row]) for row in rows], batch_first=True
        )
        batches.append(Batch(characters, word_ids, torch.randint(NUM_TAGS, word_ids.shape)))
    rng.shuffle(batches)
    return batches


def epoch_of(model: Tagger, batches: List[Batch]) -> Callable[[], None]:
    optimizer = torch.optim.Adam([weight for weight in model.parameters() if weight.requires_grad], lr=0.001)

    def epoch() -> None:
        model.train()
        for batch in batches:
            optimizer.zero_grad()
            model(batch).backward()
            optimizer.step()

    return epoch


def measure(options: BiLmOptions, num_batches: int, num_uncached: int, batch_size: int, repeats: int) -> Dict:
    torch.manual_seed(0)
    bilm = BiLm(options)
    batches = invented_batches(num_batches, batch_size)
    num_tokens = sum(int((batch.word_ids > 0).sum()) for batch in batches)
    some_tokens = sum(int((batch.word_ids > 0).sum()) for batch in batches[:num_uncached])
    cached = with_plugin(bilm, megabytes=4096)
    contenders = {
        # The unmeasured first turn is the first epoch, which fills the cache.
        CACHED: epoch_of(cached, batches),
        UNCACHED: epoch_of(with_allennlp(bilm), batches[:num_uncached]),
        WITHOUT: epoch_of(without_bilm(2 * options.projection_dim), batches),
    }
    seconds = interleaved(contenders, repeats)
    if cached.embedder.cache.is_full:
        raise SystemExit("the text doesn't fit the cache: take fewer batches")
    seconds[UNCACHED] = [time * num_tokens / some_tokens for time in seconds[UNCACHED]]
    return {
        f"against {baseline}": compare(
            {name: seconds[name] for name in (CACHED, baseline)}, CACHED, baseline, units=num_tokens
        )
        for baseline in (UNCACHED, WITHOUT)
    }


def main() -> None:
    parser = new_parser(__doc__, repeats=3, quick="the small size only, few batches and repeats")
    parser.add_argument("--sizes", nargs="+", choices=list(SIZES), default=list(SIZES))
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--num-batches", type=int, default=40)
    parser.add_argument("--num-uncached", type=int, default=6, help="batches in a turn of AllenNLP's Elmo")
    arguments = parse(parser)
    num_batches, num_uncached, sizes = arguments.num_batches, arguments.num_uncached, arguments.sizes
    if arguments.quick:
        num_batches, num_uncached, sizes = 4, 1, ["1024/128"]
    results = {}
    for size in sizes:
        against = measure(SIZES[size], num_batches, num_uncached, arguments.batch_size, arguments.repeats)
        results.update({f"an epoch with a frozen biLM of {size}, {name}": result for name, result in against.items()})
    report(results, arguments.output)


if __name__ == "__main__":
    main()
