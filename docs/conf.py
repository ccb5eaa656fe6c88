"""Sphinx's settings. `make docs` builds the site; see docs/index.md for what is in it."""

import re
from pathlib import Path

_setup = (Path(__file__).resolve().parent.parent / "setup.cfg").read_text(encoding="utf-8")

project = "elmo-plugin"
author = "the authors of elmo-plugin"
version = release = re.search(r"^version = (.+)$", _setup, flags=re.M)[1]  # type: ignore[index]

extensions = ["myst_parser"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
# The included RESULTS.md begins with headings of its own level, and links to files beside the docs.
suppress_warnings = ["myst.header"]
exclude_patterns = ["generate.py"]
html_theme = "furo"
html_title = "elmo-plugin"
html_show_sphinx = False
nitpicky = True
