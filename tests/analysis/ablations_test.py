import argparse
from pathlib import Path

import pytest
from allennlp.common.checks import ConfigurationError

from elmo_plugin.analysis import ablations
from elmo_plugin.analysis.ablations import TABLES, Ablations, cell_text, rows, variant_of
from elmo_plugin.analysis.cells import Cell

TASKS = ["coref", "ner", "snli", "squad", "srl", "sst"]


@pytest.mark.parametrize("task", TASKS)
def test_every_column_of_a_table_is_an_experiment_of_every_task(root, monkeypatch, task):
    monkeypatch.chdir(root)
    files = {f"ELMO_{task.upper()}_{part}": "anything" for part in ("TRAIN", "DEV")}
    for variant in {name for table in TABLES.values() for name in table.variants}:
        config_file, environment = variant_of(root / "training_configs" / task, variant)
        assert Cell(variant, config_file, {**files, **environment}).resolve()["model"]["type"] == f"elmo::{task}"


def test_an_ablation_changes_what_its_name_says(root, monkeypatch):
    monkeypatch.chdir(root)
    files = {"ELMO_SQUAD_TRAIN": "anything", "ELMO_SQUAD_DEV": "anything", "ELMO_TRAIN_FRACTION": "0.1"}

    def config(name):
        config_file, environment = variant_of(root / "training_configs/squad", name)
        return Cell(name, config_file, {**files, **environment}).resolve()

    assert config("top_layer_only")["model"]["text_embedder"]["contextual"]["layers"] == "top"
    assert config("output_only")["model"]["text_embedder"]["contextual"]["placements"] == ["output"]
    assert config("lambda_1")["model"]["regularizer"] == {
        "regexes": [["scalar_parameters", {"type": "l2", "alpha": 1}]]
    }
    assert config("chained_heads")["model"]["heads"]["type"] == "chained"
    assert config("fraction")["dataset_reader"]["fraction"] == 0.1
    assert "contextual" not in config("fraction_baseline")["model"]["text_embedder"]


def test_an_unknown_ablation_is_refused_with_the_names_there_are(root, monkeypatch):
    monkeypatch.chdir(root)
    files = {"ELMO_SST_TRAIN": "anything", "ELMO_SST_DEV": "anything"}
    config_file, environment = variant_of(root / "training_configs/sst", "lambda_2")
    with pytest.raises(ConfigurationError, match="ELMO_ABLATION is 'lambda_2', but must be one of .*lambda_1, maxout"):
        Cell("sst", config_file, {**files, **environment}).resolve()


def test_names_given_take_the_place_of_the_tables(tmp_path, task_folder, fake_training):
    report = report_of(tmp_path, task_folder, "--variants", "baseline", "gamma_off")
    assert list(report.results["variants"]["ner"]) == ["baseline", "gamma_off"] and len(fake_training) == 2


def test_the_papers_figures_are_in_columns_that_exist():
    for table in TABLES.values():
        for figures in table.paper.values():
            assert figures.keys() <= table.columns.keys()


def test_table_2_has_the_papers_figures_under_ours(make_run):
    runs = {("snli", "baseline"): [make_run(0.5), make_run(0.54)], ("snli", "top_layer_only"): [make_run(0.6)]}
    assert rows(TABLES["layers"], ["snli", "ner"], runs) == [
        ["snli", "52.0 +- 2.8", "60.0", "-", "-"],
        ["  the paper's snli", "88.1", "89.1", "89.3", "89.5"],
        ["ner", "-", "-", "-", "-"],
    ]


def test_no_run_is_a_dash():
    assert cell_text([]) == "-"


def test_a_variant_that_a_task_lacks_is_named(tmp_path):
    with pytest.raises(ConfigurationError, match="neither lambda_1.jsonnet nor ablation.jsonnet"):
        variant_of(tmp_path, "lambda_1")


@pytest.fixture
def task_folder(tmp_path, make_config):
    """A task's configs, by the names that Table 3 and A.2 take."""
    folder = tmp_path / "configs" / "ner"
    for variant in dict.fromkeys([*TABLES["placement"].variants, *TABLES["gamma"].variants]):
        Path(make_config(variant, folder)).rename(folder / f"{variant}.jsonnet")
    return folder


def report_of(tmp_path, task_folder, *flags):
    parser = argparse.ArgumentParser()
    Ablations().add_arguments(parser)
    return Ablations().run(
        parser.parse_args([str(task_folder), "--runs", str(tmp_path / "runs"), *flags]), lambda: None
    )


def test_the_command_trains_every_variant_with_every_seed(tmp_path, task_folder, fake_training):
    report = report_of(tmp_path, task_folder, "--tables", "placement", "--seeds", "1", "2")
    assert len(fake_training) == 6
    assert report.results["placement"]["ner"]["input_only"] == {
        "best": [pytest.approx(0.31), pytest.approx(0.32)],
        "updates": [12, 12],
        "paper": None,
    }
    assert "input only" in report.table and "31.5 +- 0.7" in report.table


def test_what_two_tables_share_is_trained_once(tmp_path, task_folder, fake_training):
    report_of(tmp_path, task_folder, "--tables", "gamma", "placement")
    assert len(fake_training) == len(TABLES["gamma"].variants) + len(TABLES["placement"].variants)
    report_of(tmp_path, task_folder, "--tables", "gamma")
    assert len(fake_training) == len(TABLES["gamma"].variants) + len(TABLES["placement"].variants)


def test_what_is_written_can_be_read_and_seen(tmp_path, task_folder, fake_training):
    report_of(tmp_path, task_folder, "--tables", "placement").write(tmp_path / "out", "ablations")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "ablations.json",
        "ablations.png",
        "ablations.txt",
    ]


def test_the_picture_has_a_point_for_each_variant_that_is_there(make_run):
    from matplotlib.figure import Figure

    figure = Figure()
    runs = {("snli", "baseline"): [make_run(0.5), make_run(0.6)], ("snli", "lambda_1"): [make_run(0.6)]}
    ablations.draw(figure, [TABLES["layers"]], ["snli", "srl"], runs)
    assert list(figure.axes[0].lines[0].get_xdata()) == [pytest.approx(55.0), pytest.approx(60.0)]
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["baseline", "all, lambda=1"]
    assert not figure.axes[1].lines
