import gzip
import threading
import time
from collections import Counter
from copy import deepcopy
from itertools import pairwise

import pytest
import torch
from allennlp.commands.evaluate import evaluate_from_archive
from allennlp.commands.train import TrainModel
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader
from allennlp.data.data_loaders import DataLoader
from allennlp.models import Model
from allennlp.models.archival import archive_model
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from elmo_plugin.characters import CharacterMapping, ElmoCharactersIndexer
from elmo_plugin.training.reader import BiLmReader
from elmo_plugin.training.vocabulary import BiLmVocabulary
from elmo_plugin.training.windows import Dealer, PackedWindows, prefetched

MAPPING = CharacterMapping()
WORDS = {MAPPING.ids(word): word for word in [*"abcdefg", *map(str, range(400))]}
WORDS.update({MAPPING.begin_sentence_ids: "<S>", MAPPING.end_sentence_ids: "</S>", (0,) * 50: "."})


def make(path, rank=0, world_size=1, **kwargs):
    loader = PackedWindows(BiLmReader(), str(path), **{"batch_size": 2, "num_steps": 4, "prefetch": 0, **kwargs})
    loader.rank, loader.world_size = rank, world_size
    loader.index_with(BiLmVocabulary.from_corpus(str(path)))
    return loader


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "corpus.txt"
    path.write_text("a b\nc d e f\ng\n")
    return path


def numbered(path, lengths):
    """A corpus in which no two words are the same."""
    first = 0
    with open(path, "w") as file:
        for length in lengths:
            print(*range(first, first + length), file=file)
            first += length
    return path


def inputs(batch, direction):
    words = [WORDS[tuple(ids)] for ids in batch["characters"].tolist()]
    return [" ".join(words[index] for index in row) for row in batch[f"{direction}_inputs"].tolist()]


def targets(batch, loader, direction):
    names = loader._word_ids._ids
    words = {index: word for word, index in names.items()}
    rows = zip(batch[f"{direction}_targets"].tolist(), batch["mask"].tolist(), strict=True)
    return [" ".join(words[index] if real else "." for index, real in zip(*row, strict=True)) for row in rows]


def assert_same(batches, others):
    batches, others = list(batches), list(others)
    assert len(batches) == len(others)
    for batch, other in zip(batches, others, strict=True):
        assert batch.keys() == other.keys()
        for name in batch:
            assert torch.equal(batch[name], other[name]), name


def test_windows_of_three_sentences_by_hand(corpus):
    loader = make(corpus, shuffle=False)
    first, second = loader
    # Row 0 takes "a b" (3 positions) and, being one short, "c d e f" (5); row 1 takes "g" (2), and that's all there is.
    assert inputs(first, "forward") == ["<S> a b <S>", "<S> g . ."]
    assert targets(first, loader, "forward") == ["a b </S> c", "g </S> . ."]
    assert inputs(first, "backward") == ["</S> b a </S>", "</S> g . ."]
    assert targets(first, loader, "backward") == ["b a <S> f", "g <S> . ."]
    assert first["mask"].tolist() == [[True, True, True, True], [True, True, False, False]]
    assert first["sentence_starts"].tolist() == [[True, False, False, True], [True, False, False, False]]

    assert inputs(second, "forward") == ["c d e f", ". . . ."]
    assert targets(second, loader, "forward") == ["d e f </S>", ". . . ."]
    assert inputs(second, "backward") == ["f e d c", ". . . ."]
    assert targets(second, loader, "backward") == ["e d c <S>", ". . . ."]
    assert second["mask"].tolist() == [[True] * 4, [False] * 4]
    assert not second["sentence_starts"].any()


def test_types_and_shapes_of_a_batch(corpus):
    batch = next(iter(make(corpus, shuffle=False)))
    assert {name: (tensor.dtype, tuple(tensor.shape)) for name, tensor in batch.items()} == {
        "characters": (torch.int64, (1 + len("<S> a b </S> g".split()), 50)),
        "forward_inputs": (torch.int64, (2, 4)),
        "backward_inputs": (torch.int64, (2, 4)),
        "forward_targets": (torch.int64, (2, 4)),
        "backward_targets": (torch.int64, (2, 4)),
        "mask": (torch.bool, (2, 4)),
        "sentence_starts": (torch.bool, (2, 4)),
    }
    assert not batch["characters"][0].any()
    assert not batch["forward_targets"][~batch["mask"]].any()


