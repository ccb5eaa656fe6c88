"""Tokens a second of the semantic role labeler's LSTM against AllenNLP's `alternating_lstm`.

Both have the same weights and see the same batches of sentences of different lengths, and take whole training steps:
forward, backward, Adadelta. AllenNLP's computes every step's input projections within the loop over steps, and copies
the whole batch's states at each; the plugin's leaves only the recurrence in there. Dropout is off, since the two don't
drop the same thing; the largest difference between their outputs is printed too.
"""

import argparse
from typing import Callable, Dict, Tuple

import torch
from allennlp.modules import Seq2SeqEncoder
from allennlp.modules.seq2seq_encoders import PytorchSeq2SeqWrapper
from allennlp.modules.stacked_alternating_lstm import StackedAlternatingLstm
from interleave import compare, interleaved, report

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
        layer.cell.input_linearity.weight.data = _in_their_order(own.input_weight.data, own.hidden_dim)
        layer.cell.state_linearity.weight.data = _in_their_order(own.state_weight.data, own.hidden_dim)
        layer.cell.state_linearity.bias.data = _in_their_order(own.bias.data, own.hidden_dim)
    return PytorchSeq2SeqWrapper(theirs)


def _in_their_order(rows: torch.Tensor, hidden_dim: int) -> torch.Tensor:
    num_gates = len(HighwayLstm.GATES)
    by_gate = dict(zip(HighwayLstm.GATES, rows[: num_gates * hidden_dim].split(hidden_dim), strict=True))
    return torch.cat([*(by_gate[gate] for gate in THEIR_GATES), rows[num_gates * hidden_dim :]])


def random_batch(batch_size: int, max_tokens: int, input_dim: int) -> Batch:
    """Sentences of similar lengths, as a bucketing sampler makes them: from 80 % of the longest on."""
    lengths = torch.randint(max(1, max_tokens * 4 // 5), max_tokens + 1, (batch_size, 1))
    lengths[0] = max_tokens
    return torch.randn(batch_size, max_tokens, input_dim), torch.arange(max_tokens) < lengths


def trainer_of(encoder: Seq2SeqEncoder, batch: Batch) -> Callable[[], None]:
    optimizer = torch.optim.Adadelta(encoder.parameters(), lr=1.0, rho=0.95)

    def step() -> None:
        optimizer.zero_grad()
        encoder(*batch).pow(2).mean().backward()
        optimizer.step()

    return step


def measure(encoder: AlternatingLstm, batch: Batch, repeats: int) -> Dict:
    baseline = from_allennlp(encoder)
    with torch.no_grad():
        difference = (encoder(*batch) - baseline(*batch)).abs().max().item()
    contenders = {"elmo_plugin": trainer_of(encoder, batch), "AllenNLP": trainer_of(baseline, batch)}
    num_tokens = int(batch[1].sum())
    result = compare(interleaved(contenders, repeats), "elmo_plugin", "AllenNLP", units=num_tokens)
    return {**result, "largest_difference": difference}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, epilog="example: python benchmarks/srl_lstm.py --batch-size 16 --repeats 2"
    )
    parser.add_argument("--input-dim", type=int, default=200, help="200 is the baseline's, 1224 that with ELMo")
    parser.add_argument("--hidden-dim", type=int, default=300)
    parser.add_argument("--num-layers", type=int, default=8)
    parser.add_argument("--batch-size", type=int, default=80)
    parser.add_argument("--max-tokens", type=int, default=30)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--output", help="a file to write the results to, as JSON")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    encoder = AlternatingLstm(arguments.input_dim, arguments.hidden_dim, arguments.num_layers, recurrent_dropout=0.0)
    batch = random_batch(arguments.batch_size, arguments.max_tokens, arguments.input_dim)
    size = f"{arguments.num_layers} layers of {arguments.hidden_dim} over {arguments.input_dim}"
    report({size: measure(encoder, batch, arguments.repeats)}, arguments.output)


if __name__ == "__main__":
    main()
