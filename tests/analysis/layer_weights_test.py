import json
import tarfile

import pytest
import torch
from allennlp.common.checks import ConfigurationError
from allennlp.modules.elmo import Elmo as AllenNlpElmo

from elmo_plugin.analysis import layer_weights
from elmo_plugin.analysis.analysis import write_plot
from elmo_plugin.analysis.layer_weights import LayerWeights
from elmo_plugin.bilm import BiLmSource
from elmo_plugin.elmo import Elmo


@pytest.fixture
def make_archive(tmp_path):
    def make(state, config=None, name="run"):
        folder = tmp_path / name
        folder.mkdir()
        torch.save(state, folder / "weights.th")
        (folder / "config.json").write_text(json.dumps(config or {"model": {"type": "elmo::ner"}}))
        with tarfile.open(folder / "model.tar.gz", "w:gz") as archive:
            archive.add(folder / "config.json", arcname="config.json")
            archive.add(folder / "weights.th", arcname="weights.th")
        return str(folder / "model.tar.gz")

    return make


@pytest.fixture
def bilm(bilm_files):
    return BiLmSource.from_files(*bilm_files)


def set_mix(mix, scalars, gamma):
    with torch.no_grad():
        for parameter, value in zip(mix.scalar_parameters, scalars, strict=True):
            parameter.fill_(value)
        mix.gamma.fill_(gamma)


def test_every_placement_of_our_elmo_is_found_with_its_softmax(bilm, make_archive):
    elmo = Elmo(bilm, placements=["input", "output"])
    set_mix(elmo.mixes["input"], [0.0, 1.0, -1.0], 0.7)
    set_mix(elmo.mixes["output"], [2.0, 2.0, 2.0], 1.5)
    state = {f"_embedder.contextual.{name}": value for name, value in elmo.state_dict().items()}
    first, second = layer_weights.read_archive(make_archive(state))
    assert (first.model, first.placement, first.fixed) == ("ner", "input", False)
    assert first.weights == pytest.approx(elmo.mixes["input"].layer_weights.tolist())
    assert first.gamma == pytest.approx(0.7)
    assert second == LayerWeights("ner", "_embedder.contextual.mixes.output", pytest.approx([1 / 3] * 3), 1.5)


def test_the_mixes_of_allennlps_own_elmo_are_found(bilm_files):
    elmo = AllenNlpElmo(*bilm_files, num_output_representations=2)
    set_mix(elmo.scalar_mix_1, [1.0, 0.0, 0.0], 2.0)
    first, second = layer_weights.mixes_of(elmo.state_dict(), {}, "theirs")
    assert (first.placement, second.placement) == ("scalar_mix_0", "scalar_mix_1")
    assert second.gamma == 2 and second.weights == pytest.approx(torch.softmax(torch.tensor([1.0, 0, 0]), 0).tolist())


def test_layers_are_in_order_even_beyond_ten():
    state = {f"mix.scalar_parameters.{layer}": torch.tensor([float(layer)]) for layer in reversed(range(12))}
    (mix,) = layer_weights.mixes_of(state, {}, "deep")
    assert mix.weights == sorted(mix.weights) and len(mix.weights) == 12


@pytest.mark.parametrize(
    ("layers", "weights"), [("top", [0, 0, 1]), ("tokens", [1, 0, 0]), ([0.2, 0.3, 0.5], [0.2, 0.3, 0.5])]
)
def test_fixed_weights_are_those_of_the_config(bilm, make_archive, layers, weights):
    elmo = Elmo(bilm, layers=layers)
    config = {"model": {"type": "elmo::srl", "embedder": {"contextual": {"bilm": {}, "layers": layers}}}}
    (mix,) = layer_weights.read_archive(make_archive(elmo.state_dict(), config))
    assert mix.fixed and mix.weights == pytest.approx(weights)


def test_fixed_weights_that_the_config_does_not_tell_are_refused(bilm, make_archive):
    with pytest.raises(ConfigurationError, match="fixed weights, but the config doesn't say which"):
        layer_weights.read_archive(make_archive(Elmo(bilm, layers="top").state_dict()))


def test_parameters_called_gamma_elsewhere_are_no_mix():
    state = {"layer_norm.gamma": torch.ones(8), "mix.scalar_parameters.0": torch.zeros(1)}
    assert [mix.mix for mix in layer_weights.mixes_of(state, {}, "x")] == ["mix"]


