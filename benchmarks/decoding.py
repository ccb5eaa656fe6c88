"""Sentences a second of batched Viterbi decoding against AllenNLP's, which goes over sentences and steps in Python.

For named entities the decoder is a CRF's, with BIOUL constraints (`ConditionalRandomField.viterbi_tags`); for semantic
roles it has constraints only, with as many BIO tags as OntoNotes (`viterbi_decode`, once a sentence, as AllenNLP's own
role labeler calls it). Scores are random. That ours find no worse tags is checked. Better ones they do find, by some
thousandths: `viterbi_decode` adds 100,000 to the scores, which costs float32 its third decimal.
"""

from typing import Callable, Dict, List, NamedTuple, Tuple

import torch
from allennlp.modules import ConditionalRandomField
from allennlp.modules.conditional_random_field import allowed_transitions
from allennlp.nn.util import viterbi_decode
from interleave import compare, interleaved, new_parser, parse, report

from elmo_plugin.tasks.common.decoding import Transitions, tag_constraints, viterbi

NUM_ENTITY_TYPES = 4
NUM_ROLES = 64
Paths = List[List[int]]


class Decoders(NamedTuple):
    contenders: Dict[str, Callable[[], Paths]]
    emissions: torch.Tensor
    transitions: Transitions

    def scores(self, name: str) -> List[float]:
        """What each sentence's tags score, by one contender; -inf if they aren't allowed."""
        between, start, end = (scores.detach().double() for scores in self.transitions)
        sums = []
        for emissions, path in zip(self.emissions.double(), self.contenders[name](), strict=True):
            steps = emissions[range(len(path)), path].sum() + between[path[:-1], path[1:]].sum()
            sums.append((start[path[0]] + steps + end[path[-1]]).item())
        return sums


def random_batch(batch_size: int, max_tokens: int, num_tags: int) -> Tuple[torch.Tensor, torch.Tensor]:
    lengths = torch.randint(max(1, max_tokens * 4 // 5), max_tokens + 1, (batch_size, 1))
    lengths[0] = max_tokens
    return torch.randn(batch_size, max_tokens, num_tags) * 3.0, torch.arange(max_tokens) < lengths


def paths(tag_ids: torch.Tensor, mask: torch.Tensor) -> Paths:
    return [row[:length] for row, length in zip(tag_ids.tolist(), mask.sum(dim=-1).tolist(), strict=True)]


def crf_decoders(batch_size: int, max_tokens: int) -> Decoders:
    types = [f"type{number}" for number in range(NUM_ENTITY_TYPES)]
    tags = dict(enumerate(["O", *(f"{prefix}-{type_}" for type_ in types for prefix in "BIUL")]))
    emissions, mask = random_batch(batch_size, max_tokens, len(tags))
    crf = ConditionalRandomField(len(tags), allowed_transitions("BIOUL", tags))
    learned = Transitions(crf.transitions, crf.start_transitions, crf.end_transitions)
    transitions = learned.plus(tag_constraints("BIOUL", tags))

    def ours() -> Paths:
        with torch.no_grad():
            return paths(viterbi(emissions, mask, transitions).tag_ids, mask)

    def theirs() -> Paths:
        return [path for path, _ in crf.viterbi_tags(emissions, mask)]

    return Decoders({"elmo_plugin": ours, "AllenNLP": theirs}, emissions, transitions)


def role_decoders(batch_size: int, max_tokens: int) -> Decoders:
    tags = dict(enumerate(["O", *(f"{prefix}-role{number}" for number in range(NUM_ROLES) for prefix in "BI")]))
    emissions, mask = random_batch(batch_size, max_tokens, len(tags))
    constraints = tag_constraints("BIO", tags)

    def ours() -> Paths:
        return paths(viterbi(emissions, mask, constraints).tag_ids, mask)

    def theirs() -> Paths:
        return [
            viterbi_decode(row[:length], constraints.between, allowed_start_transitions=constraints.start)[0]
            for row, length in zip(emissions, mask.sum(dim=-1).tolist(), strict=True)
        ]

    return Decoders({"elmo_plugin": ours, "AllenNLP": theirs}, emissions, constraints)


def measure(decoders: Decoders, batch_size: int, repeats: int) -> Dict:
    pairs = zip(decoders.scores("elmo_plugin"), decoders.scores("AllenNLP"), strict=True)
    if not all(theirs - 1e-4 < own < theirs + 0.05 for own, theirs in pairs):
        raise SystemExit("the two decoders found tags of different scores")
    return compare(interleaved(decoders.contenders, repeats), "elmo_plugin", "AllenNLP", units=batch_size)


def main() -> None:
    parser = new_parser(__doc__, repeats=7, quick="few repeats")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--max-tokens", type=int, default=50)
    arguments = parse(parser)
    size = f"{arguments.batch_size} sentences of {arguments.max_tokens} tokens"
    contenders = {
        f"CRF of a named entity tagger, {1 + 4 * NUM_ENTITY_TYPES} tags, {size}": crf_decoders,
        f"BIO constraints of a role labeler, {1 + 2 * NUM_ROLES} tags, {size}": role_decoders,
    }
    results = {
        name: measure(decoders(arguments.batch_size, arguments.max_tokens), arguments.batch_size, arguments.repeats)
        for name, decoders in contenders.items()
    }
    report(results, arguments.output)


if __name__ == "__main__":
    main()
