"""The bidirectional language model: the one class that is trained, exported, and used to embed.

What a biLM computes is read in `char_cnn.py`, `lstm_cell.py`, `projected_lstm.py` and here. What makes it fast stands
beside it, and is called at one place each: `char_tables.py` in the CNN, `recurrence.py` and `frozen.py` in the LSTM,
`directions.py` in `run`, `sharing.py` in `_embed_tokens` and `token_cache.py` in `type_vectors`.
"""

from functools import partial
from typing import TYPE_CHECKING, Callable, Iterable, List, NamedTuple, Optional, Tuple, cast

import torch
from torch.nn import functional

from elmo_plugin.bilm.char_cnn import CharacterCnn
from elmo_plugin.bilm.directions import Direction, Rows, run_directions
from elmo_plugin.bilm.frozen import are_frozen, check_precision
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
    """What the recurrent layers give: for each layer (batch_size, num_steps, projection_dim), in reading order."""

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
    call of `forward` to the next, batch after batch, as the original did; the same sentence then gives different
    vectors twice. Carried states are plain attributes, since distributed training overwrites buffers.

    `dropout` acts at each LSTM layer's input, in training mode only; the residual connection adds the dropped input, as
    in the original.

    A frozen biLM on a CPU remembers the token vectors of words it has seen, up to `token_cache_megabytes`.

    `precision` is that of the LSTMs' multiplies, "float32" by default. "tf32" lets a GPU round their factors to TF32;
    torch has one switch for all multiplies of a process, and this sets it. "bfloat16" runs the recurrence but for its
    cells in bfloat16. "int8" is for a frozen biLM on a CPU: faster, and no longer exact (`benchmarks/README.md` says by
    how much).

    `BiLm.load("wiki-small")` reads one. In a config it is the same string, or `{"type": "random", "projection_dim":
    ..., ...}` for one to be trained; see `elmo_plugin.bilm.sources`.
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
        self._boundary_ids = torch.tensor([mapping.begin_sentence_ids, mapping.end_sentence_ids])
        self._awaiting_weights: Optional[str] = None
        self.register_load_state_dict_pre_hook(_weights_arrive)

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
        character_ids, lengths = self._add_boundaries(character_ids)
        steps = torch.arange(character_ids.size(1), device=lengths.device)
        mask = steps < lengths.unsqueeze(1)
        tokens, lengths, places = self._embed_tokens(character_ids, lengths)
        layers = self._contextualise(tokens, lengths)
        if places is not None:
            layers = layers[:, places]
        return BiLmOutput(layers * mask.unsqueeze(-1), mask)

    def _add_boundaries(self, character_ids: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
        """<S> before each sentence and </S> behind it, and the lengths with them."""
        lengths = (character_ids > 0).any(dim=-1).sum(dim=-1)
        begin, end = self._boundary_ids.to(character_ids.device)
        with_boundaries = functional.pad(character_ids, (0, 0, 1, 1))
        with_boundaries[:, 0] = begin
        with_boundaries[torch.arange(len(lengths), device=lengths.device), lengths + 1] = end
        return with_boundaries, lengths + 2

    def _embed_tokens(
        self, character_ids: torch.Tensor, lengths: torch.Tensor
    ) -> Tuple[torch.Tensor, torch.Tensor, Optional[torch.Tensor]]:
        """The token vectors of the sentences that have to be run, their lengths, and each row's place among those
        sentences if they aren't the rows themselves.

        On the CPU a word type goes through the character CNN once, and a sentence that stands in the batch twice is run
        once. On a GPU finding repetitions would make the host wait, and costs more than it saves.
        """
        if not character_ids.is_cpu:
            return self.token_layer(character_ids), lengths, None
        types, sentences = distinct_words(character_ids)
        places = None
        if self.is_repeatable:
            sentences, lengths, places = distinct_sentences(sentences, lengths)
        return functional.embedding(sentences, self.type_vectors(types)), lengths, places

    def type_vectors(self, types: torch.Tensor) -> torch.Tensor:
        """The token layer of different words' character ids, (num_types, max_characters_per_token), from the token
        cache where it may be used.
        """
        weights = list(self.character_cnn.parameters())
        is_exact = types.is_cpu and not torch.is_autocast_enabled("cpu")
        if not is_exact or not are_frozen(weights) or self.token_cache.megabytes == 0:
            return self.token_layer(types)
        return self.token_cache.vectors(types, self.token_layer, weights)

    def token_layer(self, character_ids: torch.Tensor) -> torch.Tensor:
        """The context-independent vectors of character ids of any leading shape."""
        self._check_width(character_ids)
        if self._awaiting_weights is not None:
            raise RuntimeError(self._awaiting_weights)
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
        state = None
        if self.stateful and self._carried_state is not None:
            state = self._carried_state.to(tokens.device).rows(batch_size)
        # Padding follows a sentence in both directions. So where no state is carried it can be run through and masked,
        # which on a GPU spares the host waiting for the lengths.
        needs_lengths = self.stateful or tokens.is_cpu
        output = self.run(tokens, tokens[rows, reversal], lengths if needs_lengths else None, state)
        if self.stateful:
            older = self._carried_state
            self._carried_state = output.state.followed_by(older.to(tokens.device)) if older else output.state
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

        `lengths`, (batch_size,), ends rows early: their later outputs are zero and their state stays. `state` is where
        to start, zeros by default. `resets`, (batch_size, num_steps) bool, lets a row start from zeros again at a step.
        """
        if self.precision == "tf32" and not forward_inputs.is_cpu:
            torch.set_float32_matmul_precision("high")
        batch_size, num_steps, _ = forward_inputs.shape
        rows = Rows.by_length(batch_size, num_steps, lengths)
        state = state or self.zero_state(batch_size)
        run_layers = partial(self._run_layers, num_active=rows.num_active, keep=rows.keep(resets, forward_inputs.dtype))
        forward, backward = run_directions(
            run_layers,
            Direction(self.forward_layers, *rows.sort(forward_inputs, state.forward)),
            Direction(self.backward_layers, *rows.sort(backward_inputs, state.backward)),
            rows.num_active,
            may_thread=not self._drops(),
        )
        forward, backward = rows.restore(*forward), rows.restore(*backward)
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
        options.json and weights.hdf5, a model archive, or a URL of either. Without a name it is the one that ships.

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
        """Whether a sentence gives the same vectors each time, as long as the weights are the same."""
        return not (self.stateful or self._drops())

    def _drops(self) -> bool:
        return self.training and self.dropout.p > 0

    def zero_state(self, batch_size: int) -> BiLmState:
        layers = [
            [layer.zero_state(batch_size) for layer in cast(Iterable[ProjectedLstm], direction)]
            for direction in (self.forward_layers, self.backward_layers)
        ]
        return BiLmState(*layers)

    def reset_state(self) -> None:
        """Forgets the carried states, so that the next batch starts from zeros."""
        self._carried_state = None

    def await_weights(self, complaint: str) -> None:
        """Makes any use of this biLM fail with `complaint` until weights are loaded into it."""
        self._awaiting_weights = complaint

    def _check_width(self, character_ids: torch.Tensor) -> None:
        expected = self.options.max_characters_per_token
        if character_ids.size(-1) != expected:
            raise ConfigurationError(
                f"tokens came with {character_ids.size(-1)} characters, but this biLM reads {expected}: set the "
                f'max_characters_per_token of the "elmo::characters" indexer to {expected}'
            )


def _weights_arrive(bilm: BiLm, state_dict, prefix: str, *unused) -> None:
    if f"{prefix}character_cnn.char_embedding" in state_dict:
        bilm._awaiting_weights = None
