"""What `make bench` makes of the scripts in benchmarks/."""

import importlib.util

import pytest
import torch
import training_steps


@pytest.fixture(scope="module")
def run_all(root):
    spec = importlib.util.spec_from_file_location("run_all", root / "benchmarks" / "run_all.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


RESULT = {
    "units_per_second": {"elmo_plugin": 1200.5, "the old way": 100.0},
    "baseline": "the old way",
    "ratio": 12.0,
    "ratio_lowest": 11.0,
    "ratio_highest": 13.5,
    "turns": 3,
}


def outcome(run_all, results, aims=None):
    script = run_all.Script("some.py", "How fast is it?", aims or {})
    return run_all.Outcome(script, results, threads=2, seconds=1.0, load="0.1 before, 0.2 after")


def test_every_script_is_run_and_described(root, run_all):
    scripts = {path.name for path in (root / "benchmarks").glob("*.py")} - {"run_all.py", "interleave.py"}
    assert scripts - {"gpu.py"} <= {script.name for script in run_all.SCRIPTS}  # which is for who has one
    readme = (root / "benchmarks" / "README.md").read_text(encoding="utf-8")
    assert all(f"`{script}`" in readme for script in scripts)


def test_every_script_can_be_imported(root, monkeypatch):
    monkeypatch.syspath_prepend(str(root / "benchmarks"))  # they import one another by their plain names
    for path in (root / "benchmarks").glob("*.py"):
        spec = importlib.util.spec_from_file_location(f"benchmark_{path.stem}", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        assert path.stem == "interleave" or callable(module.main)


def test_a_comparison_becomes_a_row_with_its_aim(run_all):
    report = run_all.render([outcome(run_all, {"a claim": RESULT}, {"b": 1.0, "a cl": 10.0})], quick=False)
    assert "## How fast is it?" in report
    assert "| a claim | 1,200.5 tokens | 100.0 (the old way) | 12.0 (11.0 to 13.5, 3 turns) | 10 |" in report


def test_other_results_become_a_row_a_number(run_all):
    results = {"words": 1200, "memory": {"by_tenths": [9.5, 12.0], "peak_mb": 12}}
    rows = "| words | 1,200 |\n| memory, by tenths | 9.5 12.0 |\n| memory, peak mb | 12 |\n"
    assert rows in run_all.render([outcome(run_all, results)], quick=False)


def test_the_points_of_a_curve_become_a_table(run_all):
    points = [{"value": 1, "tokens_per_second": 10.5}, {"value": 2, "tokens_per_second": 2000.0}]
    report = run_all.render([outcome(run_all, {"batch size": points})], quick=False)
    assert "| batch size | tokens per second |\n|---|---|\n| 1 | 10.5 |\n| 2 | 2,000.0 |\n" in report


def test_the_report_names_machine_and_versions(run_all):
    report = run_all.render([], quick=False)
    for fact in ("| processor |", "| cores |", "| memory |", "torch 2", "allennlp 2.10.1", "Python 3"):
        assert fact in report


def test_a_quick_report_says_so(run_all):
    assert "only that the scripts work" in run_all.render([], quick=True)
    assert "only that the scripts work" not in run_all.render([], quick=False)


@pytest.mark.parametrize("code, results", [('print(\'{"results": {"a": 1}}\')', {"a": 1}), ("exit(3)", None)])
def test_a_script_is_run_and_its_failure_noted(run_all, monkeypatch, tmp_path, code, results):
    (tmp_path / "some.py").write_text(code)
    monkeypatch.setattr(run_all, "FOLDER", tmp_path)
    ran = run_all.run(run_all.Script("some.py", "?"), quick=True)
    assert ran.results == results
    assert ("**It failed.**" in run_all.render([ran], quick=True)) == (results is None)


def test_a_section_that_is_not_run_again_is_taken_over_in_its_place(run_all, tmp_path):
    first, second = run_all.SCRIPTS[:2]
    path = tmp_path / "BENCHMARKS.md"
    both = [run_all.Outcome(script, {"a claim": RESULT}, 2, 1.0, "0.1") for script in (first, second)]
    path.write_text(run_all.render(both, quick=False), encoding="utf-8")
    again = run_all.Outcome(first, {"another claim": RESULT}, 1, 1.0, "0.3")
    report = run_all.render([again], quick=False, earlier=run_all.sections_of(path))
    assert report == run_all.render([again, both[1]], quick=False)
    assert report.index(first.question) < report.index("another claim") < report.index(second.question)


def test_a_section_taken_over_from_another_machine_says_so_once(run_all, tmp_path, monkeypatch):
    path = tmp_path / "BENCHMARKS.md"
    assert run_all.sections_of(path) == {}
    first, second = run_all.SCRIPTS[:2]
    both = [run_all.Outcome(script, {"a claim": RESULT}, 2, 1.0, "0.1") for script in (first, second)]
    monkeypatch.setattr(run_all, "_processor", lambda: "the old one")
    path.write_text(run_all.render(both, quick=False), encoding="utf-8")
    for processor in ("the new one", "the newest"):
        monkeypatch.setattr(run_all, "_processor", lambda processor=processor: processor)
        report = run_all.render([both[0]], quick=False, earlier=run_all.sections_of(path))
        head, own, taken_over = report.split("\n## ")
        assert processor in head
        assert run_all.MEASURED_ON not in own
        assert taken_over.count(run_all.MEASURED_ON) == 1
        assert f"{run_all.MEASURED_ON} processor: the old one; cores: " in taken_over
        path.write_text(report, encoding="utf-8")


def test_only_replaces_its_section_of_the_report(run_all, tmp_path, monkeypatch):
    path = tmp_path / "BENCHMARKS.md"
    old = [run_all.Outcome(script, {"an old claim": RESULT}, 2, 1.0, "0.1") for script in run_all.SCRIPTS]
    path.write_text(run_all.render(old, quick=False), encoding="utf-8")
    new = run_all.Outcome(run_all.SCRIPTS[1], {"a new claim": RESULT}, 2, 1.0, "0.1")
    monkeypatch.setattr(run_all, "run", lambda script, quick: new)
    monkeypatch.setattr("sys.argv", ["run_all.py", "--only", new.script.name, "--output", str(path)])
    run_all.main()
    report = path.read_text(encoding="utf-8")
    assert report == run_all.render([old[0], new, *old[2:]], quick=False)
    assert report.count("an old claim") == len(old) - 1


def test_the_gpu_s_report_has_every_trial_and_none_that_failed(root, monkeypatch):
    monkeypatch.chdir(root)
    some = {name: training_steps.EXPERIMENTS[name] for name in ("coreference", "SST-5")}
    monkeypatch.setattr(training_steps, "EXPERIMENTS", some)
    spec = importlib.util.spec_from_file_location("benchmark_gpu", root / "benchmarks" / "gpu.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    report = "\n".join(module.report(torch.device("cpu"), module.AT_NO_SIZE))
    assert "failed" not in report
    for part in (
        "a step of coreference, loss",
        "| embedding, single precision |",
        "a step of SST-5 |",
        "training, single",
    ):
        assert part in report


def test_what_fails_on_a_gpu_is_reported_and_the_rest_is_tried(root):
    spec = importlib.util.spec_from_file_location("benchmark_gpu", root / "benchmarks" / "gpu.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    rows = list(module.tried({"one": lambda: [][0], "two": lambda: "fine"}))
    assert rows == ["| one | **failed**: IndexError: list index out of range |", "| two | fine |"]
