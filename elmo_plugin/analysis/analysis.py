"""The shape that all analyses share: arguments in, a report out."""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, ClassVar, Dict, NamedTuple, Optional

from allennlp.common import Registrable
from allennlp.common.checks import ConfigurationError

from elmo_plugin.embedding import ElmoEmbedder
from elmo_plugin.files import PathOrStr, replacing, write_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OpenEmbedder = Callable[[], ElmoEmbedder]

_DOTS_PER_INCH = 200


class Report(NamedTuple):
    """The outcome of an analysis: `results` for JSON, `table` as text, and `draw`, which draws on an empty figure."""

    results: Dict[str, Any]
    table: str
    draw: Optional[Callable[["Figure"], None]] = None

    def write(self, folder: PathOrStr, name: str, with_plot: bool = True) -> None:
        """Writes name.json, name.txt and name.png into `folder`; each appears when it is complete."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        write_text(folder / f"{name}.json", json.dumps(self.results, indent=2, ensure_ascii=False) + "\n")
        write_text(folder / f"{name}.txt", self.table.rstrip("\n") + "\n")
        if with_plot and self.draw is not None:
            write_plot(self.draw, folder / f"{name}.png")


class Analysis(Registrable):
    """One `allennlp elmo-analyze NAME`; the package's docstring shows how to write one."""

    help: ClassVar[str]
    description: ClassVar[str]
    example: ClassVar[str]
    uses_bilm: ClassVar[bool] = True
    takes_cove: ClassVar[bool] = False  # instead of a biLM

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Adds the analysis's own flags."""
        raise NotImplementedError

    def run(self, arguments: argparse.Namespace, open_embedder: OpenEmbedder) -> Report:
        """Does the work. `open_embedder()` loads the biLM that the flags name; call it once the data is checked."""
        raise NotImplementedError


def require_one_or_more(arguments: argparse.Namespace, *names: str) -> None:
    """Refuses flags below 1; one that isn't given is fine."""
    for name in names:
        value = getattr(arguments, name)
        if value is not None and value < 1:
            raise ConfigurationError(f"--{name.replace('_', '-')} must be 1 or more, not {value}")


def require_plots() -> None:
    """Raises ConfigurationError, before any long work, if matplotlib isn't installed."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise ConfigurationError(
            "a picture needs matplotlib: pip install 'elmo-plugin[plots]', or do without pictures with --no-plot"
        ) from error


def write_plot(draw: Callable[["Figure"], None], path: PathOrStr) -> None:
    """Writes what `draw` draws on an empty figure as a PNG, without a screen."""
    require_plots()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(layout="constrained")
    FigureCanvasAgg(figure)
    draw(figure)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        figure.savefig(temporary, format="png", dpi=_DOTS_PER_INCH)
