"""ELMo in other libraries: a spaCy pipeline component and a scikit-learn transformer."""

from elmo_plugin.integrations.sklearn_vectorizer import ElmoVectorizer
from elmo_plugin.integrations.spacy_component import ElmoComponent

__all__ = ["ElmoComponent", "ElmoVectorizer"]
