"""ELMo: a biLM, and one mix of its layers for each placement."""

from typing import Dict, List, Optional, Sequence, Union

import torch
from allennlp.common.checks import ConfigurationError
from allennlp.data import TextFieldTensors

from elmo_plugin.bilm import BiLm, BiLmOutput
from elmo_plugin.bilm.cache import LayerCache, RamCache
from elmo_plugin.elmo.scalar_mix import ScalarMix
from elmo_plugin.text import ContextualEmbedder

Layers = Union[str, List[float]]


@ContextualEmbedder.register("elmo")
class Elmo(ContextualEmbedder):
    """Equation (1), with separate weights at each placement; the biLM runs once per batch for all of them.

    - `layers`: `all`, learned weights; `top`, the last layer only; `tokens`, the context-independent layer only; or a
      list of fixed weights, one per layer.
    - `layer_norm`, `gamma`: see `ScalarMix`.
    - `dropout`: on the ELMo vectors, as they leave here.
    - `requires_grad`: tune the biLM with the task. Otherwise it is frozen, and runs without its own dropout.
    - `stateful`: carry the biLM's states from batch to batch, as the original did; see `BiLm`.
    - `indexer`: the name of the `elmo::characters` indexer in the dataset reader.
    - `cache`: where a frozen biLM's layers are kept from epoch to epoch, by default in up to a quarter of the machine's
      RAM (`{"type": "ram", "megabytes": ...}`); `"none"` for nowhere. See `LayerCache`. It begins with the first
      training batch: a model that only predicts has no second epoch.
    """

    def __init__(
        self,
        bilm: BiLm,
        placements: Sequence[str] = ("input",),
        layers: Layers = "all",
        layer_norm: Union[bool, str] = False,
        gamma: bool = True,
        dropout: float = 0.5,
        requires_grad: bool = False,
        stateful: bool = False,
        indexer: str = "elmo",
        cache: Optional[LayerCache] = None,
    ) -> None:
        super().__init__()
        if not placements or len(set(placements)) < len(placements):
            raise ConfigurationError(f"ELMo's placements must be one or more different names, not {list(placements)}")
        self.bilm = bilm
        self.bilm.stateful = self.bilm.stateful or stateful
        self._requires_grad = requires_grad
        if not requires_grad:
            bilm.requires_grad_(False).eval()
        self.placements = tuple(placements)
        self.indexers = (indexer,)
        weights = fixed_weights(layers, bilm.num_layers)
        self.mixes = torch.nn.ModuleDict(
            {placement: ScalarMix(bilm.num_layers, layer_norm, gamma, weights) for placement in placements}
        )
        self.dropout = torch.nn.Dropout(dropout)
        self.cache = cache or RamCache()
        self._has_trained = False

    def get_output_dim(self) -> int:
        return self.bilm.get_output_dim()

    def train(self, mode: bool = True) -> "Elmo":
        super().train(mode)
        self.bilm.train(mode and self._requires_grad)
        self.cache.report()  # trainers call this once or twice per epoch
        return self

    def forward(self, text: TextFieldTensors) -> Dict[str, torch.Tensor]:
        (indexer,) = self.indexers
        if indexer not in text or "elmo_tokens" not in text[indexer]:
            raise ConfigurationError(
                f'ELMo reads the token indexer {indexer!r}, but the text was not indexed by one; add "{indexer}": '
                '{"type": "elmo::characters"} to the dataset reader\'s token_indexers'
            )
        return self.embed(text[indexer]["elmo_tokens"])

    def embed(self, character_ids: torch.Tensor) -> Dict[str, torch.Tensor]:
        """The vectors at each placement, (..., num_tokens, dim), for ids of shape (..., num_tokens, num_characters)."""
        leading_shape = character_ids.shape[:-1]
        layers, mask = self._run_bilm(character_ids.flatten(0, -3))
        # The sentences end at different steps; the mask of the words alone drops all boundaries.
        word_mask = (character_ids > 0).any(dim=-1).unsqueeze(-1)
        placed = {}
        for placement, mix in self.mixes.items():
            mixed = mix(layers, mask)[:, 1:-1].reshape(*leading_shape, self.get_output_dim())
            placed[placement] = self.dropout(mixed * word_mask)
        return placed

    def _run_bilm(self, character_ids: torch.Tensor) -> BiLmOutput:
        self._has_trained = self._has_trained or self.training or self.cache.is_in_use
        with torch.set_grad_enabled(torch.is_grad_enabled() and self._requires_grad):
            return self.cache.run(self.bilm, character_ids) if self._has_trained else self.bilm(character_ids)


def fixed_weights(layers: Layers, num_layers: int) -> Optional[List[float]]:
    """The weights that `layers` means, one per layer; None if they are learned."""
    if not isinstance(layers, str):
        return list(layers)
    one_layer = {"top": num_layers - 1, "tokens": 0}
    if layers in one_layer:
        return [float(index == one_layer[layers]) for index in range(num_layers)]
    if layers != "all":
        raise ConfigurationError(f'layers must be "all", "top", "tokens" or a list of weights, not {layers!r}')
    return None
