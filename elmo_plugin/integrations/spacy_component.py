"""ELMo in a spaCy pipeline. Its factory is in `elmo_plugin_spacy.py`.

nlp = spacy.blank("en")
nlp.add_pipe("sentencizer")
nlp.add_pipe("elmo", config={"layers": "top"})
doc = nlp("I ate an apple. It was good.")
doc._.elmo, doc[3]._.elmo, doc[1:4]._.elmo     # (tokens, dim), (dim,), (tokens of the span, dim)
"""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Iterable, Iterator, List, Optional, Sequence, Union

import numpy
import srsly
from spacy.pipeline import Pipe
from spacy.tokens import Doc, Span, Token
from spacy.util import minibatch

from elmo_plugin.bilm import checkpoint
from elmo_plugin.bilm.loading import OPTIONS_NAME, WEIGHTS_NAME
from elmo_plugin.embedding import ElmoEmbedder
from elmo_plugin.embedding.hdf5_layout import check_layers, select_layers

_DOCS_AT_ONCE = 64


class ElmoComponent(Pipe):
    """Sets `doc._.elmo`, float32, (tokens, dim), from which `token._.elmo` and `span._.elmo` are cut.

    - `bilm`: a name, a folder, an archive or a URL, as for `BiLm.load`; without it, the biLM that ships. It is loaded
      with the first text.
    - `layers`: `average`, `top`, an index, 0 being the context-independent layer, or `all`: then vectors have their
      layers first, (layers, tokens, dim).
    - `batch_size`: sentences at a time. `nlp.pipe` fills batches across documents.
    - `copy_bilm`: `nlp.to_disk` and `to_bytes` write the biLM too, instead of its name only, so that the pipeline can
      be loaded where its files aren't.

    If the pipeline has found sentences before (by a parser, `senter` or `sentencizer`), each is read by itself,
    otherwise the document as a whole. White space tokens aren't read; their vectors are zeros.
    """

    def __init__(
        self,
        name: str = "elmo",
        bilm: Optional[str] = None,
        layers: Union[int, str] = "average",
        batch_size: int = 64,
        cuda_device: int = -1,
        copy_bilm: bool = False,
    ) -> None:
        check_layers(layers)
        self.name = name
        self.layers = layers
        self.batch_size = batch_size
        self.copy_bilm = copy_bilm
        self._bilm = bilm
        self._cuda_device = cuda_device
        self._embedder: Optional[ElmoEmbedder] = None
        _add_extensions()

    @property
    def embedder(self) -> ElmoEmbedder:
        if self._embedder is None:
            self._embedder = ElmoEmbedder(self._bilm, cuda_device=self._cuda_device)
        return self._embedder

    def __call__(self, doc: Doc) -> Doc:
        self._embed([doc])
        return doc

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = _DOCS_AT_ONCE) -> Iterator[Doc]:
        """Embeds the documents of a stream, `batch_size` of them together."""
        handle_error = self.get_error_handler()
        for docs in minibatch(stream, batch_size):
            try:
                self._embed(docs)
            except Exception as error:
                handle_error(self.name, self, docs, error)
            else:
                yield from docs

    def _embed(self, docs: Sequence[Doc]) -> None:
        sentences = [sentence for doc in docs for sentence in _sentences(doc)]
        words = ([token.text for token in sentence] for sentence in sentences)
        vectors_of = iter(self.embedder.embed_sentences(words, self.batch_size))
        for doc in docs:
            vectors = self._zeros(len(doc))
            for sentence in _sentences(doc):
                places = [token.i for token in sentence]
                vectors[..., places, :] = select_layers(next(vectors_of), self.layers)
            doc._.elmo = vectors

    def _zeros(self, num_tokens: int) -> numpy.ndarray:
        bilm = self.embedder.bilm
        nothing = numpy.zeros((bilm.num_layers, num_tokens, bilm.get_output_dim()), dtype=numpy.float32)
        return select_layers(nothing, self.layers).copy()

    def to_disk(self, path: Union[str, Path], *, exclude: Iterable[str] = ()) -> None:
        """Writes the biLM into the folder `path` if `copy_bilm`; everything else is in the pipeline's config."""
        if self.copy_bilm:
            folder = Path(path)
            folder.mkdir(parents=True, exist_ok=True)
            checkpoint.write(self.embedder.bilm, folder / WEIGHTS_NAME, folder / OPTIONS_NAME)

    def from_disk(self, path: Union[str, Path], *, exclude: Iterable[str] = ()) -> "ElmoComponent":
        """Reads the biLM in the folder `path`, if there is one, instead of the one that was named."""
        folder = Path(path)
        if (folder / WEIGHTS_NAME).exists():
            self._embedder = ElmoEmbedder(str(folder), cuda_device=self._cuda_device)
        return self

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """What `to_disk` writes."""
        with TemporaryDirectory() as folder:
            self.to_disk(folder)
            return srsly.msgpack_dumps({path.name: path.read_bytes() for path in Path(folder).iterdir()})

    def from_bytes(self, data: bytes, *, exclude: Iterable[str] = ()) -> "ElmoComponent":
        with TemporaryDirectory() as folder:
            for name, contents in srsly.msgpack_loads(data).items():
                (Path(folder) / name).write_bytes(contents)
            return self.from_disk(folder)


def _sentences(doc: Doc) -> Iterator[List[Token]]:
    """The words of each sentence that has any."""
    for sentence in doc.sents if doc.has_annotation("SENT_START") else [doc]:
        words = [token for token in sentence if not token.is_space]
        if words:
            yield words


def _add_extensions() -> None:
    if not Doc.has_extension("elmo"):
        Doc.set_extension("elmo", default=None)
        Token.set_extension("elmo", getter=_token_vectors)
        Span.set_extension("elmo", getter=_span_vectors)


def _token_vectors(token: Token) -> Optional[numpy.ndarray]:
    vectors = token.doc._.elmo
    return None if vectors is None else vectors[..., token.i, :]


def _span_vectors(span: Span) -> Optional[numpy.ndarray]:
    vectors = span.doc._.elmo
    return None if vectors is None else vectors[..., span.start : span.end, :]