def test_a_word_has_one_entry_of_characters_however_often_it_is_read(tmp_path):
    (tmp_path / "corpus.txt").write_text("a a a a\na a\n")
    batch = next(iter(make(tmp_path / "corpus.txt", shuffle=False)))
    assert len(batch["characters"]) == 4  # padding, <S>, a, </S>


def test_words_that_look_like_boundaries_stay_words_under_a_strict_mapping(tmp_path):
    (tmp_path / "corpus.txt").write_text("<S> a\n")
    indexer = ElmoCharactersIndexer(strict=True)
    loader = PackedWindows(BiLmReader({"elmo": indexer}), str(tmp_path / "corpus.txt"), 1, 3, prefetch=0)
    loader.index_with(BiLmVocabulary.from_corpus(str(tmp_path / "corpus.txt")))
    batch = next(iter(loader))
    assert len(batch["forward_inputs"].unique()) == 3
    assert batch["characters"][batch["forward_inputs"][0, 1]].tolist() == list(indexer.mapping.ids("<S>"))


def test_a_sentence_may_fill_many_windows(tmp_path):
    loader = make(numbered(tmp_path / "corpus.txt", [30]), batch_size=1, shuffle=False)
    rows = [inputs(batch, "backward")[0].split() for batch in loader]
    assert sum(rows, []) == ["</S>", *map(str, reversed(range(30))), "."]


@given(
    lengths=st.lists(st.integers(1, 12), min_size=1, max_size=25),
    batch_size=st.integers(1, 4),
    num_steps=st.integers(1, 6),
    world_size=st.integers(1, 3),
    shuffle=st.booleans(),
    seed=st.integers(0, 3),
    shuffle_buffer=st.integers(1, 30),
)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_each_position_comes_once_and_len_is_right_for_all_ranks(
    tmp_path, lengths, batch_size, num_steps, world_size, shuffle, seed, shuffle_buffer
):
    path = numbered(tmp_path / "corpus.txt", lengths)
    kwargs = dict(batch_size=batch_size, num_steps=num_steps, shuffle=shuffle, seed=seed, shuffle_buffer=shuffle_buffer)
    loaders = [make(path, rank, world_size, **kwargs) for rank in range(world_size)]
    expected = Counter(map(str, range(sum(lengths))))
    expected["</S>"] = expected["<S>"] = len(lengths)
    for _ in range(2):
        seen = {"forward": Counter(), "backward": Counter()}
        lens = {len(loader) for loader in loaders}
        assert len(lens) == 1
        for loader in loaders:
            batches = list(loader)
            assert {len(batches)} == lens
            for batch in batches:
                for direction in seen:
                    rows = targets(batch, loader, direction)
                    seen[direction].update(word for row in rows for word in row.split() if word != ".")
        assert seen["forward"] == expected - Counter({"<S>": len(lengths)})
        assert seen["backward"] == expected - Counter({"</S>": len(lengths)})


@given(st.lists(st.integers(1, 12), min_size=1, max_size=25), st.integers(1, 4), st.integers(1, 6))
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_two_streams_are_aligned_and_rows_go_on_from_batch_to_batch(tmp_path, lengths, batch_size, num_steps):
    loader = make(numbered(tmp_path / "corpus.txt", lengths), batch_size=batch_size, num_steps=num_steps)
    rows = {}
    for name in ("forward_inputs", "backward_inputs", "forward_targets", "backward_targets", "starts"):
        rows[name] = [[] for _ in range(batch_size)]
    for batch in loader:
        for direction in ("forward", "backward"):
            for row in range(batch_size):
                rows[f"{direction}_inputs"][row] += inputs(batch, direction)[row].split()
                rows[f"{direction}_targets"][row] += targets(batch, loader, direction)[row].split()
        for row, starts in enumerate(batch["sentence_starts"].tolist()):
            rows["starts"][row] += starts
    for row in range(batch_size):
        begins = [position for position, word in enumerate(rows["forward_inputs"][row]) if word == "<S>"]
        assert begins == [position for position, is_start in enumerate(rows["starts"][row]) if is_start]
        length = len(rows["forward_inputs"][row]) - rows["forward_inputs"][row].count(".")
        for begin, end in pairwise([*begins, length]):
            words = rows["forward_inputs"][row][begin + 1 : end]
            assert rows["forward_targets"][row][begin:end] == [*words, "</S>"]
            assert rows["backward_inputs"][row][begin:end] == ["</S>", *words[::-1]]
            assert rows["backward_targets"][row][begin:end] == [*words[::-1], "<S>"]


