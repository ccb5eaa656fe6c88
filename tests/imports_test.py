import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "elmo_plugin"

# Which folders a folder may import from; CONTRIBUTING.md draws the arrows. These files are below all of them.
BELOW_ALL = {"files", "lstm_kernels", "processor"}
MAY_IMPORT = {
    "characters": {"characters"},
    "bilm": {"bilm", "characters"},
    "training": {"training", "bilm", "characters"},
    "text": {"text"},
    "embedding": {"embedding", "bilm", "characters"},
    "elmo": {"elmo", "embedding", "bilm", "characters", "text"},
    "tasks": {"tasks", "text"},
}


def imported_modules(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""
            if node.module == "elmo_plugin":
                yield from (f"elmo_plugin.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("folder", MAY_IMPORT)
def test_a_folder_imports_only_from_where_its_arrows_point(folder):
    for path in (PACKAGE / folder).rglob("*.py"):
        for module in imported_modules(path):
            if module.startswith("elmo_plugin."):
                assert module.split(".")[1] in MAY_IMPORT[folder] | BELOW_ALL, (
                    f"{path.relative_to(PACKAGE)} imports {module}"
                )


def test_no_task_imports_another():
    tasks = {path.name for path in (PACKAGE / "tasks").iterdir() if path.is_dir()} - {"common", "__pycache__"}
    for path in (PACKAGE / "tasks").rglob("*.py"):
        own = path.relative_to(PACKAGE / "tasks").parts[0]
        for module in imported_modules(path):
            if module.startswith("elmo_plugin.tasks.") and path.name != "__init__.py":
                assert module.split(".")[2] not in tasks - {own}, f"{path.relative_to(PACKAGE)} imports {module}"


def test_every_module_is_imported_by_importing_the_package():
    import sys

    import elmo_plugin  # noqa: F401

    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        # The integrations are imported by those who use them, the kernels on a GPU.
        if parts[-1] not in ("__main__", "lstm_kernels") and "integrations" not in parts:
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            assert name in sys.modules, f"{name} would not be registered: import it in its package's __init__.py"
