"""Lets AllenNLP 2.10.1 start without torchvision and fairscale, and finds `allennlp.commands.elmo` for old scripts.

AllenNLP imports both packages before it looks at any plugin, and uses them only for images and for fully sharded
training. Neither has a release that goes with today's CPU build of torch and imports without warnings. So the installed
plugin brings `elmo_plugin_startup.pth`, which Python reads whenever it starts and which imports this module. It adds
one finder behind all others: where a real torchvision or fairscale is installed, that one is found first and nothing
here acts. Otherwise, and only once AllenNLP is being imported, a stand-in takes its place; using anything from it
raises an error that says what to install.

Every Python process of the environment runs this file, so it imports next to nothing: `importlib.abc`, for the base
classes that a finder usually has, would take longer than all the rest of Python's start.
"""

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

# The packages that have a stand-in, and how to install the real one.
STAND_INS = {
    "fairscale": "pip install --no-deps fairscale==0.4.6",
    "torchvision": "pip install --no-deps torchvision==VERSION, with the VERSION made for your torch",
}


class _PlaceholderType(type):
    """Makes a class that can be named, subclassed and handed to `isinstance`, but not called.

    Its attributes are placeholders too, since AllenNLP calls `torchvision.models.detection.fasterrcnn_resnet50_fpn`.
    """

    placeholder_for: str  # the full name; AllenNLP's subclasses of a placeholder inherit it for their error

    def __call__(cls, *args, **kwargs):
        package = cls.placeholder_for.partition(".")[0]
        raise ImportError(
            f"{cls.placeholder_for} was asked for, but {package} isn't installed. AllenNLP needs it for this feature "
            f"only. To install it: {STAND_INS[package]}."
        )

    def __getattr__(cls, name: str) -> "_PlaceholderType":
        return _placeholder(cls.placeholder_for, name)


def _placeholder(parent: str, name: str) -> _PlaceholderType:
    """Stands for `name` in the module or class `parent`."""
    if name.startswith("_"):
        # What Python itself looks for, such as __wrapped__ or __iter__, is really absent.
        raise AttributeError(f"{parent} is only a stand-in and has no {name!r}")
    return _PlaceholderType(name, (), {"__module__": parent, "placeholder_for": f"{parent}.{name}"})


class StandIn(ModuleType):
    """A package in which every submodule is a stand-in and every other name a placeholder."""

    __path__: list = []  # makes it a package, so that its submodules are looked for too

    def __getattr__(self, name: str) -> _PlaceholderType:
        placeholder = _placeholder(self.__name__, name)
        setattr(self, name, placeholder)  # the same class each time, as `isinstance` needs
        return placeholder


class StandInFinder:
    """Finds, and loads, stand-ins for the packages in `STAND_INS` that no other finder found."""

    def find_spec(self, fullname, path=None, target=None):
        package, _, submodule = fullname.partition(".")
        if package not in STAND_INS or "allennlp" not in sys.modules:
            return None
        if submodule and not isinstance(sys.modules.get(package), StandIn):
            return None  # a real package that lacks this submodule
        return ModuleSpec(fullname, self, is_package=True)  # type: ignore[arg-type]  # a loader without its base class

    def create_module(self, spec):
        return StandIn(spec.name)

    def exec_module(self, module):
        pass


class OldModuleFinder:
    """Finds `allennlp.commands.elmo`, which AllenNLP dropped in 1.0, for scripts that import it: in the plugin."""

    def find_spec(self, fullname, path=None, target=None):
        return ModuleSpec(fullname, self) if fullname == "allennlp.commands.elmo" else None  # type: ignore[arg-type]

    def create_module(self, spec):
        return None  # Python's own kind of module

    def exec_module(self, module):
        from elmo_plugin.embedding import allennlp_0_9

        for name in ("__doc__", "__all__", *allennlp_0_9.__all__):
            setattr(module, name, getattr(allennlp_0_9, name))


def install() -> None:
    """Adds the finders behind all others, once."""
    for kind in (StandInFinder, OldModuleFinder):
        if not any(isinstance(finder, kind) for finder in sys.meta_path):
            sys.meta_path.append(kind())


install()
