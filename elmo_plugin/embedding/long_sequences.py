"""Sequences of any length through a biLM: in blocks of steps, so that memory stays flat apart from the vectors
themselves.

Each direction reads a block, keeps its LSTM states, and goes on with the next; so the vectors are those of a run over
the whole. Both directions start at their own end of a sequence and write where they are.
"""

from typing import Iterator, List, NamedTuple, Tuple

import torch
from torch.nn import functional

from elmo_plugin.bilm import BiLm
from elmo_plugin.bilm.sharing import distinct_words

MAX_TOKENS_PER_BLOCK = 4096
"""Steps times rows. At the paper's size a token takes some 60 KB while its block is run."""


class _Block(NamedTuple):
    """Some steps of a batch: which of `steps`, (batch_size, num_steps), lie within their sequence."""

    steps: torch.Tensor
    inside: torch.Tensor


def run_in_blocks(bilm: BiLm, character_ids: torch.Tensor) -> torch.Tensor:
    """All layers, (batch_size, num_layers, num_tokens, dim), of character ids on the host; zeros for padding, and no
    boundaries. They are on the biLM's own device.
    """
    batch_size, num_tokens, _ = character_ids.shape
    character_ids, lengths = bilm.add_boundaries(character_ids)
    vectors, type_ids = _type_vectors(bilm, character_ids)
    lengths = lengths.to(vectors.device)
    layers = vectors.new_zeros(batch_size, bilm.num_layers, num_tokens, bilm.get_output_dim())
    forward_half, backward_half = layers.chunk(2, dim=-1)
    state = bilm.carried_state(batch_size, vectors.device)
    for block in _blocks(lengths):
        backward = block._replace(steps=(lengths.unsqueeze(1) - 1 - block.steps).clamp(min=0))
        inputs = [functional.embedding(type_ids.gather(1, steps), vectors) for steps, _ in (block, backward)]
        output = bilm.run(inputs[0], inputs[1], lengths=block.inside.sum(dim=1), state=state)
        state = output.state
        for half, place, outputs in (
            (forward_half, block, [inputs[0], *output.forward]),
            (backward_half, backward, [inputs[1], *output.backward]),
        ):
            _write(half, place, outputs, lengths)
    if state is not None:
        bilm.carry(state)
    return layers


def _type_vectors(bilm: BiLm, character_ids: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
    """The token vectors of the distinct words, and which of them is where, (batch_size, num_tokens)."""
    device = next(bilm.parameters()).device
    types, type_ids = distinct_words(character_ids)
    vectors = [bilm.type_vectors(part.to(device)) for part in types.split(MAX_TOKENS_PER_BLOCK)]
    return torch.cat(vectors), type_ids.to(device)


def _blocks(lengths: torch.Tensor) -> Iterator[_Block]:
    num_steps = int(lengths.max())
    steps_per_block = max(1, MAX_TOKENS_PER_BLOCK // len(lengths))
    for start in range(0, num_steps, steps_per_block):
        steps = torch.arange(start, min(start + steps_per_block, num_steps), device=lengths.device)
        steps = steps.expand(len(lengths), -1)
        yield _Block(steps, steps < lengths.unsqueeze(1))


def _write(half: torch.Tensor, block: _Block, outputs: List[torch.Tensor], lengths: torch.Tensor) -> None:
    """Writes each layer's outputs to the words they belong to; the sentences' boundaries are dropped."""
    is_word = block.inside & (block.steps > 0) & (block.steps < lengths.unsqueeze(1) - 1)
    rows, columns = is_word.nonzero(as_tuple=True)
    words = block.steps[rows, columns] - 1
    for layer, output in enumerate(outputs):
        half[:, layer][rows, words] = output[rows, columns].to(half.dtype)
