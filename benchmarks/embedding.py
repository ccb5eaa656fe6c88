"""Tokens a second of embedding text, without gradients, against AllenNLP 2.10.1's Elmo with the same random weights.

Three claims: batches of sentences at the paper's size and at 1024/128, and one sentence at a time at the paper's size.
Both sides get the same batches, another one at each turn, so that what this plugin remembers of words is what it would
remember of words in running text: those of the turns before, and of the `--read-before` sentences that it has read when
the turns begin. It is given sentences as they come; nothing is sorted for it. The share of the
machine's matrix-multiply peak counts only the multiply-adds that are left after equal words are shared, and the peak is
measured in the same turns, at the shape of the LSTM's largest multiply.

`--text` takes tokenised sentences, one per line. Without it the text is invented: words drawn by Zipf's law from
50,000, sentences of some 25 words, 3 to 80.
"""

import random
import statistics
import tempfile
from dataclasses import dataclass, replace
from itertools import cycle, islice
from pathlib import Path
from typing import Any, Dict, Iterator, List, Set

import torch
from allennlp.modules.elmo import Elmo as AllenNlpElmo
from allennlp.modules.elmo import batch_to_ids
from interleave import interleaved, new_parser, parse, report

from elmo_plugin.bilm import BiLm, BiLmOptions, checkpoint
from elmo_plugin.elmo import Elmo

OURS, THEIRS, PEAK = "elmo_plugin", "AllenNLP's Elmo", "matrix multiply"
Sentence = List[str]


@dataclass
class Claim:
    size: str
    options: BiLmOptions
    batch_size: int
    precision: str = "float32"

    def __str__(self) -> str:
        batches = "one sentence at a time" if self.batch_size == 1 else f"batches of {self.batch_size}"
        return f"{self.size}, {batches}" + ("" if self.precision == "float32" else f", {self.precision}")


PAPER = BiLmOptions()
SMALL = BiLmOptions(cell_dim=1024, projection_dim=128, num_highway=1)
CLAIMS = {
    "small": Claim("1024/128", SMALL, 64),
    "batch": Claim("the paper's size, 4096/512", PAPER, 64),
    "single": Claim("the paper's size, 4096/512", PAPER, 1),
}


def invented_text(rng: random.Random, num_types: int = 50_000) -> Iterator[Sentence]:
    lengths = [2, 3, 4, 5, 5, 6, 7, 8, 9, 12]
    words = ["".join(rng.choices("etaoinshrdlucmfwypvbgk", k=rng.choice(lengths))) for _ in range(num_types)]
    cumulative, total = [], 0.0
    for rank in range(num_types):
        total += 1.0 / (rank + 1)
        cumulative.append(total)
    while True:
        length = min(80, max(3, round(rng.gammavariate(3.0, 8.5))))
        yield rng.choices(words, cum_weights=cumulative, k=length)


def read_text(path: str) -> Iterator[Sentence]:
    with open(path, encoding="utf-8") as file:
        yield from cycle([line.split() for line in file if line.strip()])


class Side:
    """One contender, embedding one batch per turn."""

    def __init__(self, embed, batches: List[torch.Tensor]) -> None:
        self._embed = embed
        self._batches = iter(batches)

    @torch.no_grad()
    def __call__(self) -> None:
        self._embed(next(self._batches))


def multiply_adds(options: BiLmOptions, num_positions: int, num_types: int) -> int:
    """What the LSTMs need for each position and the highways and projections for each word not seen before. The
    convolutions are looked up.
    """
    lstm = options.projection_dim * 4 * options.cell_dim * 2 + options.cell_dim * options.projection_dim
    token = options.num_filters**2 * 2 * options.num_highway + options.num_filters * options.projection_dim
    return 2 * options.num_layers * lstm * num_positions + token * num_types


