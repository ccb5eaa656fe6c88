import tarfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
import torch
from allennlp.common import file_utils
from allennlp.common.checks import ConfigurationError

from elmo_plugin.bilm import BiLm, loading
from elmo_plugin.bilm.pretrained import PRETRAINED


@pytest.fixture
def folder(bilm_files):
    return Path(bilm_files.options_file).parent


def assert_equal(bilm, expected):
    torch.testing.assert_close(bilm.state_dict(), expected.state_dict(), rtol=0, atol=0)


def test_a_folder_with_the_two_files_names_a_bilm(folder, bilm_files):
    assert_equal(BiLm.load(str(folder)), BiLm.load(*bilm_files))


def test_the_files_of_a_folder_may_have_their_published_names(folder, bilm_files):
    expected = BiLm.load(*bilm_files)
    (folder / "options.json").rename(folder / "elmo_2x8_4cnn_options.json")
    (folder / "weights.hdf5").rename(folder / "elmo_2x8_4cnn_weights_PubMed_only.hdf5")
    assert_equal(BiLm.load(str(folder)), expected)


def test_a_folder_with_several_bilms_is_refused(folder):
    (folder / "weights.hdf5").rename(folder / "a_weights.hdf5")
    (folder / "b_weights.hdf5").touch()
    with pytest.raises(ConfigurationError, match="one file like .*, but has several: a_weights.hdf5, b_weights.hdf5"):
        BiLm.load(str(folder))


def test_a_folder_that_lacks_a_file_is_refused(folder):
    (folder / "options.json").unlink()
    with pytest.raises(ConfigurationError, match="has to hold options.json, .* but has none"):
        BiLm.load(str(folder))


def test_a_name_comes_before_a_folder_that_is_called_the_same(folder, monkeypatch):
    monkeypatch.chdir(folder.parent)
    folder.rename("wiki-small")
    assert loading.locate("wiki-small") == PRETRAINED["wiki-small"]
    assert loading.locate("./wiki-small") == ("wiki-small/options.json", "wiki-small/weights.hdf5")


@pytest.mark.parametrize("is_packed", [True, False])
def test_an_archive_is_read_packed_or_not(tmp_path, monkeypatch, is_packed):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    archive = folder
    if is_packed:
        archive = tmp_path / "model.tar.gz"
        with tarfile.open(archive, "w:gz") as file:
            file.add(folder / "config.json", "config.json")
    monkeypatch.setattr(loading, "read_archive", lambda path: ("the biLM of", path))
    assert BiLm.load(str(archive)) == ("the biLM of", str(archive))


def test_a_file_that_is_no_archive_is_refused(bilm_files):
    with pytest.raises(ConfigurationError, match=r"weights.hdf5 isn't a model archive: a biLM is named by .* a folder"):
        BiLm.load(bilm_files.weight_file)


def test_an_unknown_name_is_refused_with_all_ways_to_name_one():
    with pytest.raises(
        ConfigurationError,
        match="no biLM 'huge': a biLM is named by one of wiki-base, wiki-small, wiki-large, .* a folder .* a URL",
    ):
        BiLm.load("huge")


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({"options_file": "o.json"}, r"options file \(o.json\) needs its weight file"),
        ({"weight_file": "w.hdf5"}, r"weight file \(w.hdf5\) needs its options file"),
        ({"bilm": "small", "options_file": "o", "weight_file": "w"}, "small and o name two biLMs"),
    ],
)
def test_half_a_bilm_and_two_are_refused(names, message):
    with pytest.raises(ConfigurationError, match=message):
        BiLm.load(**names)


@pytest.fixture
def fetched(monkeypatch, bilm_files):
    """The addresses that were asked for; each gives the fixture's file of its kind."""
    fetched = []

    def cached_path(address):
        fetched.append(address)
        return bilm_files.options_file if address.endswith(".json") else bilm_files.weight_file

    monkeypatch.setattr(file_utils, "cached_path", cached_path)
    return fetched


def test_a_published_bilm_is_fetched_from_its_address(fetched, bilm_files, monkeypatch):
    monkeypatch.setattr(loading, "PUBLISHED_SIZES", {})
    assert_equal(BiLm.load("original"), BiLm.load(*bilm_files))
    assert fetched[0].startswith("https://") and "2x4096_512_2048cnn_2xhighway" in fetched[0]


def test_a_folder_of_a_web_server_names_a_bilm(fetched, bilm_files):
    assert_equal(BiLm.load("https://example.org/mine/"), BiLm.load(*bilm_files))
    assert fetched == ["https://example.org/mine/options.json", "https://example.org/mine/weights.hdf5"]


def test_an_archive_of_a_web_server_names_a_bilm(fetched, monkeypatch):
    monkeypatch.setattr(loading, "read_archive", lambda path: path)
    BiLm.load("https://example.org/mine/model.tar.gz")
    assert fetched == ["https://example.org/mine/model.tar.gz"]


def test_what_cannot_be_fetched_is_named_with_the_remedy(monkeypatch):
    def offline(address):
        raise ConnectionError("no network")

    monkeypatch.setattr(file_utils, "cached_path", offline)
    with pytest.raises(ConfigurationError, match=r"elmo_2x1024.*no network.*give a local path"):
        BiLm.load("small")


def test_a_published_file_of_another_size_is_refused(fetched):
    with pytest.raises(ConfigurationError, match=r"options.json, fetched from https://.* where 336 were published"):
        BiLm.load("original")


class Cutting(BaseHTTPRequestHandler):
    """Serves a folder, whose weights it cuts in the middle; `says_length` or not."""

    folder: Path
    cuts = True
    says_length = True

    def do_GET(self):
        content = (self.folder / Path(self.path).name).read_bytes()
        self.send_response(200)
        if self.says_length:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        is_cut = self.cuts and self.path.endswith(".hdf5")
        self.wfile.write(b"" if self.command == "HEAD" else content[: len(content) // (1 + is_cut)])

    do_HEAD = do_GET

    def log_message(self, *_):
        pass


@pytest.fixture
def server(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(file_utils, "CACHE_DIRECTORY", str(tmp_path / "cache"))
    handler = type("Handler", (Cutting,), {"folder": folder})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_half_a_download_is_noticed_and_not_kept(server, bilm_files, tmp_path):
    address = f"http://127.0.0.1:{server.server_port}/mine"
    with pytest.raises(ConfigurationError, match=r"can't get the biLM's weight_file .*weights.hdf5"):
        BiLm.load(address)
    assert not [path for path in (tmp_path / "cache").iterdir() if path.stat().st_size > 1000]
    server.RequestHandlerClass.cuts = False
    assert_equal(BiLm.load(address), BiLm.load(*bilm_files))


def test_half_a_download_of_unstated_length_is_named_with_the_remedy(server):
    server.RequestHandlerClass.says_length = False
    with pytest.raises(ConfigurationError, match=r"truncated.*fetched from http://.* to fetch them again"):
        BiLm.load(f"http://127.0.0.1:{server.server_port}/mine")
