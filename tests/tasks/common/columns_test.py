from elmo_plugin.tasks.common.columns import sentence_rows


def test_rows_know_their_place_and_blank_lines_or_separators_end_a_sentence(tmp_path):
    path = str(tmp_path / "a.txt")
    (tmp_path / "a.txt").write_text("Ada  O\nleft\tO\n\n \n-X- O\nBo O\n-X- O\nCy O")
    sentences = list(sentence_rows(path, lambda columns: columns[0] == "-X-"))
    assert [[row.columns for row in rows] for rows in sentences] == [
        [["Ada", "O"], ["left", "O"]],
        [["Bo", "O"]],
        [["Cy", "O"]],
    ]
    assert [rows[0].place for rows in sentences] == [f"{path}, line {number}" for number in (1, 6, 8)]
