import copy
import logging
import re

import pytest
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader
from allennlp.data.dataset_readers.dataset_reader import WorkerInfo
from allennlp.data.token_indexers import SingleIdTokenIndexer

from elmo_plugin.tasks.ner import NerReader

FOUR_COLUMNS = """-DOCSTART- -X- -X- O

Ada NNP I-NP I-PER
Byron NNP I-NP I-PER
met VBD I-VP O
Bo NNP I-NP I-PER
Cy NNP B-NP B-PER

-DOCSTART- -X- -X- O

Nobody NN I-NP O
came VBD I-VP O
"""


@pytest.fixture
def write(tmp_path):
    def write(text, name="data.txt"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8"))
        return str(path)

    return write


def read(path, **kwargs):
    """The words and tags of each sentence."""
    instances = NerReader(**kwargs).read(path)
    return [([token.text for token in each["tokens"]], each["tags"].labels) for each in instances]


def test_four_columns_are_read_and_converted_to_the_scheme_asked_for(write):
    assert read(write(FOUR_COLUMNS)) == [
        (["Ada", "Byron", "met", "Bo", "Cy"], ["B-PER", "L-PER", "O", "U-PER", "U-PER"]),
        (["Nobody", "came"], ["O", "O"]),
    ]


def test_two_columns_separated_by_tabs_are_read(write):
    assert read(write("Ada\tB-PER\nByron\tI-PER\n"), coding_scheme="BIO") == [(["Ada", "Byron"], ["B-PER", "I-PER"])]


@pytest.mark.parametrize(
    "text",
    ["Ada I-PER\nByron I-PER\n", "Ada B-PER\nByron I-PER\n", "Ada B-PER\nByron L-PER\n"],
    ids=["IOB1", "BIO", "BIOUL"],
)
@pytest.mark.parametrize(
    "coding_scheme, tags", [("IOB1", "I-PER I-PER"), ("BIO", "B-PER I-PER"), ("BIOUL", "B-PER L-PER")]
)
def test_a_files_scheme_is_found_out(write, text, coding_scheme, tags):
    assert read(write(text), coding_scheme=coding_scheme) == [(["Ada", "Byron"], tags.split())]


def test_sentences_before_the_first_entity_dont_tell_the_scheme(write):
    text = "Nobody O\n\nAda I-PER\n"
    assert [tags for _, tags in read(write(text), coding_scheme="BIO")] == [["O"], ["B-PER"]]


def test_a_document_start_ends_a_sentence_even_without_blank_lines(write):
    assert [words for words, _ in read(write("Ada B-PER\n-DOCSTART- O\nleft O\n"))] == [["Ada"], ["left"]]


def test_windows_line_ends_a_byte_order_mark_and_spaces_at_the_end_do_no_harm(write):
    text = "\ufeffAda B-PER\r\n \r\nleft O \r\n"
    assert [words for words, _ in read(write(text))] == [["Ada"], ["left"]]


def test_a_no_break_space_belongs_to_its_token(write):
    assert read(write("10\u00a0000 O\n"))[0][0] == ["10\u00a0000"]


@pytest.mark.parametrize(
    "text, message",
    [
        ("Ada B-PER\n\nleft O\nOslo X-LOC\n", "line 4: 'X-LOC' isn't a tag of the scheme BIO.*set .* file_scheme"),
        ("Ada B-PER\n\nOslo U-LOC\n", "line 3: 'U-LOC' isn't a tag of the scheme BIO"),
        ("Ada U-PER\n\nleft O\nOslo L-LOC\n", "line 4: 'L-LOC' is where BIOUL has 'U-LOC'"),
        ("Ada U-PER\n\nOslo B-LOC\n", "line 3: 'B-LOC' is where BIOUL has 'U-LOC'"),
        ("Ada X-PER\n", "line 1: 'X-PER' isn't a tag.*one of BIO, IOB1, BIOUL.*tag_column"),
        ("Ada NNP B-PER\nleft O\n", "line 2: expected 3 columns as in the lines before.*got 2: 'left O'"),
        ("Ada\n", "line 1: expected a token and its tag.*got 1: 'Ada'"),
        ("", "holds no sentence"),
        ("-DOCSTART- O\n\n# nothing else\n", "holds no sentence"),
        (b"Ada B-PER\nOsl\xf8 O\n", ":2: this line isn.t UTF-8.*at byte 3.*0xf8.*Set the reader's encoding"),
    ],
)
def test_what_is_wrong_in_a_file_is_named_with_its_line(write, text, message):
    with pytest.raises(ConfigurationError, match=f"data.txt.*{message}"):
        read(write(text))


@pytest.mark.parametrize(
    "text, scheme, tags",
    [
        # As in eng.train: an IOB1 file with two entities that begin with B after O.
        ("a I-X\n\nb O\nc B-X\nd I-X\n\ne B-Y\n\nf I-X\ng B-X\n\nh I-X", "IOB1", "B-X/O B-X I-X/B-Y/B-X B-X/B-X"),
        # As in esp.train: BIO with an I at the beginning of a sentence, and one after another type.
        ("a I-X\nb I-X\n\nc B-X\nd I-Y\n\ne B-X\n\nf B-Y", "BIO", "B-X I-X/B-X B-Y/B-X/B-Y"),
    ],
)
def test_tags_that_their_scheme_has_otherwise_are_read_as_conlleval_does_and_counted(write, caplog, text, scheme, tags):
    with caplog.at_level(logging.WARNING):
        sentences = read(write(text), coding_scheme="BIO")
    assert "/".join(" ".join(tags) for _, tags in sentences) == tags
    (warning,) = caplog.messages
    assert re.search(f"data.txt: 2 of . entities don't begin as in {scheme}, the first at line", warning)


def test_regular_files_have_no_warning(write, caplog):
    with caplog.at_level(logging.WARNING):
        read(write("Ada B-PER\nByron I-PER\nBo B-PER\n"))
        read(write("Ada I-PER\nByron I-PER\nBo B-PER\n"))
        read(write("Ada B-PER\nByron L-PER\nBo U-PER\n"))
    assert not caplog.messages


def test_a_configured_scheme_is_held_against_the_file(write, caplog):
    with caplog.at_level(logging.WARNING):
        assert read(write("Ada I-PER\n"), file_scheme="BIO") == [(["Ada"], ["U-PER"])]
    assert "1 of 1 entities don't begin as in BIO, the first at line 1" in caplog.text
    with pytest.raises(ConfigurationError, match="line 1: 'U-PER' isn't a tag of the scheme IOB1"):
        read(write("Ada U-PER\n"), file_scheme="IOB1")


GERMEVAL = """\
#\thttp://de.wikipedia.org/wiki/Amsel [2009-10-17]
1\tDie\tO\tO
2\tAmselhofer\tB-LOCderiv\tB-LOC
3\tTante\tO\tO

#\thttp://de.wikipedia.org/wiki/Drossel [2010-01-02]
1\t#\tO\tO
2\tDrosselberg\tB-ORG\tB-LOC
3\tAG\tI-ORG\tO
"""


def test_numbered_words_and_comments_as_in_germeval(write):
    path = write(GERMEVAL)
    assert read(path) == [
        (["Die", "Amselhofer", "Tante"], ["O", "U-LOCderiv", "O"]),
        (["#", "Drosselberg", "AG"], ["O", "B-ORG", "L-ORG"]),
    ]
    assert [tags for _, tags in read(path, tag_column=-1)] == [["O", "U-LOC", "O"], ["O", "U-LOC", "O"]]


def test_a_sentence_of_one_word_doesnt_tell_whether_words_are_numbered(write):
    assert [words for words, _ in read(write("1 one O\n\n1 two O\n2 three O\n"))] == [["one"], ["two", "three"]]
    assert [words for words, _ in read(write("1 CD O\n\n1 CD O\nhen NN O\n"))] == [["1"], ["1", "hen"]]


def test_hashes_and_hashtags_are_tokens(write):
    text = "# 12 CD\n#oslo NN B-LOC\n# SYM O\n# SYM O\n\n# SYM O\n1 CD O\n"
    assert [words for words, _ in read(write(text))] == [["#oslo", "#", "#"], ["#", "1"]]


def test_a_space_may_belong_to_a_token_between_tabs(write):
    assert read(write("Ada\tB-PER\n10 000\tO\n"))[0][0] == ["Ada", "10 000"]


def test_columns_may_be_given(write):
    path = write("B-PER Ada NNP\nO left VBD\n")
    assert read(path, token_column=1, tag_column=0) == [(["Ada", "left"], ["U-PER", "O"])]
    with pytest.raises(ConfigurationError, match="line 1: the reader's tag_column is 3, but there are 3 columns"):
        read(path, tag_column=3)


def test_a_file_in_another_encoding_is_read_if_that_is_named(write):
    path = write("Núñez B-PER\nvio O\nÁvila B-LOC\n".encode("latin-1"))
    assert read(path, encoding="latin-1")[0][0] == ["Núñez", "vio", "Ávila"]


@pytest.mark.parametrize("argument", ["coding_scheme", "file_scheme"])
def test_an_unknown_scheme_is_refused(argument):
    with pytest.raises(ConfigurationError, match="no tag scheme 'IOBES'"):
        NerReader(**{argument: "IOBES"})


def test_workers_share_the_sentences_and_agree_on_the_scheme(write):
    # Only the first sentence shows that the second one's tags are in IOB1.
    path = write("Ada I-PER\n\nBo I-PER\nCy B-PER\n\nNobody O\n")
    shards = []
    for worker in range(2):
        reader = NerReader(coding_scheme="BIO")
        reader._set_worker_info(WorkerInfo(2, worker))
        shards.append([each["tags"].labels for each in reader.read(path)])
    assert shards == [[["B-PER"], ["O"]], [["B-PER", "B-PER"]]]


def test_text_is_tokenised_and_knows_its_places():
    instance = NerReader().text_to_instance("Ada left Oslo.")
    assert [(token.text, token.idx) for token in instance["tokens"]] == [
        ("Ada", 0),
        ("left", 4),
        ("Oslo", 9),
        (".", 13),
    ]
    assert instance["metadata"]["sentence"] == "Ada left Oslo."
    assert "tags" not in instance.fields


def test_a_folder_in_a_files_place_is_named(tmp_path):
    with pytest.raises(ConfigurationError, match=f"{tmp_path} is a folder; expected a file"):
        read(str(tmp_path))


def test_it_is_registered_and_indexes_tokens(write):
    params = {"type": "elmo::ner", "token_indexers": {"words": {"type": "single_id"}}}
    reader = DatasetReader.from_params(Params(copy.deepcopy(params)))
    instance = next(iter(reader.read(write("Ada B-PER\n"))))
    reader.apply_token_indexers(instance)
    assert isinstance(instance["tokens"].token_indexers["words"], SingleIdTokenIndexer)
