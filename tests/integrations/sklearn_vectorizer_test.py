import pickle

import numpy
import pytest
from allennlp.common.checks import ConfigurationError
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from elmo_plugin import ElmoEmbedder
from elmo_plugin.integrations import ElmoVectorizer

TEXTS = ["A fine film.", "A dull film.", "Fine and good!", "Dull and bad!"] * 3
LABELS = [1, 0, 1, 0] * 3


@pytest.fixture
def files(root):
    return {"bilm": str(root / "fixtures/bilm")}


@pytest.fixture
def make(files):
    return lambda **parameters: ElmoVectorizer(**files, **parameters)


@pytest.fixture
def vectors(files):
    """The vectors of "A fine film .", all layers."""
    return ElmoEmbedder(**files).embed_sentence(["A", "fine", "film", "."])


@pytest.mark.parametrize(
    "parameters, expected",
    [
        ({}, lambda v: v.mean(axis=0).mean(axis=0)),
        ({"pooling": "max", "layers": "top"}, lambda v: v[-1].max(axis=0)),
        ({"layers": 0}, lambda v: v[0].mean(axis=0)),
        ({"layers": "all"}, lambda v: v.mean(axis=1).reshape(-1)),
    ],
)
@pytest.mark.parametrize("text", ["A fine film.", ["A", "fine", "film", "."]])
def test_a_text_is_its_words_vectors_pooled(make, vectors, parameters, expected, text):
    found = make(**parameters).fit_transform([text])
    assert found.dtype == numpy.float32
    numpy.testing.assert_allclose(found, [expected(vectors)], atol=1e-6)


def test_a_text_of_several_sentences_is_pooled_over_all_their_words(make, vectors, files):
    more = ElmoEmbedder(**files).embed_sentence(["Good", "!"])
    expected = numpy.concatenate([vectors, more], axis=1).mean(axis=(0, 1))
    numpy.testing.assert_allclose(make().fit_transform(["A fine film. Good!"]), [expected], atol=1e-6)


def test_texts_without_words_are_zeros_and_disturb_no_other(make):
    vectorizer = make().fit(TEXTS)
    found = vectorizer.transform(["", TEXTS[0], [], " \n", TEXTS[1]])
    assert not found[[0, 2, 3]].any()
    numpy.testing.assert_allclose(found[[1, 4]], vectorizer.transform(TEXTS[:2]), atol=1e-6)


def test_no_texts_are_no_rows(make):
    assert make().fit([]).transform([]).shape == (0, 16)


@pytest.mark.parametrize("layers, num_features", [("average", 16), ("all", 48)])
def test_features_have_names(make, layers, num_features):
    names = make(layers=layers).fit(TEXTS).get_feature_names_out()
    assert len(names) == num_features and names[0] == "elmo0" and names[-1] == f"elmo{num_features - 1}"


def test_a_clone_has_the_parameters_and_a_pickle_the_vectors(make):
    vectorizer = make(layers="top", pooling="max").fit(TEXTS)
    assert clone(vectorizer).get_params() == vectorizer.get_params()
    data = pickle.dumps(vectorizer)
    assert len(data) < 10_000, "the biLM isn't pickled along"
    numpy.testing.assert_array_equal(pickle.loads(data).transform(TEXTS), vectorizer.transform(TEXTS))


def test_it_is_the_first_step_of_a_pipeline(make):
    pipeline = make_pipeline(make(), LogisticRegression(C=1000)).fit(TEXTS, LABELS)
    assert pipeline.score(TEXTS, LABELS) == 1.0


def test_a_grid_search_tries_its_parameters_and_loads_the_bilm_once(make, monkeypatch):
    from elmo_plugin.integrations import sklearn_vectorizer

    opened = []
    monkeypatch.setattr(
        sklearn_vectorizer, "ElmoEmbedder", lambda *names, **rest: opened.append(names) or ElmoEmbedder(*names, **rest)
    )
    sklearn_vectorizer._shared_embedder.cache_clear()
    grid = {"elmovectorizer__layers": ["top", 0], "elmovectorizer__pooling": ["mean", "max"]}
    search = GridSearchCV(make_pipeline(make(), LogisticRegression()), grid, cv=2, error_score="raise")
    search.fit(TEXTS, LABELS)
    assert len(search.cv_results_["params"]) == 4 and len(opened) == 1
    assert search.predict(["A fine film."]).shape == (1,)


@pytest.mark.parametrize(
    "parameters, message",
    [
        ({"pooling": "sum"}, "pooling is one of mean, max, not 'sum'"),
        ({"layers": "mean"}, "not 'mean'"),
        ({"layers": 3}, "layers are 0 to 2"),
        ({"language": "tlh"}, "can't tokenise the language 'tlh'"),
    ],
)
def test_impossible_parameters_are_refused_by_fit(make, parameters, message):
    with pytest.raises(ConfigurationError, match=message):
        make(**parameters).fit(TEXTS)


@pytest.mark.parametrize(
    "texts, message", [("A text", "not the string 'A text'"), (["a", 3], "text 1 is 3"), ([["a", None]], "text 0 is")]
)
def test_what_is_no_text_is_refused(make, texts, message):
    with pytest.raises(ValueError, match=message):
        make().fit(TEXTS).transform(texts)


def test_it_has_to_be_fitted_first(make):
    with pytest.raises(NotFittedError):
        make().transform(TEXTS)