@pytest.mark.parametrize("world_size", [1, 2])
def test_resuming_at_any_batch_gives_the_rest_of_the_epoch(tmp_path, world_size):
    path = numbered(tmp_path / "corpus.txt", [3, 17, 1, 5, 9, 2, 2, 8, 30, 4])
    loader = make(path, 0, world_size)
    epochs = [list(loader), list(loader)]
    for epoch, batches in enumerate(epochs):
        for batch in range(len(batches) + 1):
            resumed = make(path, 0, world_size)
            resumed.set_position(epoch, batch)
            assert resumed.epoch == epoch
            assert len(resumed) == len(batches)
            assert_same(resumed, batches[batch:])
            assert resumed.epoch == epoch + 1
    assert_same(resumed, loader)


def test_skipped_batches_are_not_indexed(tmp_path, monkeypatch):
    path = numbered(tmp_path / "corpus.txt", [7] * 40)
    loader = make(path)
    seen = []
    classes = loader._classes
    monkeypatch.setattr(loader, "_classes", lambda words: seen.append(words) or classes(words))
    loader.set_position(0, len(loader) - 1)
    assert len(list(loader)) == 1
    assert len(seen) < 10


def test_a_position_beyond_the_epoch_is_refused(corpus):
    loader = make(corpus)
    loader.set_position(0, 3)
    with pytest.raises(ValueError, match="cannot start at batch 3: this epoch has 2 batches"):
        list(loader)
    with pytest.raises(ValueError, match="counted from 0"):
        loader.set_position(-1, 0)


def test_each_iteration_is_another_epoch_in_another_order(tmp_path):
    path = numbered(tmp_path / "corpus.txt", [3] * 30)
    loader = make(path)
    firsts = [next(iter(loader))["forward_targets"].tolist() for _ in range(4)]  # none read to its end
    assert len({str(first) for first in firsts}) == 4
    again = make(path)
    assert [list(again)[0]["forward_targets"].tolist() for _ in range(4)] == firsts


def test_the_epoch_is_the_one_being_read_and_then_the_next(corpus):
    loader = make(corpus)
    assert loader.epoch == 0
    batches = iter(loader)
    assert loader.epoch == 0
    next(batches)
    assert loader.epoch == 0
    list(batches)
    assert loader.epoch == 1
    iter(loader)
    assert loader.epoch == 1
    iter(loader)
    assert loader.epoch == 2


def test_without_shuffling_all_epochs_are_the_same(corpus):
    loader = make(corpus, shuffle=False)
    assert_same(loader, list(loader))


def test_gzipped_shards_give_the_same_windows_as_plain_ones(tmp_path):
    for name in ("plain", "zipped"):
        (tmp_path / name).mkdir()
    for shard in range(3):
        text = numbered(tmp_path / "plain" / f"{shard}.txt", [shard + 2, 5, 1]).read_bytes()
        (tmp_path / "zipped" / f"{shard}.txt.gz").write_bytes(gzip.compress(text))
    assert_same(make(tmp_path / "plain"), make(tmp_path / "zipped"))


def test_ranks_read_different_sentences_and_pad_to_equal_numbers_of_batches(tmp_path):
    path = numbered(tmp_path / "corpus.txt", [2, 20, 3, 15, 1])
    first, second = (make(path, rank, 2, batch_size=1, shuffle=False) for rank in range(2))
    batches = list(first), list(second)
    assert len(batches[0]) == len(batches[1]) == len(first) == 10  # 21 + 16 positions against 3 + 4 + 2
    for batch in batches[0][3:]:
        assert not batch["mask"].any()
        assert batch["characters"].shape == (1, 50)
    words = [
        {word for batch in part for word in inputs(batch, "forward")[0].split()} - {"<S>", "."} for part in batches
    ]
    assert not words[0] & words[1]
    assert len(words[0] | words[1]) == 41


