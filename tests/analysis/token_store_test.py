import json

import numpy
import pytest
from allennlp.common.checks import ConfigurationError

from elmo_plugin.analysis import token_store
from elmo_plugin.embedding import ElmoEmbedder
from elmo_plugin.progress import only_process

SENTENCES = [f"word{number} of sentence {'x ' * (number % 4)}".split() for number in range(23)]


@pytest.fixture
def embedder(bilm_files):
    return ElmoEmbedder(*bilm_files)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "store"


def build(folder, embedder, sentences=SENTENCES, source="text", **options):
    return token_store.build(folder, embedder, sentences, source, batch_size=4, **options)


def contents(folder):
    return {name: (folder / name).read_bytes() for name in (*token_store.FILES, token_store.STORE)}


def test_the_rows_are_the_tokens_vectors_in_the_order_of_the_text(folder, embedder):
    store = build(folder, embedder, dtype="float32")
    assert (len(store), store.num_sentences, store.layers) == (sum(map(len, SENTENCES)), 23, [0, 1, 2])
    for number in (0, 7, 22):
        rows = store.vectors[store.offsets[number] : store.offsets[number + 1]]
        expected = embedder.embed_sentence(SENTENCES[number]).transpose(1, 0, 2)
        numpy.testing.assert_allclose(rows, expected, rtol=0, atol=1e-5)


def test_half_precision_is_the_default(tmp_path, embedder):
    store = build(tmp_path / "half", embedder)
    whole = build(tmp_path / "whole", embedder, dtype="float32")
    assert store.vectors.dtype == numpy.float16
    numpy.testing.assert_allclose(store.vectors, whole.vectors, rtol=1e-3, atol=1e-3)


def test_single_layers_can_be_chosen(tmp_path, embedder):
    store = build(tmp_path / "some", embedder, layers=[2], dtype="float32")
    whole = build(tmp_path / "all", embedder, dtype="float32")
    numpy.testing.assert_array_equal(store.vectors[:, 0], whole.vectors[:, 2])


def test_sentences_are_found_by_number_and_streamed(folder, embedder):
    store = build(folder, embedder)
    assert store.sentence(22) == SENTENCES[22] and store.sentence(0) == SENTENCES[0]
    assert list(store.sentences()) == SENTENCES


def test_tokens_with_white_space_inside_are_refused(folder, embedder):
    with pytest.raises(ValueError, match=r"tokens can't hold white space: \['20 000', 'a'\]"):
        build(folder, embedder, [["20 000", "a"]])


@pytest.mark.parametrize("bytes_per_block", [1, 2000, 2**30])
def test_blocks_are_whole_sentences_and_cover_everything(folder, embedder, monkeypatch, bytes_per_block):
    store = build(folder, embedder)
    monkeypatch.setattr(token_store, "_BYTES_PER_BLOCK", bytes_per_block)
    blocks = list(store.blocks())
    numpy.testing.assert_array_equal(numpy.concatenate([block.vectors for block in blocks]), store.vectors)
    begins = [store.offsets[block.first_sentence] + block.starts for block in blocks]
    numpy.testing.assert_array_equal(numpy.concatenate(begins), store.offsets[:-1])


def test_sentences_without_tokens_are_left_out(folder, embedder):
    assert build(folder, embedder, [[], ["a"], [], ["b"]]).num_sentences == 2


class Killed(BaseException):
    pass


def dying_after(sentences, number):
    yield from sentences[:number]
    raise Killed


@pytest.mark.parametrize("num_before", [0, 3, 11])
def test_a_build_goes_on_where_it_was_killed(tmp_path, embedder, monkeypatch, num_before):
    monkeypatch.setattr(token_store, "_SENTENCES_PER_COMMIT", 4)
    build(tmp_path / "whole", embedder)
    with pytest.raises(Killed):
        build(tmp_path / "killed", embedder, dying_after(SENTENCES, num_before))
    # What a kill may leave behind the last commit.
    for name in token_store.FILES:
        with open(tmp_path / "killed" / name, "ab") as file:
            file.write(b"half a sent")
    with pytest.raises(ConfigurationError, match="killed is not complete yet"):
        token_store.TokenStore(tmp_path / "killed")
    embedded = []
    original = embedder.embed_sentences
    monkeypatch.setattr(
        embedder, "embed_sentences", lambda piece, batch_size: embedded.extend(piece) or original(piece, batch_size)
    )
    build(tmp_path / "killed", embedder)
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")
    assert len(embedded) == 23 - num_before // 4 * 4
    assert not (tmp_path / "killed" / token_store.PROGRESS).exists()


