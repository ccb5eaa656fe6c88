"""The driver behind RESULTS.md, without any training: what it would train, and what it makes of finished runs."""

import gzip
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from elmo_plugin.analysis import finetuning
from elmo_plugin.analysis.cells import experiment_hash
from elmo_plugin.analysis.finished_run import EpochResult, Run, write_record
from elmo_plugin.analysis.runs import Runs


@pytest.fixture(scope="module")
def driver(results_on_path):
    """results/run.py, as the package at the repository's root has it."""
    from results import run

    return run


@pytest.fixture(scope="module", autouse=True)
def data(tmp_path_factory, root):
    """A folder laid out as the driver expects, with data for NER in it."""
    folder = tmp_path_factory.mktemp("data")
    (folder / "ner").mkdir()
    for name in ("train", "dev"):
        shutil.copy(root / "fixtures" / "data" / "ner" / f"{name}.txt", folder / "ner" / f"wikigold.{name}.conll")
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.chdir(root)
        monkeypatch.setenv("ELMO_DATA", str(folder))
        monkeypatch.setenv("ELMO_BILM", "wiki-small")
        monkeypatch.setenv("ELMO_WORD_VECTORS", "")
        yield folder


# ---- What would be trained ----


@pytest.mark.parametrize("task", ["coref", "ner", "snli", "squad", "srl", "sst"])
@pytest.mark.parametrize("setting", ["quick", "full"])
def test_baseline_and_elmo_share_data_seed_and_budget(driver, setting, task, data):
    runs = [run for run in driver.PARTS["tasks"](setting, data) if run.task == task]
    assert {run.variant for run in runs} == {"baseline", "elmo"} and {run.seed for run in runs} >= {1}
    baseline, elmo = (next(run.cell for run in runs if run.variant == name).resolve() for name in ("baseline", "elmo"))
    for key in ("train_data_path", "validation_data_path", "data_loader", "trainer", "random_seed"):
        assert baseline[key] == elmo[key]
    assert elmo["train_data_path"].startswith(str(data))


def trainer_and_loaders(driver, setting, data):
    config = next(run.cell for run in driver.PARTS["tasks"](setting, data) if run.task == "ner").resolve()
    return config["trainer"], config["data_loader"], config["validation_data_loader"]


def test_quick_trains_so_many_updates_and_no_less(driver, data):
    trainer, loader, validation_loader = trainer_and_loaders(driver, "quick", data)
    assert trainer["num_epochs"] * loader["batches_per_epoch"] == 870 and trainer["patience"] is None
    assert "batches_per_epoch" not in validation_loader


def test_full_trains_until_validation_has_stopped_improving(driver, data):
    trainer, loader, _ = trainer_and_loaders(driver, "full", data)
    assert trainer["patience"] == 15 and trainer["num_epochs"] > 2 * trainer["patience"]


def test_the_driver_runs_as_a_script(root):
    command = [sys.executable, "results/run.py", "--setting", "quick", "--help"]
    assert "examples:" in subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout


def test_every_ablation_and_fraction_of_the_quick_setting_can_be_resolved(driver, data):
    for run in driver.PARTS["ablations"]("quick", data) + driver.PARTS["fractions"]("quick", data):
        assert run.cell.resolve()["dataset_reader"]


def test_the_ablation_that_is_elmo_itself_is_not_trained_twice(driver, data):
    ablations = {(run.task, run.variant): run.cell for run in driver.PARTS["ablations"]("quick", data)}
    tasks = {(run.task, run.variant): run.cell for run in driver.PARTS["tasks"]("quick", data)}
    assert experiment_hash(ablations["srl", "input_only"].resolve()) == experiment_hash(tasks["srl", "elmo"].resolve())


def test_words_are_looked_up_in_lower_case_as_the_vectors_have_them(driver, data):
    config = next(run.cell for run in driver.PARTS["tasks"]("quick", data) if run.task == "sst").resolve()
    assert config["dataset_reader"]["type"] == "elmo::fraction"
    for reader in (config["dataset_reader"]["reader"], config["validation_dataset_reader"]):
        assert reader["token_indexers"]["tokens"]["lowercase_tokens"] is True


def config_of(driver, data, setting, task):
    return next(run.cell for run in driver.PARTS["tasks"](setting, data) if run.task == task).resolve()


def test_characters_keep_their_case(driver, data):
    indexers = config_of(driver, data, "quick", "ner")["dataset_reader"]["token_indexers"]
    assert indexers["tokens"]["lowercase_tokens"] is True
    assert "lowercase_tokens" not in indexers["token_characters"]


