"""Tokens a second of the semantic role labeler's LSTM against AllenNLP's `alternating_lstm`.

Both have the same weights and see the same batches, in training (forward and backward) and in inference.
Sentences have up to 100 tokens, 27 on average, and are batched by length, as in training; a turn takes a short batch, a
middling and a long one. Dropout is off, since the two don't drop the same thing; the largest difference between their
outputs is printed too.

AllenNLP's computes every step's input projections within the loop over steps, copies the whole batch's states at each,
and leaves the backward pass to autograd. The matrix multiplications are the same on both sides, and for this plugin's
they are nearly everything: there isn't much more to gain.
"""

from typing import Callable, Dict, List, Tuple

import torch
from allennlp.modules import Seq2SeqEncoder
from allennlp.modules.seq2seq_encoders import PytorchSeq2SeqWrapper
from allennlp.modules.stacked_alternating_lstm import StackedAlternatingLstm
from interleave import compare, interleaved, new_parser, parse, report

from elmo_plugin.tasks.srl.modules import AlternatingLstm, HighwayLstm

# In AllenNLP's order; the rows of the highway's own projection come last in both.
THEIR_GATES = ("input", "forget", "candidate", "output", "highway")
Batch = Tuple[torch.Tensor, torch.Tensor]


def from_allennlp(ours: AlternatingLstm) -> Seq2SeqEncoder:
    """AllenNLP's encoder with the weights of `ours`."""
    theirs = StackedAlternatingLstm(
        ours.get_input_dim(), ours.get_output_dim(), len(ours.layers), use_input_projection_bias=False
    )
    for own, layer in zip(ours.layers, theirs.lstm_layers, strict=True):
        layer.cell.input_linearity.weight.data = _in_their_order(own.input_weight.data.t(), own.hidden_dim)
        layer.cell.state_linearity.weight.data = _in_their_order(own.state_weight.data.t(), own.hidden_dim)
        layer.cell.state_linearity.bias.data = _in_their_order(own.bias.data, own.hidden_dim)
    return PytorchSeq2SeqWrapper(theirs)


def _in_their_order(rows: torch.Tensor, hidden_dim: int) -> torch.Tensor:
    num_gates = len(HighwayLstm.GATES)
    by_gate = dict(zip(HighwayLstm.GATES, rows[: num_gates * hidden_dim].split(hidden_dim), strict=True))
    return torch.cat([*(by_gate[gate] for gate in THEIR_GATES), rows[num_gates * hidden_dim :]])


def bucketed_batches(num_batches: int, batch_size: int, max_tokens: int, input_dim: int) -> List[Batch]:
    """Batches of sentences of similar lengths; each represents an equal part of a data set."""
    lengths = torch.distributions.Gamma(2.5, 2.5 / 27).sample((20 * batch_size,)).round().clamp(3, max_tokens).int()
    buckets = lengths.sort().values.view(-1, batch_size)
    chosen = buckets[((torch.arange(num_batches) + 0.5) / num_batches * len(buckets)).int()]
    return [
        (torch.randn(batch_size, int(bucket.max()), input_dim), torch.arange(int(bucket.max())) < bucket.unsqueeze(1))
        for bucket in chosen
    ]


def trainer_of(encoder: Seq2SeqEncoder, batches: List[Batch]) -> Callable[[], None]:
    def steps() -> None:
        for batch in batches:
            encoder.zero_grad()
            encoder(*batch).pow(2).mean().backward()

    return steps


def inference_of(encoder: Seq2SeqEncoder, batches: List[Batch]) -> Callable[[], None]:
    @torch.no_grad()
    def run() -> None:
        for batch in batches:
            encoder(*batch)

    return run


def measure(encoder: AlternatingLstm, batches: List[Batch], repeats: int) -> Dict[str, Dict]:
    baseline = from_allennlp(encoder)
    with torch.no_grad():
        difference = max((encoder(*batch) - baseline(*batch)).abs().max().item() for batch in batches)
    num_tokens = sum(int(mask.sum()) for _, mask in batches)
    results = {}
    for what, contender_of in {"inference": inference_of, "training": trainer_of}.items():
        contenders = {"elmo_plugin": contender_of(encoder, batches), "AllenNLP": contender_of(baseline, batches)}
        result = compare(interleaved(contenders, repeats), "elmo_plugin", "AllenNLP", units=num_tokens)
        results[what] = {**result, "largest_difference": difference}
    return results


def main() -> None:
    parser = new_parser(__doc__, repeats=5, quick="two layers, one batch, few repeats")
    parser.add_argument("--input-dim", type=int, default=200, help="200 is the baseline's, 1224 that with ELMo")
    parser.add_argument("--hidden-dim", type=int, default=300)
    parser.add_argument("--num-layers", type=int, default=8)
    parser.add_argument("--num-batches", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=80)
    parser.add_argument("--max-tokens", type=int, default=100)
    arguments = parse(parser)
    num_layers, num_batches = (2, 1) if arguments.quick else (arguments.num_layers, arguments.num_batches)
    encoder = AlternatingLstm(arguments.input_dim, arguments.hidden_dim, num_layers, recurrent_dropout=0.0)
    batches = bucketed_batches(num_batches, arguments.batch_size, arguments.max_tokens, arguments.input_dim)
    size = f"{num_layers} layers of {arguments.hidden_dim}, batches of {arguments.batch_size}"
    results = measure(encoder, batches, arguments.repeats)
    report({f"{what}, {size}": result for what, result in results.items()}, arguments.output)


if __name__ == "__main__":
    main()
