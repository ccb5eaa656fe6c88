"""Tokens a second of biLM training against the same model built from AllenNLP's own parts.

The baseline runs AllenNLP's character encoder over every token and its LstmCellWithProjection, one time step at a time,
with autograd's backward pass; the model of this plugin runs each word type once, hoists what isn't sequential, and has
a backward pass of its own. Both have the same sizes, batches, sampled softmax and optimizer, and take whole training
steps. The text is invented: words at random lengths, drawn by Zipf's law.
"""

import random
import tempfile
from pathlib import Path
from typing import Callable, Dict, List, Tuple

import torch
from allennlp.modules.elmo import _ElmoCharacterEncoder
from allennlp.modules.lstm_cell_with_projection import LstmCellWithProjection
from interleave import compare, interleaved, new_parser, parse, report

from elmo_plugin.bilm import BiLm, BiLmOptions, checkpoint
from elmo_plugin.bilm.softmax import SampledSoftmax
from elmo_plugin.characters import CharacterMapping, unique_rows

SIZES = {
    "small published size, 1024/128": BiLmOptions(cell_dim=1024, projection_dim=128, num_highway=1),
    "the paper's size, 4096/512": BiLmOptions(),
}
NUM_WORDS = 50_000


class FromAllenNlpsParts(torch.nn.Module):
    """The biLM as one would put it together with AllenNLP 2.10.1 alone."""

    def __init__(self, bilm: BiLm) -> None:
        super().__init__()
        options = bilm.options
        with tempfile.TemporaryDirectory() as folder:
            files = Path(folder, "weights.hdf5"), Path(folder, "options.json")
            checkpoint.write(bilm, *files)
            self.encoder = _ElmoCharacterEncoder(str(files[1]), str(files[0]), requires_grad=True)
        self.directions = torch.nn.ModuleList(
            torch.nn.ModuleList(
                LstmCellWithProjection(
                    options.projection_dim,
                    options.projection_dim,
                    options.cell_dim,
                    go_forward,
                    0.0,
                    options.cell_clip,
                    options.projection_clip,
                )
                for _ in range(options.num_layers)
            )
            for go_forward in (True, False)
        )

    def forward(self, character_ids: torch.Tensor) -> List[torch.Tensor]:
        # Without the boundaries that the encoder adds. Shape: (batch_size, num_steps, projection_dim)
        tokens = self.encoder(character_ids)["token_embedding"][:, 1:-1]
        outputs = []
        for layers in self.directions:
            states = tokens
            for index, layer in enumerate(layers):
                new_states, _ = layer(states, [states.size(1)] * states.size(0))
                states = new_states + states if index > 0 else new_states
            outputs.append(states)
        return outputs


class Ours(torch.nn.Module):
    def __init__(self, bilm: BiLm) -> None:
        super().__init__()
        self.bilm = bilm

    def forward(self, character_ids: torch.Tensor) -> List[torch.Tensor]:
        batch_size, num_steps, num_characters = character_ids.shape
        types, type_ids = unique_rows(character_ids.reshape(-1, num_characters))
        vectors = torch.nn.functional.embedding(type_ids.view(batch_size, num_steps), self.bilm.token_layer(types))
        output = self.bilm.run(vectors, vectors.flip(1))
        return [output.forward[-1], output.backward[-1].flip(1)]


def batches(batch_size: int, num_steps: int) -> Callable[[], Tuple[torch.Tensor, torch.Tensor]]:
    """Endless batches of invented text: character ids and word ids."""
    rng = random.Random(0)
    words = [
        "".join(rng.choices("etaoinshrdlucmfwypvbgk", k=rng.choice([2, 3, 4, 5, 5, 6, 7, 8, 9, 12])))
        for _ in range(NUM_WORDS)
    ]
    weights = [1.0 / (rank + 1) for rank in range(NUM_WORDS)]
    mapping = CharacterMapping()

    def draw() -> Tuple[torch.Tensor, torch.Tensor]:
        ids = rng.choices(range(NUM_WORDS), weights, k=batch_size * num_steps)
        characters = torch.tensor([mapping.ids(words[index]) for index in ids]).view(batch_size, num_steps, -1)
        return characters, torch.tensor(ids)

    return draw


def trainer_of(
    model: torch.nn.Module, options: BiLmOptions, num_samples: int, batch: Tuple[torch.Tensor, torch.Tensor]
) -> Callable[[], None]:
    softmax = SampledSoftmax(NUM_WORDS, options.projection_dim, num_samples=num_samples, sparse=True)
    parameters = [*model.parameters(), *softmax.parameters()]
    optimizer = torch.optim.Adagrad(parameters, lr=0.2, initial_accumulator_value=1.0)
    characters, word_ids = batch

    def step() -> None:
        optimizer.zero_grad()
        loss = sum(softmax.training_nll(states.flatten(0, 1), word_ids).mean() for states in model(characters))
        loss.backward()
        optimizer.step()

    return step


def measure(options: BiLmOptions, batch_size: int, num_steps: int, num_samples: int, repeats: int) -> Dict:
    torch.manual_seed(0)
    bilm = BiLm(options)
    batch = batches(batch_size, num_steps)()
    contenders = {
        "elmo_plugin": trainer_of(Ours(bilm), options, num_samples, batch),
        "AllenNLP's parts": trainer_of(FromAllenNlpsParts(bilm), options, num_samples, batch),
    }
    return compare(interleaved(contenders, repeats), "elmo_plugin", "AllenNLP's parts", units=batch_size * num_steps)


def main() -> None:
    parser = new_parser(__doc__, repeats=5, quick="the small size only, few repeats")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--num-steps", type=int, default=20)
    parser.add_argument("--num-samples", type=int, default=8192, help="negatives of the sampled softmax")
    arguments = parse(parser)
    results = {
        name: measure(options, arguments.batch_size, arguments.num_steps, arguments.num_samples, arguments.repeats)
        for name, options in list(SIZES.items())[: 1 if arguments.quick else None]
    }
    report(results, arguments.output)


if __name__ == "__main__":
    main()
