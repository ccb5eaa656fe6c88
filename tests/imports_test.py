import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "elmo_plugin"

# What each folder or file of the package may import from; CONTRIBUTING.md draws the arrows. These files are below all.
BELOW_ALL = {"archive_records", "corpora", "errors", "files", "lazy", "lstm_kernels", "processor", "progress", "words"}
MAY_IMPORT = {
    **dict.fromkeys(BELOW_ALL, set()),
    "settings": set(),
    "characters": set(),
    "bilm": {"characters"},
    "training": {"bilm", "characters"},
    "text": set(),
    "embedding": {"bilm", "characters"},
    "elmo": {"archives", "embedding", "bilm", "characters", "text"},
    "cove": {"elmo", "embedding", "text"},
    "tasks": {"archives", "text"},
    "archives": {"bilm"},
    "compat": {"archives", "settings"},
    "analysis": {"archives", "bilm", "embedding", "settings", "text", "training"},
    "integrations": {"bilm", "embedding"},
    "demo_page": {"analysis", "bilm", "embedding", "tasks", "text", "training"},
    "commands": {"analysis", "bilm", "cove", "demo_page", "elmo", "embedding", "tasks"},
}


def part_of(path):
    """The folder or file of the package that a path belongs to."""
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


PARTS = {part_of(path) for path in PACKAGE.rglob("*.py")}


def imported_modules(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""
            if node.module == "elmo_plugin":
                yield from (f"elmo_plugin.{alias.name}" for alias in node.names)


def test_every_part_of_the_package_has_its_arrows():
    assert PARTS - {"__init__", "plugin"} == MAY_IMPORT.keys()


@pytest.mark.parametrize("part", sorted(MAY_IMPORT))
def test_a_part_imports_only_from_where_its_arrows_point(part):
    for path in [*(PACKAGE / part).rglob("*.py"), *PACKAGE.glob(f"{part}.py")]:
        for module in imported_modules(path):
            if module.startswith("elmo_plugin."):
                assert module.split(".")[1] in {part} | MAY_IMPORT[part] | BELOW_ALL, (
                    f"{path.relative_to(PACKAGE)} imports {module}"
                )


def test_no_task_imports_another():
    tasks = {path.name for path in (PACKAGE / "tasks").iterdir() if path.is_dir()} - {"common", "__pycache__"}
    for path in (PACKAGE / "tasks").rglob("*.py"):
        own = path.relative_to(PACKAGE / "tasks").parts[0]
        for module in imported_modules(path):
            if module.startswith("elmo_plugin.tasks.") and path.name != "__init__.py":
                assert module.split(".")[2] not in tasks - {own}, f"{path.relative_to(PACKAGE)} imports {module}"


def test_everything_that_may_be_registered_is_imported_by_the_plugins_module():
    import elmo_plugin.plugin  # noqa: F401

    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        is_plugin = parts[-1] not in ("__main__", "allennlp_0_9") and "demo_page" not in parts
        if is_plugin and "allennlp" in path.read_text(encoding="utf-8"):
            assert name in sys.modules, f"{name} would not be registered: import it in its package's __init__.py"


def run_python(code, cwd):
    """What `code` prints in a fresh interpreter."""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=cwd)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


HEAVY = {"allennlp", "cached_path", "scipy", "sklearn", "spacy", "torch._dynamo", "transformers"}
LOADED = f"import sys; print(sorted({HEAVY} & set(sys.modules)))"


def test_embedding_imports_neither_allennlp_nor_other_libraries(tmp_path):
    embed = "from elmo_plugin import ElmoEmbedder; ElmoEmbedder().embed_sentence(['I', 'ate'])\n"
    assert run_python(embed + LOADED, tmp_path) == "[]"


def test_the_scikit_learn_transformer_imports_no_allennlp(tmp_path):
    code = (
        "from elmo_plugin.integrations import ElmoVectorizer; ElmoVectorizer().fit_transform(['I ate. It was good.'])\n"
    )
    assert run_python(code + "import sys; print('allennlp' in sys.modules)", tmp_path) == "False"


def test_the_spacy_component_imports_no_allennlp(tmp_path):
    code = "import spacy; nlp = spacy.blank('en'); nlp.add_pipe('elmo'); print(nlp('I ate.')._.elmo.shape)\n"
    assert run_python(code + "import sys; print('allennlp' in sys.modules)", tmp_path) == "(3, 384)\nFalse"


def test_importing_the_package_imports_no_torch_and_prints_nothing(tmp_path):
    assert run_python("import elmo_plugin, sys; assert 'torch' not in sys.modules", tmp_path) == ""


@pytest.mark.parametrize(
    "first, second",
    [("elmo_plugin", "allennlp.models"), ("allennlp.models", "elmo_plugin"), ("elmo_plugin.elmo.elmo", "elmo_plugin")],
)
def test_with_allennlp_imported_first_or_last_all_is_registered_and_repaired(tmp_path, first, second):
    code = (
        f"import {first}, {second}\n"
        "from allennlp.models import archival, Model; from allennlp.common.checks import ConfigurationError\n"
        "from elmo_plugin import errors\n"
        "print(hasattr(archival.extracted_archive, '__wrapped__'), 'elmo::ner' in Model.list_available(), "
        "issubclass(errors.ConfigurationError, ConfigurationError))"
    )
    assert run_python(code, tmp_path) == "True True True"
