"""What README.md shows has to work as it stands there."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.S)


def test_vectors_from_python_have_the_shapes_it_says(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(blocks("python")[0], names)
    assert names["vectors"].shape == (3, 5, 384) and names["vectors"].dtype == "float32"
    assert capsys.readouterr().out == "(3, 2, 384)\n(3, 1, 384)\n"


# Runs the commands that it reads, AllenNLP's in this one process, which imports AllenNLP once.
RUN_COMMANDS = """
import os, shlex, sys
from allennlp.__main__ import run
for line in sys.stdin:
    if not line.startswith("allennlp "):
        assert os.system(line) == 0
        continue
    if os.path.isdir("my-bilm"):
        os.environ["ELMO_BILM"] = "my-bilm"
    sys.argv = shlex.split(os.path.expandvars(line), comments=True)
    run()
"""


def test_the_commands_work_in_an_empty_folder(tmp_path):
    (block,) = [block for block in blocks("bash") if "allennlp elmo " in block]
    *commands, page = block.splitlines()
    assert page.startswith("allennlp elmo-demo")  # serves until it is stopped: tests/demo_page
    # What README leaves to the reader, and one epoch only. The biLM's softmax samples 2,048 words.
    (tmp_path / "sentences.txt").write_text("I ate an apple .\n")
    words = [f"word{number}" for number in range(2100)]
    (tmp_path / "text.txt").write_text("".join(" ".join(words[start::105]) + "\n" for start in range(105)))
    ner = ROOT / "fixtures" / "data" / "ner"
    variables = {
        "CONFIGS": ROOT / "training_configs",
        "ELMO_BILM_TRAIN": "text.txt",
        "ELMO_BILM_DEV": "sentences.txt",
        "ELMO_NER_TRAIN": ner / "train.txt",
        "ELMO_NER_DEV": ner / "dev.txt",
        "ELMO_KNOBS": '{"num_epochs": 1}',
        "OMP_NUM_THREADS": "1",
    }
    result = subprocess.run(
        [sys.executable, "-c", RUN_COMMANDS],
        input="\n".join(commands),
        cwd=tmp_path,
        env={**os.environ, **{name: str(value) for name, value in variables.items()}},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr[-3000:]
    assert '"perplexity"' in result.stdout
    files = ("vectors.hdf5", "my-bilm/softmax.hdf5", "runs/ner/model.tar.gz")
    assert [name for name in files if not (tmp_path / name).is_file()] == []


def test_the_jsonnet_example_is_what_the_config_does():
    (example,) = blocks("jsonnet")
    config = (ROOT / "training_configs/examples/simple_tagger_elmo.jsonnet").read_text(encoding="utf-8")
    for line in ("token_indexers+: { elmo: { type: 'elmo::characters' } }", "type: 'elmo::token_embedder'"):
        assert line in example and line in config


@pytest.mark.parametrize("path", sorted(set(re.findall(r"\]\(((?!http)[^)]+)\)", README))))
def test_every_link_leads_somewhere(path):
    assert (ROOT / path).exists()


def test_every_config_in_a_command_exists():
    configs = re.findall(r"\$CONFIGS/(\S+\.jsonnet)", "\n".join(blocks("bash")))
    assert configs and all((ROOT / "training_configs" / config).is_file() for config in configs)


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
