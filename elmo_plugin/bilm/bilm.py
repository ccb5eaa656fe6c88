"""The bidirectional language model: the one class that is trained, exported, and used to embed.

What a biLM computes is read in `char_cnn.py`, `lstm_cell.py`, `projected_lstm.py` and here, from top to bottom. What
makes it fast stands beside it and is called in one place each: `char_tables.py` in the CNN, `recurrence.py` and
`frozen.py` in the LSTM, and here `sharing.py` in `_embed_tokens`, `token_cache.py` in `type_vectors` and
`directions.py` in `run`.
"""

from typing import TYPE_CHECKING, Callable, Iterable, List, NamedTuple, Optional, Tuple, cast

import torch
from torch.nn import functional

from elmo_plugin.bilm.char_cnn import CharacterCnn
from elmo_plugin.bilm.directions import Direction, run_directions
from elmo_plugin.bilm.frozen import check_precision
from elmo_plugin.bilm.lstm_cell import LstmState
from elmo_plugin.bilm.options import BiLmOptions
from elmo_plugin.bilm.projected_lstm import ProjectedLstm
from elmo_plugin.bilm.sharing import distinct_sentences, distinct_words
from elmo_plugin.bilm.state import BiLmState
from elmo_plugin.bilm.token_cache import TokenCache
from elmo_plugin.characters import CharacterMapping
from elmo_plugin.errors import ConfigurationError

if TYPE_CHECKING:
    from allennlp.common import Params


class RecurrentOutput(NamedTuple):
    """The recurrent layers' outputs: for each layer (batch_size, num_steps, projection_dim), in reading order."""

    forward: List[torch.Tensor]
    backward: List[torch.Tensor]
    state: BiLmState


class BiLmOutput(NamedTuple):
    """All layers of a batch of sentences, boundaries included: the token layer first, repeated to full width."""

    layers: torch.Tensor  # (num_layers + 1, batch_size, num_tokens + 2, 2 * projection_dim)
    mask: torch.Tensor  # (batch_size, num_tokens + 2), bool


