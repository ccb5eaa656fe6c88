import numpy

from elmo_plugin.analysis.embedding import embed_items
from elmo_plugin.embedding import ElmoEmbedder


def test_every_item_comes_with_the_vectors_of_its_own_tokens(bilm_files):
    embedder = ElmoEmbedder(*bilm_files)
    items = [
        ("long", ["The", "miller", "sat"]),
        ("short", ["He"]),
        ("longer", ["a", "b", "c", "d"]),
        ("two", ["x", "y"]),
    ]
    pairs = list(embed_items(embedder, iter(items), lambda item: item[1], batch_size=3))
    assert [item for item, _ in pairs] == items
    for (_, tokens), vectors in pairs:
        numpy.testing.assert_allclose(vectors, embedder.embed_sentence(tokens), rtol=0, atol=1e-5)
