import pytest

from elmo_plugin.embedding.shards import Shard, cut


@pytest.mark.parametrize("num_lines, sizes", [(0, []), (1, [1]), (3, [3]), (7, [3, 3, 1])])
def test_a_text_is_cut_into_shards_without_losing_a_line(num_lines, sizes):
    lines = [str(number) for number in range(num_lines)]
    shards = list(cut(iter(lines), 3))
    assert [len(shard.sentences) for shard in shards] == sizes
    assert [sentence for shard in shards for sentence in shard.sentences] == lines
    assert [(shard.number, shard.first_line) for shard in shards] == [(n, 3 * n) for n in range(len(sizes))]


def test_no_more_is_read_than_a_shard():
    read = []
    next(cut((read.append(number) or str(number) for number in range(100)), 5))
    assert len(read) == 5


def test_a_digest_tells_texts_apart():
    digests = {Shard(0, 0, sentences).digest() for sentences in (["a", "b"], ["a b"], ["ab"], ["a", "b", ""], ["a"])}
    assert len(digests) == 5
    assert Shard(0, 0, ["a"]).digest() == Shard(7, 70, ["a"]).digest()


def test_a_shard_is_named_by_its_lines_as_an_editor_counts_them():
    assert str(Shard(1, 64, ["a", "b"])) == "lines 65 to 66"
