"""What AllenNLP 2.10.1 needs before it looks at any plugin.

The installed plugin brings `elmo_plugin_startup.pth`, which Python reads whenever it starts and which imports this
module. It puts one finder before all others, which acts on nothing but AllenNLP's own modules while they are loaded:

- AllenNLP is told about the plugin (`AFTER_LOADING`), so that it is found in any folder once it is installed. The
  plugin itself is imported without AllenNLP, and completed when a program imports AllenNLP too.
- AllenNLP's import statements succeed for packages that ELMo doesn't need (`STAND_INS`), installed or not, and for
  names that newer releases of them have dropped. The real thing is always taken where there is one. Otherwise a
  placeholder takes its place, whose use raises an error that says what to install. Only AllenNLP sees placeholders: to
  everyone else, what is missing stays missing.
- Modules that AllenNLP once had are found in the plugin (`OLD_MODULES`), for scripts that import them.
- Torch's threads sleep when they wait for each other (`BEFORE_LOADING`), unless the environment says what they do.

Every Python process of the environment runs this file, so it imports next to nothing: `importlib.abc`, for the base
classes that a finder usually has, would take longer than all the rest of Python's start.
"""

import builtins
import os
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

# What AllenNLP is told about, and the packages whose import statements are helped.
PLUGIN = "elmo_plugin_allennlp"
HELPED_PACKAGES = ("allennlp", "allennlp_models", "cached_path")

# What AllenNLP and cached-path import and ELMo doesn't need, and how to install the real one.
STAND_INS = {
    "base58": "pip install base58",
    "boto3": "pip install boto3",
    "botocore": "pip install boto3",
    "dill": "pip install dill",
    "fairscale": "pip install --no-deps fairscale==0.4.6",
    "google.api_core": "pip install google-cloud-storage",
    "google.auth": "pip install google-cloud-storage",
    "google.cloud": "pip install google-cloud-storage",
    "huggingface_hub": "pip install 'huggingface-hub<1'",
    "lmdb": "pip install lmdb",
    "more_itertools": "pip install more-itertools",
    "nltk": "pip install nltk",
    "sklearn": "pip install scikit-learn",
    "tensorboardX": "pip install tensorboardX",
    "termcolor": "pip install termcolor",
    "torchvision": "pip install --no-deps torchvision==VERSION, with the VERSION made for your torch",
    "transformers": "pip install 'transformers<4.49'",
}

# How long a thread spins before it sleeps: 300,000 by default. With 1,000, embedding sentences one by one takes a fifth
# longer; 20,000 is slow beside others.
SPINS_BEFORE_SLEEP = "3000"


# ---- Placeholders ----


class _PlaceholderType(type):
    """Makes a class that can be named, subclassed and handed to `isinstance` or `except`, but not used.

    Its attributes are placeholders too, since AllenNLP calls `torchvision.models.detection.fasterrcnn_resnet50_fpn`.
    """

    placeholder_for: str  # the full name; AllenNLP's subclasses of a placeholder inherit it for their error

    def __call__(cls, *args, **kwargs):
        package = _package_of(cls.placeholder_for)
        if _is_installed(package):
            problem = f"the installed {package} doesn't have it. To install a release that does"
        else:
            problem = f"{package} isn't installed. AllenNLP needs it for this feature only. To install it"
        raise ImportError(f"{cls.placeholder_for} was asked for, but {problem}: {STAND_INS[package]}")

    __getitem__ = __call__

    def __getattr__(cls, name: str) -> "_PlaceholderType":
        if name.startswith("_"):
            # What Python itself looks for, such as __wrapped__ or __iter__, is really absent.
            raise AttributeError(f"{cls.placeholder_for} is only a placeholder and has no {name!r}")
        return placeholder(f"{cls.placeholder_for}.{name}")


_PLACEHOLDERS: "dict[str, _PlaceholderType]" = {}


def placeholder(full_name: str) -> _PlaceholderType:
    """The placeholder of that name, the same class each time, as `isinstance` needs."""
    if full_name not in _PLACEHOLDERS:
        parent, _, name = full_name.rpartition(".")
        bases = (Exception,) if name.endswith(("Error", "Exception", "NotFound")) else ()
        namespace = {"__module__": parent, "placeholder_for": full_name}
        _PLACEHOLDERS[full_name] = _PlaceholderType(name, bases, namespace)
    return _PLACEHOLDERS[full_name]


def _package_of(full_name: str) -> str:
    """The package in `STAND_INS` that a name belongs to; empty if there is none."""
    parts = full_name.split(".")
    heads = (".".join(parts[:length]) for length in range(1, len(parts) + 1))
    return next((head for head in heads if head in STAND_INS), "")


def _is_installed(package: str) -> bool:
    try:
        builtins.__import__(package)
    except ModuleNotFoundError:
        return False
    return True


class _WithPlaceholders(ModuleType):
    """A real module, with placeholders for the names that it doesn't have."""

    def __init__(self, module: ModuleType) -> None:
        super().__init__(module.__name__, module.__doc__)
        self._module = module

    def __getattr__(self, name: str):
        try:
            return getattr(self._module, name)
        except AttributeError:
            return getattr(placeholder(self.__name__), name)


