"""TokenEmbedder "elmo::token_embedder", for any AllenNLP model."""

from typing import Optional, Union

import torch
from allennlp.modules import TokenEmbedder

from elmo_plugin.bilm import BiLm
from elmo_plugin.bilm.cache import LayerCache
from elmo_plugin.elmo.elmo import Elmo, Layers


@TokenEmbedder.register("elmo::token_embedder")
class ElmoTokenEmbedder(TokenEmbedder):
    """ELMo vectors from the tensor `elmo_tokens` of an `elmo::characters` indexer.

    The arguments are those of `Elmo`; `projection_dim` adds a linear layer after it.
    """

    def __init__(
        self,
        bilm: BiLm,
        layers: Layers = "all",
        layer_norm: Union[bool, str] = False,
        gamma: bool = True,
        dropout: float = 0.5,
        requires_grad: bool = False,
        stateful: bool = False,
        projection_dim: Optional[int] = None,
        cache: Optional[LayerCache] = None,
    ) -> None:
        super().__init__()
        self.elmo = Elmo(bilm, ("input",), layers, layer_norm, gamma, dropout, requires_grad, stateful, cache=cache)
        self._output_dim = projection_dim or self.elmo.get_output_dim()
        self.projection: torch.nn.Module = torch.nn.Identity()
        if projection_dim is not None:
            self.projection = torch.nn.Linear(self.elmo.get_output_dim(), projection_dim)

    def get_output_dim(self) -> int:
        return self._output_dim

    def forward(self, elmo_tokens: torch.Tensor) -> torch.Tensor:
        return self.projection(self.elmo.embed(elmo_tokens)["input"])
