"""Files with a word a line, its properties in columns, and a blank line after each sentence."""

import re
from typing import List

# Not any white space: a no-break space belongs to its word.
_BETWEEN_COLUMNS = re.compile(r"[ \t]+")


def split_columns(line: str) -> List[str]:
    """The columns of a line, which spaces or tabs separate. A blank line has none."""
    # A line of other white space alone is blank, too: no word stands without a property.
    return _BETWEEN_COLUMNS.split(line.strip(" \t\r\n")) if line.strip() else []
