"""`allennlp elmo-demo`: a page in the browser for trying a biLM and trained models."""

import argparse
import contextlib
import logging
import os
import socket
import sys
import webbrowser
from typing import Optional

from allennlp.commands.subcommand import Subcommand
from allennlp.common.checks import ConfigurationError
from allennlp.models.archival import load_archive
from allennlp.predictors import Predictor

from elmo_plugin.analysis.neighbours import check_index
from elmo_plugin.analysis.token_store import TokenStore
from elmo_plugin.bilm import open_archive
from elmo_plugin.bilm.predictor import BiLmPredictor
from elmo_plugin.bilm.pretrained import SHIPPED
from elmo_plugin.commands.arguments import add_bilm_arguments, open_embedder
from elmo_plugin.commands.command import Command
from elmo_plugin.demo_page import Shown
from elmo_plugin.demo_page.recogniser import recogniser_archive
from elmo_plugin.demo_page.task_models import open_tasks
from elmo_plugin.demo_page.texts import MAX_CHARACTERS

_RECOGNISER_NOTE = (
    "This entity recogniser was trained on 400 invented sentences when the page was first started. Show your own "
    "models with --archive."
)


@Subcommand.register("elmo-demo")
class ElmoDemo(Command):
    help = "Try a biLM and trained models on a page in the browser."
    description = (
        "Serves a page for trying things: how a word's vectors change with its context, what a biLM expects at "
        "each position of a sentence, and what trained models of the paper's tasks predict, with the layer weights "
        "they have learnt; several models of one task are shown side by side. It works without a network, and only "
        "answers this machine unless --host says otherwise. Ctrl-C ends it. Needs NiceGUI: pip install "
        "elmo-plugin[demo]"
    )
    epilog = "example: allennlp elmo-demo --archive runs/ner_baseline/model.tar.gz runs/ner_elmo/model.tar.gz"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--archive",
            nargs="+",
            metavar="FILE",
            help="model.tar.gz of the six tasks or their ensembles; without any, a small entity recogniser",
        )
        parser.add_argument(
            "--language-model",
            metavar="FILE",
            help="a trained biLM with its softmax, model.tar.gz or folder; it gives the vectors too unless --bilm does."
            f" The default is --bilm where that has a softmax, and {SHIPPED} where neither is given",
        )
        add_bilm_arguments(parser)
        parser.add_argument(
            "--index", metavar="DIR", help="an index of 'elmo-analyze neighbours', to show nearest tokens from"
        )
        parser.add_argument("--host", default="127.0.0.1", help="the address to listen on; this machine only")
        parser.add_argument("--port", type=int, default=8080, help="0 takes any free port")
        parser.add_argument(
            "--max-characters", type=int, default=MAX_CHARACTERS, metavar="N", help="longer texts are refused"
        )
        parser.add_argument("--no-browser", action="store_true", help="print the address only")

    def run(self, arguments: argparse.Namespace) -> None:
        """Opens everything the page will show, and serves it until Ctrl-C."""
        try:
            from elmo_plugin.demo_page import page
        except ModuleNotFoundError as error:
            raise ConfigurationError(
                f"the page needs the package {error.name}, which isn't installed: pip install 'elmo-plugin[demo]', or "
                "pip install '.[demo]' in a clone"
            ) from error
        logging.getLogger().setLevel(logging.WARNING)  # what AllenNLP logs while it loads models is no help here
        with _listen(arguments.host, arguments.port) as listening:
            print("Loading ...", flush=True)
            shown = _open(arguments)
            address = _address(listening)
            # Ctrl-C ends the server either way: it returns, or raises the interrupt again once it has shut down.
            with contextlib.suppress(KeyboardInterrupt):
                page.serve(shown, [listening], lambda: _tell(address, not arguments.no_browser))
        print("\nThe page is closed.")


def _listen(host: str, port: int) -> socket.socket:
    """A socket, opened before the long work, so that an address in use is noticed at once."""
    if not 0 <= port < 2**16:
        raise ConfigurationError(f"--port {port}: a port is a number from 0 to 65535; 0 takes any free one")
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address, family=family)
    except OSError as error:
        raise ConfigurationError(
            f"can't listen on {host}, port {port}: {error}. Choose another with --host or --port; --port 0 takes any "
            "free one"
        ) from error


def _open(arguments: argparse.Namespace) -> Shown:
    if arguments.options_file is None:
        arguments.bilm = arguments.bilm or arguments.language_model
    embedder = open_embedder(arguments)
    store = TokenStore(arguments.index) if arguments.index else None
    if store is not None:
        check_index(store, embedder)
    return Shown(
        embedder=embedder,
        bilm_name=arguments.bilm or arguments.weight_file or SHIPPED,
        tasks=open_tasks(arguments.archive or [recogniser_archive()], arguments.cuda_device),
        store=store,
        language_model=_language_model(arguments),
        language_model_name=arguments.language_model or arguments.bilm or SHIPPED,
        task_note="" if arguments.archive else _RECOGNISER_NOTE,
        max_characters=arguments.max_characters,
    )


def _language_model(arguments: argparse.Namespace) -> Optional[Predictor]:
    """The model of --language-model, or of the biLM's own folder; none if that has no softmax. Without either, the
    shipped one.
    """
    if arguments.language_model is None:
        archive = open_archive(arguments.bilm or arguments.weight_file or SHIPPED)
    else:
        archive = load_archive(arguments.language_model, cuda_device=arguments.cuda_device)
    predictor = None if archive is None else Predictor.from_archive(archive)
    if predictor is not None and not isinstance(predictor, BiLmPredictor):
        raise ConfigurationError(
            f"--language-model {arguments.language_model}: this archive's predictor is a {type(predictor).__name__}; "
            "it has to be that of a trained biLM (model elmo::bilm)"
        )
    return predictor


def _address(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def _tell(address: str, open_browser: bool) -> None:
    print(f"The page is at {address} (Ctrl-C ends it)", flush=True)
    has_screen = sys.platform in ("darwin", "win32") or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    if open_browser and has_screen:
        webbrowser.open(address)
