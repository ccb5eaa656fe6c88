"""Where a biLM comes from, by config; and how its sizes travel inside a model archive.

An archive's weights.th already holds the biLM's weights. What it lacks is the sizes, without which the model can't be
built. So a biLM that a config names leaves its sizes in the run's `vocabulary/` folder, which AllenNLP puts into
`model.tar.gz`, at the moment its weights are first saved. Where such a record and saved weights are found, the original
files are not touched: the biLM is built at those sizes and refuses to run until its weights have been loaded.
"""

import json
from functools import partial
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional

import torch
from allennlp.common import Params, Registrable

from elmo_plugin.archive_records import WhenFirstSaved, read_record, saved_weights, write_record
from elmo_plugin.bilm import loading
from elmo_plugin.bilm.bilm import BiLm
from elmo_plugin.bilm.options import BiLmOptions
from elmo_plugin.bilm.pretrained import SHIPPED

RECORD_NAME = ".bilm_sizes.json"


class BiLmSource(Registrable):
    """The ways to a `BiLm` that a config can name by `type`; each is a plain function too.

    A config that is a string, `"bilm": "wiki-base"`, names a biLM as `BiLm.load` does. With other settings beside it,
    that is `{"type": "pretrained", "name": "wiki-base", "dropout": 0.1}`.
    """

    default_implementation = "files"

    @classmethod
    def from_config(cls, params: Params, serialization_dir: Optional[str] = None) -> BiLm:
        """What `BiLm.from_params` does."""
        # AllenNLP turns a string into a type.
        if list(params) == ["type"] and params["type"] not in cls.list_available():
            params = Params({"type": "pretrained", "name": params["type"]})
        return cls.from_params(params, serialization_dir=serialization_dir)  # type: ignore[return-value]

    @staticmethod
    def from_files(
        options_file: str,
        weight_file: str,
        dropout: float = 0.0,
        stateful: bool = False,
        precision: str = "float32",
        serialization_dir: Optional[str] = None,
    ) -> BiLm:
        """The published pair of files, each a local path or a URL."""
        source = {"options_file": options_file, "weight_file": weight_file}
        return _set_up(_open(loading.read_files, source, serialization_dir), dropout, stateful, precision)

    @staticmethod
    def from_name(
        name: str = SHIPPED,
        dropout: float = 0.0,
        stateful: bool = False,
        precision: str = "float32",
        serialization_dir: Optional[str] = None,
    ) -> BiLm:
        """A biLM by the one string that names it: see `BiLm.load`."""
        source = {"pretrained": name}
        return _set_up(_open(loading.load, source, serialization_dir), dropout, stateful, precision)

    @staticmethod
    def from_archive(
        archive_file: str,
        dropout: float = 0.0,
        stateful: bool = False,
        precision: str = "float32",
        serialization_dir: Optional[str] = None,
    ) -> BiLm:
        """The biLM inside a model archive: that of a language model trained here, or of a task model."""
        source = {"archive_file": archive_file}
        return _set_up(_open(loading.read_archive, source, serialization_dir), dropout, stateful, precision)

    @staticmethod
    def from_sizes(
        projection_dim: int = BiLmOptions.projection_dim,
        cell_dim: int = BiLmOptions.cell_dim,
        num_layers: int = BiLmOptions.num_layers,
        cell_clip: Optional[float] = BiLmOptions.cell_clip,
        projection_clip: Optional[float] = BiLmOptions.projection_clip,
        use_skip_connections: bool = BiLmOptions.use_skip_connections,
        char_dim: int = BiLmOptions.char_dim,
        filters: List[List[int]] = BiLmOptions.filters,  # type: ignore[assignment]
        num_highway: int = BiLmOptions.num_highway,
        activation: str = BiLmOptions.activation,
        max_characters_per_token: int = BiLmOptions.max_characters_per_token,
        dropout: float = 0.0,
        stateful: bool = False,
        precision: str = "float32",
    ) -> BiLm:
        """A randomly initialised biLM, to be trained. The default sizes are the paper's."""
        options = BiLmOptions(
            projection_dim=projection_dim,
            cell_dim=cell_dim,
            num_layers=num_layers,
            cell_clip=cell_clip,
            projection_clip=projection_clip,
            use_skip_connections=use_skip_connections,
            char_dim=char_dim,
            filters=tuple((width, num) for width, num in filters),
            num_highway=num_highway,
            activation=activation,
            max_characters_per_token=max_characters_per_token,
        )
        return BiLm(options, dropout, stateful, precision)


BiLmSource.register("files", constructor="from_files")(BiLmSource)
BiLmSource.register("pretrained", constructor="from_name")(BiLmSource)
BiLmSource.register("archive", constructor="from_archive")(BiLmSource)
BiLmSource.register("random", constructor="from_sizes")(BiLmSource)


def _set_up(bilm: BiLm, dropout: float, stateful: bool, precision: str) -> BiLm:
    bilm.dropout = torch.nn.Dropout(dropout)
    bilm.stateful = stateful
    bilm.precision = precision
    return bilm


def _open(read: Callable[..., BiLm], source: Dict[str, str], serialization_dir: Optional[str]) -> BiLm:
    """Reads the biLM from what `source` names, unless `serialization_dir` already holds its sizes and weights."""
    if serialization_dir is None:
        return read(*source.values())
    folder = Path(serialization_dir)
    key = json.dumps(source, sort_keys=True)
    recorded = read_record(folder, RECORD_NAME).get(key)
    if recorded is not None and saved_weights(folder):
        bilm = BiLm(BiLmOptions.from_json(recorded, name=str(folder / "vocabulary" / RECORD_NAME)))
        complaint = (
            f"the biLM of {key} was built from the sizes recorded in {folder}, but no weights were loaded into it"
        )
        _AwaitedWeights(bilm, complaint)
        return bilm
    bilm = read(*source.values())
    bilm.register_state_dict_pre_hook(WhenFirstSaved(folder, partial(_record_sizes, key)))
    return bilm


class _AwaitedWeights:
    """Makes any use of a biLM fail with `complaint` until weights are loaded into it."""

    def __init__(self, bilm: BiLm, complaint: str) -> None:
        self._complaint = complaint
        bilm.character_cnn.register_forward_pre_hook(self._refuse)
        bilm.register_load_state_dict_pre_hook(self._arrive)

    def _refuse(self, *_: Any) -> None:
        if self._complaint:
            raise RuntimeError(self._complaint)

    def _arrive(self, bilm: BiLm, state_dict: Dict[str, Any], prefix: str, *_: Any) -> None:
        if f"{prefix}character_cnn.char_embedding" in state_dict:
            self._complaint = ""


def _record_sizes(key: str, bilm: BiLm, folder: Path) -> None:
    write_record(folder, RECORD_NAME, {**read_record(folder, RECORD_NAME), key: bilm.options.to_json()})
