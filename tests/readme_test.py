"""What README.md shows has to work as it stands there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.S)


def test_vectors_from_python_have_the_shapes_it_says(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    names = {}
    exec(blocks("python")[0], names)
    assert names["vectors"].shape == (3, 5, 256) and names["vectors"].dtype == "float32"
    assert capsys.readouterr().out == "(3, 2, 256)\n(3, 1, 256)\n"


def test_the_jsonnet_example_is_what_the_config_does():
    (example,) = blocks("jsonnet")
    config = (ROOT / "training_configs/examples/simple_tagger_elmo.jsonnet").read_text(encoding="utf-8")
    for line in ("token_indexers+: { elmo: { type: 'elmo::characters' } }", "type: 'elmo::token_embedder'"):
        assert line in example and line in config


@pytest.mark.parametrize("path", sorted(set(re.findall(r"\]\(((?!http)[^)]+)\)", README))))
def test_every_link_leads_somewhere(path):
    assert (ROOT / path).exists()


def test_every_config_in_a_command_exists():
    configs = re.findall(r"\b(training_configs/\S+\.jsonnet)", "\n".join(blocks("bash")))
    assert configs and all((ROOT / config).is_file() for config in configs)


def test_every_variable_is_in_the_table():
    from elmo_plugin.settings import SETTINGS

    assert set(re.findall(r"\bELMO_[A-Z_]+\b", README)) <= set(SETTINGS)


def test_every_target_is_in_the_makefile():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^make (\w+)", "\n".join(blocks("bash")), flags=re.M):
        assert re.search(rf"^{target}:", makefile, flags=re.M)


def test_the_six_tasks_figures_are_those_of_the_results():
    results = (ROOT / "RESULTS.md").read_text(encoding="utf-8")
    table = re.search(r"^## Six tasks.*?(?=^## )", results, flags=re.M | re.S)[0]
    rows = [line.split(" | ") for line in table.splitlines() if re.match(r"\| (SQuAD|SNLI|SRL|Coref|NER|SST-5)", line)]
    assert len(rows) == 6
    for name, column in (("baseline", 2), ("+ ELMo", 3)):
        assert f"| {name} | {' | '.join(row[column] for row in rows)} |" in README


def test_the_speeds_are_those_of_the_benchmarks():
    benchmarks = (ROOT / "BENCHMARKS.md").read_text(encoding="utf-8")
    for row, sizes in (
        ("embedding text", ("1024/128, batches of 64", "the paper's size, 4096/512, batches of 64")),
        ("training a biLM", ("small published size, 1024/128", "the paper's size, 4096/512 ")),
    ):
        ratios = [re.search(rf"^\| {re.escape(size)}.*?\) \| ([\d.]+) \(", benchmarks, flags=re.M)[1] for size in sizes]
        shown = " / ".join(f"{float(ratio):.1f}" for ratio in ratios)
        assert re.search(rf"^\| {row}.* \| {re.escape(shown)} \|$", README, flags=re.M), shown


def test_it_is_short():
    assert len(README.splitlines()) <= 120
