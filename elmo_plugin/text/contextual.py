"""Vectors in context, for the places in a model where they can be put."""

from typing import Dict, Tuple

import torch
from allennlp.common import Registrable
from allennlp.data import TextFieldTensors


class ContextualEmbedder(torch.nn.Module, Registrable):
    """Gives each token a vector that depends on its sentence, one for each of its `placements`.

    A placement is a name for a place in a task's model, such as `input` (beside the word vectors) or `output` (beside
    the lowest encoder's output). `indexers` names the token indexers whose tensors this embedder reads.
    """

    default_implementation = "none"

    placements: Tuple[str, ...] = ()
    indexers: Tuple[str, ...] = ()

    def get_output_dim(self) -> int:
        """The width of the vectors, the same at every placement."""
        raise NotImplementedError

    def forward(self, text: TextFieldTensors) -> Dict[str, torch.Tensor]:
        """The vectors at each placement, (..., num_tokens, dim), zeros at padding. `text` holds this embedder's
        indexers only.
        """
        raise NotImplementedError


@ContextualEmbedder.register("none")
class NoContextualEmbedder(ContextualEmbedder):
    """No vectors anywhere, for a baseline."""

    def get_output_dim(self) -> int:
        return 0

    def forward(self, text: TextFieldTensors) -> Dict[str, torch.Tensor]:
        return {}