def test_validation_may_be_on_a_part_and_training_on_the_whole(driver, data):
    config = config_of(driver, data, "quick", "snli")
    assert config["validation_dataset_reader"] == {
        "type": "elmo::fraction",
        "fraction": 0.1,
        "reader": config["dataset_reader"],
    }


def test_readers_are_told_what_is_special_about_their_corpus(driver, data):
    srl = config_of(driver, data, "full", "srl")
    assert srl["dataset_reader"]["verbal_predicates_only"] is True
    assert srl["validation_dataset_reader"]["reader"]["verbal_predicates_only"] is True
    assert config_of(driver, data, "full", "coref")["dataset_reader"]["genre_pattern"].startswith("GUM")


def test_arguments_narrow_what_is_trained(driver, data):
    options = driver.parse_arguments("--setting quick --parts tasks --tasks ner sst --variants elmo --seeds 2".split())
    assert [run.cell.name for run in driver.chosen(options)] == ["ner-elmo-seed2", "sst-elmo-seed2"]


def test_help_shows_examples(driver, capsys):
    with pytest.raises(SystemExit):
        driver.parse_arguments(["--help"])
    assert "python results/run.py --setting quick" in capsys.readouterr().out


# ---- What is made of it ----


def finish(runs, cell, values):
    """Leaves what a finished run leaves."""
    config = cell.resolve()
    folder = runs.folder / f"{cell.name}-{experiment_hash(config)}"
    (folder / "run").mkdir(parents=True)
    (folder / "experiment.json").write_text(json.dumps(config))
    mix = {"mix": "mixes.input", "weights": [0.2, 0.5, 0.3], "gamma": 1.0, "fixed": False}
    result = {"name": cell.name, "updates_per_epoch": 87, "layer_weights": [mix] if "elmo" in cell.name else []}
    (folder / "result.json").write_text(json.dumps(result))
    metric = config["trainer"]["validation_metric"][1:]
    for epoch, value in enumerate(values):
        metrics = {"best_epoch": values.index(max(values[: epoch + 1])), f"validation_{metric}": value}
        metrics.update({f"validation_from_zeros_{metric}": value, "training_duration": f"0:0{epoch + 1}:00"})
        (folder / "run" / f"metrics_epoch_{epoch}.json").write_text(json.dumps(metrics))
    return folder


@pytest.fixture(scope="module")
def finished(driver, data, tmp_path_factory):
    """NER with two seeds: baselines at 50 and 60, +ELMo at 70 and 74."""
    runs = Runs(tmp_path_factory.mktemp("results") / "runs")
    values = {
        ("baseline", 1): [0.4, 0.5],
        ("baseline", 2): [0.6, 0.5],
        ("elmo", 1): [0.55, 0.7],
        ("elmo", 2): [0.5, 0.74],
    }
    for run in driver.PARTS["tasks"]("quick", data):
        if run.task == "ner" and (run.variant, run.seed) in values:
            finish(runs, run.cell, values[run.variant, run.seed])
    return runs


@pytest.fixture(scope="module")
def report(driver, finished):
    path = finished.folder.parent / "RESULTS.md"
    driver.report.write(path, "quick", finished)
    return path.read_text(encoding="utf-8")


def row(report, heading, start):
    section = report.split(f"## {heading}")[1].split("\n## ")[0]
    line = next(line for line in section.splitlines() if line.startswith(f"| {start}"))
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_the_six_task_table_has_means_spreads_gains_and_the_papers_figures(report):
    assert row(report, "Six tasks", "NER")[2:] == [
        "55.0 ± 7.1",
        "72.0 ± 2.8",
        "+17.0 ± 4.2",
        "37.8%",
        "90.15 → 92.22 (21.0%)",
    ]


def test_the_report_says_how_many_tasks_improve(report):
    assert "Adding ELMo improves 1 of the 1 tasks that are trained both ways." in report


def test_what_is_not_trained_yet_is_a_dash(report):
    assert row(report, "Six tasks", "SNLI")[2:6] == ["–"] * 4


def test_updates_to_pass_the_baselines_best_are_told_seed_by_seed(report):
    assert row(report, "Updates to pass", "NER | 1") == ["NER", "1", "50.0", "174", "87", "50%"]
    assert row(report, "Updates to pass", "NER | 2") == ["NER", "2", "60.0", "87", "174", "-100%"]


def test_the_training_section_has_counted_sizes_updates_and_times(report, root):
    sentences = (root / "fixtures/data/ner/train.txt").read_text().split("\n\n")
    num_train = sum(any(line and "-DOCSTART-" not in line for line in text.splitlines()) for text in sentences)
    cells = row(report, "How these were trained", "NER")
    assert cells[1].startswith(f"{num_train} / ") and cells[2:7] == ["174", "after these updates", "1, 2", "2.0", "2.0"]


