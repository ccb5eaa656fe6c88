"""The page in a real browser: each tab used as a person would. Skipped where there is no Chromium to drive."""

import contextlib
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from typing import Callable, Iterator, List

import pytest

pytest.importorskip("nicegui", reason="the page needs the extra 'demo'")
webdriver = pytest.importorskip("selenium.webdriver", reason="the browser is driven by selenium")

from selenium.common.exceptions import (  # noqa: E402
    ElementClickInterceptedException,
    StaleElementReferenceException,
    TimeoutException,
)
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.remote.webelement import WebElement  # noqa: E402
from selenium.webdriver.support.ui import WebDriverWait  # noqa: E402

from elmo_plugin.analysis.neighbours import build_index  # noqa: E402
from elmo_plugin.bilm import loading  # noqa: E402
from elmo_plugin.embedding import ElmoEmbedder  # noqa: E402

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
CHROMEDRIVER = shutil.which("chromedriver")
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --disable-dev-shm-usage --no-first-run "
    "--disable-background-networking --disable-component-update --disable-sync"
)
SECONDS = 240
# Until a click that has changed nothing is repeated.
PATIENCE = 5
TASKS = {
    "Named entities": "ner",
    "Entailment": "snli",
    "Semantic roles": "srl",
    "Coreference": "coref",
    "Question answering": "squad",
    "Sentiment": "sst",
}

pytestmark = pytest.mark.skipif(
    not (CHROMIUM and CHROMEDRIVER), reason="no Chromium and ChromeDriver; Debian: apt-get install chromium-driver"
)


class Server:
    """`allennlp elmo-demo`, started as a person starts it."""

    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "allennlp", "elmo-demo", "--no-browser", "--port", "0", *arguments]
        self.process = subprocess.Popen(
            [*command, "--include-package", "elmo_plugin"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "PYTHONWARNINGS": "ignore"},
        )
        self.lines: List[str] = []
        for line in self.process.stdout:
            self.lines.append(line)
            if found := re.search(r"The page is at (http://127\.0\.0\.1:\d+)", line):
                self.address = found[1]
                return
        pytest.fail("the page didn't start:\n" + "".join(self.lines))

    def interrupt(self) -> int:
        self.process.send_signal(signal.SIGINT)
        self.lines += self.process.communicate(timeout=SECONDS)[0].splitlines(keepends=True)
        return self.process.returncode


@pytest.fixture(scope="module")
def server(archive_of, root, tmp_path_factory) -> Iterator[Server]:
    """A page with a language model, an index of its biLM, and two models of each task."""
    language_model = archive_of("fixtures/bilm_training/small")
    archives = [archive_of(f"fixtures/{task}/{variant}") for task in TASKS.values() for variant in ("baseline", "elmo")]
    index = str(tmp_path_factory.mktemp("index") / "index")
    build_index(index, ElmoEmbedder(loading.load(language_model)), str(root / "fixtures/data/demo/heldout.txt"))
    server = Server("--language-model", language_model, "--index", index, "--archive", *archives)
    yield server
    server.interrupt()


@pytest.fixture(scope="module")
def chromium(tmp_path_factory) -> Iterator["webdriver.Chrome"]:
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS.split(), f"--user-data-dir={tmp_path_factory.mktemp('chromium')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(CHROMEDRIVER))
    yield driver
    driver.quit()


