import numpy
import pytest
import torch
from allennlp.modules.elmo import batch_to_ids

from elmo_plugin import ElmoEmbedder
from elmo_plugin.embedding import embedder_api, long_sequences
from elmo_plugin.embedding.long_sequences import run_in_blocks

BATCH = [[f"w{number % 7}" for number in range(length)] for length in (23, 1, 0, 10)]


@pytest.fixture
def embedder(bilm_files):
    return ElmoEmbedder(*bilm_files)


@pytest.mark.parametrize("max_tokens", [1, 4, 12, 40, 1000])
def test_blocks_of_any_size_give_the_vectors_of_a_run_over_the_whole(embedder, monkeypatch, max_tokens):
    monkeypatch.setattr(long_sequences, "MAX_TOKENS_PER_BLOCK", max_tokens)
    with torch.no_grad():
        vectors = run_in_blocks(embedder.bilm, batch_to_ids(BATCH))
    expected, _ = embedder.batch_to_embeddings(BATCH)
    torch.testing.assert_close(vectors, expected, atol=1e-6, rtol=1e-5)


def test_carried_states_go_through_blocks_as_through_batches(bilm_files, monkeypatch):
    in_blocks, whole = (ElmoEmbedder(*bilm_files, stateful=True) for _ in range(2))
    batches = [BATCH, BATCH[:2], [*BATCH, ["more"] * 5]]
    expected = [whole.batch_to_embeddings(batch)[0] for batch in batches]
    for module in (embedder_api, long_sequences):
        monkeypatch.setattr(module, "MAX_TOKENS_PER_BLOCK", 12)
    for batch, vectors in zip(batches, expected, strict=True):
        torch.testing.assert_close(in_blocks.batch_to_embeddings(batch)[0], vectors, atol=1e-6, rtol=1e-5)


def test_no_more_than_a_block_is_run_at_once(embedder, monkeypatch):
    for module in (embedder_api, long_sequences):
        monkeypatch.setattr(module, "MAX_TOKENS_PER_BLOCK", 12)
    shapes = []
    run = embedder.bilm.run
    monkeypatch.setattr(embedder.bilm, "run", lambda *a, **k: shapes.append(a[0].shape[:2]) or run(*a, **k))
    monkeypatch.setattr(embedder.bilm, "forward", None)
    assert [len(vectors[0]) for vectors in embedder.embed_batch(BATCH)] == [23, 1, 0, 10]
    assert len(shapes) > 5 and all(rows * steps <= 12 for rows, steps in shapes)


def test_a_long_sentence_is_embedded_the_same_in_a_batch_and_alone(embedder, monkeypatch):
    monkeypatch.setattr(embedder_api, "MAX_TOKENS_PER_BLOCK", 12)
    monkeypatch.setattr(embedder_api, "MAX_TOKENS_AHEAD", 30)
    for vectors, sentence in zip(embedder.embed_batch(BATCH), BATCH, strict=True):
        numpy.testing.assert_allclose(vectors, embedder.embed_sentence(sentence), atol=1e-6)


def test_of_a_token_longer_than_the_bilm_reads_the_beginning_counts(embedder):
    long_token = "é" * 44_000
    numpy.testing.assert_array_equal(
        embedder.embed_sentence(["a", long_token]), embedder.embed_sentence(["a", long_token[:100]])
    )
