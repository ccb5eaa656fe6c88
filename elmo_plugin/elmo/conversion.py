"""Archives trained with AllenNLP's own ELMo, rewritten for this plugin's: the same predictions, faster.

AllenNLP's `elmo_token_embedder` keeps the biLM's weights in the archive too, in its own order. They are put back in
this plugin's, which is the published files', and under its names.
"""

import glob
import json
import re
from pathlib import Path
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple

import torch
from allennlp.common.checks import ConfigurationError
from allennlp.models import archival

from elmo_plugin.archives import read_weights
from elmo_plugin.bilm import BiLm, checkpoint
from elmo_plugin.bilm.options import BiLmOptions
from elmo_plugin.bilm.pretrained import PRETRAINED
from elmo_plugin.bilm.sources import RECORD_NAME
from elmo_plugin.files import read_json, replacing

OLD_TYPE, NEW_TYPE = "elmo_token_embedder", "elmo::token_embedder"
OLD_INDEXER, NEW_INDEXER = "elmo_characters", "elmo::characters"
# The default of AllenNLP's constructor.
_DEFAULT_FILES = PRETRAINED["original"]
_BILM_KEY = "_elmo._elmo_lstm._token_embedder._char_embedding_weights"
_PUBLISHED_SIZES = re.compile(r"2x(?P<cell>\d+)_(?P<projection>\d+)_2048cnn_(?P<highway>\d)xhighway")

State = Dict[str, torch.Tensor]


class _Embedder(NamedTuple):
    """An embedder of the old kind: its name among the token embedders, its config, and where its weights begin."""

    name: str
    config: Dict[str, Any]
    prefix: str


def convert(old_archive: str, new_archive: str, options_file: Optional[str] = None, stateful: bool = True) -> None:
    """Writes `new_archive`, which makes the same predictions as `old_archive`. Refuses what it can't convert.

    `options_file` is the biLM's options.json, if the one that the archive names can't be reached. AllenNLP's ELMo
    carries LSTM states from batch to batch; without `stateful` the new archive doesn't, and a sentence gets the same
    vectors each time.
    """
    with archival.extracted_archive(old_archive) as folder:
        run = Path(folder)
        config = read_json(run / "config.json", f"get {old_archive} again")
        state = dict(read_weights(old_archive, archival.get_weights_path(folder)))
        embedders = _find_embedders(old_archive, config, state)
        records = {}
        for embedder in embedders:
            files = {
                "options_file": embedder.config.get("options_file", _DEFAULT_FILES.options_file),
                "weight_file": embedder.config.get("weight_file", _DEFAULT_FILES.weight_file),
            }
            options = _read_options(options_file or files["options_file"])
            new_config = _converted_config(embedder.config, files, stateful)
            if embedder.config.get("scalar_mix_parameters") is not None:
                new_config["layers"] = _pop_layer_weights(state, embedder.prefix)
            state = _converted_state(old_archive, state, embedder.prefix, options)
            records[json.dumps(files, sort_keys=True)] = options.to_json()
            embedder.config.clear()
            embedder.config.update(new_config)
        _check_nothing_is_left(old_archive, state)
        _rename_indexers(config)
        (run / "config.json").write_text(json.dumps(config, indent=4), encoding="utf-8")
        (run / "vocabulary" / RECORD_NAME).write_text(json.dumps(records), encoding="utf-8")
        torch.save(state, run / "best.th")
        with replacing(Path(new_archive)) as temporary:
            archival.archive_model(folder, "best.th", str(temporary), include_in_archive=_other_members(run))
            archival.load_archive(str(temporary))  # an archive that can't be opened isn't written


def _other_members(run: Path) -> List[str]:
    """What a training's `include_in_archive` has put beside the parts that every archive has."""
    of_every_archive = ("config.json", "meta.json", "vocabulary", "weights.th", "best.th")
    return sorted(glob.escape(path.name) for path in run.iterdir() if path.name not in of_every_archive)


# ---- Config ----


def _find_embedders(archive: str, config: Any, state: State) -> List[_Embedder]:
    configs = list(_nodes_of_type(config, OLD_TYPE))
    prefixes = [key.removesuffix(_BILM_KEY) for key in state if key.endswith(_BILM_KEY)]
    if not configs:
        _check_nothing_is_left(archive, state)
        raise ConfigurationError(f"{archive} has no token embedder of type {OLD_TYPE}: there is nothing to convert")
    embedders = []
    for name, node in configs:
        own = [prefix for prefix in prefixes if prefix.endswith(f"token_embedder_{name}.")]
        if len(own) != 1:
            raise ConfigurationError(
                f"{archive} can't be converted: its weights have {len(own)} embedders for the token embedder {name!r} "
                "of the config, where there has to be one"
            )
        if node.get("vocab_to_cache"):
            raise ConfigurationError(
                f"{archive} can't be converted: its embedder {name!r} has vocab_to_cache, whose words are read by "
                "number; this plugin caches words by itself"
            )
        embedders.append(_Embedder(name, node, own[0]))
    return embedders


def _nodes_of_type(value: Any, wanted: str, name: str = "") -> Iterator[Tuple[str, Dict[str, Any]]]:
    if isinstance(value, dict):
        if value.get("type") == wanted:
            yield name, value
        for key, item in value.items():
            yield from _nodes_of_type(item, wanted, key)
    elif isinstance(value, list):
        for item in value:
            yield from _nodes_of_type(item, wanted, name)


