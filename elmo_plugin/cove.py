"""CoVe (McCann et al. 2017, "Learned in Translation"), which the paper compares ELMo with: the encoder of a translation
model, two biLSTMs of 300 units in each direction over 300-d GloVe vectors (840B, cased).

Its file, wmtlstm-8f474287.pth of github.com/salesforce/cove, is the state of a torch.nn.LSTM. ContextualEmbedder "cove"
puts its vectors where ELMo's would be; `CoveEmbedder` gives the layers to the probes of Tables 5 and 6.
"""

import hashlib
import pickle
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

import numpy
import torch
from allennlp.common.checks import ConfigurationError, check_for_gpu
from allennlp.common.file_utils import cached_path
from allennlp.data import TextFieldTensors
from allennlp.modules import TokenEmbedder
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from elmo_plugin.archive_records import saved_weights
from elmo_plugin.elmo.elmo import Layers, fixed_weights
from elmo_plugin.elmo.scalar_mix import ScalarMix
from elmo_plugin.embedding import ElmoEmbedder
from elmo_plugin.text import ContextualEmbedder
from elmo_plugin.text.vector_table import TableBuilder, VectorTable
from elmo_plugin.text.vectors_file import read_vectors

DIM = 300  # of GloVe's vectors, and of each direction


class MtLstm(torch.nn.Module):
    """The two biLSTMs. With the word vectors below them, repeated to full width like ELMo's token layer, they make
    three layers of the same width.
    """

    num_layers = 3

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(
            torch.nn.LSTM(dim, DIM, batch_first=True, bidirectional=True) for dim in (DIM, 2 * DIM)
        )

    def get_output_dim(self) -> int:
        return 2 * DIM

    def read(self, file: str) -> None:
        """Loads the published file, a path or a URL."""
        state = _read_state(file)
        for number, layer in enumerate(self.layers):
            of_layer = {
                name.replace(f"_l{number}", "_l0"): weight for name, weight in state.items() if f"_l{number}" in name
            }
            expected = layer.state_dict()
            for name, weight in expected.items():
                if name not in of_layer or of_layer[name].shape != weight.shape:
                    got = tuple(of_layer[name].shape) if name in of_layer else "nothing"
                    raise ConfigurationError(
                        f"{file} isn't CoVe's: for {name.replace('_l0', f'_l{number}')} expected a tensor of "
                        f"{tuple(weight.shape)}, got {got}; the file is wmtlstm-8f474287.pth of salesforce/cove"
                    )
            layer.load_state_dict({name: of_layer[name] for name in expected})

    def forward(self, words: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """(batch_size, num_tokens, 300) -> (3, batch_size, num_tokens, 600), zeros at padding."""
        if mask.size(1) == 0:
            return words.new_zeros(self.num_layers, *mask.shape, self.get_output_dim())
        # A row without tokens counts as having one token, which the mask then removes.
        lengths = mask.sum(dim=1).clamp(min=1).cpu()
        outputs = [torch.cat([words, words], dim=-1)]
        vectors = words
        for layer in self.layers:
            packed = pack_padded_sequence(vectors, lengths, batch_first=True, enforce_sorted=False)
            vectors, _ = pad_packed_sequence(layer(packed)[0], batch_first=True, total_length=mask.size(1))
            outputs.append(vectors)
        return torch.stack(outputs).masked_fill(~mask.unsqueeze(-1), 0.0)


@ContextualEmbedder.register("cove")
class Cove(ContextualEmbedder):
    """CoVe at a task's placements, with separate layer weights at each, like `elmo`.

    - `words`: the embedder of 300-d GloVe vectors that CoVe reads, normally `elmo::word_vectors`.
    - `pretrained_file`: CoVe's own. An archive doesn't need it.
    - `layers`: `top`, the second biLSTM, is what McCann et al. use; `all`, learned weights; `tokens`, the word vectors
      only; or a list of three fixed weights. `layer_norm`, `gamma`: see `ScalarMix`.
    - `dropout`: on the vectors, as they leave here.
    - `indexer`: the name of the indexer in the dataset reader whose ids `words` reads.
    """

    def __init__(
        self,
        words: TokenEmbedder,
        pretrained_file: Optional[str] = None,
        placements: Sequence[str] = ("input",),
        layers: Layers = "top",
        layer_norm: Union[bool, str] = False,
        gamma: bool = True,
        dropout: float = 0.0,
        indexer: str = "cove",
        serialization_dir: Optional[str] = None,
    ) -> None:
        super().__init__()
        if words.get_output_dim() != DIM:
            raise ConfigurationError(f"CoVe reads word vectors of {DIM} dimensions, not of {words.get_output_dim()}")
        if pretrained_file is None and not (serialization_dir and saved_weights(Path(serialization_dir))):
            raise ConfigurationError(
                "CoVe needs its weights: set 'pretrained_file' to wmtlstm-8f474287.pth of salesforce/cove"
            )
        self.words = words
        self.encoder = MtLstm()
        if pretrained_file is not None:
            self.encoder.read(pretrained_file)
        self.encoder.requires_grad_(False)
        self.words.requires_grad_(False)
        self.placements = tuple(placements)
        self.indexers = (indexer,)
        weights = fixed_weights(layers, MtLstm.num_layers)
        self.mixes = torch.nn.ModuleDict(
            {placement: ScalarMix(MtLstm.num_layers, layer_norm, gamma, weights) for placement in placements}
        )
        self.dropout = torch.nn.Dropout(dropout)

    def get_output_dim(self) -> int:
        return self.encoder.get_output_dim()

    def forward(self, text: TextFieldTensors) -> Dict[str, torch.Tensor]:
        (indexer,) = self.indexers
        if indexer not in text:
            raise ConfigurationError(
                f'CoVe reads the token indexer {indexer!r}, but the text was not indexed by one; add "{indexer}": '
                '{"type": "elmo::words", "namespace": "cove"} to the dataset reader\'s token_indexers'
            )
        ids = text[indexer]["tokens"]
        mask = (ids != 0).flatten(0, -2)
        with torch.no_grad():
            layers = self.encoder(self.words(ids).flatten(0, -3), mask)
        mixed = {
            placement: (mix(layers, mask) * mask.unsqueeze(-1)).reshape(*ids.shape, -1)
            for placement, mix in self.mixes.items()
        }
        return {placement: self.dropout(vectors) for placement, vectors in mixed.items()}


class CoveEmbedder(ElmoEmbedder):
    """CoVe's layers of sentences: word vectors, first and second biLSTM, each 600 wide. Words that aren't in the file
    of vectors are zeros.
    """

    name = "CoVe"

    def __init__(self, cove_file: str, vectors_file: str, cuda_device: int = -1) -> None:
        check_for_gpu(cuda_device)
        self.cuda_device = cuda_device
        self.encoder = MtLstm().eval().requires_grad_(False)
        self.encoder.read(cove_file)
        self.encoder.to("cpu" if cuda_device < 0 else f"cuda:{cuda_device}")
        self._table = _read_table(vectors_file)

    @property
    def stateful(self) -> bool:
        return False

    @property
    def num_layers(self) -> int:
        return self.encoder.num_layers

    @property
    def dim(self) -> int:
        return self.encoder.get_output_dim()

    def fingerprint(self) -> str:
        digest = hashlib.blake2b(self._table.digest.encode(), digest_size=32)
        for _, weight in sorted(self.encoder.state_dict().items()):
            digest.update(weight.cpu().numpy().tobytes())
        return digest.hexdigest()

    def batch_to_embeddings(self, batch: List[List[str]]) -> Tuple[torch.Tensor, torch.Tensor]:
        longest = max((len(sentence) for sentence in batch), default=0)
        words = numpy.zeros((len(batch), longest, DIM), dtype=numpy.float32)
        mask = torch.zeros(len(batch), longest, dtype=torch.bool)
        for row, sentence in enumerate(batch):
            found = self._table.find_words(sentence)
            words[row, numpy.flatnonzero(found.is_found)] = found.vectors
            mask[row, : len(sentence)] = True
        device = next(self.encoder.parameters()).device
        with torch.no_grad():
            layers = self.encoder(torch.from_numpy(words).to(device), mask.to(device))
        return layers.transpose(0, 1), mask.to(device)


def _read_state(file: str) -> Dict[str, torch.Tensor]:
    try:
        state: Any = torch.load(cached_path(file), map_location="cpu", weights_only=True)
    except FileNotFoundError as error:
        raise ConfigurationError(f"there is no file of CoVe's weights {file}") from error
    except (RuntimeError, ValueError, EOFError, pickle.UnpicklingError) as error:
        raise ConfigurationError(f"{file} isn't a file of torch's weights ({error})") from error
    if not isinstance(state, dict) or not all(isinstance(name, str) for name in state):
        raise ConfigurationError(f"{file} isn't CoVe's: expected weights by name, got a {type(state).__name__}")
    # As a torch.nn.LSTM names them, or a module with one called `rnn`.
    return {name.removeprefix("rnn."): weight for name, weight in state.items()}


def _read_table(file: str) -> VectorTable:
    with TableBuilder() as builder:
        for block in read_vectors(file, DIM):
            builder.add(block.words, block.vectors)
        return builder.finish()
