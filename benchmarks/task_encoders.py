"""Tokens a second of the task models' recurrent layers and character CNN, in training, against AllenNLP's.

Each has the sizes of a task in the paper, and both sides have the same weights and see the same batch: sentences of
random lengths, from half of the longest on, as a bucketing sampler puts them together; words drawn by Zipf's law. The
largest difference between the outputs is printed too.
"""

import random
from typing import Any, Callable, Dict, List, NamedTuple, Tuple

import torch
from allennlp.common import Params
from allennlp.modules import Seq2SeqEncoder, TokenEmbedder
from interleave import compare, interleaved, new_parser, parse, report

import elmo_plugin  # noqa: F401

OURS, THEIRS = "elmo_plugin", "AllenNLP"


class Layer(NamedTuple):
    """A bidirectional recurrent layer."""

    name: str
    batch_size: int
    num_tokens: int
    input_size: int
    hidden_size: int


LAYERS = {
    "NER's biLSTM": Layer("lstm", 32, 40, 178, 200),
    "SNLI's biLSTM": Layer("lstm", 32, 20, 300, 300),
    "coreference's biLSTM": Layer("lstm", 25, 40, 470, 200),
    "SST's biLSTM": Layer("lstm", 100, 25, 300, 300),
    "SQuAD's biGRU": Layer("gru", 45, 200, 200, 90),
}
CHARACTERS = "SQuAD's character CNN"
CHARACTER_CNN = {
    "embedding": {"num_embeddings": 100, "embedding_dim": 20},
    "encoder": {"type": "cnn", "embedding_dim": 20, "num_filters": 100, "ngram_filter_sizes": [5]},
}


def recurrent(layer: Layer) -> Tuple[Dict[str, torch.nn.Module], List[torch.Tensor], int]:
    """The two sides, their arguments, and the number of tokens."""
    params = {"input_size": layer.input_size, "hidden_size": layer.hidden_size, "bidirectional": True}
    ours = Seq2SeqEncoder.from_params(Params({"type": f"elmo::{layer.name}", **params}))
    theirs = Seq2SeqEncoder.from_params(Params({"type": layer.name, **params}))
    theirs.load_state_dict(ours.state_dict())
    lengths = torch.randint(layer.num_tokens // 2, layer.num_tokens + 1, (layer.batch_size, 1))
    mask = torch.arange(layer.num_tokens) < lengths
    inputs = torch.randn(layer.batch_size, layer.num_tokens, layer.input_size, requires_grad=True)
    return {OURS: ours, THEIRS: theirs}, [inputs, mask], int(mask.sum())


def characters(batch_size: int = 45, num_tokens: int = 200, num_types: int = 20_000) -> Tuple[Dict, List, int]:
    ours = TokenEmbedder.from_params(Params({"type": "elmo::character_encoding", **CHARACTER_CNN}).duplicate())
    theirs = TokenEmbedder.from_params(Params({"type": "character_encoding", **CHARACTER_CNN}).duplicate())
    theirs.load_state_dict(ours.state_dict())
    rng = random.Random(0)
    types = torch.zeros(num_types, 20, dtype=torch.long)
    for row in types:
        length = rng.choice([5, 5, 6, 7, 8, 9, 10, 12, 16])
        row[:length] = torch.randint(1, 100, (length,))
    words = rng.choices(range(num_types), [1.0 / rank for rank in range(1, num_types + 1)], k=batch_size * num_tokens)
    return {OURS: ours, THEIRS: theirs}, [types[words].view(batch_size, num_tokens, -1)], len(words)


def step_of(module: torch.nn.Module, arguments: List[torch.Tensor]) -> Callable[[], None]:
    def step() -> None:
        module.zero_grad()
        module(*arguments).pow(2).mean().backward()

    return step


def measure(sides: Dict[str, torch.nn.Module], arguments: List[torch.Tensor], units: int, repeats: int) -> Dict:
    with torch.no_grad():
        difference = (sides[OURS](*arguments) - sides[THEIRS](*arguments)).abs().max().item()
    seconds = interleaved({name: step_of(side, arguments) for name, side in sides.items()}, repeats)
    return {**compare(seconds, OURS, THEIRS, units=units), "largest_difference": difference}


def main() -> None:
    arguments = parse(new_parser(__doc__, repeats=7, quick="one layer, few repeats"))
    results: Dict[str, Any] = {}
    for name in list(LAYERS)[: 1 if arguments.quick else None]:
        results[f"{name}, in training"] = measure(*recurrent(LAYERS[name]), arguments.repeats)
    if not arguments.quick:
        results[f"{CHARACTERS}, in training"] = measure(*characters(), arguments.repeats)
    report(results, arguments.output)


if __name__ == "__main__":
    main()
