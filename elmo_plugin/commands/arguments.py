"""The flags that name a biLM, which several commands share."""

import argparse

from allennlp.common.checks import ConfigurationError

from elmo_plugin.bilm import loading
from elmo_plugin.bilm.pretrained import PRETRAINED, SHIPPED
from elmo_plugin.cove import CoveEmbedder
from elmo_plugin.embedding import ElmoEmbedder


def add_bilm_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds --bilm, AllenNLP 0.9's --options-file and --weight-file, and --cuda-device, which `open_embedder` reads."""
    group = parser.add_argument_group("the biLM")
    group.add_argument(
        "--bilm",
        metavar="NAME_OR_PATH",
        help=f"a name ({', '.join(PRETRAINED)}), a folder with options.json and weights.hdf5, a model.tar.gz, or a URL "
        f"of either; the default is {SHIPPED}, which is part of the plugin",
    )
    group.add_argument("--options-file", metavar="FILE", help="instead of --bilm: its options.json, a path or a URL")
    group.add_argument("--weight-file", metavar="FILE", help="and its HDF5 weights, a path or a URL")
    group.add_argument("--cuda-device", type=int, default=-1, metavar="ID", help="the GPU to run on; -1 is the CPU")


def add_cove_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds --cove and --word-vectors, with which `open_embedder` opens CoVe instead of a biLM."""
    group = parser.add_argument_group("CoVe, instead of the biLM")
    group.add_argument("--cove", metavar="FILE", help="its weights, wmtlstm-8f474287.pth, a path or a URL")
    group.add_argument(
        "--word-vectors", metavar="FILE", help="and the GloVe vectors that it reads, glove.840B.300d.txt"
    )


def open_embedder(arguments: argparse.Namespace) -> ElmoEmbedder:
    """Loads the biLM that the flags of `add_bilm_arguments` name, or CoVe if those of `add_cove_arguments` do."""
    if getattr(arguments, "cove", None) is not None:
        if arguments.word_vectors is None:
            raise ConfigurationError("--cove reads word vectors: name them with --word-vectors glove.840B.300d.txt")
        return CoveEmbedder(arguments.cove, arguments.word_vectors, arguments.cuda_device)
    return ElmoEmbedder(
        loading.load(arguments.bilm, arguments.options_file, arguments.weight_file),
        cuda_device=arguments.cuda_device,
        stateful=getattr(arguments, "stateful", False),
    )
