"""The page that `allennlp elmo-demo` serves: what it computes, and (in `page.py` and `drawing.py`) how it is shown."""

from typing import List, NamedTuple, Optional

from allennlp.predictors import Predictor

from elmo_plugin.analysis.token_store import TokenStore
from elmo_plugin.demo_page.task_models import Task
from elmo_plugin.demo_page.texts import MAX_CHARACTERS
from elmo_plugin.embedding import ElmoEmbedder


class Shown(NamedTuple):
    """What a page shows: a biLM, its name, an index to find neighbours in, a language model, and tasks."""

    embedder: ElmoEmbedder
    bilm_name: str
    tasks: List[Task]
    store: Optional[TokenStore] = None
    language_model: Optional[Predictor] = None
    language_model_name: str = ""
    task_note: str = ""
    max_characters: int = MAX_CHARACTERS