def measure(claim: Claim, text: Iterator[Sentence], repeats: int, num_read_before: int) -> Dict[str, Any]:
    torch.manual_seed(0)
    bilm = BiLm(claim.options, precision=claim.precision)
    ours = Elmo(bilm, dropout=0.0).eval()
    theirs = _theirs(bilm)
    # A turn that isn't measured goes first.
    sentences = [list(islice(text, claim.batch_size)) for _ in range(repeats + 1)]
    batches = [batch_to_ids(batch) for batch in sentences]
    with torch.no_grad():
        # AllenNLP's carries states from batch to batch, so that only the first is the same.
        error = (ours.embed(batches[0])["input"] - theirs(batches[0])["elmo_representations"][0]).abs().max().item()
    bilm.token_cache.clear()
    seen = read_before(ours, list(islice(text, num_read_before)))

    num_words = [sum(map(len, batch)) for batch in sentences]
    rows = torch.randn(max(1, round(statistics.mean(num_words))), claim.options.projection_dim)
    weight = torch.randn(claim.options.projection_dim, 4 * claim.options.cell_dim)
    seconds = interleaved(
        {
            OURS: Side(lambda ids: ours.embed(ids), batches),
            THEIRS: Side(lambda ids: theirs(ids), batches),
            PEAK: lambda: rows @ weight,
        },
        repeats,
    )
    return {**_summary(claim, seconds, sentences, seen), "largest_difference": error}


@torch.no_grad()
def read_before(elmo: Elmo, sentences: List[Sentence]) -> Set[str]:
    """Lets the biLM see these sentences' words, one after the other, and gives them back."""
    seen = {word for sentence in sentences for word in sentence}
    words = sorted(seen)
    for start in range(0, len(words), 1000):
        elmo.bilm.type_vectors(batch_to_ids([words[start : start + 1000]])[0])
    return seen


def _theirs(bilm: BiLm) -> AllenNlpElmo:
    with tempfile.TemporaryDirectory() as folder:
        files = Path(folder, "options.json"), Path(folder, "weights.hdf5")
        checkpoint.write(bilm, files[1], files[0])
        return AllenNlpElmo(str(files[0]), str(files[1]), num_output_representations=1, dropout=0.0).eval()


def _summary(
    claim: Claim, seconds: Dict[str, List[float]], sentences: List[List[Sentence]], seen: Set[str]
) -> Dict[str, Any]:
    options = claim.options
    peak = max(
        options.projection_dim * 4 * options.cell_dim * statistics.mean(sum(map(len, batch)) for batch in sentences) / s
        for s in seconds[PEAK]
    )
    seen = seen | {word for sentence in sentences[0] for word in sentence}
    rates: Dict[str, List[float]] = {OURS: [], THEIRS: []}
    ratios, shares = [], []
    for batch, own, their in zip(sentences[1:], seconds[OURS], seconds[THEIRS], strict=True):
        num_words = sum(map(len, batch))
        rates[OURS].append(num_words / own)
        rates[THEIRS].append(num_words / their)
        ratios.append(their / own)
        new = {word for sentence in batch for word in sentence} - seen
        seen |= new
        # Each sentence has two boundaries.
        shares.append(multiply_adds(options, num_words + 2 * len(batch), len(new)) / own / peak)
    return {
        "tokens_per_second": {name: round(statistics.median(values), 1) for name, values in rates.items()},
        "baseline": THEIRS,
        "ratio": round(statistics.median(ratios), 2),
        "ratio_lowest": round(min(ratios), 2),
        "ratio_highest": round(max(ratios), 2),
        "turns": len(ratios),
        "peak_gigaflops": round(2e-9 * peak, 1),
        "share_of_peak": round(statistics.median(shares), 2),
    }


def main() -> None:
    parser = new_parser(__doc__, repeats=5, quick="the small size only, few repeats")
    parser.add_argument("--claims", nargs="+", choices=list(CLAIMS), default=list(CLAIMS))
    parser.add_argument("--precision", choices=["float32", "int8"], default="float32", help="of this plugin's biLM")
    parser.add_argument("--batch-size", type=int, help="sentences per batch, where a claim is about batches")
    parser.add_argument("--text", help="tokenised sentences, one per line; invented if not given")
    parser.add_argument("--read-before", type=int, default=2000, help="sentences whose words are known (default: 2000)")
    arguments = parse(parser)
    results = {}
    for key in ["small"] if arguments.quick else arguments.claims:
        claim = replace(CLAIMS[key], precision=arguments.precision)
        if arguments.batch_size is not None and claim.batch_size > 1:
            claim = replace(claim, batch_size=arguments.batch_size)
        text = invented_text(random.Random(0)) if arguments.text is None else read_text(arguments.text)
        # Single sentences vary more than batches.
        repeats = arguments.repeats * (3 if claim.batch_size == 1 else 1)
        results[str(claim)] = measure(claim, text, repeats, 100 if arguments.quick else arguments.read_before)
    report(results, arguments.output)


if __name__ == "__main__":
    main()
