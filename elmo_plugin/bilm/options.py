"""The sizes of a biLM, as the published `options.json` states them."""

from dataclasses import dataclass
from typing import Any, Dict, Optional, Tuple

from elmo_plugin.characters.mapping import DEFAULT_MAX_CHARACTERS, NUM_CHARACTERS
from elmo_plugin.errors import ConfigurationError

ACTIVATIONS = ("relu", "tanh")

_SIZES = {
    "projection_dim": ("lstm.projection_dim", 1, 2**16),
    "cell_dim": ("lstm.dim", 1, 2**16),
    "num_layers": ("lstm.n_layers", 1, 64),
    "char_dim": ("char_cnn.embedding.dim", 1, 2**12),
    "num_filters": ("char_cnn.filters, added up,", 1, 2**16),
    "num_highway": ("char_cnn.n_highway", 0, 64),
    "max_characters_per_token": ("char_cnn.max_characters_per_token", 1, 2**12),
}
"""What options.json calls them, and their bounds. The largest are far beyond any existing biLM; anything larger is a
mistake that would exhaust memory before it is noticed.
"""


@dataclass(frozen=True)
class BiLmOptions:
    """Everything that fixes the shapes and the arithmetic of a biLM. The defaults are the paper's.

    A projection as wide as the cell means no projection (and then no projection clipping, as in the original); as many
    filters as the projection is wide means no projection after the CNN.
    """

    projection_dim: int = 512
    cell_dim: int = 4096
    num_layers: int = 2
    cell_clip: Optional[float] = 3.0
    projection_clip: Optional[float] = 3.0
    use_skip_connections: bool = True
    char_dim: int = 16
    filters: Tuple[Tuple[int, int], ...] = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))
    num_highway: int = 2
    activation: str = "relu"
    max_characters_per_token: int = DEFAULT_MAX_CHARACTERS

    def __post_init__(self) -> None:
        for name, (key, least, largest) in _SIZES.items():
            if not least <= getattr(self, name) <= largest:
                raise ConfigurationError(
                    f"a biLM's {name} ({key} in options.json) has to be from {least} to {largest}, not "
                    f"{getattr(self, name)}; correct it"
                )
        for name in ("cell_clip", "projection_clip"):
            clip = getattr(self, name)
            if clip is not None and not (isinstance(clip, (int, float)) and 0.0 <= clip < float("inf")):
                raise ConfigurationError(
                    f"a biLM's {name} has to be null or 0, for none, or a number above 0, not {clip!r}; correct it"
                )
        if self.projection_dim > self.cell_dim:
            raise ConfigurationError(
                f"a biLM's projection (projection_dim {self.projection_dim}) can't be wider than its cell (dim "
                f"{self.cell_dim}): the published format has no such model"
            )
        if self.activation not in ACTIVATIONS:
            raise ConfigurationError(
                f"char_cnn.activation must be one of {', '.join(ACTIVATIONS)}, not {self.activation!r}"
            )
        if not self.filters or any(width < 1 or num < 1 for width, num in self.filters):
            raise ConfigurationError(
                f"char_cnn.filters must be [width, number] pairs of at least 1, not {self.filters}"
            )
        widest = max(width for width, _ in self.filters)
        if widest > self.max_characters_per_token:
            raise ConfigurationError(
                f"a character filter of width {widest} doesn't fit max_characters_per_token = "
                f"{self.max_characters_per_token}"
            )

    @property
    def num_filters(self) -> int:
        return sum(num for _, num in self.filters)

    @property
    def num_filter_widths(self) -> int:
        return len(self.filters)

    @property
    def has_projection(self) -> bool:
        return self.projection_dim != self.cell_dim

    @property
    def has_cnn_projection(self) -> bool:
        return self.num_filters != self.projection_dim

    @classmethod
    def from_json(cls, options: Dict[str, Any], name: str = "options.json") -> "BiLmOptions":
        """Reads the published form. `name` is for error messages."""
        try:
            return cls._from_json(options)
        except KeyError as error:
            raise ConfigurationError(
                f"{name} has no {error.args[0]!r}; a biLM's options need 'lstm' (projection_dim, dim, ...) and "
                "'char_cnn' (embedding.dim, filters, activation, ...)"
            ) from error
        except ConfigurationError as error:
            raise ConfigurationError(f"{name}: {error.message}") from error
        except (TypeError, ValueError, AttributeError, OverflowError) as error:
            raise ConfigurationError(f"{name} isn't a biLM's options.json: {error}") from error

    @classmethod
    def _from_json(cls, options: Dict[str, Any]) -> "BiLmOptions":
        lstm, char_cnn = options["lstm"], options["char_cnn"]
        num_characters = char_cnn.get("n_characters", NUM_CHARACTERS + 1)
        if num_characters not in (NUM_CHARACTERS, NUM_CHARACTERS + 1):
            raise ConfigurationError(
                f"char_cnn.n_characters is {num_characters}; a biLM over UTF-8 bytes has {NUM_CHARACTERS} (in "
                f"training) or {NUM_CHARACTERS + 1} (with the masking id)"
            )
        return cls(
            projection_dim=int(lstm["projection_dim"]),
            cell_dim=int(lstm["dim"]),
            num_layers=int(lstm.get("n_layers", 1)),
            cell_clip=lstm.get("cell_clip"),
            projection_clip=lstm.get("proj_clip"),
            use_skip_connections=bool(lstm.get("use_skip_connections", False)),
            char_dim=int(char_cnn["embedding"]["dim"]),
            filters=tuple((int(width), int(num)) for width, num in char_cnn["filters"]),
            num_highway=int(char_cnn.get("n_highway") or 0),
            activation=char_cnn["activation"],
            max_characters_per_token=int(char_cnn.get("max_characters_per_token", DEFAULT_MAX_CHARACTERS)),
        )

    def to_json(self) -> Dict[str, Any]:
        """The published form, with `n_characters` 262 as every reader expects."""
        return {
            "lstm": {
                "use_skip_connections": self.use_skip_connections,
                "projection_dim": self.projection_dim,
                "cell_clip": self.cell_clip,
                "proj_clip": self.projection_clip,
                "dim": self.cell_dim,
                "n_layers": self.num_layers,
            },
            "char_cnn": {
                "activation": self.activation,
                "filters": [list(pair) for pair in self.filters],
                "n_highway": self.num_highway,
                "embedding": {"dim": self.char_dim},
                "n_characters": NUM_CHARACTERS + 1,
                "max_characters_per_token": self.max_characters_per_token,
            },
        }