def test_a_baseline_stands_beside_what_others_have_published(report):
    assert row(report, "The baselines beside", "NER")[1] == "55.0 ± 7.1"
    assert "| SNLI |" not in report.split("## The baselines beside")[1].split("\n## ")[0]


def snli_of_seed_1(driver, data):
    """SNLI's two sides as they were taken, and what else was tried for them, by variant."""
    runs = driver.PARTS["tasks"]("full", data) + driver.PARTS["choices"]("full", data)
    return {run.variant: run.cell for run in runs if (run.task, run.seed) == ("snli", 1)}


def test_a_choice_is_shown_with_what_else_was_tried_on_that_side(driver, data, tmp_path):
    runs, cells = Runs(tmp_path / "runs"), snli_of_seed_1(driver, data)
    assert driver.report.Report("full", runs, tmp_path)._choices() == ""
    finish(runs, cells["baseline-half_widths"], [0.5, 0.6])
    finish(runs, cells["baseline"], [0.7, 0.65])
    finish(runs, cells["elmo"], [0.8])
    section = driver.report.Report("full", runs, tmp_path)._choices()
    assert row(section, "Choices", "SNLI")[1:] == ["baseline", "1", "70.0", "half the widths", "60.0"]


def test_a_choice_may_be_held_against_another_one_that_was_tried(driver, data, tmp_path):
    runs, cells = Runs(tmp_path / "runs"), snli_of_seed_1(driver, data)
    finish(runs, cells["baseline-half_widths"], [0.65])
    finish(runs, cells["baseline-paper_dropout"], [0.6])
    section = driver.report.Report("full", runs, tmp_path)._choices()
    _, _, _, taken, note, tried = row(section, "Choices", "SNLI")
    assert (taken, tried) == ("65.0 (half the widths)", "60.0") and "the paper's dropout" in note


@pytest.mark.parametrize("tried, is_said", [(0.6, False), (0.8, True)])
@pytest.mark.parametrize(
    "taken_variant, tried_variant, said",
    [
        ("baseline", "baseline-half_widths", "SNLI's baseline has more to give"),
        ("elmo-half_widths", "elmo-no_elmo_dropout", "SNLI's +ELMo does better with another choice"),
    ],
)
def test_it_is_said_where_something_else_gives_more(
    driver, data, tmp_path, tried, is_said, taken_variant, tried_variant, said
):
    runs, cells = Runs(tmp_path / "runs"), snli_of_seed_1(driver, data)
    finish(runs, cells[tried_variant], [tried])
    finish(runs, cells[taken_variant], [0.7])
    assert (said in driver.report.Report("full", runs, tmp_path)._choices()) is is_said


def test_a_choice_is_compared_on_the_seeds_that_both_have(driver, data, tmp_path):
    runs = Runs(tmp_path / "runs")
    for run in driver.PARTS["choices"]("full", data):
        if run.variant == "elmo-no_elmo_dropout":
            finish(runs, run.cell, [run.seed / 10])
    finish(runs, snli_of_seed_1(driver, data)["elmo-half_widths"], [0.8])
    cells = row(driver.report.Report("full", runs, tmp_path)._choices(), "Choices", "SNLI")
    assert cells[1:4] == ["+ELMo", "1", "80.0 (half the widths)"] and cells[5] == "10.0"


@pytest.mark.parametrize(
    "variant, beside",
    [
        ("baseline-half_widths", "baseline"),
        ("elmo-half_widths", "elmo"),
        ("baseline-paper_dropout", "baseline-half_widths"),
        ("elmo-no_elmo_dropout", "elmo-half_widths"),
    ],
)
def test_what_was_tried_differs_in_nothing_else_from_what_it_is_held_against(driver, data, variant, beside):
    cells = snli_of_seed_1(driver, data)
    other, chosen = cells[variant].resolve(), cells[beside].resolve()
    assert {"model"} <= {key for key in chosen if chosen[key] != other[key]} <= {"model", "trainer"}
    assert {**other["trainer"], "num_epochs": 0} == {**chosen["trainer"], "num_epochs": 0}


