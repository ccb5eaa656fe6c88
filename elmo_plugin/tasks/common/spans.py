"""Spans of tokens and their notations as tags: IOB1, BIO (also called IOB2) and BIOUL.

For `Ada Byron met Bo Cy`, where Ada Byron, Bo and Cy are three people:

    BIO      B-PER I-PER O B-PER B-PER    a span begins with B
    IOB1     I-PER I-PER O I-PER B-PER    it does so only where another of its type ends right before it
    BIOUL    B-PER L-PER O U-PER U-PER    besides, it ends with L, and a single token has U
"""

from typing import List, NamedTuple, Optional, Sequence, Tuple

from allennlp.common.checks import ConfigurationError

OUTSIDE = "O"
PREFIXES = {"BIO": ("B", "I"), "IOB1": ("B", "I"), "BIOUL": ("B", "I", "U", "L")}
SCHEMES = tuple(PREFIXES)


class Span(NamedTuple):
    """Tokens `start` to `end`, the latter not included, and what they are."""

    start: int
    end: int
    type: str


class TagError(ValueError):
    """A tag that its scheme doesn't allow at its position, `index` in its sentence."""

    def __init__(self, message: str, index: int = 0) -> None:
        super().__init__(message)
        self.index = index


def check_scheme(scheme: str) -> None:
    if scheme not in SCHEMES:
        raise ConfigurationError(f"there is no tag scheme {scheme!r}; choose one of {', '.join(SCHEMES)}")


def parse_tag(tag: str, scheme: str = "BIOUL") -> Tuple[str, str]:
    """Splits `B-PER` into `B` and `PER`. The tag `O` has no type: the empty string. A type may hold hyphens."""
    if tag == OUTSIDE:
        return OUTSIDE, ""
    prefix, hyphen, type_ = tag.partition("-")
    if not (hyphen and type_ and prefix in PREFIXES[scheme]):
        expected = ", ".join(f"{prefix}-TYPE" for prefix in PREFIXES[scheme])
        raise TagError(f"{tag!r} isn't a tag of the scheme {scheme}, which has {OUTSIDE}, {expected}")
    return prefix, type_


def tags_to_spans(tags: Sequence[str], scheme: str) -> List[Span]:
    """The spans that `tags` denote. Raises TagError at the first one that `scheme` doesn't allow there.

    For the lenient reading of tags that a person or a model may have got wrong, see `chunks`.
    """
    for index, expected in irregular_tags(tags, scheme):
        raise TagError(f"{tags[index]!r} is where {scheme} has {expected!r}", index)
    return chunks(tags)


def irregular_tags(tags: Sequence[str], scheme: str) -> List[Tuple[int, str]]:
    """The positions where `tags` aren't those that `scheme` has for their `chunks`, each with the tag that it has
    there.

    Raises TagError at a tag that isn't one of the scheme's anywhere.
    """
    check_scheme(scheme)
    for index, tag in enumerate(tags):
        try:
            parse_tag(tag, scheme)
        except TagError as error:
            raise TagError(str(error), index) from None
    expected_tags = spans_to_tags(chunks(tags), len(tags), scheme)
    pairs = enumerate(zip(tags, expected_tags, strict=True))
    return [(index, expected) for index, (tag, expected) in pairs if tag != expected]


def chunks(tags: Sequence[str]) -> List[Span]:
    """The spans in tags of any scheme, well-formed or not, by the rules of the CoNLL shared tasks' scorer, conlleval.

    A span begins at B, at a tag that isn't O after one that is, and wherever the type changes; it ends before the next
    one and before O. So `O I-PER I-LOC` is two spans. The scorer knows neither U nor L: they are read as B and I.
    """
    spans: List[Span] = []
    start: Optional[int] = None
    previous_type = ""
    # The O past the end closes the last span.
    for index, tag in enumerate([*tags, OUTSIDE]):
        prefix, _, type_ = tag.partition("-")
        is_outside = prefix == OUTSIDE
        begins = not is_outside and (prefix in ("B", "U") or start is None or type_ != previous_type)
        if start is not None and (is_outside or begins):
            spans.append(Span(start, index, previous_type))
            start = None
        if begins:
            start = index
        previous_type = type_
    return spans


def spans_to_tags(spans: Sequence[Span], num_tokens: int, scheme: str) -> List[str]:
    """The tags of a sentence of `num_tokens` with these spans. Raises ValueError if they overlap or don't fit in."""
    check_scheme(scheme)
    tags = [OUTSIDE] * num_tokens
    end_of_previous, previous_type = 0, None
    for start, end, type_ in sorted(spans):
        if not end_of_previous <= start < end <= num_tokens:
            raise ValueError(f"the span {start}:{end} overlaps another, or isn't within the {num_tokens} tokens")
        adjacent = start == end_of_previous and type_ == previous_type
        tags[start:end] = [f"{prefix}-{type_}" for prefix in _span_prefixes(end - start, scheme, adjacent)]
        end_of_previous, previous_type = end, type_
    return tags


def _span_prefixes(length: int, scheme: str, adjacent: bool) -> List[str]:
    """The prefixes of one span's tags; `adjacent` says that another span of its type ends where it starts."""
    if scheme == "IOB1":
        return ["B" if adjacent else "I"] + ["I"] * (length - 1)
    if scheme == "BIO":
        return ["B"] + ["I"] * (length - 1)
    return ["U"] if length == 1 else ["B"] + ["I"] * (length - 2) + ["L"]
