"""What the page draws with: marked texts, bars, heat maps and shaded words, from NiceGUI's elements."""

from typing import Callable, Dict, List, Sequence

import numpy
from nicegui import ui
from nicegui.elements.mixins.text_element import TextElement

from elmo_plugin.analysis.tables import layer_name
from elmo_plugin.tasks.common.display import Bars, Display, MarkedText, Piece, pieces

# Colours are laid over the page's own background, so that they suit a light and a dark one.
_BLUE, _ORANGE = "66, 133, 244", "240, 120, 40"
_STRONGEST = 0.7
_HUE_STEP = 137.5  # degrees: neighbouring labels are far apart, however many there are
_MOST_BITS = 16.0

_hues: Dict[str, float] = {}


def heading(text: str) -> None:
    ui.label(text).classes("text-base font-medium mt-2 break-words max-w-full")


def note(text: str) -> None:
    ui.label(text).classes("text-sm opacity-70")


def draw(display: Display) -> None:
    """A part of a task's output."""
    heading(display.title)
    if isinstance(display, MarkedText):
        _draw_marked_text(display)
    else:
        draw_bars(display)


# ---- Marked texts ----


def _draw_marked_text(marked: MarkedText) -> None:
    with ui.element("div").classes("marked-text leading-9 whitespace-pre-wrap break-words w-full"):
        _draw_pieces(marked.text, pieces(0, len(marked.text), marked.marks))


def _draw_pieces(text: str, found: Sequence[Piece]) -> None:
    for piece in found:
        if piece.label is None:
            _span(text[piece.start : piece.end])
            continue
        hue = _hues.setdefault(piece.label, _HUE_STEP * len(_hues) % 360)
        style = f"background-color: hsla({hue}, 75%, 55%, 0.3); border-bottom: 2px solid hsl({hue}, 65%, 50%)"
        with ui.element("mark").classes("rounded px-1 py-0.5 text-inherit").style(style):
            _draw_pieces(text, piece.inside)
            _span(piece.label).classes("text-xs font-semibold opacity-80 ml-1 select-none whitespace-nowrap")


def _span(text: str) -> TextElement:
    return TextElement(tag="span", text=text)


# ---- Numbers ----


def _background(strength: float, colour: str) -> str:
    return f"background-color: rgba({colour}, {_STRONGEST * min(max(strength, 0.0), 1.0):.3f})"


def draw_bars(bars: Bars) -> None:
    """A row for each number, filled from the left in proportion."""
    with ui.element("div").classes("bars w-full flex flex-col gap-1"):
        for name, value in bars.values.items():
            filled = (
                f"linear-gradient(to right, rgba({_BLUE}, 0.35) {value:.1%}, rgba(128, 128, 128, 0.12) {value:.1%})"
            )
            with ui.element("div").classes("flex no-wrap gap-2 rounded px-2 py-1").style(f"background: {filled}"):
                _span(name).classes("grow min-w-0 break-words")
                _span(f"{value:.1%}").classes("tabular-nums")


def draw_heat_maps(labels: Sequence[str], cosines: numpy.ndarray) -> None:
    """A square of cosines for each layer, all on one scale; `cosines` is (num_layers, num_labels, num_labels)."""
    lowest = min(float(cosines.min()), 0.99)
    with ui.element("div").classes("heat-maps w-full flex flex-wrap gap-6"):
        for layer, matrix in enumerate(cosines):
            with ui.element("div").classes("max-w-full overflow-x-auto"):
                heading(layer_name(layer))
                _draw_heat_map(labels, matrix, lowest)


def _draw_heat_map(labels: Sequence[str], matrix: numpy.ndarray, lowest: float) -> None:
    columns = f"grid-template-columns: 1.5rem repeat({len(labels)}, 3rem)"
    with ui.element("div").classes("grid gap-0.5 text-sm text-center w-fit items-center").style(columns):
        _span("")
        for label in labels:
            _span(label).classes("opacity-70")
        for label, row in zip(labels, matrix.tolist(), strict=True):
            _span(label).classes("opacity-70")
            for cosine in row:
                strength = (cosine - lowest) / (1.0 - lowest)
                _span(f"{cosine:.2f}").classes("rounded py-2 tabular-nums").style(_background(strength, _BLUE))


# ---- Words to click on ----


def word_button(word: str, on_click: Callable[[], object], is_picked: bool) -> None:
    """A word of a sentence that can be picked; a second click unpicks it."""
    button = ui.button(word, on_click=on_click).props("no-caps dense unelevated padding='2px 6px'")
    button.props("color=primary" if is_picked else "flat color=inherit").classes("word")
    button.props(f"aria-pressed={'true' if is_picked else 'false'}")


def surprise_button(word: str, bits: float, on_click: Callable[[], object], is_picked: bool) -> None:
    """A word, shaded by its surprise in bits, with the number below it."""
    button = ui.button(on_click=on_click).props("no-caps dense flat color=inherit padding='2px 6px'")
    ring = "outline: 2px solid currentColor" if is_picked else ""
    button.classes("word").style(f"{_background(bits / _MOST_BITS, _ORANGE)}; {ring}")
    with button, ui.element("span").classes("flex flex-col items-center leading-tight"):
        _span(word)
        _span(f"{bits:.1f}").classes("text-xs opacity-70 tabular-nums")


def example_chips(names: List[str], choose: Callable[[int], object]) -> None:
    """Examples to click on."""
    with ui.row().classes("gap-2 items-center w-full"):
        note("Examples:")
        for number, name in enumerate(names):
            chip = ui.chip(on_click=lambda number=number: choose(number)).props("outline clickable color=inherit")
            with chip.classes("example max-w-full mx-0"):
                _span(name).classes("ellipsis")
