"""Writes the reference pages of the documentation from the code itself: `python docs/generate.py FOLDER`.

Every registered name with its config keys, every command with its flags, every variable, and the Python API. `make
docs` runs it before each build, so the pages can't go stale; tests/docs_test.py holds them against the registry.
"""

import argparse
import inspect
import re
import sys
import textwrap
import typing
from pathlib import Path
from typing import Any, Dict, Iterator, List, Tuple

from allennlp.commands.subcommand import Subcommand
from allennlp.common import Lazy, Registrable

import elmo_plugin.plugin  # noqa: F401  (registers everything)
from elmo_plugin import ElmoEmbedder
from elmo_plugin.bilm.bilm import BiLm
from elmo_plugin.elmo.elmo import Elmo
from elmo_plugin.integrations import ElmoVectorizer
from elmo_plugin.settings import SETTINGS

# What a config can't give: AllenNLP hands these over.
HANDED_OVER = {"self", "vocab", "serialization_dir", "args", "kwargs", "extras"}
_ANY_NUMBER = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
# What isn't named in configs: subcommands of the command line, which have their own page.
COMMANDS = {"Subcommand", "Analysis"}
API = [ElmoEmbedder, ElmoVectorizer, BiLm, Elmo]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where to write the pages")
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (folder / name).write_text(text, encoding="utf-8")


def pages() -> Dict[str, str]:
    """The text of each page by its file name."""
    return {
        "names.md": names_page(),
        "commands.md": commands_page(),
        "variables.md": variables_page(),
        "api.md": api_page(),
    }


# ---- Registered names ----


def registered() -> Iterator[Tuple[type, str, type, str]]:
    """Each name of ours: what it is a kind of, the name, its class, and the name of its constructor."""
    for kind, by_name in sorted(Registrable._registry.items(), key=lambda item: item[0].__name__):
        for name, (cls, constructor) in sorted(by_name.items()):
            if cls.__module__.startswith("elmo_plugin") and kind.__name__ not in COMMANDS:
                yield kind, name, cls, constructor or "__init__"


def names_page() -> str:
    parts = [
        "(reference-names)=\n# Registered names",
        "What a config can name by `type`, with the keys that each takes. A key without a default has to be given. "
        "What AllenNLP supplies itself, such as the vocabulary, isn't listed.",
    ]
    last_kind = None
    for kind, name, cls, constructor in registered():
        if kind is not last_kind:
            parts.append(f"## {kind.__name__}")
            last_kind = kind
        parts += [f"### `{name}`", _where(cls), _prose(inspect.getdoc(cls)), _keys_table(cls, constructor)]
    return _page(parts)


def _where(cls: type) -> str:
    return f"`{cls.__module__}.{cls.__qualname__}`"


def _keys_table(cls: type, constructor: str) -> str:
    rows = []
    for parameter in keys_of(cls, constructor):
        default = "" if parameter.default is inspect.Parameter.empty else f"`{_default(parameter.default)}`"
        meaning = meaning_of(parameter.name, cls, constructor)
        rows.append([f"`{parameter.name}`", f"`{type_name(parameter.annotation)}`", default, meaning])
    return _table(["key", "type", "default", "meaning"], rows) if rows else "No keys."


def keys_of(cls: type, constructor: str) -> List[inspect.Parameter]:
    """The constructor's parameters that a config gives; where it takes any (`**kwargs`), its parent's as well."""
    found: Dict[str, inspect.Parameter] = {}
    classes = [cls] if constructor != "__init__" else [each for each in cls.__mro__ if "__init__" in vars(each)]
    for each in classes:
        parameters = inspect.signature(getattr(each, constructor)).parameters.values()
        for parameter in parameters:
            if parameter.name not in HANDED_OVER and parameter.kind not in (
                parameter.VAR_KEYWORD,
                parameter.VAR_POSITIONAL,
            ):
                found.setdefault(parameter.name, parameter)
        if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
            break
    return list(found.values())


def type_name(annotation: Any) -> str:
    """`Optional[int]` rather than `typing.Optional[int]`; what is built lazily is what it becomes."""
    if annotation is inspect.Parameter.empty:
        return "any"
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Lazy:
        return type_name(arguments[0])
    if origin is typing.Union:
        kept = [type_name(each) for each in arguments if each is not type(None)]
        return f"{' or '.join(kept)}{', or null' if type(None) in arguments else ''}"
    if origin is not None and arguments:
        name = getattr(origin, "__name__", str(origin)).lower()
        return f"{name} of {', '.join('any' if each is Ellipsis else type_name(each) for each in arguments)}"
    return getattr(annotation, "__name__", str(annotation))


def _default(value: Any) -> str:
    if isinstance(value, Lazy):
        return getattr(value._constructor, "__self__", value._constructor).__name__
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, (int, float, str, list, tuple, dict)):
        return repr(value)
    return type(value).__name__


