"""`allennlp bilm-widen`: a larger biLM that starts out as a smaller one."""

import argparse
from pathlib import Path
from typing import Optional, Tuple

import torch
from allennlp.commands.subcommand import Subcommand

from elmo_plugin.bilm import BiLm, checkpoint, softmax_file
from elmo_plugin.bilm.widening import Filters, widen, widen_softmax
from elmo_plugin.commands.bilm_export import check_free, files_in
from elmo_plugin.commands.command import Command


@Subcommand.register("bilm-widen")
class BiLmWiden(Command):
    help = "Write a wider biLM that computes what a given one does, to train it on."
    description = (
        "Writes a biLM with more cells, larger vectors or more character filters that computes what the given one "
        "does, so that a larger biLM needn't be trained from nothing: training_configs/bilm/continue.jsonnet trains it "
        "on. A biLM that has its softmax beside it, as wiki-base and what 'bilm-export --softmax' writes, keeps it."
    )
    epilog = (
        "example: allennlp bilm-widen wiki-base wider --cell-dim 1024 --projection-dim 256 "
        "--filters 1:16 2:32 3:64 4:128 5:256"
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("bilm", help="a shipped or published name, a folder with the two files, or a model archive")
        parser.add_argument("output_dir", help="the folder to write to; created if necessary")
        parser.add_argument("--cell-dim", type=int, required=True, help="how many cells an LSTM is to have")
        parser.add_argument("--projection-dim", type=int, required=True, help="half of what a vector is to have")
        parser.add_argument(
            "--filters",
            type=character_filters,
            metavar="WIDTH:NUMBER",
            nargs="+",
            help="how many character filters of each width it is to have, such as 1:32 2:64; those it has by default",
        )
        parser.add_argument("--seed", type=int, default=13370, help="for what starts at random")
        parser.add_argument("-f", "--force", action="store_true", help="overwrite existing files")

    def run(self, arguments: argparse.Namespace) -> None:
        write_widened(
            arguments.bilm,
            arguments.output_dir,
            arguments.cell_dim,
            arguments.projection_dim,
            arguments.seed,
            arguments.force,
            None if arguments.filters is None else tuple(arguments.filters),
        )


def character_filters(argument: str) -> Tuple[int, int]:
    """A width and a number, of `WIDTH:NUMBER`."""
    width, colon, number = argument.partition(":")
    if not (colon and width.isdecimal() and number.isdecimal()):
        raise argparse.ArgumentTypeError(f"{argument!r} isn't a width and a number of filters, such as 3:64")
    return int(width), int(number)


def write_widened(
    name: str,
    output_dir: str,
    cell_dim: int,
    projection_dim: int,
    seed: int = 13370,
    force: bool = False,
    filters: Optional[Filters] = None,
) -> None:
    """Writes `elmo_plugin.bilm.widening.widen` of a biLM into a folder, with its softmax if that lies beside it."""
    folder = Path(output_dir)
    weight_file, options_file, softmax_path = files_in(folder)
    check_free([weight_file, options_file, softmax_path], force)
    bilm, old_softmax = BiLm.load(name), softmax_file.find(name)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        wide = widen(bilm, cell_dim, projection_dim, filters)
    softmax = None if old_softmax is None else softmax_file.read(old_softmax, bilm.options.projection_dim)
    folder.mkdir(parents=True, exist_ok=True)
    checkpoint.write(wide, weight_file, options_file)
    if softmax is not None:
        softmax_file.write(widen_softmax(softmax, projection_dim), softmax_path)
        print(f"wrote {weight_file}, {options_file} and {softmax_path}")
    else:
        softmax_path.unlink(missing_ok=True)  # with --force: one that belongs to another biLM
        print(f"wrote {weight_file} and {options_file}; {name} has no {softmax_file.NAME} beside it to be kept")
