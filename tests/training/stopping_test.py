import os
import signal
import subprocess
import sys
import threading

import pytest

from elmo_plugin.training import stopping
from elmo_plugin.training.stopping import StopSignals, stopped_by


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_is_noted_and_a_second_one_stops_at_once(number):
    with StopSignals() as signals:
        os.kill(os.getpid(), number)
        assert signals.received == number
        with pytest.raises(SystemExit) as stopped:
            os.kill(os.getpid(), number)
    assert stopped.value.code == 128 + number


def test_afterwards_signals_do_what_they_did():
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    with StopSignals():
        assert signal.getsignal(signal.SIGTERM) != before[0]
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == before


def test_ctrl_c_stays_a_keyboard_interrupt():
    assert isinstance(stopped_by(signal.SIGINT), KeyboardInterrupt)
    assert not isinstance(stopped_by(signal.SIGTERM), KeyboardInterrupt)


def test_another_thread_is_left_alone():
    handlers = []

    def work():
        with StopSignals():
            handlers.append(signal.getsignal(signal.SIGTERM))

    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert handlers == [before]


@pytest.mark.parametrize("number, code", [("SIGTERM", 143), ("SIGINT", 130)])
def test_the_process_ends_with_the_signals_exit_code_and_no_traceback(number, code):
    # The file alone, without the packages above it, which take seconds to import.
    script = f"import runpy, signal; raise runpy.run_path({stopping.__file__!r})['stopped_by'](signal.{number})"
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert ended.returncode == code and "Traceback" not in ended.stderr
