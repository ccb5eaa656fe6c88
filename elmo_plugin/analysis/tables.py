"""Tables as plain text."""

import statistics
from typing import Iterable, List, Optional, Sequence, Tuple


def text_table(header: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> str:
    """Columns two blanks apart, the first `left` of them aligned left and the others right."""
    cells: List[Sequence[str]] = [header, *rows]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    rule = ["-" * width for width in widths]
    lines = []
    for row in (cells[0], rule, *cells[1:]):
        padded = [
            cell.ljust(width) if column < left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(padded).rstrip())
    return "\n".join(lines)


def percent(share: Optional[float], digits: int = 1) -> str:
    """0.659 as `65.9`; nothing as a dash."""
    return "-" if share is None else f"{100 * share:.{digits}f}"


def mean_and_spread(values: Sequence[float]) -> Tuple[float, Optional[float]]:
    """The mean, and the sample standard deviation if there is more than one value."""
    return statistics.mean(values), statistics.stdev(values) if len(values) > 1 else None


def mean_text(
    values: Sequence[float], form: str = ".1f", spread_form: str = ".1f", sign: str = "+-", missing: str = "-"
) -> str:
    """`52.0 +- 2.8`; of one value there is no spread, and of none `missing`."""
    if not values:
        return missing
    mean, spread = mean_and_spread(values)
    return f"{mean:{form}}" if spread is None else f"{mean:{form}} {sign} {spread:{spread_form}}"


def layer_name(layer: int, model: str = "biLM") -> str:
    """What a layer of a biLM, or of another model, is called in tables and pictures."""
    return f"{model}, token layer" if layer == 0 else f"{model}, layer {layer}"
