import sys

import pytest


@pytest.fixture(scope="module")
def results_on_path(root):
    """The repository's root among the paths that modules are imported from: results/ isn't installed."""
    sys.path.insert(0, str(root))
    yield
    sys.path.remove(str(root))
