"""ELMo as a scikit-learn transformer."""

import functools
from collections import deque
from itertools import islice
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Sequence, Union

import numpy
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from elmo_plugin.embedding import ElmoEmbedder
from elmo_plugin.embedding.hdf5_layout import check_layers, select_layers
from elmo_plugin.errors import ConfigurationError
from elmo_plugin.words import pipeline_of, sentences_of, words_of

POOLINGS: Dict[str, Callable[..., numpy.ndarray]] = {"mean": numpy.mean, "max": numpy.max}
_TEXTS_AT_ONCE = 1024

Text = Union[str, Sequence[str]]


# Shared by the clones that a grid search makes, each of which would otherwise load the biLM.
@functools.lru_cache(maxsize=2)
def _shared_embedder(bilm: Optional[str], cuda_device: int) -> ElmoEmbedder:
    return ElmoEmbedder(bilm, cuda_device=cuda_device)


class ElmoVectorizer(TransformerMixin, BaseEstimator):
    """Turns texts into one vector each: the ELMo vectors of its words, pooled.

    A text is a string, which is split into sentences and words by rule (`language`, one of spaCy's codes), or a list of
    tokens, which is one sentence. A text without words becomes zeros.

        classifier = make_pipeline(ElmoVectorizer(layers="top"), LogisticRegression())
        classifier.fit(["A fine film.", "A dull film."], [1, 0])

    - `bilm`: a name, a folder, an archive or a URL, as for `BiLm.load`; without it, the biLM that ships.
    - `layers`: `average`, `top`, an index, 0 being the context-independent layer, or `all`, side by side.
    - `pooling`: `mean` or `max`, over the words.
    - `batch_size`: sentences at a time.

    Nothing is learned from the texts; `fit` checks the parameters and loads the biLM, which isn't pickled: after
    unpickling it is loaded again by its name.
    """

    def __init__(
        self,
        bilm: Optional[str] = None,
        layers: Union[int, str] = "average",
        pooling: str = "mean",
        language: str = "en",
        batch_size: int = 64,
        cuda_device: int = -1,
    ) -> None:
        self.bilm = bilm
        self.layers = layers
        self.pooling = pooling
        self.language = language
        self.batch_size = batch_size
        self.cuda_device = cuda_device

    def fit(self, X: Iterable[Text], y: Any = None) -> "ElmoVectorizer":
        if self.pooling not in POOLINGS:
            raise ConfigurationError(f"pooling is one of {', '.join(POOLINGS)}, not {self.pooling!r}")
        check_layers(self.layers)
        pipeline_of(self.language)  # refuses a language that it doesn't know
        bilm = self._embedder().bilm
        nothing = numpy.zeros((bilm.num_layers, 1, bilm.get_output_dim()), dtype=numpy.float32)
        self.n_features_out_ = select_layers(nothing, self.layers).size
        return self

    def transform(self, X: Iterable[Text]) -> numpy.ndarray:
        """The vectors of the texts: float32, (texts, features)."""
        check_is_fitted(self)
        if isinstance(X, str):
            raise ValueError(f"it takes a list of texts, not the string {X!r}; put it in a list")
        texts = enumerate(X)
        rows: List[numpy.ndarray] = []
        while some := list(islice(texts, _TEXTS_AT_ONCE)):
            rows += self._transform([self._sentences(text, index) for index, text in some])
        return numpy.stack(rows) if rows else numpy.zeros((0, self.n_features_out_), dtype=numpy.float32)

    def get_feature_names_out(self, input_features: Any = None) -> numpy.ndarray:
        """elmo0, elmo1 and so on; with all layers, one layer after the other, layer 0 first."""
        check_is_fitted(self)
        return numpy.array([f"elmo{index}" for index in range(self.n_features_out_)], dtype=object)

    def _transform(self, texts: List[List[List[str]]]) -> Iterator[numpy.ndarray]:
        """The vector of each of some texts, each given as sentences of tokens."""
        sentences = (sentence for text in texts for sentence in text)
        vectors = iter(self._embedder().embed_sentences(sentences, self.batch_size))
        for text in texts:
            if not any(text):
                deque(islice(vectors, len(text)), maxlen=0)
                yield numpy.zeros(self.n_features_out_, dtype=numpy.float32)
                continue
            # Shape: (tokens, dim) or (layers, tokens, dim)
            words = numpy.concatenate([select_layers(next(vectors), self.layers) for _ in text], axis=-2)
            yield POOLINGS[self.pooling](words, axis=-2).reshape(-1)

    def _sentences(self, text: Text, index: int) -> List[List[str]]:
        if isinstance(text, str):
            sentences = sentences_of(next(words_of([text], self.language)))
            return [[word.text for word in sentence] for sentence in sentences]
        if not isinstance(text, Iterable) or not all(isinstance(token, str) for token in text):
            raise ValueError(f"a text is a string or a list of tokens, but text {index} is {text!r}")
        return [list(text)]

    def _embedder(self) -> ElmoEmbedder:
        return _shared_embedder(self.bilm, self.cuda_device)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        return tags
