"""The layer weights that tasks have learnt: Sec. 5.5 and Figure 2.

Every mix of a model keeps `scalar_parameters.0`, `.1`, ... and `gamma`, here as in AllenNLP. They are read from an
archive's weights alone, so neither the model's code nor its biLM is needed.
"""

import os
import re
import tempfile
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import torch
from allennlp.common.checks import ConfigurationError
from allennlp.common.file_utils import cached_path

from elmo_plugin.analysis.analysis import Report
from elmo_plugin.analysis.tables import text_table
from elmo_plugin.archives import read_weights, unpack
from elmo_plugin.files import read_json

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_WEIGHTS, _CONFIG = "weights.th", "config.json"
_SCALAR = re.compile(r"(?P<mix>.*?)\.?scalar_parameters\.(?P<layer>\d+)$")
# One of our mixes with fixed weights saves no weights, but still saves its gamma.
_GAMMA_OF_FIXED = re.compile(r"(?P<mix>.*\bmixes\.[^.]+)\.gamma$")
_RECURRENT_LAYER = re.compile(r"forward_layers\.(\d+)\.")


class LayerWeights(NamedTuple):
    """One mix of one model: softmax(w), and gamma."""

    model: str
    mix: str
    weights: List[float]
    gamma: float
    fixed: bool = False

    @property
    def placement(self) -> str:
        """The last part of the mix's name: `input`, `output`, or `scalar_mix_0` in AllenNLP's own models."""
        return self.mix.rpartition(".")[2]


def read_archive(archive_file: str, name: Optional[str] = None) -> List[LayerWeights]:
    """Every mix in a model archive, a path or a URL, or in the folder of a run."""
    state, config = _read(archive_file)
    mixes = mixes_of(state, config, name or model_name(archive_file, config))
    if not mixes:
        raise ConfigurationError(f"{archive_file}: this model has no mix of layers; was it trained without ELMo?")
    return mixes


def mixes_of(state: Mapping[str, torch.Tensor], config: Mapping[str, Any], name: str) -> List[LayerWeights]:
    """Every mix among a model's parameters, sorted by name."""
    scalars: Dict[str, Dict[int, float]] = {}
    for key, value in state.items():
        if match := _SCALAR.match(key):
            scalars.setdefault(match["mix"], {})[int(match["layer"])] = float(value)
    mixes = []
    for mix, by_layer in scalars.items():
        softmax = torch.softmax(torch.tensor([by_layer[layer] for layer in sorted(by_layer)]), dim=0).tolist()
        gamma = state.get(f"{mix}.gamma" if mix else "gamma", torch.ones(1))
        mixes.append(LayerWeights(name, mix, softmax, float(gamma)))
    for key, value in state.items():
        match = _GAMMA_OF_FIXED.match(key)
        if match and match["mix"] not in scalars:
            mixes.append(LayerWeights(name, match["mix"], _fixed_weights(state, config, key), float(value), True))
    return sorted(mixes)


def _fixed_weights(state: Mapping[str, torch.Tensor], config: Mapping[str, Any], key: str) -> List[float]:
    layers = _find_layers(config)
    if isinstance(layers, list):
        return [float(weight) for weight in layers]
    recurrent = [int(match[1]) for name in state if (match := _RECURRENT_LAYER.search(name))]
    if layers not in ("top", "tokens") or not recurrent:
        raise ConfigurationError(
            f"{key} belongs to a mix with fixed weights, but the config doesn't say which: {layers!r}"
        )
    num_layers = max(recurrent) + 2
    return [float(layer == (num_layers - 1 if layers == "top" else 0)) for layer in range(num_layers)]


def _find_layers(config: Any) -> Any:
    """The `layers` of the first ContextualEmbedder "elmo" in a config."""
    if isinstance(config, dict):
        if "bilm" in config and "layers" in config:
            return config["layers"]
        config = list(config.values())
    if isinstance(config, list):
        return next((found for part in config if (found := _find_layers(part)) is not None), None)
    return None


def model_name(archive_file: str, config: Mapping[str, Any]) -> str:
    """The task, from the config's model type (`ner` for elmo::ner), or else the archive's own name."""
    model_type = config.get("model", {}).get("type") if isinstance(config.get("model"), dict) else None
    if isinstance(model_type, str):
        return model_type.rpartition("::")[2]
    path = os.path.abspath(archive_file)
    return os.path.basename(os.path.dirname(path) if os.path.basename(path) == "model.tar.gz" else path)


def _read(archive_file: str) -> Tuple[Mapping[str, torch.Tensor], Mapping[str, Any]]:
    try:
        path = str(cached_path(archive_file))
    except FileNotFoundError as error:
        raise ConfigurationError(f"{archive_file}: no such archive") from error
    with _weights_and_config(path, archive_file) as (weight_file, config_file):
        state = read_weights(archive_file, weight_file)
        config = read_json(config_file, f"get {archive_file} again") if os.path.exists(config_file) else {}
        # Copies of what is needed, since the file goes.
        kept = {key: value.clone() if value.numel() == 1 else torch.empty(0) for key, value in state.items()}
    return kept, config


