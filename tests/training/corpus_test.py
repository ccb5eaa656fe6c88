import gzip
import itertools
import logging
import os

import pytest
from allennlp.common.checks import ConfigurationError
from hypothesis import given, settings
from hypothesis import strategies as st

from elmo_plugin.training.corpus import SentenceOrder, TextFiles, find_shards

TEXT = "the cat sat\n\na dog barked loudly\n \t \nNaïve 日本\n"
SENTENCES = [["the", "cat", "sat"], ["a", "dog", "barked", "loudly"], ["Naïve", "日本"]]


def write(path, text):
    data = text.encode("utf-8")
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return str(path)


def test_blank_lines_are_skipped_and_words_split_at_white_space(tmp_path):
    assert list(TextFiles(write(tmp_path / "text.txt", TEXT)).sentences()) == SENTENCES


def test_gzipped_text_reads_as_plain_text_does_whatever_its_name(tmp_path):
    plain = list(TextFiles(write(tmp_path / "text.txt", TEXT)).sentences())
    assert list(TextFiles(write(tmp_path / "text.txt.gz", TEXT)).sentences()) == plain
    unnamed = tmp_path / "unnamed"
    unnamed.write_bytes(gzip.compress(TEXT.encode("utf-8")))
    assert list(TextFiles(unnamed).sentences()) == plain


def test_only_a_newline_ends_a_line(tmp_path):
    path = write(tmp_path / "text.txt", "a\u2028b\x85c\x0bd\re\r\nf")
    assert list(TextFiles(path).sentences()) == [["a", "b", "c", "d", "e"], ["f"]]


def test_a_byte_order_mark_is_no_part_of_the_first_word(tmp_path):
    assert list(TextFiles(write(tmp_path / "text.txt", "\ufeffa b\n")).sentences()) == [["a", "b"]]


def test_a_folder_a_glob_and_a_list_stand_for_the_same_shards(tmp_path):
    shards = [write(tmp_path / name, TEXT) for name in ("a.txt", "b.txt.gz", "c.txt")]
    write(tmp_path / ".hidden", TEXT)
    (tmp_path / "subfolder").mkdir()
    assert find_shards(tmp_path) == shards
    assert find_shards(str(tmp_path / "*.txt*")) == shards
    assert find_shards([shards[0], str(tmp_path / "[bc].*")]) == shards


def test_a_recursive_glob_reaches_subfolders(tmp_path):
    (tmp_path / "subfolder").mkdir()
    shard = write(tmp_path / "subfolder" / "a.txt", TEXT)
    assert find_shards(str(tmp_path / "**" / "*.txt")) == [shard]


def test_a_file_whose_name_looks_like_a_glob_is_that_file(tmp_path):
    shard = write(tmp_path / "text[1].txt", TEXT)
    assert find_shards(shard) == [shard]


@pytest.mark.parametrize(
    "name, message",
    [("missing.txt", "missing.txt: no such file"), ("*.missing", "no file matches"), ("", "no files directly in it")],
)
def test_a_path_without_text_is_refused_by_name(tmp_path, name, message):
    with pytest.raises(ConfigurationError, match=message):
        find_shards(str(tmp_path / name))


@pytest.mark.parametrize("data_path", [None, [], {"train": "x"}, 3])
def test_what_is_no_path_is_refused(data_path):
    with pytest.raises(ConfigurationError, match="a corpus is a path"):
        find_shards(data_path)


def test_a_shard_named_twice_is_refused(tmp_path):
    shard = write(tmp_path / "a.txt", TEXT)
    with pytest.raises(ConfigurationError, match="a.txt more than once"):
        find_shards([shard, str(tmp_path / "*.txt")])


@pytest.mark.parametrize("use", [lambda source: source.sentences(), lambda source: source.lengths()])
def test_a_corpus_without_sentences_is_refused_by_name(tmp_path, use):
    source = TextFiles(write(tmp_path / "blank.txt", "\n \n"))
    with pytest.raises(ConfigurationError, match="blank.txt: it has no sentences"):
        list(use(source))


def test_a_long_sentence_is_split_and_the_log_says_so(tmp_path, caplog):
    source = TextFiles(write(tmp_path / "text.txt", "a b c d e\nf g\nh i j k\n"), max_sentence_length=2)
    with caplog.at_level(logging.INFO):
        sentences = list(source.sentences())
    assert sentences == [["a", "b"], ["c", "d"], ["e"], ["f", "g"], ["h", "i"], ["j", "k"]]
    assert "split 2 sentences of more than 2 words" in caplog.text


def test_a_maximum_length_below_one_is_refused(tmp_path):
    with pytest.raises(ConfigurationError, match="max_sentence_length has to be at least 1, got 0"):
        TextFiles(write(tmp_path / "text.txt", TEXT), max_sentence_length=0)


def numbered_shards(sizes):
    numbers = itertools.count()
    return [[next(numbers) for _ in range(size)] for size in sizes]


