import argparse

import pytest
from allennlp.common.checks import ConfigurationError

from elmo_plugin.analysis import sample_efficiency
from elmo_plugin.analysis.analysis import write_plot
from elmo_plugin.analysis.runs import Runs
from elmo_plugin.analysis.sample_efficiency import (
    BASELINE,
    ELMO,
    SampleEfficiency,
    curve,
    measure,
    table,
    updates_saved,
)


@pytest.fixture
def results(make_run):
    """Two seeds on a tenth of the training set and on all of it."""
    baseline = {0.1: [make_run(0.1), make_run(0.2)], 1.0: [make_run(0.2, 0.31), make_run(0.2, 0.32)]}
    elmo = {0.1: [make_run(0.3), make_run(0.3)], 1.0: [make_run(0.36), make_run(0.37)]}
    passing = [{"seed": 2, **updates_saved(baseline[1.0][1], elmo[1.0][1])}]
    return {**curve(baseline, elmo), "passing": passing}


def test_every_fraction_seed_and_config_is_trained_once(tmp_path, fake_training, make_config):
    configs = {BASELINE: make_config("baseline"), ELMO: make_config("elmo")}
    measured = measure(Runs(tmp_path / "runs"), configs, [0.1, 1.0], [1, 2], {})
    assert len(fake_training) == 8
    assert [row["fraction"] for row in measured["fractions"]] == [0.1, 1.0]
    assert measured["fractions"][1] == {
        "fraction": 1.0,
        BASELINE: [pytest.approx(0.31), pytest.approx(0.32)],
        ELMO: [pytest.approx(0.36), pytest.approx(0.37)],
    }


def test_fractions_of_a_seed_are_nested_and_the_same_for_both_configs(tmp_path, fake_training, make_config):
    configs = {BASELINE: make_config("baseline"), ELMO: make_config("elmo")}
    runs = Runs(tmp_path / "runs")
    measure(runs, configs, [0.1, 0.5], [1, 2], {})
    readers = {}
    for path in (tmp_path / "runs").glob("*/experiment.json"):
        reader = sample_efficiency.Run.read(path.parent).config["dataset_reader"]
        readers.setdefault((reader["seed"], reader["fraction"]), []).append(reader)
    assert sorted(readers) == [(1, 0.1), (1, 0.5), (2, 0.1), (2, 0.5)]
    assert all(len(both) == 2 and both[0] == both[1] for both in readers.values())


def test_what_it_takes_to_pass_the_baselines_best(make_run):
    saved = updates_saved(make_run(0.2, 0.3, 0.5, 0.4), make_run(0.4, 0.6))
    assert (saved["baseline_best"], saved["baseline_updates"], saved["baseline_epochs"]) == (0.5, 30, 3)
    assert (saved["elmo_updates"], saved["elmo_epochs"]) == (20, 2)
    assert saved["fewer_updates"] == pytest.approx(1 / 3)


def test_a_best_that_is_only_reached_is_not_passed(make_run):
    assert updates_saved(make_run(0.5), make_run(0.4, 0.5))["elmo_updates"] is None


def test_the_table_has_means_spreads_and_who_passes_when(results):
    text = table(results)
    assert "best validation f1" in text
    *_, whole, passing = text.splitlines()
    assert whole.split() == "100 % 0.315 +- 0.0071 0.365 +- 0.0071 +0.05".split()
    assert passing.startswith("seed 2: the baseline's best, 0.32 after 20 updates (epoch 2), is passed by ELMo ")
    assert passing.endswith("after 10 (epoch 1): 50% fewer")


def test_a_baseline_that_is_not_passed_is_said_to_be(make_run):
    results = curve({1.0: [make_run(0.5)]}, {1.0: [make_run(0.4)]})
    results["passing"] = [{"seed": 1, **updates_saved(make_run(0.5), make_run(0.4))}]
    assert "seed 1: the baseline's best, 0.5 after 10 updates (epoch 1), isn't passed by ELMo" in table(results)


def test_a_series_without_runs_is_a_dash_and_is_not_drawn(make_run, tmp_path):
    results = {**curve({1.0: [make_run(0.5)]}, {}), "passing": []}
    assert table(results).splitlines()[-1].split() == ["100", "%", "0.5", "-", "-"]
    write_plot(lambda figure: sample_efficiency.draw(figure, {"NER": results}), tmp_path / "plot.png")


def test_the_picture_has_a_line_for_each_series_and_a_band_for_its_spread(results):
    from matplotlib.figure import Figure

    figure = Figure()
    sample_efficiency.draw(figure, {"SNLI": results, "SRL": results})
    assert len(figure.axes) == 2
    axes = figure.axes[0]
    assert [line.get_label() for line in axes.lines] == [BASELINE, ELMO] and len(axes.collections) == 2
    assert list(axes.lines[1].get_ydata()) == [pytest.approx(0.3), pytest.approx(0.365)]


def arguments_of(*arguments):
    parser = argparse.ArgumentParser()
    SampleEfficiency().add_arguments(parser)
    return parser.parse_args(arguments)


def test_the_command_trains_what_its_arguments_say(tmp_path, fake_training, make_config):
    arguments = arguments_of(
        *(make_config("baseline"), make_config("elmo"), "--fractions", "1", "0.5", "--seeds", "3"),
        *("--epochs", "2", "--updates-per-epoch", "7", "--runs", str(tmp_path / "runs")),
    )
    report = SampleEfficiency().run(arguments, lambda: None)
    assert len(fake_training) == 4
    assert report.results["passing"][0]["baseline_updates"] == 14
    report.write(tmp_path / "out", "sample-efficiency")
    assert sorted(path.suffix for path in (tmp_path / "out").iterdir()) == [".json", ".png", ".txt"]


@pytest.mark.parametrize("fraction", ["0", "1.5", "-0.1"])
def test_a_fraction_that_is_none_is_refused(make_config, fraction):
    arguments = arguments_of(make_config(), make_config("elmo"), "--fractions", fraction)
    with pytest.raises(ConfigurationError, match="--fractions are above 0 and up to 1"):
        SampleEfficiency().run(arguments, lambda: None)