def test_a_rank_without_any_sentence_gets_batches_all_the_same(tmp_path):
    loader = make(numbered(tmp_path / "corpus.txt", [5]), 1, 2)
    batches = list(loader)
    assert len(batches) == len(loader) == 2
    assert not any(batch["mask"].any() for batch in batches)


def test_prefetching_changes_nothing(tmp_path):
    path = numbered(tmp_path / "corpus.txt", [3, 17, 1, 5, 9])
    assert_same(make(path, prefetch=3), make(path, prefetch=0))


def prefetching_threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("elmo::windows")]


def test_a_prefetching_thread_ends_with_its_iterator(tmp_path):
    loader = make(numbered(tmp_path / "corpus.txt", [3] * 50), prefetch=2)
    batches = iter(loader)
    next(batches)
    assert prefetching_threads()
    batches.close()
    assert not prefetching_threads()
    list(loader)
    assert not prefetching_threads()


def test_an_error_while_prefetching_is_raised_where_batches_are_asked_for(tmp_path):
    path = numbered(tmp_path / "corpus.txt", [3] * 50)
    loader = make(path, prefetch=2, shuffle=False)
    path.write_bytes(path.read_bytes() + b"\xff\n")
    with pytest.raises(ConfigurationError, match="corpus.txt:51: this line isn't UTF-8"):
        list(loader)
    assert not prefetching_threads()


def test_no_more_is_prefetched_than_asked_for():
    made = []
    items = prefetched((made.append(n) or n for n in range(100)), 3)
    assert next(items) == 0
    time.sleep(0.1)
    assert len(made) == 1 + 3  # given, and waiting
    items.close()
    assert len(made) == 1 + 3


def test_batches_are_moved_to_the_device_asked_for(corpus):
    loader = make(corpus)
    loader.set_target_device(torch.device("meta"))
    assert {tensor.device.type for tensor in next(iter(loader)).values()} == {"meta"}


def test_a_loader_is_built_by_config_and_makes_no_instances(corpus):
    reader = DatasetReader.from_params(Params({"type": "elmo::bilm"}))
    params = Params({"type": "elmo::windows", "batch_size": 3, "num_steps": 5, "shuffle": False})
    loader = DataLoader.from_params(params, reader=reader, data_path=str(corpus))
    assert list(loader.iter_instances()) == []
    loader.index_with(BiLmVocabulary.from_corpus(str(corpus)))
    assert [tuple(batch["mask"].shape) for batch in loader] == [(3, 5)] * 2


def test_iterating_without_a_vocabulary_is_refused(corpus):
    with pytest.raises(ValueError, match="call index_with"):
        iter(PackedWindows(BiLmReader(), str(corpus)))


@pytest.mark.parametrize("name", ["batch_size", "num_steps", "shuffle_buffer", "prefetch", "seed"])
def test_numbers_below_the_least_are_refused(corpus, name):
    with pytest.raises(ConfigurationError, match=f"{name} has to be at least ., got -1"):
        make(corpus, **{name: -1})


def test_another_reader_is_refused(corpus):
    reader = DatasetReader.by_name("sequence_tagging")()
    with pytest.raises(ConfigurationError, match="needs the dataset reader elmo::bilm, got SequenceTagging"):
        PackedWindows(reader, str(corpus))


def test_a_limit_on_instances_is_refused_rather_than_ignored(corpus):
    with pytest.raises(ConfigurationError, match="max_instances=3"):
        PackedWindows(BiLmReader(max_instances=3), str(corpus))


def filled_as_bilm_tf_does(sentences, batch_size, num_steps):
    """Forward targets. Each batch in turn, each row in turn: as long as a row is short, it takes the next sentence."""
    sentences = iter(sentences)
    rows = [[] for _ in range(batch_size)]
    while True:
        for row in rows:
            while len(row) < num_steps and (words := next(sentences, None)):
                row += [*words, "</S>"]
        if not any(rows):
            return
        yield [" ".join((row + ["."] * num_steps)[:num_steps]) for row in rows]
        for row in rows:
            del row[:num_steps]


