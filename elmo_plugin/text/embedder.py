"""Embedding text with word vectors and, by placement, with vectors in context."""

from typing import Optional, Sequence

import torch
from allennlp.common import FromParams
from allennlp.common.checks import ConfigurationError
from allennlp.data import TextFieldTensors
from allennlp.modules import TextFieldEmbedder
from allennlp.nn.util import get_text_field_mask

from elmo_plugin.text.contextual import ContextualEmbedder, NoContextualEmbedder
from elmo_plugin.text.embedded_text import EmbeddedText

INPUT = "input"


class PlacedTextEmbedder(torch.nn.Module, FromParams):
    """`words` gives each token its x_k; `contextual` gives vectors in context at its placements.

    Either may be absent. A task takes one of these, checks that it knows the placements asked for, and builds its
    encoders at the widths it finds here, so that a baseline and a model with contextual vectors are the same class with
    another config.
    """

    def __init__(
        self, words: Optional[TextFieldEmbedder] = None, contextual: Optional[ContextualEmbedder] = None
    ) -> None:
        super().__init__()
        self.words = words
        self.contextual = contextual or NoContextualEmbedder()
        if words is None and INPUT not in self.contextual.placements:
            raise ConfigurationError(
                "this text embedder has no word vectors ('words') and no contextual vectors at the placement 'input': "
                "nothing is left to embed tokens with"
            )

    def check_placements(self, available: Sequence[str]) -> None:
        """Refuses a placement that the task doesn't have, so that none is silently ignored."""
        for placement in self.contextual.placements:
            if placement not in available:
                raise ConfigurationError(
                    f"there is no placement {placement!r} here; this model has {', '.join(map(repr, available))}"
                )

    @property
    def words_dim(self) -> int:
        return 0 if self.words is None else self.words.get_output_dim()

    @property
    def input_dim(self) -> int:
        """The width of `EmbeddedText.input`."""
        return self.enhanced_dim(self.words_dim, at=INPUT)

    def enhanced_dim(self, dim: int, at: str = "output") -> int:
        """The width of something `dim` wide after `EmbeddedText.enhance(..., at)`."""
        return dim + (self.contextual.get_output_dim() if at in self.contextual.placements else 0)

    def forward(self, text: TextFieldTensors, num_wrapping_dims: int = 0) -> EmbeddedText:
        mask = get_text_field_mask(text, num_wrapping_dims)
        # New dictionaries: AllenNLP's embedder refuses indexers it has no use for, and a batch is never changed.
        for_contextual = {name: tensors for name, tensors in text.items() if name in self.contextual.indexers}
        for_words = {name: tensors for name, tensors in text.items() if name not in self.contextual.indexers}
        placed = self.contextual(for_contextual)
        if self.words is None:
            words = placed[INPUT].new_zeros(*mask.shape, 0)
        else:
            words = self.words(for_words, num_wrapping_dims)
        input_ = torch.cat([words, placed[INPUT]], dim=-1) if INPUT in placed else words
        return EmbeddedText(words, input_, mask, placed)
