import socket
import sys

import pytest
from allennlp.commands import main

import elmo_plugin.demo_page
from elmo_plugin.commands import elmo_demo


def run(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["allennlp", "elmo-demo", "--no-browser", *arguments])
    main()


def test_an_address_in_use_is_named_before_anything_is_loaded(monkeypatch):
    pytest.importorskip("nicegui")
    monkeypatch.setattr(elmo_demo, "_open", lambda arguments: pytest.fail("loaded"))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        with pytest.raises(SystemExit, match=f"error: can't listen on 127.0.0.1, port {port}: .*--port"):
            run(monkeypatch, "--port", port)


@pytest.mark.parametrize("port", ["70000", "-1"])
def test_a_port_that_is_none_is_refused(monkeypatch, port):
    pytest.importorskip("nicegui")
    with pytest.raises(SystemExit, match=f"error: --port {port}: a port is a number"):
        run(monkeypatch, f"--port={port}")


def test_without_nicegui_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "nicegui", None)
    for module in ("page", "drawing"):  # forgotten, should another test have imported it
        monkeypatch.delitem(sys.modules, f"elmo_plugin.demo_page.{module}", raising=False)
        monkeypatch.delattr(elmo_plugin.demo_page, module, raising=False)
    with pytest.raises(SystemExit, match=r"error: the page needs .*pip install 'elmo-plugin\[demo\]'"):
        run(monkeypatch)


def test_it_listens_on_this_machine_alone_unless_told_otherwise(monkeypatch):
    with elmo_demo._listen("127.0.0.1", 0) as listening:
        assert elmo_demo._address(listening) == f"http://127.0.0.1:{listening.getsockname()[1]}"
    asked = []
    monkeypatch.setattr(elmo_demo.ElmoDemo, "run", lambda self, arguments: asked.append(arguments.host))
    run(monkeypatch)
    assert asked == ["127.0.0.1"]
