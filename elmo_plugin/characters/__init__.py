"""Words as characters: the byte ids that ELMo's character CNN reads, and repeated words in a batch.

What AllenNLP registers is imported when it is asked for.
"""

from typing import TYPE_CHECKING

from elmo_plugin.characters.mapping import CharacterMapping
from elmo_plugin.characters.repetitions import unique_rows
from elmo_plugin.lazy import lazy_names

if TYPE_CHECKING:
    from elmo_plugin.characters.indexer import ElmoCharactersIndexer
    from elmo_plugin.characters.word_encoder import WordCharactersEncoder

__all__ = ["CharacterMapping", "ElmoCharactersIndexer", "WordCharactersEncoder", "unique_rows"]

__getattr__ = lazy_names(
    __name__,
    {
        "ElmoCharactersIndexer": "elmo_plugin.characters.indexer",
        "WordCharactersEncoder": "elmo_plugin.characters.word_encoder",
    },
)
