"""From words to the byte ids that ELMo's character CNN reads."""

from elmo_plugin.characters.distinct import unique_rows
from elmo_plugin.characters.indexer import ElmoCharactersIndexer
from elmo_plugin.characters.mapping import CharacterMapping

__all__ = ["CharacterMapping", "ElmoCharactersIndexer", "unique_rows"]
