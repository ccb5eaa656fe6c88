import gzip

import pytest


@pytest.mark.parametrize("content", [gzip.compress(b"holds the second it was made in")])
def test_bytes_are_not_part_of_a_test_s_name(content, request):
    assert request.node.name.endswith("[content]")
