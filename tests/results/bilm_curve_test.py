"""The curve in a biLM's card, from a run's checkpoints."""

import json

import pytest
import torch


@pytest.fixture(scope="module")
def bilm_curve(results_on_path):
    from results import bilm_curve

    return bilm_curve


@pytest.fixture
def run(tmp_path):
    """What is left of a training with batches of 4 x 5 tokens, saved after 2 and 7 of them."""
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"data_loader": {"batch_size": 4, "num_steps": 5}}))
    for name, num_batches in (("e0_b2", 2), ("e1_b0", 7)):
        state = {"resume": {"total_batches_completed": num_batches}}
        torch.save(state, folder / f"training_state_{name}.th")
    return folder


def test_each_checkpoint_is_a_point_by_the_tokens_read_so_far(bilm_curve, run, monkeypatch):
    values = {"start": 90.0, "model_state_e0_b2.th": 95.0, "model_state_e1_b0.th": 80.0}

    def perplexity(model, text, *options):
        assert text == "held out"
        return values[options[1].rpartition("/")[2] if options else model]

    monkeypatch.setattr(bilm_curve, "perplexity", perplexity)
    *_, curve = bilm_curve.measure(run, "start", "held out", {})
    assert list(curve.items()) == [(0, 90.0), (40, 95.0), (140, 80.0)]


def test_a_training_from_nothing_starts_with_its_first_checkpoint(bilm_curve, run, monkeypatch):
    monkeypatch.setattr(bilm_curve, "perplexity", lambda model, text, *options: 80.0)
    *_, curve = bilm_curve.measure(run, None, "held out", {})
    assert list(curve) == [40, 140]


def test_what_is_measured_is_not_measured_again(bilm_curve, run, monkeypatch):
    asked = []
    monkeypatch.setattr(bilm_curve, "perplexity", lambda model, text, *options: asked.append(options) or 80.0)
    list(bilm_curve.measure(run, "start", "held out", {0: 90.0, 140: 81.0}))
    assert asked == [("--weights-file", str(run / "model_state_e0_b2.th"))]


def test_what_is_measured_is_kept_when_a_later_checkpoint_fails(bilm_curve, run, tmp_path, monkeypatch):
    def perplexity(model, text, *options):
        if options:
            raise KeyboardInterrupt
        return 90.0

    monkeypatch.setattr(bilm_curve, "RECORDS", tmp_path)
    monkeypatch.setattr(bilm_curve, "perplexity", perplexity)
    with pytest.raises(KeyboardInterrupt):
        bilm_curve.main(["wiki-mine", "--run", str(run), "--start", "start", "--text", "held out"])
    assert json.loads((tmp_path / "wiki-mine-curve.json").read_text()) == {"0": 90.0}


def test_a_recorded_curve_is_drawn_without_its_run(bilm_curve, tmp_path, monkeypatch):
    monkeypatch.setattr(bilm_curve, "RECORDS", tmp_path)
    monkeypatch.setattr(bilm_curve, "PLOTS", tmp_path)
    (tmp_path / "wiki-mine-curve.json").write_text('{"0": 90.0, "40": 95.0}')
    bilm_curve.main(["wiki-mine"])
    assert (tmp_path / "wiki_mine.png").read_bytes().startswith(b"\x89PNG")


def test_without_a_record_it_asks_for_a_run(bilm_curve, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(bilm_curve, "RECORDS", tmp_path)
    with pytest.raises(SystemExit):
        bilm_curve.main(["wiki-mine"])
    assert "no wiki-mine-curve.json yet" in capsys.readouterr().err