@contextmanager
def _weights_and_config(path: str, name: str) -> Iterator[Tuple[str, str]]:
    """The paths of an archive's two files, unpacked while the block runs; or those in a run's folder."""
    if os.path.isdir(path):
        weights = [os.path.join(path, file) for file in (_WEIGHTS, "best.th")]
        found = next((file for file in weights if os.path.exists(file)), None)
        if found is None:
            raise ConfigurationError(f"{name}: there is neither {_WEIGHTS} nor best.th in this folder")
        yield found, os.path.join(path, _CONFIG)
        return
    with tempfile.TemporaryDirectory() as folder:
        unpack(path, folder, only=(_WEIGHTS, _CONFIG))
        if not os.path.isfile(os.path.join(folder, _WEIGHTS)):
            raise ConfigurationError(f"{name}: this isn't a model archive (it has no {_WEIGHTS})")
        yield os.path.join(folder, _WEIGHTS), os.path.join(folder, _CONFIG)


def report(mixes: Sequence[LayerWeights]) -> Report:
    """A row for each mix, and Figure 2."""
    num_layers = max(len(mix.weights) for mix in mixes)
    header = ["model", "mix", *(_short_name(layer) for layer in range(num_layers)), "gamma"]
    rows = [
        [mix.model, mix.placement + (" (fixed)" if mix.fixed else "")]
        + [f"{weight:.3f}" for weight in mix.weights]
        + [""] * (num_layers - len(mix.weights))
        + [f"{mix.gamma:.3f}"]
        for mix in mixes
    ]
    results = {"mixes": [{**mix._asdict(), "placement": mix.placement} for mix in mixes]}
    return Report(results, text_table(header, rows, left=2), lambda figure: draw(figure, mixes))


def _short_name(layer: int) -> str:
    return "token" if layer == 0 else f"LSTM {layer}"


def draw(figure: "Figure", mixes: Sequence[LayerWeights]) -> None:
    """Figure 2: a panel for each placement, a column for each model, a row for each layer, the lowest at the bottom.

    As in the paper, cells below 1/3 are hatched with horizontal lines and those above 2/3 dotted. Gamma is given below.
    """
    placements = sorted({mix.placement for mix in mixes})
    by_placement = [[mix for mix in mixes if mix.placement == placement] for placement in placements]
    num_layers = max(len(mix.weights) for mix in mixes)
    num_columns = [len(group) for group in by_placement]
    figure.set_size_inches(1.9 + 0.85 * sum(num_columns) + 0.25 * len(placements), 1.2 + 0.55 * num_layers)
    panels = figure.subplots(1, len(placements), squeeze=False, sharey=True, width_ratios=num_columns)[0]
    from matplotlib.cm import ScalarMappable

    colours = ScalarMappable(cmap="YlGnBu")
    colours.set_clim(0, 1)
    for axes, placement, group in zip(panels, placements, by_placement, strict=True):
        for column, mix in enumerate(group):
            for layer, weight in enumerate(mix.weights):
                _draw_cell(axes, column, layer, weight, colours.cmap(weight))
        axes.set_xlim(-0.5, len(group) - 0.5)
        axes.set_ylim(-0.5, num_layers - 0.5)
        labels = [f"{mix.model}\n$\\gamma$ = {mix.gamma:.2f}" for mix in group]
        axes.set_xticks(range(len(group)), labels, fontsize="small")
        axes.set_yticks(range(num_layers), [_short_name(layer) for layer in range(num_layers)])
        axes.set_title(placement, fontsize="medium")
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
    figure.colorbar(colours, ax=panels.tolist(), label="weight", shrink=0.9, ticks=[0, 1 / 3, 2 / 3, 1], format="%.2f")


def _draw_cell(axes: Any, column: int, layer: int, weight: float, colour: Tuple[float, ...]) -> None:
    from matplotlib.patches import Rectangle

    hatch = "--" if weight < 1 / 3 else ".." if weight > 2 / 3 else None
    is_dark = sum(colour[:3]) < 1.5
    axes.add_patch(
        Rectangle(
            (column - 0.48, layer - 0.48), 0.96, 0.96, facecolor=colour, edgecolor="0.6", hatch=hatch, linewidth=0
        )
    )
    axes.text(
        column,
        layer,
        f"{weight:.2f}",
        ha="center",
        va="center",
        fontsize="small",
        color="white" if is_dark else "black",
        bbox={"boxstyle": "round,pad=0.15", "facecolor": colour, "edgecolor": "none"},
    )
