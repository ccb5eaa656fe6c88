"""`allennlp elmo-tokens`: the context-independent vectors of a word list."""

import argparse
from typing import Dict, List

from allennlp.commands.subcommand import Subcommand
from allennlp.common.checks import ConfigurationError

from elmo_plugin.analysis.analysis import require_one_or_more
from elmo_plugin.commands.arguments import add_bilm_arguments, open_embedder
from elmo_plugin.commands.command import Command
from elmo_plugin.commands.lines import name_of, stripped_lines
from elmo_plugin.embedding.token_vectors import check_output_name, write_token_vectors


@Subcommand.register("elmo-tokens")
class ElmoTokens(Command):
    help = "Write the context-independent vectors of a word list."
    description = (
        "Writes the vectors that the biLM's character CNN gives to words without context (half of ELMo's layer 0, "
        "which holds each twice). An output that ends in .hdf5 has the datasets 'embedding', float32, (words, dim) "
        "and 'words', in the same order; one that ends in .txt, .vec or .txt.gz is in word2vec's text format. Name "
        "several outputs to get several formats. A word that is listed twice is written once, at its first "
        "position."
    )
    epilog = "example: allennlp elmo-tokens vocabulary.txt tokens.hdf5 tokens.txt"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("vocabulary_file", help="one word per line, plain or gzipped; - reads stdin")
        parser.add_argument("output_file", nargs="+", help="the files to write; the ending decides the format")
        add_bilm_arguments(parser)
        parser.add_argument("--batch-size", type=int, default=1024, help="words to embed at a time (default = 1024)")

    def run(self, arguments: argparse.Namespace) -> None:
        require_one_or_more(arguments, "batch_size")
        for output_file in arguments.output_file:
            check_output_name(output_file)
        words = _read_words(arguments.vocabulary_file)
        embedder = open_embedder(arguments)
        write_token_vectors(embedder, words, arguments.output_file, arguments.batch_size)
        print(f"wrote {len(words)} words to {' and '.join(arguments.output_file)}")


def _read_words(vocabulary_file: str) -> List[str]:
    """The distinct words, in the order of the file."""
    words: Dict[str, None] = {}
    for number, word in enumerate(stripped_lines(vocabulary_file), start=1):
        problem = "is blank" if not word else f"holds several words: {word!r}" if len(word.split()) > 1 else None
        if problem:
            raise ConfigurationError(
                f"{name_of(vocabulary_file)}:{number}: this line {problem}; there must be one word per line"
            )
        words[word] = None
    if not words:
        raise ConfigurationError(f"{name_of(vocabulary_file)} is empty: it has no words")
    return list(words)