def _import(name, globals=None, locals=None, fromlist=(), level=0):
    """What `import` statements call in the packages that are helped: Python's own import, or placeholders."""
    package = "" if level else _package_of(name)
    try:
        module = builtins.__import__(name, globals, locals, fromlist, level)
    except ModuleNotFoundError as error:
        if not package or not f"{name}.".startswith(f"{error.name}."):
            raise  # another module is missing, which this one imports
        # "from a.b import c" wants a.b; "import a.b" wants a, and then its b.
        return placeholder(name if fromlist else name.partition(".")[0])
    return _WithPlaceholders(module) if package else module


# ---- AllenNLP's modules ----


_plugin_was_imported = False


def import_plugin() -> None:
    """Registers everything in the plugin. If that fails it isn't tried again, so that AllenNLP can go on without it."""
    global _plugin_was_imported
    if not _plugin_was_imported:
        _plugin_was_imported = True
        builtins.__import__("elmo_plugin.plugin")


def _add_to_default_plugins(plugins) -> None:
    plugins.DEFAULT_PLUGINS += (PLUGIN,)


def _repair(allennlp) -> None:
    """A program that has imported the plugin gets its repairs with AllenNLP's first module."""
    if "elmo_plugin" in sys.modules:
        builtins.__import__("elmo_plugin.compat", fromlist=("apply",)).apply()


def _adopt_errors(checks) -> None:
    if "elmo_plugin.errors" in sys.modules:
        sys.modules["elmo_plugin.errors"].derive_from_allennlps(checks)


def _register_on_demand(registrable) -> None:
    """A program that has imported the plugin gets its components when AllenNLP first looks for one by name."""
    import functools

    def with_plugin(method):
        @functools.wraps(method)
        def find(cls, *args):
            if "elmo_plugin" in sys.modules:
                import_plugin()
            return method(cls, *args)

        return classmethod(find)

    for name in ("list_available", "resolve_class_name"):
        setattr(registrable.Registrable, name, with_plugin(vars(registrable.Registrable)[name].__func__))


def share_cores() -> None:
    """Has torch's threads sleep after microseconds of waiting for each other, rather than milliseconds.

    A thread that spins takes its core from the very thread it waits for where another program keeps a core busy: on two
    cores beside one such program, `demo/elmo.jsonnet` wasn't through one epoch after 50 seconds, and is through 14 with
    this. With the cores free it makes no difference. Torch reads it when it is loaded, so it has to come before that;
    an environment that says how threads wait is left alone.
    """
    if not any(name in os.environ for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")):
        os.environ["GOMP_SPINCOUNT"] = SPINS_BEFORE_SLEEP


# What is done before a module of AllenNLP is loaded, and once it is.
BEFORE_LOADING = {
    "allennlp": share_cores,  # it imports torch
}
AFTER_LOADING = {
    "allennlp": _repair,
    "allennlp.common.checks": _adopt_errors,
    "allennlp.common.plugins": _add_to_default_plugins,
    "allennlp.common.registrable": _register_on_demand,
}

# Modules that AllenNLP no longer has, and where the plugin has their names.
OLD_MODULES = {
    "allennlp.commands.elmo": "elmo_plugin.embedding.allennlp_0_9",  # dropped in 1.0
}


class _OldModuleLoader:
    """Gives a module the names of its successor in the plugin."""

    def create_module(self, spec):
        return None  # Python's own kind of module

    def exec_module(self, module: ModuleType) -> None:
        successor = builtins.__import__(OLD_MODULES[module.__name__], fromlist=("__all__",))
        for name in ("__doc__", "__all__", *successor.__all__):
            setattr(module, name, getattr(successor, name))


_HELPED_BUILTINS: "dict[str, object]" = {}


class _Loader:
    """Loads a module as its own loader does, with the `import` above, and does what the two tables say."""

    def __init__(self, loader) -> None:
        self._loader = loader

    def __getattr__(self, name: str):
        return getattr(self._loader, name)

    def exec_module(self, module: ModuleType) -> None:
        if not _HELPED_BUILTINS:
            _HELPED_BUILTINS.update(vars(builtins), __import__=_import)
        module.__dict__["__builtins__"] = _HELPED_BUILTINS  # where its import statements find `__import__`
        if module.__name__ in BEFORE_LOADING:
            BEFORE_LOADING[module.__name__]()
        self._loader.exec_module(module)
        if module.__name__ in AFTER_LOADING:
            AFTER_LOADING[module.__name__](module)


def _helping(loader):
    """Untyped, since a loader without its base class is one to Python, but not to a type checker."""
    return _Loader(loader)


class Finder:
    """Finds the modules of the packages that are helped, where the finders after this one find them."""

    def find_spec(self, fullname, path=None, target=None):
        if fullname.partition(".")[0] not in HELPED_PACKAGES:
            return None
        next_finders = sys.meta_path[sys.meta_path.index(self) + 1 :]
        spec = next(filter(None, (finder.find_spec(fullname, path, target) for finder in next_finders)), None)
        if spec is not None and spec.loader is not None:
            spec.loader = _helping(spec.loader)
        elif fullname in OLD_MODULES:
            return ModuleSpec(fullname, _OldModuleLoader())  # type: ignore[arg-type]  # a loader without its base class
        return spec


def install() -> None:
    """Adds the finder in front of all others, once."""
    if not any(isinstance(finder, Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, Finder())


install()
