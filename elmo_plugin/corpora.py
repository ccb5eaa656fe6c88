"""How corpora write words: in columns, and with the Penn Treebank's escapes."""

import re
from typing import List

# Not any white space: a no-break space belongs to its word.
_BETWEEN_COLUMNS = re.compile(r"[ \t]+")

_BRACKETS = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"}


def split_columns(line: str) -> List[str]:
    """The columns of a line, which spaces or tabs separate. A blank line has none."""
    # A line of nothing but other white space is blank, too: every word has a property.
    return _BETWEEN_COLUMNS.split(line.strip(" \t\r\n")) if line.strip() else []


def unescape(token: str) -> str:
    """A token as it is written in plain text: `(` for `-LRB-`, `and/or` for `and\\/or`."""
    return _BRACKETS.get(token) or re.sub(r"\\([/*])", r"\1", token)