class Page:
    """What a person does on the page, and sees."""

    def __init__(self, driver: "webdriver.Chrome", address: str, width: int = 1280) -> None:
        self._driver = driver
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        driver.get(address)
        self.wait(lambda: self.visible("button.compute"))

    def wait(self, condition: Callable[[], object]) -> None:
        passing = (StaleElementReferenceException, ElementClickInterceptedException, IndexError)
        WebDriverWait(self._driver, SECONDS, ignored_exceptions=passing).until(lambda _: condition())

    def visible(self, selector: str) -> List[WebElement]:
        shown = []
        for element in self._driver.find_elements(By.CSS_SELECTOR, selector):
            with contextlib.suppress(StaleElementReferenceException):  # redrawn meanwhile
                if element.is_displayed():
                    shown.append(element)
        return shown

    def texts(self, selector: str) -> List[str]:
        """Read all at once, since the page may be redrawing them."""
        script = """return [...document.querySelectorAll(arguments[0])]
            .filter(element => element.getClientRects().length).map(element => element.innerText.trim())"""
        return self._driver.execute_script(script, selector)

    def click(self, selector: str, number: int = 0) -> None:
        def is_clicked() -> bool:
            self.visible(selector)[number].click()
            return True

        self.wait(is_clicked)

    def open_tab(self, name: str) -> None:
        (tab,) = [each for each in self._driver.find_elements(By.CSS_SELECTOR, ".q-tab") if _text(each) == name]
        self._driver.execute_script("arguments[0].click()", tab)  # on a phone, some tabs lie behind an arrow
        self.wait(lambda: self.visible("button.compute, .q-tab-panel"))
        self.wait(lambda: tab.get_attribute("aria-selected") == "true")

    def type(self, label: str, text: str) -> None:
        (field,) = [each for each in self.visible("input, textarea") if each.get_attribute("aria-label") == label]
        self._driver.execute_script("arguments[0].focus(); arguments[0].select()", field)
        self._driver.execute_script("document.execCommand('insertText', false, arguments[0])", text)

    def compute(self, seen: str) -> None:
        """Clicks on the tab's button, and waits until the results show `seen`.

        On a busy machine a click can be lost while the page is being laid out: the button then stays enabled, and a
        person clicks again.
        """
        self.wait(lambda: len(self.visible("button.compute")) == 1)
        clicked = -math.inf

        def is_answered() -> bool:
            nonlocal clicked
            if time.monotonic() > clicked + PATIENCE and self.visible("button.compute")[0].is_enabled():
                self.click("button.compute")
                clicked = time.monotonic()
            return any(seen in text for text in self.texts(".results"))

        self.wait(is_answered)
        self.wait(lambda: self.visible("button.compute")[0].is_enabled())

    def overflowing(self) -> List[str]:
        """What a person would have to scroll sideways for, once the page has had time to lay itself out."""
        script = """return [document.documentElement, ...document.querySelectorAll('.q-tab-panel')]
            .filter(element => element.scrollWidth > element.clientWidth + 1).map(element => element.className)"""
        with contextlib.suppress(TimeoutException):
            self.wait(lambda: self._driver.execute_script(script) == [])
        return self._driver.execute_script(script)

    def requested_hosts(self) -> set:
        messages = [json.loads(entry["message"])["message"] for entry in self._driver.get_log("performance")]
        urls = [each["params"]["request"]["url"] for each in messages if each["method"] == "Network.requestWillBeSent"]
        return {url.split("/")[2] for url in urls if url.startswith(("http", "ws"))}


def _text(element: WebElement) -> str:
    return (element.get_attribute("textContent") or "").strip()


@pytest.fixture
def page(chromium, server) -> Page:
    return Page(chromium, server.address)


def test_the_same_word_is_compared_in_its_sentences_layer_by_layer(page):
    page.type("Sentences", "A bank by the river .\nThe bank is closed .\nShe went home .")
    page.wait(lambda: "bank (2)" in page.texts("button.word"))
    page.compute("biLM, layer 2")
    (heat_maps,) = page.texts(".heat-maps")
    assert [line for line in heat_maps.splitlines() if "layer" in line] == [
        "biLM, token layer",
        "biLM, layer 1",
        "biLM, layer 2",
    ]
    # Without context a word is like itself.
    token_layer, _, top_layer = re.split(r"biLM, layer \d", heat_maps)
    assert set(re.findall(r"\d\.\d\d", token_layer)) == {"1.00"}
    assert len(re.findall(r"\d\.\d\d", token_layer)) == len(re.findall(r"\d\.\d\d", top_layer)) == 4


def test_words_are_picked_and_let_go_by_clicking_on_them(page):
    page.type("Sentences", "one two\nthree four")
    page.wait(lambda: page.texts("button.word") == ["one", "two", "three", "four"])
    for number, expected in ((0, ["one (1)", "two", "three", "four"]), (3, ["one (1)", "two", "three", "four (2)"])):
        page.click("button.word", number)
        page.wait(lambda expected=expected: page.texts("button.word") == expected)
    page.click("button.word")
    page.wait(lambda: page.texts("button.word") == ["one", "two", "three", "four (1)"])
    page.compute("Pick 2 to 12 words to compare; 1 are picked.")
    assert page.texts("button.word") == ["one", "two", "three", "four (1)"]


def test_nearest_tokens_come_from_the_index(page):
    page.type("Sentences", "an old horse can run .\nevery horse can run .")
    page.wait(lambda: "horse (2)" in page.texts("button.word"))
    page.compute("Nearest to 2, horse, in the index")
    assert len(page.visible(".neighbour")) == 10 and all("[" in text for text in page.texts(".neighbour"))


def test_a_clicked_example_is_filled_in(page):
    page.click(".example", 1)
    page.wait(lambda: any(text.startswith("record (") for text in page.texts("button.word")))
    assert [text for text in page.texts("button.word") if "(" in text] == ["record (1)", "record (2)", "record (3)"]


def test_the_language_model_says_what_surprises_it_and_names_other_words(page):
    page.open_tab("Language model")
    page.type("Sentence", "the old dog can run .")
    page.compute("Mean perplexity")
    for direction in ("forward", "backward"):
        words = [text.split("\n") for text in page.texts(f".surprise-{direction} button.word")]
        assert [word for word, _ in words] == ["the", "old", "dog", "can", "run", "."]
        assert all(0 < float(bits) < 30 for _, bits in words)
    page.click(".surprise-backward button.word", 2)
    page.wait(lambda: any("In place of “dog”" in text for text in page.texts(".results")))
    columns = page.texts(".substitutes .bars")
    assert len(columns) == 3 and all(column.count("%") == 10 for column in columns)