@given(st.lists(st.integers(0, 12), min_size=1, max_size=5), st.integers(0, 5), st.integers(0, 5), st.integers(1, 20))
@settings(max_examples=100, deadline=None)
def test_shuffling_loses_and_repeats_nothing(sizes, seed, epoch, buffer_size):
    shards = numbered_shards(sizes)
    arranged = list(SentenceOrder(True, seed, epoch, buffer_size).arrange(shards, iter))
    assert sorted(arranged) == list(range(sum(sizes)))
    assert arranged == list(SentenceOrder(True, seed, epoch, buffer_size).arrange(shards, iter))


def test_the_order_depends_on_seed_and_epoch():
    shards = numbered_shards([30, 30])
    orders = {tuple(SentenceOrder(True, *key, 1000).arrange(shards, iter)) for key in ((1, 0), (1, 1), (2, 0), (0, 1))}
    assert len(orders) == 4


def test_shards_come_in_another_order_and_mix_at_their_borders():
    shards = numbered_shards([100] * 5)
    firsts, mixed = set(), False
    for epoch in range(10):
        arranged = list(SentenceOrder(True, 0, epoch, 30).arrange(shards, iter))
        shard_of = [number // 100 for number in arranged]
        firsts.add(shard_of[0])
        mixed |= len(list(itertools.groupby(shard_of))) > 5
    assert len(firsts) > 1
    assert mixed


def test_the_stretches_that_are_shuffled_begin_elsewhere_in_each_epoch():
    numbers = list(range(20))
    firsts = {frozenset(list(SentenceOrder(True, 0, epoch, 10).arrange([numbers], iter))[:10]) for epoch in range(10)}
    assert len(firsts) > 1


def test_a_corpus_smaller_than_the_buffer_is_fully_shuffled():
    numbers = list(range(50))
    first = [next(SentenceOrder(True, 0, epoch, 10_000).arrange([numbers], iter)) for epoch in range(200)]
    assert len(set(first)) > 40


def test_without_shuffling_the_order_is_that_of_the_files():
    assert list(SentenceOrder(False, 3, 1, 2).arrange(numbered_shards([3, 0, 4]), iter)) == list(range(7))


def test_shuffling_reads_no_further_ahead_than_its_buffer():
    num_read = 0

    def read(shard):
        nonlocal num_read
        for item in shard:
            num_read += 1
            yield item

    for num_given, _ in enumerate(SentenceOrder(True, 0, 0, 10).arrange([range(500)] * 4, read)):
        assert num_read - num_given <= 10


def test_ranks_get_disjoint_sentences_that_together_are_all(tmp_path):
    source = TextFiles(write(tmp_path / "text.txt", "".join(f"{n}\n" for n in range(25))))
    order = SentenceOrder(True, 1, 2, 7)
    parts = [[words[0] for words in source.sentences(order, rank, 3)] for rank in range(3)]
    assert sorted(itertools.chain(*parts), key=int) == [str(n) for n in range(25)]
    assert [len(part) for part in parts] == [9, 8, 8]


def test_lengths_come_in_the_order_of_the_sentences(tmp_path):
    for name, first in (("a.txt", 1), ("b.txt.gz", 9)):
        write(tmp_path / name, "".join("w " * n + "\n" for n in range(first, first + 8)))
    source = TextFiles(tmp_path, max_sentence_length=5)
    for order in (SentenceOrder(), SentenceOrder(True, 4, 1, 3), SentenceOrder(True, 4, 2, 30)):
        lengths = list(itertools.chain(*source.lengths(order)))
        assert lengths == [len(words) for words in source.sentences(order)]


def test_lengths_are_measured_only_once(tmp_path, monkeypatch):
    source = TextFiles(write(tmp_path / "text.txt", TEXT))
    assert list(source.lengths()) == [[3], [4], [2]]
    monkeypatch.setattr(source, "scan", None)
    assert sorted(source.lengths(SentenceOrder(True))) == [[2], [3], [4]]


def test_a_file_changed_after_it_was_measured_is_refused(tmp_path):
    path = tmp_path / "text.txt"
    source = TextFiles(write(path, TEXT))
    list(source.lengths())
    write(path, TEXT + "one more\n")
    with pytest.raises(ConfigurationError, match="text.txt was changed"):
        list(source.sentences())


@pytest.mark.parametrize("change", ["grows", "shrinks", "vanishes"])
def test_a_file_that_changes_while_it_is_streamed_is_named(tmp_path, change):
    path = tmp_path / "text.txt"
    sentences = TextFiles(write(path, TEXT * 10_000)).sentences()
    next(sentences)
    if change == "vanishes":
        path.unlink()
    elif change == "shrinks":
        os.truncate(path, 100)
    else:
        with open(path, "a") as file:
            file.write("one more\n")
    with pytest.raises(ConfigurationError, match="text.txt (was changed|can't be read any more)"):
        list(sentences)


def test_a_file_gone_before_the_next_epoch_is_named(tmp_path):
    path = tmp_path / "text.txt"
    source = TextFiles(write(path, TEXT))
    list(source.sentences())
    path.unlink()
    with pytest.raises(ConfigurationError, match=r"text.txt can't be read any more \(No such file or directory\)"):
        list(source.sentences())