class BiLm(torch.nn.Module):
    """A biLM of any size an options.json can state (Sec. 3.1 and 3.4 of the paper).

    By default a sentence's vectors depend on that sentence alone. `stateful` carries each row's LSTM states from one
    call of `forward` to the next, batch after batch, as the original did; the same sentence then gets different vectors
    each time. Carried states are plain attributes, since distributed training overwrites buffers.

    `dropout` acts at each LSTM layer's input, in training mode only; the residual connection adds the dropped input, as
    in the original.

    A frozen biLM on a CPU remembers the token vectors of words it has seen, up to `token_cache_megabytes`.

    `precision` is that of the LSTMs' multiplies, "float32" by default. "tf32" lets a GPU round their factors to TF32;
    torch has one switch for all multiplies of a process, and this sets it. "bfloat16" runs the recurrence in bfloat16,
    except for its cells. "int8" is for a frozen biLM on a CPU: faster, and no longer exact (`benchmarks/README.md` says
    by how much).

    `BiLm.load("wiki-base")` reads one. A config gives the same string, or `{"type": "random", "projection_dim": ...,
    ...}` for one to be trained; see `elmo_plugin.bilm.sources`.
    """

    def __init__(
        self,
        options: BiLmOptions,
        dropout: float = 0.0,
        stateful: bool = False,
        precision: str = "float32",
        token_cache_megabytes: float = 64.0,
    ) -> None:
        super().__init__()
        self.options = options
        self.token_cache = TokenCache(token_cache_megabytes)
        self.stateful = stateful
        self.dropout = torch.nn.Dropout(dropout)
        self.character_cnn = CharacterCnn(options)
        self.forward_layers = self._recurrent_layers()
        self.backward_layers = self._recurrent_layers()
        self.precision = precision
        self._carried_state: Optional[BiLmState] = None
        mapping = CharacterMapping(options.max_characters_per_token)
        self.boundary_ids = torch.tensor([mapping.begin_sentence_ids, mapping.end_sentence_ids])

    def _recurrent_layers(self) -> torch.nn.ModuleList:
        options = self.options
        return torch.nn.ModuleList(
            ProjectedLstm(
                options.projection_dim,
                options.projection_dim,
                options.cell_dim,
                options.cell_clip,
                options.projection_clip,
            )
            for _ in range(options.num_layers)
        )

    def forward(self, character_ids: torch.Tensor) -> BiLmOutput:
        """All layers of a batch of sentences, given as (batch_size, num_tokens, max_characters_per_token), zeros for
        padding.
        """
        self._check_width(character_ids)
        character_ids, lengths = self.add_boundaries(character_ids)
        steps = torch.arange(character_ids.size(1), device=lengths.device)
        mask = steps < lengths.unsqueeze(1)
        tokens, lengths, places = self._embed_tokens(character_ids, lengths)
        layers = self._contextualise(tokens, lengths)
        if places is not None:
            layers = layers[:, places]
        return BiLmOutput(layers * mask.unsqueeze(-1), mask)

    def add_boundaries(self, character_ids: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
        """Adds <S> before each sentence and </S> after it. Returns the ids, and the lengths including the two."""
        lengths = (character_ids > 0).any(dim=-1).sum(dim=-1)
        begin, end = self.boundary_ids.to(character_ids.device)
        with_boundaries = functional.pad(character_ids, (0, 0, 1, 1))
        with_boundaries[:, 0] = begin
        with_boundaries[torch.arange(len(lengths), device=lengths.device), lengths + 1] = end
        return with_boundaries, lengths + 2

    def _embed_tokens(
        self, character_ids: torch.Tensor, lengths: torch.Tensor
    ) -> Tuple[torch.Tensor, torch.Tensor, Optional[torch.Tensor]]:
        """The token vectors of the sentences to run, their lengths, and for each row of the batch which of these
        sentences it is; None if each row is run.

        On the CPU each word type goes through the character CNN once, and a sentence that occurs twice in the batch is
        run once. On a GPU finding repetitions would make the host wait, which costs more than it saves.
        """
        if not character_ids.is_cpu:
            return self.token_layer(character_ids), lengths, None
        types, sentences = distinct_words(character_ids)
        places = None
        if self.is_repeatable:
            sentences, lengths, places = distinct_sentences(sentences, lengths)
        return functional.embedding(sentences, self.type_vectors(types)), lengths, places

    def type_vectors(self, types: torch.Tensor) -> torch.Tensor:
        """The token vectors of distinct words' character ids, (num_types, max_characters_per_token), from the token
        cache where it may be used.
        """
        return self.token_cache.vectors(types, self.token_layer, self.character_cnn.parameters())

    def token_layer(self, character_ids: torch.Tensor) -> torch.Tensor:
        """The context-independent vectors of character ids of any leading shape."""
        self._check_width(character_ids)
        return self.character_cnn(character_ids)

    def _contextualise(self, tokens: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """All layers, (num_layers + 1, batch_size, num_steps, 2 * projection_dim), of token vectors (batch_size,
        num_steps, projection_dim). The backward direction reads each sentence in reverse.
        """
        batch_size, num_steps, _ = tokens.shape
        steps = torch.arange(num_steps, device=tokens.device)
        # Reverses each sentence in place; its own inverse. Shape: (batch_size, num_steps)
        reversal = torch.where(steps < lengths.unsqueeze(1), lengths.unsqueeze(1) - 1 - steps, steps)
        rows = torch.arange(batch_size, device=tokens.device).unsqueeze(1)
        # Padding follows a sentence in both directions, so where no state is carried it can be run and masked
        # afterwards. On a GPU the host then needn't wait for the lengths.
        needs_lengths = self.stateful or tokens.is_cpu
        state = self.carried_state(batch_size, tokens.device)
        output = self.run(tokens, tokens[rows, reversal], lengths if needs_lengths else None, state)
        self.carry(output.state)
        layers = [torch.cat([tokens, tokens], dim=-1)]
        for forward, backward in zip(output.forward, output.backward, strict=True):
            layers.append(torch.cat([forward, backward[rows, reversal]], dim=-1))
        return torch.stack(layers)

    def run(
        self,
        forward_inputs: torch.Tensor,
        backward_inputs: torch.Tensor,
        lengths: Optional[torch.Tensor] = None,
        state: Optional[BiLmState] = None,
        resets: Optional[torch.Tensor] = None,
    ) -> RecurrentOutput:
        """The recurrent layers over each direction's inputs, (batch_size, num_steps, projection_dim), each in its own
        reading order.

        `lengths`, (batch_size,), ends rows early: their later outputs are zero and their state no longer changes.
        `state` is where to start, zeros by default. `resets`, (batch_size, num_steps) bool, marks the steps at which a
        row starts from zeros again.
        """
        if self.precision == "tf32" and not forward_inputs.is_cpu:
            torch.set_float32_matmul_precision("high")
        state = state or self.zero_state(forward_inputs.size(0))
        forward, backward = run_directions(
            self._run_layers,
            Direction(self.forward_layers, forward_inputs, state.forward),
            Direction(self.backward_layers, backward_inputs, state.backward),
            lengths,
            resets,
            may_thread=not self._drops(),
        )
        return RecurrentOutput(forward[0], backward[0], BiLmState(forward[1], backward[1]).detach())

    def _run_layers(
        self,
        layers: Iterable[Callable],
        inputs: torch.Tensor,
        states: List[LstmState],
        num_active: List[int],
        keep: Optional[torch.Tensor],
    ) -> Tuple[List[torch.Tensor], List[LstmState]]:
        """Each layer's outputs, (..., num_steps, batch_size, projection_dim), and last state. From the second on, a
        layer's inputs are added to its outputs.
        """
        outputs, last_states = [], []
        for index, (layer, state) in enumerate(zip(layers, states, strict=True)):
            layer_inputs = self.dropout(inputs)
            inputs, last_state = layer(layer_inputs, state, num_active, keep)
            if index > 0 and self.options.use_skip_connections:
                inputs = inputs + layer_inputs
            outputs.append(inputs)
            last_states.append(last_state)
        return outputs, last_states

    @staticmethod
    def load(
        bilm: Optional[str] = None, weight_file: Optional[str] = None, *, options_file: Optional[str] = None
    ) -> "BiLm":
        """The biLM that one string names: a shipped or published name (`elmo_plugin.bilm.pretrained`), a folder with
        options.json and weights.hdf5, a model archive, or a URL of either. Without a name it is the default one that
        ships.

        The one other way is AllenNLP 0.9's, `BiLm.load(options_file, weight_file)`.
        """
        from elmo_plugin.bilm import loading

        if weight_file is not None and options_file is None:
            bilm, options_file = None, bilm
        return loading.load(bilm, options_file, weight_file)

    @staticmethod
    def from_params(params: "Params", serialization_dir: Optional[str] = None) -> "BiLm":
        """What AllenNLP calls for a biLM in a config."""
        from elmo_plugin.bilm.sources import BiLmSource

        return BiLmSource.from_config(params, serialization_dir)

    @property
    def precision(self) -> str:
        return self._precision

    @precision.setter
    def precision(self, precision: str) -> None:
        self._precision = check_precision(precision)
        for layer in cast(Iterable[ProjectedLstm], [*self.forward_layers, *self.backward_layers]):
            layer.precision = precision

    @property
    def num_layers(self) -> int:
        """How many vectors a token has: the LSTM layers and the token layer."""
        return self.options.num_layers + 1

    def get_output_dim(self) -> int:
        return 2 * self.options.projection_dim

    @property
    def is_repeatable(self) -> bool:
        """Whether a sentence gets the same vectors each time, while the weights stay the same."""
        return not (self.stateful or self._drops())

    def _drops(self) -> bool:
        return self.training and self.dropout.p > 0

    def zero_state(self, batch_size: int) -> BiLmState:
        layers = [
            [layer.zero_state(batch_size) for layer in cast(Iterable[ProjectedLstm], direction)]
            for direction in (self.forward_layers, self.backward_layers)
        ]
        return BiLmState(*layers)

    def carried_state(self, batch_size: int, device: torch.device) -> Optional[BiLmState]:
        """Where a batch starts: where the last one ended if the biLM is stateful, else None, for zeros."""
        return self._carried_state and self._carried_state.to(device).rows(batch_size)

    def carry(self, state: BiLmState) -> None:
        """Keeps the state a batch ended with, if the biLM is stateful. Rows that the batch didn't have keep theirs."""
        if self.stateful:
            older = self._carried_state
            self._carried_state = state if older is None else state.followed_by(older.to(state.forward[0].cell.device))

    def reset_state(self) -> None:
        """Forgets the carried states, so that the next batch starts from zeros."""
        self._carried_state = None

    def _check_width(self, character_ids: torch.Tensor) -> None:
        expected = self.options.max_characters_per_token
        if character_ids.size(-1) != expected:
            raise ConfigurationError(
                f"tokens came with {character_ids.size(-1)} characters, but this biLM reads {expected}: set the "
                f'max_characters_per_token of the "elmo::characters" indexer to {expected}'
            )
