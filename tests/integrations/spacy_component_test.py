import numpy
import pytest
import spacy
from allennlp.common.checks import ConfigurationError
from spacy.tokens import Doc, DocBin

from elmo_plugin import ElmoEmbedder
from elmo_plugin.integrations import ElmoComponent, spacy_component

TEXT = "I ate an apple. It was good."


@pytest.fixture
def files(root):
    return {"bilm": str(root / "fixtures/bilm")}


@pytest.fixture
def make_nlp(files):
    def make(sentences=True, **config):
        nlp = spacy.blank("en")
        if sentences:
            nlp.add_pipe("sentencizer")
        nlp.add_pipe("elmo", config={**files, **config})
        return nlp

    return make


@pytest.fixture
def embedder(files):
    return ElmoEmbedder(**files)


def test_each_sentence_is_read_by_itself(make_nlp, embedder):
    doc = make_nlp()(TEXT)
    expected = [embedder.embed_sentence(words.split()).mean(axis=0) for words in ("I ate an apple .", "It was good .")]
    assert doc._.elmo.dtype == numpy.float32
    numpy.testing.assert_allclose(doc._.elmo, numpy.concatenate(expected), atol=1e-6)


def test_without_sentences_the_document_is_one(make_nlp, embedder):
    doc = make_nlp(sentences=False)(TEXT)
    expected = embedder.embed_sentence("I ate an apple . It was good .".split()).mean(axis=0)
    numpy.testing.assert_allclose(doc._.elmo, expected, atol=1e-6)


def test_tokens_and_spans_have_their_part_of_the_documents_vectors(make_nlp):
    doc = make_nlp()(TEXT)
    numpy.testing.assert_array_equal(doc[3]._.elmo, doc._.elmo[3])
    numpy.testing.assert_array_equal(doc[3:7]._.elmo, doc._.elmo[3:7])


@pytest.mark.parametrize("layers, shape", [("top", (5, 16)), (0, (5, 16)), ("all", (3, 5, 16))])
def test_layers_are_chosen(make_nlp, embedder, layers, shape):
    doc = make_nlp(layers=layers)("I ate an apple.")
    vectors = embedder.embed_sentence("I ate an apple .".split())
    expected = {"top": vectors[-1], 0: vectors[0], "all": vectors}[layers]
    assert doc._.elmo.shape == shape
    numpy.testing.assert_allclose(doc._.elmo, expected, atol=1e-6)
    assert doc[2]._.elmo.shape == shape[:-2] + shape[-1:]


def test_white_space_has_zeros_and_changes_no_other_vector(make_nlp):
    nlp = make_nlp()
    spaced, plain = nlp("I  ate \n\n it."), nlp("I ate it.")
    words = [token.i for token in spaced if not token.is_space]
    assert len(words) < len(spaced)
    numpy.testing.assert_allclose(spaced._.elmo[words], plain._.elmo, atol=1e-6)
    assert not any(token._.elmo.any() for token in spaced if token.is_space)


@pytest.mark.parametrize("text", ["", " \n "])
def test_a_document_without_words_has_no_vectors_to_show(make_nlp, text):
    doc = make_nlp()(text)
    assert doc._.elmo.shape == (len(doc), 16) and not doc._.elmo.any()


def test_pipe_batches_across_documents_and_gives_the_same(make_nlp, monkeypatch):
    nlp = make_nlp()
    texts = [TEXT, "", "One more.", "And another one."] * 3
    expected = [nlp(text)._.elmo for text in texts]
    calls = []
    embed = ElmoEmbedder.embed_sentences
    monkeypatch.setattr(ElmoEmbedder, "embed_sentences", lambda *a, **k: calls.append(1) or embed(*a, **k))
    for doc, vectors in zip(nlp.pipe(texts, batch_size=6), expected, strict=True):
        numpy.testing.assert_allclose(doc._.elmo, vectors, atol=1e-6)
    assert len(calls) == 2


def test_an_error_in_a_stream_goes_to_the_pipelines_handler(make_nlp, monkeypatch):
    nlp = make_nlp()
    handled = []
    nlp.set_error_handler(lambda name, component, docs, error: handled.append((name, len(docs))))
    monkeypatch.setattr(ElmoComponent, "_embed", lambda self, docs: 1 / 0)
    assert list(nlp.pipe(["a", "b"])) == [] and handled == [("elmo", 2)]


def test_a_pipeline_on_disk_names_the_bilm(make_nlp, tmp_path):
    nlp = make_nlp(layers="top")
    nlp.to_disk(tmp_path / "nlp")
    assert not list((tmp_path / "nlp").rglob("*.hdf5"))
    numpy.testing.assert_array_equal(spacy.load(tmp_path / "nlp")(TEXT)._.elmo, nlp(TEXT)._.elmo)


def test_a_pipeline_on_disk_holds_the_bilm_if_told_to(make_nlp, make_bilm_files, tmp_path):
    files = make_bilm_files()
    nlp = make_nlp(bilm=str(tmp_path / "bilm"), copy_bilm=True)
    expected = nlp(TEXT)._.elmo
    nlp.to_disk(tmp_path / "nlp")
    for path in files:
        (tmp_path / path).unlink()
    numpy.testing.assert_array_equal(spacy.load(tmp_path / "nlp")(TEXT)._.elmo, expected)


@pytest.mark.parametrize("copy_bilm", [False, True])
def test_a_pipeline_goes_through_bytes(make_nlp, copy_bilm):
    nlp = make_nlp(copy_bilm=copy_bilm)
    other = make_nlp(copy_bilm=copy_bilm).from_bytes(nlp.to_bytes())
    numpy.testing.assert_array_equal(other(TEXT)._.elmo, nlp(TEXT)._.elmo)
    assert (len(nlp.get_pipe("elmo").to_bytes()) > 1000) == copy_bilm


def test_documents_keep_their_vectors_through_bytes(make_nlp):
    nlp = make_nlp()
    doc = nlp(TEXT)
    (again,) = DocBin().from_bytes(DocBin(store_user_data=True, docs=[doc]).to_bytes()).get_docs(nlp.vocab)
    numpy.testing.assert_array_equal(again._.elmo, doc._.elmo)


def test_documents_that_were_not_embedded_have_none(make_nlp):
    make_nlp()
    doc = Doc(spacy.blank("en").vocab, words=["a", "b"])
    assert doc._.elmo is doc[0]._.elmo is doc[0:2]._.elmo is None


def test_without_a_bilm_it_is_the_one_that_ships(monkeypatch, embedder):
    asked = []
    monkeypatch.setattr(
        spacy_component, "ElmoEmbedder", lambda bilm, cuda_device: asked.append((bilm, cuda_device)) or embedder
    )
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo")
    assert not asked, "it is loaded when it is needed"
    nlp("a")
    assert asked == [(None, -1)]


def test_layers_that_cannot_be_are_refused_when_the_component_is_added(make_nlp):
    with pytest.raises(ConfigurationError, match="not 'mean'"):
        make_nlp(layers="mean")