def meaning_of(key: str, cls: type, constructor: str) -> str:
    """What a docstring says about a key: `key: ...`, or an item that begins with it."""
    for each in (getattr(cls, constructor), *cls.__mro__):
        text = inspect.getdoc(each) or ""
        start = re.search(rf"^[ ]*(?:- )?`?{key}`?(?:, `\w+`)*(?::| is | are | says | gives |, )", text, flags=re.M)
        if start:
            item = re.split(r"\n\s*\n|\n[ ]*- |\n[ ]*\w+: ", text[start.end() :])[0]
            return _cell(" ".join(item.split()))
    return ""


# ---- Commands ----


def commands_page() -> str:
    parts = ["# Commands", "What the plugin adds to `allennlp`; each has its own `--help`."]
    commands = argparse.ArgumentParser("allennlp").add_subparsers()
    for name in sorted(Subcommand.list_available()):
        command = Subcommand.by_name(name)
        if command.__module__.startswith("elmo_plugin"):
            parts += _command(f"allennlp {name}", command().add_subparser(commands), level=2)
    return _page(parts)


def _subcommands(parser: argparse.ArgumentParser) -> Dict[str, argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def _command(name: str, parser: argparse.ArgumentParser, level: int) -> List[str]:
    parts = [f"{'#' * level} `{name}`", _cell(parser.description or "", in_table=False)]
    if parser.epilog:
        parts.append(f"```text\n{re.sub('^examples?: ', '', parser.epilog)}\n```")
    rows = [_flag_row(action) for action in parser._actions if _is_flag(action)]
    if rows:
        parts.append(_table(["argument", "default", "meaning"], rows))
    for child, subparser in sorted(_subcommands(parser).items()):
        parts += _command(f"{name} {child}", subparser, level + 1)
    return parts


def _is_flag(action: argparse.Action) -> bool:
    return (
        not isinstance(action, (argparse._HelpAction, argparse._SubParsersAction)) and action.help != argparse.SUPPRESS
    )


def _flag_row(action: argparse.Action) -> List[str]:
    names = ", ".join(action.option_strings) or action.dest
    value = action.metavar or (action.dest.upper() if action.option_strings and action.nargs != 0 else "")
    shown = f"{names} {value if isinstance(value, str) else ' '.join(value)}".strip()
    default = "" if action.default in (None, False, argparse.SUPPRESS) else f"`{action.default}`"
    return [f"`{shown}`", default, _cell((action.help or "") % _help_values(action))]


def _help_values(action: argparse.Action) -> Dict[str, Any]:
    return {"default": action.default, "prog": "allennlp", "choices": action.choices, "type": action.type}


# ---- Variables and the API ----


def variables_page() -> str:
    rows = [
        [f"`{each.name}`", f"`{each.default}`" if each.default else "", _cell(each.help)] for each in SETTINGS.values()
    ]
    intro = (
        "What training configs and commands read from the environment. `python -m elmo_plugin.settings` prints them "
        "with their present values. An empty default means that the variable isn't set."
    )
    return _page(["(reference-variables)=\n# Variables", intro, _table(["variable", "default", "set it to"], rows)])


def api_page() -> str:
    parts = ["# Python API"]
    for cls in API:
        parts += [f"## `{cls.__module__.split('.')[0]}`: `{cls.__name__}`", _where(cls), _prose(inspect.getdoc(cls))]
        for name, member in _public_methods(cls):
            parts += [
                f"### `{cls.__name__}.{name}`",
                f"```text\n{name}{_signature(member)}\n```",
                _prose(inspect.getdoc(member)),
            ]
    return _page(parts)


def _public_methods(cls: type) -> Iterator[Tuple[str, Any]]:
    for name, member in vars(cls).items():
        member = getattr(member, "__func__", member)
        is_public = inspect.isfunction(member) and not name.startswith("_")
        if name == "__init__" or (is_public and member.__doc__):
            yield name, member


def _signature(function: Any) -> str:
    return re.sub(r"\b(typing|collections\.abc|numpy|torch)\.", "", str(inspect.signature(function)))


# ---- Markdown ----


def _prose(text: Any) -> str:
    """A docstring: indented blocks are code; the rest is text."""
    parts = []
    for block in re.split(r"\n\s*\n", (text or "").strip("\n")):
        lines = block.splitlines()
        if lines and all(line.startswith("    ") for line in lines):
            parts.append("```text\n" + textwrap.dedent(block) + "\n```")
        else:
            parts.append(_escape_markup(block))
    return re.sub(r"\n```\n\n```text\n", "\n\n", "\n\n".join(parts))


def _escape_markup(text: str) -> str:
    """What looks like HTML or MyST markup is shown literally, outside code."""
    pieces = re.split(r"(`[^`]*`)", text)
    return "".join(piece if piece.startswith("`") else re.sub(r"([<>*_$\[\]{}])", r"\\\1", piece) for piece in pieces)


def _cell(text: str, in_table: bool = True) -> str:
    text = _escape_markup(" ".join(text.split()))
    return text.replace("|", "\\|") if in_table else text


def _table(header: List[str], rows: List[List[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(cell.replace(chr(10), ' ') for cell in row)} |" for row in lines)


def _page(parts: List[str]) -> str:
    return "\n\n".join(part for part in parts if part) + "\n"


if __name__ == "__main__":
    sys.exit(main())