def test_a_models_name_is_its_type_or_its_folders(make_archive):
    state = {"mix.scalar_parameters.0": torch.zeros(1), "mix.gamma": torch.ones(1)}
    (named,) = layer_weights.read_archive(make_archive(state), "SQuAD")
    assert named.model == "SQuAD"
    (unnamed,) = layer_weights.read_archive(make_archive(state, {"model": {}}, name="my_run"))
    assert unnamed.model == "my_run"


def test_a_runs_folder_is_read_like_its_archive(make_archive, tmp_path):
    state = {"mix.scalar_parameters.0": torch.zeros(1), "mix.gamma": torch.ones(1)}
    archive = make_archive(state)
    assert layer_weights.read_archive(str(tmp_path / "run")) == layer_weights.read_archive(archive)
    (tmp_path / "run" / "weights.th").rename(tmp_path / "run" / "best.th")
    assert layer_weights.read_archive(str(tmp_path / "run")) == layer_weights.read_archive(archive)


def test_a_model_without_elmo_is_refused(make_archive):
    archive = make_archive({"weight": torch.zeros(3)})
    with pytest.raises(ConfigurationError, match=r"model.tar.gz: this model has no mix of layers"):
        layer_weights.read_archive(archive)


def test_what_is_no_archive_is_named(tmp_path):
    with pytest.raises(ConfigurationError, match="nowhere.tar.gz: no such archive"):
        layer_weights.read_archive("nowhere.tar.gz")
    (tmp_path / "text").write_text("text")
    with pytest.raises(ConfigurationError, match="text can't be unpacked"):
        layer_weights.read_archive(str(tmp_path / "text"))
    with pytest.raises(ConfigurationError, match="neither weights.th nor best.th"):
        layer_weights.read_archive(str(tmp_path))
    (tmp_path / "weights.th").write_bytes(b"not weights")
    with pytest.raises(ConfigurationError, match="can't be read: "):
        layer_weights.read_archive(str(tmp_path))


def test_a_config_that_is_no_json_is_named(make_archive, tmp_path):
    make_archive({"mix.scalar_parameters.0": torch.zeros(1)})
    (tmp_path / "run" / "config.json").write_text("{")
    with pytest.raises(ConfigurationError, match="run/config.json isn't JSON"):
        layer_weights.read_archive(str(tmp_path / "run"))


def test_weights_as_torch_saved_them_before_zip_files_are_read(tmp_path):
    state = {"mix.scalar_parameters.0": torch.zeros(1), "mix.gamma": torch.full((1,), 2.0)}
    torch.save(state, tmp_path / "weights.th", _use_new_zipfile_serialization=False)
    (mix,) = layer_weights.read_archive(str(tmp_path))
    assert mix.gamma == 2


def test_an_archive_that_lacks_its_weights_is_named(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    with tarfile.open(tmp_path / "model.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "config.json", arcname="config.json")
    with pytest.raises(ConfigurationError, match="isn't a model archive .*weights.th"):
        layer_weights.read_archive(str(tmp_path / "model.tar.gz"))


MIXES = [
    LayerWeights("ner", "a.mixes.input", [0.32, 0.67, 0.01], 0.9),
    LayerWeights("sst", "a.mixes.input", [0.34, 0.66, 0.0], 1.1),
    LayerWeights("sst", "a.mixes.output", [0.0, 0.0, 1.0], 1.0, True),
]


def test_the_table_has_a_row_for_each_mix():
    report = layer_weights.report(MIXES)
    rows = [line.split() for line in report.table.splitlines()]
    assert rows[2] == ["ner", "input", "0.320", "0.670", "0.010", "0.900"]
    assert rows[4][:3] == ["sst", "output", "(fixed)"]
    assert report.results["mixes"][0]["weights"] == [0.32, 0.67, 0.01]
    assert json.loads(json.dumps(report.results))["mixes"][2]["placement"] == "output"


def test_cells_are_hatched_below_a_third_and_dotted_above_two(tmp_path):
    drawn = []

    def draw(figure):
        layer_weights.draw(figure, MIXES)
        drawn.extend([[patch.get_hatch() for patch in axes.patches] for axes in figure.axes[:2]])

    write_plot(draw, tmp_path / "plot.png")
    assert drawn == [["--", "..", "--", None, None, "--"], ["--", "--", ".."]]
    assert (tmp_path / "plot.png").stat().st_size > 1000
