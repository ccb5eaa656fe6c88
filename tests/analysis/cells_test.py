import pytest
from allennlp.common.checks import ConfigurationError

from elmo_plugin.analysis import cells
from elmo_plugin.analysis.cells import Cell, experiment_hash, lasting, seeded, train_on


def test_a_cap_holds_for_training_and_not_for_validation():
    config = {"data_loader": {"batch_size": 2}, "trainer": {"num_epochs": 75, "patience": 5}}
    changed = lasting(3, 10)(config)
    assert changed["data_loader"] == {"batch_size": 2, "batches_per_epoch": 10}
    assert changed["validation_data_loader"] == {"batch_size": 2}
    assert changed["trainer"] == {"num_epochs": 3, "patience": None}


def test_a_cap_counts_updates_where_gradients_are_accumulated():
    config = {"data_loader": {}, "trainer": {"num_gradient_accumulation_steps": 4}}
    assert lasting(3, 10)(config)["data_loader"]["batches_per_epoch"] == 40


def test_epochs_without_a_cap_keep_their_length_and_the_early_stopping():
    config = {"data_loader": {"batch_size": 2}, "trainer": {"num_epochs": 75, "patience": 5}}
    assert lasting(3)(config) == {**config, "trainer": {"num_epochs": 3, "patience": 5}}
    assert config["trainer"]["num_epochs"] == 75


def test_a_fraction_of_the_training_set_leaves_validation_whole():
    changed = train_on(0.1, seed=3)({"dataset_reader": {"type": "elmo::ner"}})
    assert changed["dataset_reader"] == {
        "type": "elmo::fraction",
        "reader": {"type": "elmo::ner"},
        "fraction": 0.1,
        "seed": 3,
    }
    assert changed["validation_dataset_reader"] == {"type": "elmo::ner"}


def test_the_whole_training_set_is_no_change():
    config = {"dataset_reader": {"type": "elmo::ner"}}
    assert train_on(1.0, seed=3)(config) == config


def test_variables_reach_the_config(tmp_path):
    path = tmp_path / "config.jsonnet"
    path.write_text("{train_data_path: std.extVar('ELMO_NER_TRAIN'), random_seed: 0}")
    config = Cell("cell", str(path), environment={"ELMO_NER_TRAIN": "train.txt"}, changes=[seeded(7)]).resolve()
    assert config == {"train_data_path": "train.txt", "random_seed": 7, "numpy_seed": 7, "pytorch_seed": 7}


def test_a_config_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ConfigurationError, match="cell: there is no config .*missing.jsonnet"):
        Cell("cell", str(tmp_path / "missing.jsonnet")).resolve()


def test_an_override_that_hits_nothing_is_an_error(make_cell):
    with pytest.raises(ConfigurationError, match="model.widht.size"):
        make_cell(overrides={"model.widht.size": 3}).resolve()


def test_a_name_that_is_no_folder_is_refused():
    with pytest.raises(ValueError, match="a/b"):
        Cell("a/b", "config.jsonnet")


# ---- Hashes ----


def test_another_override_has_another_hash(make_cell):
    changed = make_cell(overrides={"trainer.num_epochs": 4})
    assert (
        experiment_hash(changed.resolve())
        != experiment_hash(make_cell().resolve())
        == experiment_hash(make_cell().resolve())
    )


def test_another_content_of_a_data_file_has_another_hash(tmp_path):
    path = tmp_path / "train.txt"
    path.write_text("one")
    config = {"train_data_path": str(path)}
    before = experiment_hash(config)
    path.write_text("two")
    assert experiment_hash(config) != before


def test_the_same_data_elsewhere_has_the_same_hash(tmp_path):
    configs = []
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "train.txt").write_text("a text")
        configs.append({"train_data_path": str(tmp_path / name / "train.txt"), "model": {"type": "a"}})
    assert experiment_hash(configs[0]) == experiment_hash(configs[1])


def test_the_archive_of_a_run_counts_as_its_experiment(tmp_path):
    places = [tmp_path / "runs" / "ner-0123456789abcdef", tmp_path / "records" / "ner-0123456789abcdef.json"]
    (places[0] / "run").mkdir(parents=True)
    (places[0] / "run" / "model.tar.gz").write_text("weights")
    here, gone = ({"archive": str(place / "run" / "model.tar.gz")} for place in places)
    other = {"archive": here["archive"].replace("0123", "3210")}
    assert experiment_hash(here) == experiment_hash(gone) != experiment_hash(other)


def test_another_content_of_a_folder_or_glob_has_another_hash(tmp_path):
    (tmp_path / "train").mkdir()
    (tmp_path / "train" / "a.txt").write_text("one")
    configs = [{"path": str(tmp_path / "train")}, {"path": str(tmp_path / "train" / "*.txt")}]
    before = [experiment_hash(config) for config in configs]
    (tmp_path / "train" / "b.txt").write_text("two")
    assert all(experiment_hash(config) != old for config, old in zip(configs, before, strict=True))


def test_another_biLM_of_the_same_name_has_another_hash(tmp_path, monkeypatch):
    weights = tmp_path / "weights.hdf5"
    weights.write_text("one")
    monkeypatch.setitem(cells.PRETRAINED, "some-bilm", ("options.json", str(weights)))
    config = {"bilm": {"type": "pretrained", "name": "some-bilm"}}
    before = experiment_hash(config)
    weights.write_text("two")
    assert experiment_hash(config) != before