def _converted_config(old: Dict[str, Any], files: Dict[str, str], stateful: bool) -> Dict[str, Any]:
    new: Dict[str, Any] = {
        "type": NEW_TYPE,
        "bilm": {"type": "files", **files},
        "layer_norm": "legacy" if old.get("do_layer_norm", False) else False,
        "dropout": old.get("dropout", 0.5),
        "requires_grad": old.get("requires_grad", False),
        "stateful": stateful,
    }
    if old.get("projection_dim"):
        new["projection_dim"] = old["projection_dim"]
    return new


def _rename_indexers(config: Any) -> None:
    """Ours gives the same ids. One that adds its own tokens stays AllenNLP's, whose ids ours reads as well."""
    for _, node in _nodes_of_type(config, OLD_INDEXER):
        if not node.get("tokens_to_add"):
            node["type"] = NEW_INDEXER
            node.pop("namespace", None)  # which AllenNLP's has, and which means nothing


def _check_nothing_is_left(archive: str, state: State) -> None:
    left = [key for key in state if "_elmo_lstm." in key or "scalar_mix_0." in key]
    if left:
        raise ConfigurationError(
            f"{archive} can't be converted: AllenNLP's ELMo is elsewhere in it than in token embedders of type "
            f"{OLD_TYPE} ({left[0]}). It can be used as it is"
        )


# ---- Sizes ----


def _read_options(options_file: str) -> BiLmOptions:
    """From the file; for a published one that can't be reached, from the sizes in its name."""
    published = _PUBLISHED_SIZES.search(options_file) if "://" in options_file else None
    if published is not None:
        return BiLmOptions(
            cell_dim=int(published["cell"]),
            projection_dim=int(published["projection"]),
            num_highway=int(published["highway"]),
        )
    if not Path(options_file).is_file():
        raise ConfigurationError(
            f"the biLM's options file {options_file} is needed for its sizes, but isn't there; give another one with "
            "--options-file"
        )
    return checkpoint.read_options(options_file)


# ---- Weights ----


def _converted_state(archive: str, state: State, prefix: str, options: BiLmOptions) -> State:
    own = {key.removeprefix(prefix): value for key, value in state.items() if key.startswith(prefix)}
    bilm = BiLm(options)
    try:
        bilm.load_state_dict(dict(_bilm_parameters(own, options)))
    except (KeyError, RuntimeError) as error:
        raise ConfigurationError(
            f"{archive} can't be converted: its weights aren't those that the biLM's options ask for ({error}); does "
            "the options file belong to it?"
        ) from error
    converted = {f"elmo.bilm.{name}": value for name, value in bilm.state_dict().items()}
    for name, value in own.items():
        if name.startswith("_projection."):
            converted[name.removeprefix("_")] = value
        if "scalar_mix_0." in name:
            converted[f"elmo.mixes.input.{name.rpartition('scalar_mix_0.')[2]}"] = value
    others = {key: value for key, value in state.items() if not key.startswith(prefix)}
    return {**others, **{f"{prefix}{name}": value for name, value in converted.items()}}


def _pop_layer_weights(state: State, prefix: str) -> List[float]:
    """Removes fixed layer weights, which aren't parameters here, from the state."""
    start = f"{prefix}_elmo.scalar_mix_0.scalar_parameters."
    names = sorted((name for name in state if name.startswith(start)), key=lambda name: int(name.removeprefix(start)))
    return torch.softmax(torch.cat([state.pop(name) for name in names]).double(), dim=0).tolist()


def _bilm_parameters(own: State, options: BiLmOptions) -> Iterator[Tuple[str, torch.Tensor]]:
    """The parameters of `BiLm`, from AllenNLP's."""
    tokens, lstms = "_elmo._elmo_lstm._token_embedder.", "_elmo._elmo_lstm._elmo_lstm."
    yield "character_cnn.char_embedding", own[f"{tokens}_char_embedding_weights"][1:]  # without that of padding
    for kind in ("weight", "bias"):
        for index in range(len(options.filters)):
            yield f"character_cnn.convolutions.{index}.{kind}", own[f"{tokens}char_conv_{index}.{kind}"]
        for index in range(options.num_highway):
            transform, carry = own[f"{tokens}_highways._layers.{index}.{kind}"].chunk(2)
            yield f"character_cnn.highways.{index}.transform.{kind}", transform
            # AllenNLP's gate lets the layer's input through where the published one lets its output.
            yield f"character_cnn.highways.{index}.carry.{kind}", -carry
        yield f"character_cnn.projection.{kind}", own[f"{tokens}_projection.{kind}"]
    for direction in ("forward", "backward"):
        for index in range(options.num_layers):
            layer, lstm = f"{direction}_layers.{index}.", f"{lstms}{direction}_layer_{index}."
            yield f"{layer}input_weight", _published_gates(own[f"{lstm}input_linearity.weight"])
            yield f"{layer}state_weight", _published_gates(own[f"{lstm}state_linearity.weight"])
            bias = _published_gates(own[f"{lstm}state_linearity.bias"])
            bias.chunk(4)[2].sub_(1.0)  # which AllenNLP adds when it reads the file
            yield f"{layer}bias", bias
            yield f"{layer}projection_weight", own[f"{lstm}state_projection.weight"]


def _published_gates(tensor: torch.Tensor) -> torch.Tensor:
    """From AllenNLP's order (input, forget, candidate, output) to the file's, which has the candidate second."""
    input_gate, forget, candidate, output = tensor.chunk(4)
    return torch.cat([input_gate, candidate, forget, output])