@given(st.lists(st.integers(1, 12), min_size=1, max_size=25), st.integers(1, 4), st.integers(1, 6))
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_sentences_are_dealt_out_as_in_bilm_tf(tmp_path, lengths, batch_size, num_steps):
    path = numbered(tmp_path / "corpus.txt", lengths)
    loader = make(path, batch_size=batch_size, num_steps=num_steps, shuffle=False)
    expected = filled_as_bilm_tf_does(BiLmReader().sentences(str(path)), batch_size, num_steps)
    assert [targets(batch, loader, "forward") for batch in loader] == list(expected)


def test_the_dealer_gives_to_the_row_that_runs_short_first():
    dealer = Dealer(num_rows=2, num_steps=4)
    assert [dealer.deal(length) for length in (3, 5, 1, 4, 9)] == [(0, 0), (0, 3), (1, 0), (1, 1), (1, 5)]
    assert dealer.batch_in_need == 2
    assert dealer.num_batches == 4


@Model.register("windows_test_model", exist_ok=True)
class CountingModel(Model):
    """Counts the real positions it is shown."""

    def __init__(self, vocab, **kwargs):
        super().__init__(vocab, **kwargs)
        self.weight = torch.nn.Parameter(torch.zeros(vocab.get_vocab_size("bilm_words")))
        self.num_positions = 0

    def forward(self, mask, forward_targets, **batch):
        self.num_positions += int(mask.sum())
        return {"loss": self.weight[forward_targets].mean() + self.weight.mean()}

    def get_metrics(self, reset=False):
        num_positions = self.num_positions
        if reset:
            self.num_positions = 0
        return {"num_positions": num_positions}


def test_allennlp_trains_recovers_and_evaluates_with_windows_and_our_vocabulary(tmp_path, corpus):
    config = {
        "dataset_reader": {"type": "elmo::bilm"},
        "train_data_path": str(corpus),
        "validation_data_path": str(corpus),
        "vocabulary": {"type": "elmo::bilm", "data_path": str(corpus), "max_size": 6},
        "model": {"type": "windows_test_model"},
        "data_loader": {"type": "elmo::windows", "batch_size": 2, "num_steps": 4},
        "trainer": {
            "num_epochs": 2,
            "optimizer": {"type": "sgd", "lr": 0.1},
            "cuda_device": -1,
            "enable_default_callbacks": False,
        },
    }
    run = tmp_path / "run"
    run.mkdir()
    Params(deepcopy(config)).to_file(str(run / "config.json"))

    def train():
        train_model = TrainModel.from_params(Params(deepcopy(config)), serialization_dir=str(run), local_rank=0)
        return train_model.model, train_model.run()

    model, metrics = train()
    archive_model(run)
    num_positions = len("a b c d e f g".split()) + 3
    assert metrics["training_num_positions"] == metrics["validation_num_positions"] == num_positions
    recovered, _ = train()
    assert recovered.vocab.get_index_to_token_vocabulary("bilm_words") == dict(
        enumerate(["<S>", "</S>", "<UNK>", *"abc"])
    )
    assert torch.equal(recovered.weight, model.weight)
    assert evaluate_from_archive(run / "model.tar.gz", str(corpus))["num_positions"] == num_positions


def test_a_line_of_100_000_words_and_a_word_of_44_000_characters_take_their_turns(tmp_path):
    """The line is split into ten sentences, which all rows share; of the word, the first characters are read."""
    path = tmp_path / "corpus.txt"
    path.write_text("b " * 100_000 + "\n" + "a" * 44_000 + " c\n")
    loader = make(path, batch_size=8, num_steps=500, shuffle=False)
    batches = list(loader)
    assert len(batches) == len(loader) == 41  # two of the ten sentences a row, at the most: 2 x 10,001 positions
    assert sum(int(batch["mask"].sum()) for batch in batches) == 10 * 10_001 + 3
    for direction in ("forward", "backward"):
        counts = Counter(
            class_ for batch in batches for class_ in batch[f"{direction}_targets"][batch["mask"]].tolist()
        )
        boundary = "</S>" if direction == "forward" else "<S>"
        assert counts[loader._word_ids(["b"])[0]] == 100_000
        assert counts[loader._word_ids([boundary])[0]] == 11
        assert counts[loader._word_ids(["a" * 44_000])[0]] == 1
