import gzip

import pytest
from allennlp.common.checks import ConfigurationError

from elmo_plugin.tasks.srl.conll import BracketError, Frame, brackets_to_tags, read_sentences


def line(word, *columns, part_of_speech="NN", frameset="-", separator="   "):
    lemma = "-" if frameset == "-" else word
    before = ["doc", "0", "0", word, part_of_speech, "*", lemma, frameset, "-", "-", "*"]
    return separator.join([*before, *columns, "-"]) + "\n"


ADA_MET_BO = line("Ada", "(ARG0*)") + line("met", "(V*)", part_of_speech="VBD", frameset="01") + line("Bo", "(ARG1*)")
QUIET = line("Quiet") + line("!")


@pytest.fixture
def write(tmp_path):
    def write(text, name="file.gold_conll"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
        return str(path)

    return write


def test_brackets_become_bio():
    brackets = "(ARG1* *) (V*) (C-ARG1* * *) (R-ARG1*) (R-ARG1*) *".split()
    expected = "B-ARG1 I-ARG1 B-V B-C-ARG1 I-C-ARG1 I-C-ARG1 B-R-ARG1 B-R-ARG1 O"
    assert brackets_to_tags(brackets) == expected.split()


@pytest.mark.parametrize(
    "brackets, index, message",
    [
        ("* *)", 1, "closes an argument, but none is open"),
        ("* (ARG0* *", 1, r"the argument \(ARG0 is never closed"),
        ("* (ARG0)", 1, r"expected .* got '\(ARG0\)'"),
        ("(* *)", 0, r"got '\(\*'"),
        ("(A*(B*))", 0, "expected"),
    ],
)
def test_broken_brackets_are_found(brackets, index, message):
    with pytest.raises(BracketError, match=message) as error:
        brackets_to_tags(brackets.split())
    assert error.value.index == index


@pytest.mark.parametrize(
    "brackets, tags",
    [
        ("(ARGM-PRD(R-ARG2*) * *) (V*)", "B-ARGM-PRD I-ARGM-PRD I-ARGM-PRD B-V"),
        ("(V*) (ARG1* (C-ARG1*) *)", "B-V B-ARG1 I-ARG1 I-ARG1"),
        ("(ARG1* (ARG2* (ARG3*)) (ARG4*)) (V*)", "B-ARG1 I-ARG1 I-ARG1 I-ARG1 B-V"),
        ("(ARG1(ARG2*)) (V*)", "B-ARG1 B-V"),
        # The predicate is what the column is about.
        ("(ARG1(ARG0*) (V*) *)", "B-ARG0 B-V O"),
        ("(ARG1* (V*) *) (ARG2*)", "O B-V O B-ARG2"),
        ("- (V*) -", "O B-V O"),
    ],
)
def test_of_nested_arguments_the_outermost_is_kept_unless_it_is_around_the_predicate(brackets, tags):
    assert brackets_to_tags(brackets.split()) == tags.split()


def test_nested_arguments_are_counted_in_one_warning(write, caplog):
    nested = line("Ada", "(ARG0(R-ARG1*)") + line("Byron", "*)") + line("met", "(V*)")
    path = write(QUIET + "\n" + nested + "\n" + nested)
    assert len(list(read_sentences(path))) == 3
    (warning,) = caplog.messages
    assert f"{path}: left out 2 arguments nested in others" in warning and f"first is at {path}:4" in warning


def test_a_sentence_has_words_parts_of_speech_and_frames(write):
    (sentence,) = read_sentences(write(ADA_MET_BO))
    assert sentence.words == ["Ada", "met", "Bo"]
    assert sentence.parts_of_speech == ["NN", "VBD", "NN"]
    assert sentence.frames == [Frame(1, ["B-ARG0", "B-V", "B-ARG1"])]


@pytest.mark.parametrize("end", ["", "\n", "\n\n#end document\n"])
def test_sentences_are_told_apart_by_blank_lines_and_documents(write, end):
    path = write("#begin document (doc); part 000\n" + ADA_MET_BO + "\n\n" + QUIET + end)
    sentences = list(read_sentences(path))
    assert [sentence.words for sentence in sentences] == [["Ada", "met", "Bo"], ["Quiet", "!"]]
    assert [sentence.place for sentence in sentences] == [f"{path}:2", f"{path}:7"]


def test_a_hash_sign_can_be_a_word_of_a_document_named_with_one(write):
    (sentence,) = read_sentences(write(line("#").replace("doc", "#1")))
    assert sentence.words == ["#"]


def test_columns_may_be_separated_by_tabs_and_words_may_hold_other_spaces(write):
    (sentence,) = read_sentences(write(line("10\u00a0000", separator="\t")))
    assert sentence.words == ["10\u00a0000"]


def test_the_frameset_tells_the_predicate_of_a_column(write):
    text = line("cross", "(V*") + line("reference", "*)", frameset="01")
    (sentence,) = read_sentences(write(text))
    assert sentence.frames == [Frame(1, ["B-V", "I-V"])]


def test_without_framesets_the_brackets_do(write):
    (sentence,) = read_sentences(write(line("Ada", "(ARG0*)") + line("met", "(V*)")))
    assert sentence.frames[0].predicate_index == 1


def test_a_frameset_elsewhere_than_v_isnt_the_columns(write):
    text = line("Ada", "(ARG0*)", frameset="01") + line("met", "(V*)")
    assert next(read_sentences(write(text))).frames[0].predicate_index == 1


def test_a_frameset_may_stand_at_the_second_piece_of_v(write):
    text = line("flip", "(V*)") + line("-", "*") + line("flopped", "(C-V*)", frameset="01")
    assert next(read_sentences(write(text))).frames == [Frame(2, ["B-V", "O", "B-C-V"])]


def test_an_empty_column_without_frameset_is_passed_over_and_counted(write, caplog):
    path = write(ADA_MET_BO + "\n" + line("Yes", "*") + "\n" + line("Ada", "(ARG0*)", "*") + line("met", "(V*)", "*"))
    assert [len(sentence.frames) for sentence in read_sentences(path)] == [1, 0, 1]
    (warning,) = caplog.messages
    assert f"{path}: left out 2 columns of arguments that mark no predicate" in warning
    assert f"first is at {path}:5" in warning


def test_a_frameset_without_arguments_is_a_predicate(write):
    assert next(read_sentences(write(line("Go", "*", frameset="01")))).frames == [Frame(0, ["O"])]


def test_a_file_none_of_whose_columns_marks_a_predicate_is_refused(write):
    path = write(line("Ada", "(ARG0*)") + line("met", "*"))
    with pytest.raises(ConfigurationError, match=f"{path}: no column of arguments marks a predicate"):
        list(read_sentences(path))


def test_all_files_below_a_folder_are_read_in_order_gzipped_or_not(write, tmp_path):
    write(line("second"), "b/x.gold_conll")
    write(line("first"), "a/deep/y.gold_conll.gz")
    write("not a column file", "a/readme.txt")
    assert [sentence.words for sentence in read_sentences(str(tmp_path))] == [["first"], ["second"]]


def test_a_gzipped_file_is_known_by_its_content(write, tmp_path):
    write(ADA_MET_BO, "file.gz")
    (tmp_path / "file.gz").rename(tmp_path / "plainly_named")
    assert len(list(read_sentences(str(tmp_path / "plainly_named")))) == 1


@pytest.mark.parametrize("name", ["file.gold_conll", "file.gold_conll.gz"])
def test_broken_brackets_are_named_by_file_line_and_column(write, name):
    path = write(
        "#begin document (doc); part 000\n" + QUIET + "\n" + line("Ada", "(ARG0*)") + line("met", "(V*))"), name
    )
    with pytest.raises(ConfigurationError, match=rf"{path}, line 6: column 12: '\(V\*\)\)' closes an argument, but"):
        list(read_sentences(path))


def test_lines_of_another_length_are_named(write):
    path = write(line("Ada", "(ARG0*)") + line("met"))
    with pytest.raises(ConfigurationError, match=f"{path}, line 2: expected 13 columns .* got 12"):
        list(read_sentences(path))


def test_other_files_are_refused(write, tmp_path):
    with pytest.raises(ConfigurationError, match="line 1: expected the 11 columns of CoNLL-2012.* got 2"):
        list(read_sentences(write("Ada B-PER\n")))
    with pytest.raises(ConfigurationError, match="holds no sentence"):
        list(read_sentences(write("\n\n")))
    with pytest.raises(ConfigurationError, match="no file or folder"):
        list(read_sentences(str(tmp_path / "missing")))
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigurationError, match="no file whose name ends with gold_conll or gold_conll.gz"):
        list(read_sentences(str(tmp_path / "empty")))


def test_bytes_that_arent_text_are_named(tmp_path):
    path = tmp_path / "file.gold_conll"
    path.write_bytes(ADA_MET_BO.encode() + b"\n\xff\xfe\n")
    with pytest.raises(ConfigurationError, match=":5: this line isn't UTF-8"):
        list(read_sentences(str(path)))
    truncated = tmp_path / "file.gold_conll.gz"
    truncated.write_bytes(gzip.compress(ADA_MET_BO.encode() * 50)[:-20])
    with pytest.raises(ConfigurationError, match=r"file.gold_conll.gz:\d+: the gzip data is cut off"):
        list(read_sentences(str(truncated)))