def test_plots_are_written_beside_the_report_and_linked_from_it(report, finished):
    for name in ("six_tasks", "learning_curves", "layer_weights"):
        assert f"(plots/{name}.png)" in report
        assert (finished.folder.parent / "plots" / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_the_records_of_the_runs_make_the_same_report(driver, finished, report, tmp_path):
    for folder in finished.folder.glob("ner-*"):
        write_record(folder, tmp_path / "records" / f"{folder.name}.json")
    driver.report.write(tmp_path / "RESULTS.md", "quick", Runs(tmp_path / "runs", records=tmp_path / "records"))
    assert (tmp_path / "RESULTS.md").read_text(encoding="utf-8") == report


def test_the_repository_keeps_records_of_what_its_report_shows(driver, monkeypatch, tmp_path):
    seen = []
    monkeypatch.setattr(driver.report, "write", lambda path, setting, runs: seen.append(runs.records))
    for setting in ("full", "quick"):
        driver.main(["--setting", setting, "--report-only", "--runs", str(tmp_path)])
    assert seen == [Path("results/records"), None]


def test_every_training_behind_the_report_is_recorded(driver, data, root):
    recorded = {path.stem.rpartition("-")[0] for path in (root / "results" / "records").iterdir()}
    names = {}  # the same experiment may have several
    for run in (run for part in driver.PARTS.values() for run in part("full", data)):
        names.setdefault(experiment_hash(run.cell.resolve()), set()).add(run.cell.name)
    tuned = {name for task in driver.FINETUNING_TASKS for name in (f"{task}-finetune", f"{task}-elmo_finetuned-seed1")}
    assert [sorted(same) for same in names.values() if not same & recorded] == []
    assert tuned | set(driver.probes.PROBES) <= recorded


def test_what_tuning_did_is_told_from_the_records_too(driver, data, tmp_path, monkeypatch):
    runs = Runs(tmp_path / "runs", records=tmp_path / "records")

    def train(self, cell):
        if self.find(cell) is None:
            folder = finish(self, cell, [80.0] if "finetune" in cell.config_file else [0.7])
            write_record(folder, runs.records / f"{folder.name}.json")
        return self.find(cell)

    monkeypatch.setenv("ELMO_BILM", "wiki-base")
    monkeypatch.setattr(Runs, "train", train)
    monkeypatch.setattr(finetuning, "measure", lambda *_: finetuning.Perplexity(90.0, 95.0))
    driver.report.plan.train_tuned("quick", "ner", data, runs)
    shutil.rmtree(runs.folder)
    monkeypatch.setattr(Runs, "train", lambda *_: pytest.fail("trained again"))
    driver.report.write(tmp_path / "RESULTS.md", "quick", runs)
    report = (tmp_path / "RESULTS.md").read_text(encoding="utf-8")
    assert row(report, "The biLM tuned", "NER") == ["NER", "95.0", "80.0", "70.0", "70.0"]


@pytest.mark.parametrize("part", ["ablations", "fractions"])
def test_variants_and_fractions_are_trained_with_the_first_seed(driver, data, part):
    assert {run.seed for run in driver.PARTS[part]("full", data)} == {1}


def test_the_variants_of_an_ablation_stand_side_by_side_above_the_papers(driver, data, tmp_path):
    runs = Runs(tmp_path / "runs")
    values = {"baseline": [0.5], "top_layer_only": [0.7]}
    for run in driver.PARTS["ablations"]("quick", data):
        if run.task == "srl" and run.variant in values:
            finish(runs, run.cell, values[run.variant])
    section = driver.report.Report("quick", runs, tmp_path)._ablations()
    assert row(section, "Layers and placement", "SRL")[1:3] == ["50.0", "70.0"]
    assert row(section, "Layers and placement", "the paper's SRL")[1:3] == ["81.6", "84.1"]


def test_the_larger_bilm_stands_beside_the_other_on_the_seeds_that_both_have(driver, data, tmp_path):
    runs = Runs(tmp_path / "runs")
    assert driver.report.Report("full", runs, tmp_path)._larger() == ""
    values = {"baseline": 0.5, "elmo": 0.6, "elmo_larger": 0.65}
    for run in driver.PARTS["tasks"]("full", data) + driver.PARTS["larger"]("full", data):
        if run.task == "ner" and run.seed < (3 if run.variant == "elmo" else 4):
            finish(runs, run.cell, [values[run.variant] + run.seed / 100])
    section = driver.report.Report("full", runs, tmp_path)._larger()
    results = ["51.5 \u00b1 0.7", "61.5 \u00b1 0.7", "66.5 \u00b1 0.7", "+5.0 \u00b1 0.0"]
    assert row(section, "A larger biLM", "NER")[1:] == ["1, 2", *results]


def test_the_larger_bilm_is_taken_whatever_the_others_are_trained_with(driver, data, monkeypatch):
    monkeypatch.setenv("ELMO_BILM", "wiki-small")
    (cell,) = [run.cell for run in driver.PARTS["larger"]("full", data) if run.seed == 1]
    assert cell.resolve()["model"]["text_embedder"]["contextual"]["bilm"]["name"] == "wiki-large"
    assert cell.name == "ner-elmo_larger-seed1"


def test_sections_without_a_run_are_left_out(report):
    assert "Training-set size" not in report and "Tables 2 and 3" not in report and "tuned on" not in report


def test_sizes_are_counted_once(driver, finished, report, monkeypatch):
    from results import sizes

    monkeypatch.setattr(sizes.DatasetReader, "from_params", lambda *_: pytest.fail("read again"))
    run = next(iter(finished.folder.glob("ner-baseline-*")))
    assert sizes.num_instances(Run.read(run), finished.folder / "sizes.json").train > 0


def test_the_list_says_what_is_done(driver, finished, capsys):
    options = driver.parse_arguments("--setting quick --parts tasks --tasks ner --seeds 1 3 --list".split())
    driver.list_cells(driver.chosen(options), finished)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split(maxsplit=1) == ["ner-baseline-seed1", "f1 0.5 after epoch 2; 174 updates, 0:02:00"]
    assert lines[1].split(maxsplit=1) == ["ner-baseline-seed3", "to do"]


# ---- What the biLM alone is asked ----


@pytest.fixture(scope="module")
def tagged(data, root):
    """Invented sentences in the place of the treebank."""
    (data / "pos").mkdir()
    for name in ("train", "dev"):
        content = (root / "fixtures" / "data" / "pos" / f"{name}.conllu").read_bytes()
        (data / "pos" / f"en_ewt-ud-{name}.conllu.gz").write_bytes(gzip.compress(content, mtime=0))
    return data


def test_a_probe_is_run_once_and_its_table_and_plot_are_in_the_report(driver, tagged, tmp_path, monkeypatch):
    runs = Runs(tmp_path / "runs", records=tmp_path / "records")
    assert driver.probes.find("pos", tagged, runs) is None
    driver.probes.run("pos", tagged, runs)
    monkeypatch.setattr(driver.probes.subprocess, "run", lambda *_, **__: pytest.fail("run again"))
    driver.probes.run("pos", tagged, runs)
    driver.report.write(tmp_path / "RESULTS.md", "quick", runs)
    report = (tmp_path / "RESULTS.md").read_text(encoding="utf-8")
    section = report.split("## Parts of speech")[1].split("\n## ")[0]
    assert driver.probes.find("pos", tagged, runs).table.read_text(encoding="utf-8").strip() in section
    assert "![Parts of speech (Table 6)](plots/pos.png)" in section
    assert (tmp_path / "plots" / "pos.png").read_bytes().startswith(b"\x89PNG")
    shutil.rmtree(runs.folder)  # the record is enough
    driver.report.write(tmp_path / "RESULTS.md", "quick", runs)
    assert (tmp_path / "RESULTS.md").read_text(encoding="utf-8") == report


def test_another_bilm_is_another_probe(driver, tagged, root, tmp_path, monkeypatch):
    shipped = driver.probes._folder("pos", tagged, tmp_path)
    monkeypatch.setenv("ELMO_BILM", str(root / "fixtures/bilm"))
    assert driver.probes._folder("pos", tagged, tmp_path) != shipped


def test_a_probe_that_fails_is_told_and_the_report_is_written_all_the_same(driver, data, tmp_path, monkeypatch, capfd):
    monkeypatch.delitem(driver.probes.PROBES, "pos")
    arguments = ["--setting", "quick", "--parts", "probes", "--runs", str(tmp_path / "runs")]
    (data / "wsd").mkdir()
    (data / "wsd" / "semcor.data.xml.gz").write_bytes(b"no gzip")
    assert driver.main([*arguments, "--output", str(tmp_path / "RESULTS.md")]) == 1
    assert "not trained: wsd" in capfd.readouterr().err
    assert "Word senses" not in (tmp_path / "RESULTS.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("num_validations, best_epoch, expected", [(24, 22, True), (24, 19, False), (12, 7, False)])
def test_a_run_is_cut_off_if_its_validations_end_within_its_patience(driver, num_validations, best_epoch, expected):
    curve = tuple(EpochResult(epoch, epoch + 1, 0.5) for epoch in range(num_validations))
    config = {"trainer": {"patience": 4, "num_epochs": 24}}
    run = Run("ner", Path("ner"), "f1", True, curve, best_epoch, 1.0, config)
    assert driver.report._is_cut_off(run) is expected
