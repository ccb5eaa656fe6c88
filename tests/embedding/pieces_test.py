import pytest

from elmo_plugin.embedding.pieces import cut


@pytest.mark.parametrize("num_lines, sizes", [(0, []), (1, [1]), (3, [3]), (7, [3, 3, 1])])
def test_a_text_is_cut_into_pieces_without_losing_a_line(num_lines, sizes):
    lines = [str(number) for number in range(num_lines)]
    pieces = list(cut(iter(lines), 3, first_line=30))
    assert [len(piece.sentences) for piece in pieces] == sizes
    assert [sentence for piece in pieces for sentence in piece.sentences] == lines
    assert [(piece.number, piece.first_line) for piece in pieces] == [(n, 30 + 3 * n) for n in range(len(sizes))]


def test_no_more_is_read_than_a_piece():
    read = []
    next(cut((read.append(number) or str(number) for number in range(100)), 5))
    assert len(read) == 5
