"""ELMo in other libraries: a spaCy pipeline component and a scikit-learn transformer, each imported when used."""

from typing import TYPE_CHECKING

from elmo_plugin.lazy import lazy_names

if TYPE_CHECKING:
    from elmo_plugin.integrations.sklearn_vectorizer import ElmoVectorizer
    from elmo_plugin.integrations.spacy_component import ElmoComponent

__all__ = ["ElmoComponent", "ElmoVectorizer"]

__getattr__ = lazy_names(
    __name__,
    {
        "ElmoComponent": "elmo_plugin.integrations.spacy_component",
        "ElmoVectorizer": "elmo_plugin.integrations.sklearn_vectorizer",
    },
)
