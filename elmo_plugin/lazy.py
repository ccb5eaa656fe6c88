"""Names of a package that are imported when they are first used (PEP 562)."""

import sys
from importlib import import_module
from typing import Any, Callable, Dict


def lazy_names(package: str, modules: Dict[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a package, given the module that each of its lazy names comes from. A name that comes from
    the module of the same name is that module.
    """

    def __getattr__(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = import_module(modules[name])
        value = module if module.__name__ == f"{package}.{name}" else getattr(module, name)
        setattr(sys.modules[package], name, value)
        return value

    return __getattr__