@pytest.mark.parametrize("title", TASKS)
def test_two_models_of_a_task_answer_side_by_side(page, title):
    page.open_tab("Tasks")
    page.open_tab(title)
    page.compute("Layer weights")
    baseline, elmo = page.visible(".model")
    assert baseline.location["y"] == elmo.location["y"] and baseline.location["x"] < elmo.location["x"]
    assert "A baseline: it has no ELMo layers to weigh." in baseline.text
    assert "biLM, token layer" in elmo.text
    num_bars = {"Entailment": 3, "Sentiment": 5}.get(title, 0)
    if num_bars:
        assert baseline.text.count("%") == num_bars


def test_entities_are_marked_in_the_text_as_it_was_typed(page):
    page.open_tab("Tasks")
    page.open_tab("Named entities")
    page.type("Sentence", "Ada <b>met</b>  Bo & co.")
    page.compute("Layer weights")
    for text in page.visible(".marked-text"):
        labels = {_text(each) for each in text.find_elements(By.CSS_SELECTOR, "mark > span:last-child")}
        shown = _text(text)
        for label in labels:
            shown = shown.replace(label, "")
        assert shown == "Ada <b>met</b>  Bo & co."


def test_errors_are_sentences_and_the_page_goes_on(page):
    page.open_tab("Tasks")
    page.open_tab("Entailment")
    page.type("Hypothesis", "")
    page.compute("Hypothesis: there is no text yet.")
    page.type("Hypothesis", "word " * 2000)
    page.compute("this text has 9,999 characters; the page takes up to 5,000 at a time")
    page.type("Hypothesis", "A dog runs.")
    page.compute("entailment")
    page.open_tab("Semantic roles")
    page.type("Predicates, separated by spaces; if empty, the model finds them", "flies")
    page.compute("The predicate 'flies' isn't one of the tokens")
    assert not any("Traceback" in text for text in page.texts("body"))


def test_many_visitors_at_once_are_answered_in_turn(chromium, server):
    page = Page(chromium, server.address)
    first = chromium.current_window_handle
    others = []
    for _ in range(3):
        chromium.switch_to.new_window("tab")
        others.append(chromium.current_window_handle)
        Page(chromium, server.address)
    for handle in (first, *others):
        chromium.switch_to.window(handle)
        page.click("button.compute")
    num_answered = 0
    for handle in (*others, first):
        chromium.switch_to.window(handle)
        page.wait(lambda: page.visible("button.compute")[0].is_enabled())
        page.compute("biLM, layer 2")
        num_answered += len(page.visible(".heat-maps"))
        if handle != first:
            chromium.close()
    chromium.switch_to.window(first)
    assert num_answered == 4


def test_on_a_phone_nothing_has_to_be_scrolled_sideways(chromium, server):
    page = Page(chromium, server.address, width=390)
    page.compute("biLM, layer 2")
    assert page.overflowing() == []
    page.open_tab("Language model")
    page.compute("Mean perplexity")
    assert page.overflowing() == []
    page.open_tab("Tasks")
    for title in TASKS:
        page.open_tab(title)
        page.compute("Layer weights")
        assert page.overflowing() == []
        page.wait(lambda: len(page.visible(".model")) == 2)
        upper, lower = page.visible(".model")
        assert upper.location["x"] == lower.location["x"] and upper.location["y"] < lower.location["y"]


@pytest.mark.parametrize("scheme, is_light", [("light", True), ("dark", False)])
def test_it_is_as_light_or_dark_as_the_browser_is_set(chromium, server, scheme, is_light):
    feature = {"name": "prefers-color-scheme", "value": scheme}
    chromium.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
    Page(chromium, server.address)
    colour = chromium.execute_script("return getComputedStyle(document.body).backgroundColor")
    red = float(re.findall(r"[\d.]+", colour)[0])
    alpha = float((re.findall(r"[\d.]+", colour) + ["1"])[3])
    assert (alpha == 0 or red > 200) == is_light


def test_nobody_else_is_asked_for_anything_and_the_browser_complains_of_nothing(chromium, server):
    chromium.get_log("performance"), chromium.get_log("browser")
    page = Page(chromium, server.address)
    page.compute("biLM, layer 2")
    page.open_tab("Tasks")
    page.compute("Layer weights")
    assert page.requested_hosts() == {server.address.removeprefix("http://")}
    assert [entry["message"] for entry in chromium.get_log("browser") if entry["level"] == "SEVERE"] == []


def test_with_nothing_given_all_tabs_work_on_what_ships_and_ctrl_c_ends_it(chromium, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    server = Server()
    page = Page(chromium, server.address)
    page.open_tab("Language model")
    page.compute("Mean perplexity")
    assert any("The model is wiki-base." in text for text in page.texts("body"))
    page.open_tab("Tasks")
    page.compute("Layer weights")
    assert {"Ada Lovelace PER", "Charles Babbage PER", "London LOC"} <= {
        re.sub(r"(PER|LOC|ORG)$", r" \1", _text(mark)) for mark in page.visible("mark")
    }
    assert server.interrupt() == 0
    assert any("Training an entity recogniser" in line for line in server.lines)
    assert server.lines[-1] == "The page is closed.\n"
