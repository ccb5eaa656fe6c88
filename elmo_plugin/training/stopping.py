"""Stopping a run cleanly: what SIGTERM and Ctrl-C do while a trainer is at work."""

import signal
import threading
from typing import Dict, Optional

_EXIT_CODES = {signal.SIGTERM: 128 + signal.SIGTERM, signal.SIGINT: 128 + signal.SIGINT}


class Interrupted(KeyboardInterrupt, SystemExit):
    """Ctrl-C. AllenNLP's `train` catches it as a KeyboardInterrupt, and archives the best model so far; then the
    process ends with exit code 130 and without a traceback.
    """


class StopSignals:
    """Within the block, SIGTERM and Ctrl-C only leave a note, `received`, for the trainer to find between two steps, so
    that neither a step nor a file is cut in half. A second one stops at once.

    Outside the main thread, where Python allows no handlers, signals do what they always do.
    """

    def __init__(self) -> None:
        self.received: Optional[signal.Signals] = None
        self._handlers: Dict[signal.Signals, object] = {}

    def __enter__(self) -> "StopSignals":
        if threading.current_thread() is threading.main_thread():
            self._handlers = {each: signal.signal(each, self._receive) for each in _EXIT_CODES}
        return self

    def __exit__(self, error_type, error, traceback) -> None:
        for each, handler in self._handlers.items():
            signal.signal(each, handler)  # type: ignore[arg-type]

    def _receive(self, number: int, frame) -> None:
        if self.received is not None:
            raise stopped_by(signal.Signals(number))
        self.received = signal.Signals(number)


def stopped_by(received: signal.Signals) -> SystemExit:
    """The exception that ends the process with the signal's exit code: 143 for SIGTERM, 130 for Ctrl-C."""
    error = Interrupted() if received == signal.SIGINT else SystemExit()
    error.code = _EXIT_CODES[received]
    return error
