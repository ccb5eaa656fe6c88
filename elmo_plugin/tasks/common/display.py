"""How a task's predictions are shown to a reader, in terms that any page can draw. Each task's predictor describes its
own.
"""

from bisect import bisect_left
from typing import ClassVar, Dict, List, NamedTuple, Optional, Sequence, Union

from allennlp.common.util import JsonDict


class Input(NamedTuple):
    """A text that the predictor takes: the key in its JSON, and what a reader is asked for."""

    key: str
    label: str
    is_long: bool = False
    is_optional: bool = False


class Mark(NamedTuple):
    """A stretch of a text, in characters. Marks with one label belong together."""

    start: int
    end: int
    label: str


class MarkedText(NamedTuple):
    """A text with marks, which may be nested."""

    title: str
    text: str
    marks: List[Mark]


class Bars(NamedTuple):
    """Numbers between 0 and 1, by name, such as the probabilities of labels."""

    title: str
    values: Dict[str, float]


Display = Union[MarkedText, Bars]


class DisplayedPredictor:
    """What a predictor adds to be shown on a page (`allennlp elmo-demo`): what goes in, and what an output looks like.

    `examples` hold a text for each input that isn't optional.
    """

    task_title: ClassVar[str]
    inputs: ClassVar[Sequence[Input]]
    examples: ClassVar[Sequence[JsonDict]]

    def display(self, output: JsonDict) -> List[Display]:
        """The parts of an output, in reading order."""
        raise NotImplementedError


def marks_of(spans: Sequence[JsonDict]) -> List[Mark]:
    """The marks for what predictors return as `{"start": 0, "end": 9, "type": "PER", ...}`."""
    return [Mark(span["start"], span["end"], span["type"]) for span in spans]


class Piece(NamedTuple):
    """A stretch of a marked text: unmarked where it has no label, and otherwise with what lies inside it."""

    start: int
    end: int
    label: Optional[str]
    inside: List["Piece"]


def pieces(start: int, end: int, marks: Sequence[Mark]) -> List[Piece]:
    """The text from `start` to `end` in order, marks within marks; of two that cross, the later one is cut in two."""
    done = start
    found = []
    waiting = _in_reading_order(marks)
    while waiting:
        mark, *waiting = waiting
        num_inside = bisect_left(waiting, mark.end, key=lambda mark: mark.start)
        inside, waiting = waiting[:num_inside], waiting[num_inside:]
        if cut_off := [each._replace(start=mark.end) for each in inside if each.end > mark.end]:
            waiting = _in_reading_order([*waiting, *cut_off])
        if done < mark.start:
            found.append(Piece(done, mark.start, None, []))
        inner = pieces(mark.start, mark.end, [each._replace(end=min(each.end, mark.end)) for each in inside])
        found.append(Piece(mark.start, mark.end, mark.label, inner))
        done = mark.end
    return [*found, Piece(done, end, None, [])] if done < end else found


def bracketed(text: str, found: Sequence[Piece]) -> str:
    """The pieces of a text with brackets around those that are marked, and their label after the opening one."""
    return "".join(
        text[piece.start : piece.end] if piece.label is None else f"[{piece.label} {bracketed(text, piece.inside)}]"
        for piece in found
    )


def _in_reading_order(marks: Sequence[Mark]) -> List[Mark]:
    return sorted(marks, key=lambda mark: (mark.start, -mark.end))