def test_vectors_are_the_same_to_the_bit_wherever_it_was_killed(tmp_path, make_bilm_files, monkeypatch):
    # Wide enough for a product's last bits to depend on what is multiplied beside it.
    embedder = ElmoEmbedder(*make_bilm_files({"projection_dim": 32, "dim": 96}, seed=3))
    monkeypatch.setattr(token_store, "_SENTENCES_PER_COMMIT", 4)
    build(tmp_path / "whole", embedder, dtype="float32")
    for number in range(4, 23, 4):
        with pytest.raises(Killed):
            build(tmp_path / "killed", embedder, dying_after(SENTENCES, number), dtype="float32")
        embedder = ElmoEmbedder(embedder.bilm)
        embedder.bilm.token_cache.clear()
    build(tmp_path / "killed", embedder, dtype="float32")
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")


@pytest.mark.parametrize("name", [".progress.npz.123.tmp", ".store.json.123.tmp"])
def test_what_a_kill_left_half_written_is_removed(folder, embedder, name):
    folder.mkdir()
    (folder / name).write_bytes(b"half")
    build(folder, embedder)
    assert not (folder / name).exists()


@pytest.mark.parametrize("name", [*token_store.FILES, token_store.STORE])
@pytest.mark.parametrize("kind", ["missing", "empty", "a folder", "cut", "longer", "with a tail"])
def test_a_damaged_store_is_refused_by_name(folder, embedder, name, kind):
    build(folder, embedder)
    path = folder / name
    content = path.read_bytes()
    path.unlink()
    if kind == "a folder":
        path.mkdir()
    elif kind != "missing":
        path.write_bytes(
            {"empty": b"", "cut": content[:-5], "longer": content + b"\n\n12", "with a tail": content + b"12"}[kind]
        )
    with pytest.raises(ConfigurationError, match="store"):
        token_store.TokenStore(folder)


@pytest.mark.parametrize(
    "description",
    [
        "[]",
        "{}",
        "null",
        '{"identity": {"layers": 3}}',
        '{"identity": {"layers": [0], "dtype": "object"}, "num_tokens": 9, "dim": 1}',
    ],
)
def test_a_description_of_something_else_is_refused(folder, embedder, description):
    build(folder, embedder)
    (folder / "store.json").write_text(description)
    with pytest.raises(ConfigurationError, match="store.json .*remove (the|its) folder and build it again"):
        token_store.TokenStore(folder)


def test_a_line_that_lost_a_token_is_named(folder, embedder):
    build(folder, embedder)
    path = folder / "sentences.txt"
    path.write_text(path.read_text().replace("word3 of", "word3_of"))
    store = token_store.TokenStore(folder)
    for read in (lambda: store.sentence(3), lambda: list(store.sentences())):
        with pytest.raises(ConfigurationError, match="sentences.txt:4: .* has 5 tokens, and was indexed with 6"):
            read()


def test_a_complete_store_is_not_built_again(folder, embedder):
    build(folder, embedder)
    assert build(folder, embedder, dying_after(SENTENCES, 0)).num_sentences == 23


def test_another_text_bilm_or_choice_is_refused(tmp_path, embedder, make_bilm_files):
    build(tmp_path / "done", embedder)
    with pytest.raises(ConfigurationError, match="done was built from another source: 'text' there, 'other' here"):
        build(tmp_path / "done", embedder, source="other")
    with pytest.raises(ConfigurationError, match="another layers"):
        build(tmp_path / "done", embedder, layers=[1])
    with pytest.raises(ConfigurationError, match="another bilm"):
        build(tmp_path / "done", ElmoEmbedder(*make_bilm_files(seed=1, name="other")))
    with pytest.raises(Killed):
        build(tmp_path / "begun", embedder, dying_after(SENTENCES, 2))
    with pytest.raises(ConfigurationError, match="begun was started with dtype 'float16', and this is 'float32'"):
        build(tmp_path / "begun", embedder, dtype="float32")


