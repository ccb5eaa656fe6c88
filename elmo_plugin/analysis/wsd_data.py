"""Files of the unified WSD evaluation framework (Raganato et al. 2017), and WordNet's first senses.

`NAME.data.xml` holds sentences of `<wf>` and `<instance id lemma pos>` elements, `NAME.gold.key.txt` beside it the
sense keys of each instance, in lines `id key [key ...]`. Either may be gzipped.

The text of an element may be several words ("took place"). The biLM reads them as separate tokens, as it did in
training, and the target is all of them.
"""

import gzip
import os
import re
import zlib
from typing import Dict, Iterator, List, NamedTuple, Set, Tuple
from xml.etree import ElementTree

from allennlp.common.checks import ConfigurationError

from elmo_plugin.files import numbered_lines, unzipped

# A lemma with its part of speech: senses are looked up for both together.
Lemma = Tuple[str, str]

# WordNet's ss_type, the digit after a sense key's "%"; 5 is an adjective satellite, numbered with the adjectives.
_PARTS_OF_SPEECH = {"1": "NOUN", "2": "VERB", "3": "ADJ", "4": "ADV", "5": "ADJ"}
_SENSE_KEY = re.compile(r"([^%\s]+)%([1-5]):\d\d:\d\d:[^:\s]*:\d*")
_DATA_SUFFIX = re.compile(r"\.data\.xml(\.gz)?$")


class Target(NamedTuple):
    """A word to disambiguate: tokens `start` to `end` of its sentence, end excluded."""

    id: str
    lemma: Lemma
    start: int
    end: int


class SenseSentence(NamedTuple):
    tokens: List[str]
    targets: List[Target]


def read_sentences(path: str) -> Iterator[SenseSentence]:
    """Streams the sentences of a data file; only one at a time is in memory."""
    num_sentences = 0
    if os.path.isdir(path):
        raise ConfigurationError(f"{path} is a folder; expected a file called NAME.data.xml")
    try:
        with open(path, "rb") as file:
            events = ElementTree.iterparse(unzipped(file, path), events=("start", "end"))
            _, root = next(events)
            for event, element in events:
                if event == "end" and element.tag == "sentence":
                    num_sentences += 1
                    yield _sentence(element, path)
                    # Drops the sentence from its <text>, and that from the corpus.
                    element.clear()
                elif event == "end" and element.tag == "text":
                    root.clear()
    except ElementTree.ParseError as error:
        raise ConfigurationError(f"{path}:{error.position[0]}: this isn't well-formed XML ({error})") from error
    except (ValueError, LookupError) as error:
        raise ConfigurationError(f"{path}:1: the encoding that this file names can't be read ({error})") from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ConfigurationError(f"{path}: the gzip data is cut off or damaged ({error}); fetch it again") from error
    if num_sentences == 0:
        raise ConfigurationError(
            f"{path}: there is no <sentence> in this file; expected NAME.data.xml of the framework"
        )


def _sentence(element: ElementTree.Element, path: str) -> SenseSentence:
    tokens: List[str] = []
    targets: List[Target] = []
    for child in element:
        words = (child.text or "").split()
        if child.tag == "instance":
            name, lemma, part_of_speech = child.get("id"), child.get("lemma"), child.get("pos")
            if not (name and lemma and part_of_speech and words):
                raise ConfigurationError(
                    f"{path}: sentence {element.get('id')!r} has an <instance> that lacks its id, lemma, pos or text: "
                    f"{dict(child.attrib)}"
                )
            lemma_and_pos = (lemma.lower(), part_of_speech)
            targets.append(Target(name, lemma_and_pos, len(tokens), len(tokens) + len(words)))
        tokens.extend(words)
    return SenseSentence(tokens, targets)


def keys_path(data_path: str) -> str:
    """NAME.gold.key.txt or NAME.gold.key.txt.gz beside NAME.data.xml."""
    if not _DATA_SUFFIX.search(data_path):
        raise ConfigurationError(f"{data_path}: expected a file called NAME.data.xml or NAME.data.xml.gz")
    plain = _DATA_SUFFIX.sub(".gold.key.txt", data_path)
    for path in (plain, f"{plain}.gz"):
        if os.path.exists(path):
            return path
    raise ConfigurationError(f"{data_path}: its sense keys should be beside it, in {plain} or {plain}.gz; not found")


def data_name(data_path: str) -> str:
    """`senseval2` for senseval2/senseval2.data.xml."""
    return _DATA_SUFFIX.sub("", os.path.basename(data_path))


def read_keys(path: str) -> Dict[str, List[str]]:
    """The sense keys of each instance."""
    keys: Dict[str, List[str]] = {}
    for number, line in numbered_lines(path):
        fields = line.split()
        wrong = [field for field in fields[1:] if not _SENSE_KEY.fullmatch(field)]
        if len(fields) < 2 or wrong:
            problem = f"{wrong[0]!r} isn't a sense key" if wrong else "there is no sense key"
            raise ConfigurationError(
                f"{path}:{number}: {problem}; a line is 'id key [key ...]' with keys like play%1:10:01::"
            )
        if fields[0] in keys:
            raise ConfigurationError(f"{path}:{number}: the instance {fields[0]!r} is already on an earlier line")
        keys[fields[0]] = fields[1:]
    if not keys:
        raise ConfigurationError(f"{path}: this file of sense keys is empty")
    return keys


def read_first_senses(path: str) -> Dict[Lemma, str]:
    """The first sense of every lemma from WordNet's index.sense, or the folder that holds it.

    A line is `sense_key synset_offset sense_number tag_count`; WordNet numbers a lemma's senses by their frequency.
    """
    path = _find_index_sense(path)
    first: Dict[Lemma, str] = {}
    for number, line in numbered_lines(path):
        fields = line.split()
        match = _SENSE_KEY.fullmatch(fields[0]) if len(fields) == 4 else None
        if match is None or not fields[2].isdigit():
            raise ConfigurationError(
                f"{path}:{number}: {line.strip()!r} isn't a line of index.sense, "
                "'sense_key synset_offset sense_number tag_count'"
            )
        if fields[2] == "1":
            first[match.group(1), _PARTS_OF_SPEECH[match.group(2)]] = fields[0]
    if not first:
        raise ConfigurationError(f"{path}: this index of senses is empty")
    return first


def _find_index_sense(path: str) -> str:
    if not os.path.isdir(path):
        return path
    for name in ("index.sense", "index.sense.gz"):
        if os.path.exists(os.path.join(path, name)):
            return os.path.join(path, name)
    raise ConfigurationError(f"{path}: there is neither index.sense nor index.sense.gz in this folder")


def check_same_instances(targets: Set[str], data_path: str, keys: Dict[str, List[str]], key_path: str) -> None:
    """Raises unless the data and the keys name exactly the same instances."""
    for missing, there, here in (
        (targets - keys.keys(), data_path, key_path),
        (keys.keys() - targets, key_path, data_path),
    ):
        if missing:
            raise ConfigurationError(
                f"{here}: {len(missing)} of the instances in {there} are missing here, {min(missing)!r} for one; do "
                "the two files belong together?"
            )
