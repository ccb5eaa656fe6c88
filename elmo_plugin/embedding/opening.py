"""From the ways a user names a biLM to an embedder: by files, by archive, by name, or not at all."""

from typing import Optional

from allennlp.common.checks import ConfigurationError

from elmo_plugin.bilm import BiLmSource
from elmo_plugin.bilm.pretrained import SHIPPED
from elmo_plugin.embedding.embedder_api import ElmoEmbedder


def open_embedder(
    bilm: Optional[str] = None,
    options_file: Optional[str] = None,
    weight_file: Optional[str] = None,
    archive_file: Optional[str] = None,
    cuda_device: int = -1,
    stateful: bool = False,
) -> ElmoEmbedder:
    """Opens the biLM that is named in one of three ways: by `options_file` and `weight_file`, by `archive_file`, or by
    `bilm`, one of the names in `elmo_plugin.bilm.pretrained`. Where none is given, it is the one that ships.
    """
    check_one_bilm(bilm, options_file, weight_file, archive_file)
    if archive_file:
        source = BiLmSource.from_archive(archive_file)
    elif options_file and weight_file:
        source = BiLmSource.from_files(options_file, weight_file)
    else:
        source = BiLmSource.from_name(bilm or SHIPPED)
    return ElmoEmbedder(bilm=source, cuda_device=cuda_device, stateful=stateful)


def check_one_bilm(
    bilm: Optional[str], options_file: Optional[str], weight_file: Optional[str], archive_file: Optional[str]
) -> None:
    """Refuses a biLM that is named in two ways, or by halves."""
    if bool(options_file) != bool(weight_file):
        given, missing = ("options file", "weight file") if options_file else ("weight file", "options file")
        raise ConfigurationError(f"the biLM's {given} ({options_file or weight_file}) needs its {missing} beside it")
    given_ways = [way for way in (bilm, options_file, archive_file) if way]
    if len(given_ways) > 1:
        raise ConfigurationError(
            f"{given_ways[0]} and {given_ways[1]} name two biLMs; give one: a pair of files, an archive or a name"
        )