def test_a_folder_with_other_files_is_left_alone(folder, embedder):
    folder.mkdir()
    (folder / "vectors.bin").write_bytes(b"precious")
    with pytest.raises(ConfigurationError, match=r"holds other files \(vectors.bin\)"):
        build(folder, embedder)
    assert (folder / "vectors.bin").read_bytes() == b"precious"


def test_two_processes_do_not_build_the_same_folder(folder, embedder):
    with only_process(folder), pytest.raises(ConfigurationError, match="another process is at work in .*store"):
        build(folder, embedder)


def test_a_file_that_was_cut_is_recognised(tmp_path, embedder, monkeypatch):
    build(tmp_path / "done", embedder)
    with open(tmp_path / "done" / "vectors.bin", "ab") as file:
        file.truncate(100)
    with pytest.raises(ConfigurationError, match="vectors.bin has 100 bytes, but"):
        token_store.TokenStore(tmp_path / "done")
    monkeypatch.setattr(token_store, "_SENTENCES_PER_COMMIT", 4)
    with pytest.raises(Killed):
        build(tmp_path / "begun", embedder, dying_after(SENTENCES, 9))
    with open(tmp_path / "begun" / "lengths.bin", "ab") as file:
        file.truncate(8)
    with pytest.raises(ConfigurationError, match="lengths.bin is shorter than .*progress.npz says"):
        build(tmp_path / "begun", embedder)


def test_a_damaged_description_is_named(folder, embedder):
    build(folder, embedder)
    (folder / "store.json").write_text("{")
    with pytest.raises(ConfigurationError, match="store.json isn't JSON"):
        token_store.TokenStore(folder)


def test_a_full_disk_is_named_and_what_is_complete_is_kept(tmp_path, embedder, monkeypatch):
    monkeypatch.setattr(token_store, "_SENTENCES_PER_COMMIT", 4)
    build(tmp_path / "whole", embedder)
    commits = []

    def full_at_the_third(descriptor):
        commits.append(descriptor)
        if len(commits) > 8:  # three files and the record, each time
            raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(token_store.os, "fsync", full_at_the_third)
        with pytest.raises(ConfigurationError, match=r"full wasn't completed \(No space left on device\); .* continue"):
            build(tmp_path / "full", embedder)
    assert numpy.load(tmp_path / "full" / "progress.npz")["num_bytes"][-1] == 4 * 4
    build(tmp_path / "full", embedder)
    assert contents(tmp_path / "full") == contents(tmp_path / "whole")


def test_no_sentence_at_all_is_refused(folder, embedder):
    with pytest.raises(ConfigurationError, match="there are no sentences to index"):
        build(folder, embedder, [[]])
    with pytest.raises(ConfigurationError, match="holds no index"):
        token_store.TokenStore(folder / "nowhere")


def test_vectors_beyond_half_precision_are_refused(folder, embedder, monkeypatch):
    monkeypatch.setattr(
        embedder, "embed_sentences", lambda piece, batch_size: (numpy.full((3, len(s), 16), 1e6) for s in piece)
    )
    with (
        pytest.raises(ConfigurationError, match="don't fit float16; keep them as float32"),
        numpy.errstate(over="ignore"),
    ):
        build(folder, embedder)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"layers": [3]}, "the layers 0 to 2, not 3"), ({"dtype": "int8"}, "float16, float32, not 'int8'")],
)
def test_wrong_options_are_refused(folder, embedder, options, message):
    with pytest.raises(ConfigurationError, match=message):
        build(folder, embedder, **options)


def test_files_are_told_apart_by_their_bytes(tmp_path):
    (tmp_path / "a.txt").write_text("a")
    first = token_store.file_identity(str(tmp_path / "a.txt"))
    (tmp_path / "a.txt").write_text("b")
    assert first["name"] == "a.txt" and first != token_store.file_identity(str(tmp_path / "a.txt"))
    json.dumps(first)
