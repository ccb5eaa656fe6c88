"""`python -m elmo_plugin.tasks.coref key.conll response.conll`: prints the scores of one file against another."""

import argparse

from elmo_plugin.tasks.coref.conll import read_documents
from elmo_plugin.tasks.coref.metrics import CoreferenceCounts


def score_files(key_file: str, response_file: str) -> CoreferenceCounts:
    """The counts of the documents of two files. Those that the response lacks have no cluster there."""
    responses = {(document.id, document.part): document.clusters for document in read_documents(response_file)}
    counts = CoreferenceCounts()
    for document in read_documents(key_file):
        counts.add_document(document.clusters, responses.pop((document.id, document.part), []))
    if responses:
        raise ValueError(f"{response_file} holds documents that {key_file} doesn't: {sorted(responses)}")
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m elmo_plugin.tasks.coref", description=__doc__)
    parser.add_argument("key", help="the gold documents, in the columns of CoNLL-2012")
    parser.add_argument("response", help="the predicted ones")
    arguments = parser.parse_args()
    print(score_files(arguments.key, arguments.response).report(), end="")


if __name__ == "__main__":
    main()
