"""Tables as plain text."""

from typing import Iterable, List, Optional, Sequence


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


def layer_name(layer: int, model: str = "biLM") -> str:
    """What a layer of a biLM, or of another model, is called in tables and pictures."""
    return f"{model}, token layer" if layer == 0 else f"{model}, layer {layer}"
