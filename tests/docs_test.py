"""What README.md and docs/ show works as it stands there, and the reference pages say what the code does."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from allennlp.commands.subcommand import Subcommand

from elmo_plugin.settings import SETTINGS

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "guides").glob("*.md")])
# Guides whose commands are pasted in order into an empty folder.
PASTED = ("docs/guides/own_bilm.md", "docs/guides/big_jobs.md")
# README's own blocks are run by tests/readme_test.py.
BLOCK = re.compile(r"(<!-- needs data: [^>]+ -->\n)?```(\w*)\n(.*?)```", flags=re.S)


def name_of(path):
    return str(path.relative_to(ROOT))


def blocks(path, language):
    """The code blocks of a language that need no data."""
    found = BLOCK.findall(path.read_text(encoding="utf-8"))
    return [code for needs_data, written_in, code in found if written_in == language and not needs_data]


@pytest.fixture(scope="module")
def generate():
    spec = importlib.util.spec_from_file_location("docs_generate", ROOT / "docs" / "generate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def reference(generate):
    return generate.pages()


def test_every_registered_name_stands_with_every_key_of_its_constructor(generate, reference):
    sections = dict(re.findall(r"^### `([^`]+)`\n(.*?)(?=^##|\Z)", reference["names.md"], flags=re.M | re.S))
    names = list(generate.registered())
    assert len(names) > 50
    for _, name, _, _ in names:
        assert name in sections
    assert "| `dropout` | `float` | `0.5` | on the ELMo vectors, as they leave here." in sections["elmo"]
    assert "| `bilm` | `BiLm` |  |" in sections["elmo"]


def test_keys_that_a_parent_takes_are_listed_where_the_constructor_passes_them_on(generate):
    from elmo_plugin.tasks.ner import NerTagger

    keys = [parameter.name for parameter in generate.keys_of(NerTagger, "__init__")]
    assert {"text_embedder", "regularizer"} <= set(keys) and not {"vocab", "self", "kwargs"} & set(keys)


def test_every_command_and_every_flag_has_its_line(reference):
    for name in Subcommand.list_available():
        if Subcommand.by_name(name).__module__.startswith("elmo_plugin"):
            assert f"## `allennlp {name}`" in reference["commands.md"]
    for line in (
        "### `allennlp elmo-analyze wsd`",
        "| `--workers WORKERS` | `1` |",
        "| `--max-characters N` | `5000` |",
    ):
        assert line in reference["commands.md"]


def test_every_variable_has_its_line(reference):
    for name in SETTINGS:
        assert f"| `{name}` |" in reference["variables.md"]


def test_the_python_api_is_described(reference):
    for heading in ("ElmoEmbedder.embed_sentences", "ElmoEmbedder.embed_file", "BiLm.load", "Elmo.embed"):
        assert f"### `{heading}`" in reference["api.md"]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_leads_somewhere(page, reference):
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.S)
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), f"{name_of(page)} links to {target}"
    for target in re.findall(r"^(reference|guides)/(\w+)$", page.read_text(encoding="utf-8"), flags=re.M):
        assert f"{target[1]}.md" in reference or (ROOT / "docs" / target[0] / f"{target[1]}.md").exists()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_variable_and_config_that_is_named_exists(page):
    text = page.read_text(encoding="utf-8")
    assert set(re.findall(r"\bELMO_[A-Z_]+\b", text)) <= set(SETTINGS)
    for config in re.findall(r"\b(training_configs/\w+/\w+\.jsonnet)", text.replace("TASK", "ner")):
        assert (ROOT / config).is_file(), config


@pytest.mark.parametrize("page", [page for page in PAGES if page.parent.name == "guides"], ids=name_of)
def test_every_block_of_a_guide_is_run_or_says_what_it_needs(page):
    assert not blocks(page, "bash") or name_of(page) in PASTED


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")], ids=name_of)
def test_python_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "example"}
    for code in blocks(page, "python"):
        exec(compile(code, name_of(page), "exec"), names)
    assert {"ElmoEmbedder", "ElmoVectorizer", "spacy"} & names.keys()


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "jsonnet")], ids=name_of)
def test_jsonnet_is_jsonnet(page):
    import _jsonnet

    for code in blocks(page, "jsonnet"):
        code = code if code.startswith("{") else f"{{ {code} }}"
        assert "elmo::token_embedder" in _jsonnet.evaluate_snippet(name_of(page), code)


@pytest.mark.parametrize("page", PASTED)
def test_a_guides_commands_work_when_pasted_into_an_empty_folder(page, tmp_path):
    script = "set -e\n" + "\n".join(blocks(ROOT / page, "bash"))
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "CLONE": str(ROOT), "PATH": path, "OMP_NUM_THREADS": "1"}
    result = subprocess.run(["bash", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr[-3000:]
    assert re.search(r"\(3, 2, 64\)|\(7, 384\)", result.stdout), result.stdout[-1000:]
