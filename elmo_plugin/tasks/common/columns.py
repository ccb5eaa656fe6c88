"""Files with one word per line, its properties in columns, and a blank line after each sentence."""

import re
from typing import List

# Not any white space: a no-break space belongs to its word.
_BETWEEN_COLUMNS = re.compile(r"[ \t]+")


def split_columns(line: str) -> List[str]:
    """The columns of a line, which spaces or tabs separate. A blank line has none."""
    # A line of nothing but other white space is blank, too: every word has a property.
    return _BETWEEN_COLUMNS.split(line.strip(" \t\r\n")) if line.strip() else []
