"""Words as characters: the byte ids that ELMo's character CNN reads, and words of a batch that are the same."""

from elmo_plugin.characters.indexer import ElmoCharactersIndexer
from elmo_plugin.characters.mapping import CharacterMapping
from elmo_plugin.characters.repetitions import unique_rows
from elmo_plugin.characters.word_encoder import WordCharactersEncoder

__all__ = ["CharacterMapping", "ElmoCharactersIndexer", "WordCharactersEncoder", "unique_rows"]
