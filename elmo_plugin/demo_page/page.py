"""The page itself, built with NiceGUI.

NiceGUI was chosen because it ships all of its scripts, styles and fonts, has no telemetry to switch off, lets words be
clicked on, and needs no package that conflicts with AllenNLP's. A visitor's page is built in Python, and its state
lives with it.
"""

import asyncio
import contextlib
import functools
import logging
import socket
from typing import Any, AsyncIterator, Callable, List, Sequence, Set, Tuple

import uvicorn
from allennlp.common.checks import ConfigurationError
from fastapi import FastAPI
from nicegui import run, ui

from elmo_plugin.analysis.neighbours import TokenNeighbour, neighbours_of
from elmo_plugin.analysis.similarity import similarities
from elmo_plugin.demo_page import Shown, language_model, words
from elmo_plugin.demo_page.drawing import (
    draw,
    draw_bars,
    draw_heat_maps,
    example_chips,
    heading,
    note,
    surprise_button,
    word_button,
)
from elmo_plugin.demo_page.language_model import Reading
from elmo_plugin.demo_page.task_models import Task
from elmo_plugin.demo_page.texts import TextError
from elmo_plugin.demo_page.words import Pick
from elmo_plugin.tasks.common.display import Bars

logger = logging.getLogger(__name__)

WORD_EXAMPLES = [
    "They sat on the bank of the river.\nShe put her money in the bank.\nThe bank raised its rates.",
    "He broke the record in the long jump.\nShe bought the record in a small shop.\nThe record sold a million copies.",
    "The play opened on Broadway.\nThe children play in the garden.\nHe made a great play on the grounder.",
]
LANGUAGE_EXAMPLES = [
    "The river flows through the city and into the sea.",
    "She was born in Germany and studied at the university.",
    "The cat sat on the parliament.",
]

NUM_NEIGHBOURS = 5

_WRONG_INPUT = (TextError, ConfigurationError, ValueError)
# Computing uses all cores anyway, so visitors take turns.
_turn = asyncio.Semaphore(1)


def build(shown: Shown) -> None:
    """A visitor's page."""
    ui.colors(primary="#3367d6")
    with ui.column().classes("w-full max-w-5xl mx-auto gap-2 px-1"):
        with ui.row().classes("items-baseline gap-3"):
            ui.label("ELMo").classes("text-3xl font-bold")
            note(f"word vectors in context, by the biLM {shown.bilm_name}")
        with ui.tabs().props("align=left inline-label no-caps").classes("w-full") as tabs:
            for name in ("Words in context", "Language model", "Tasks"):
                ui.tab(name)
        with _panels(tabs, "Words in context"):
            with ui.tab_panel("Words in context").classes("px-0"):
                _WordsTab(shown)
            with ui.tab_panel("Language model").classes("px-0"):
                _LanguageTab(shown)
            with ui.tab_panel("Tasks").classes("px-0"):
                _tasks_tab(shown)


def _panels(tabs: ui.tabs, first: str) -> ui.tab_panels:
    """Not animated: a button that is still sliding in can be missed by a click."""
    return ui.tab_panels(tabs, value=first, animated=False).props("keep-alive").classes("w-full bg-transparent")


class _Tab:
    """A button that computes, with room beneath it for the result or an error message."""

    def __init__(self, shown: Shown) -> None:
        self._shown = shown

    def _add_button(self, label: str) -> None:
        with ui.row().classes("items-center gap-3"):
            self._button = ui.button(label, on_click=self._on_click).props("no-caps").classes("compute")
            self._spinner = ui.spinner(size="1.5em")
            self._spinner.set_visibility(False)
        self._results = ui.column().classes("results w-full gap-2")

    async def _on_click(self) -> None:
        """Computes outside the page's own thread, one visitor after the other."""
        self._button.disable()
        self._spinner.set_visibility(True)
        draw_results, content = await self._result()
        if self._results.is_deleted:
            return  # the visitor has left
        self._show(draw_results, content)
        self._button.enable()
        self._spinner.set_visibility(False)

    async def _result(self) -> Tuple[Callable[[Any], None], Any]:
        """What to show: the result, or a sentence that says why there is none."""
        try:
            prepared = self._prepare()
            async with _turn:
                return self._draw, await run.io_bound(self._compute, prepared)
        except _WRONG_INPUT as error:
            return _draw_error, _sentence(error)
        except Exception as error:
            logger.exception("the page couldn't show a result")
            return _draw_error, f"This didn't work ({type(error).__name__}); the terminal says more."

    def _show(self, draw_results: Callable[[Any], None], content: Any) -> None:
        self._results.clear()
        with self._results:
            draw_results(content)

    def _prepare(self) -> Any:
        """The checked input of the computation."""
        raise NotImplementedError

    def _compute(self, prepared: Any) -> Any:
        raise NotImplementedError

    def _draw(self, result: Any) -> None:
        raise NotImplementedError


def _draw_error(sentence: str) -> None:
    with ui.row().classes("error items-center no-wrap gap-2 text-negative"):
        ui.icon("error_outline").classes("text-xl")
        ui.label(sentence).classes("break-words min-w-0").props("role=alert")


def _sentence(error: Exception) -> str:
    text = " ".join(str(getattr(error, "message", error)).split())
    return f"{text[:1].upper()}{text[1:]}"


class _WordsTab(_Tab):
    """Sentences whose words can be picked, and how similar the picked ones are."""

    def __init__(self, shown: Shown) -> None:
        super().__init__(shown)
        self._sentences: List[List[str]] = []
        self._picks: Set[Pick] = set()
        note("Write two or more sentences, one per line, and pick words to compare: the same word, or different ones.")
        self._text = ui.textarea("Sentences", on_change=self._read).props(
            "outlined autogrow debounce=300 input-class=py-1"
        )
        self._text.classes("w-full")
        example_chips(
            [example.partition("\n")[0] for example in WORD_EXAMPLES],
            lambda number: self._text.set_value(WORD_EXAMPLES[number]),
        )
        self._words = ui.column().classes("words w-full gap-1")
        self._add_button("Compare")
        self._text.set_value(WORD_EXAMPLES[0])

    def _read(self) -> None:
        try:
            self._sentences = words.read_sentences(self._text.value or "", self._shown.max_characters)
            self._results.clear()
        except TextError as error:
            self._sentences = []
            self._show(_draw_error, str(error))
        self._picks = set(words.suggested_picks(self._sentences))
        self._draw_words()

    def _draw_words(self) -> None:
        self._words.clear()
        numbers = {pick: number for number, pick in enumerate(sorted(self._picks), start=1)}
        with self._words:
            for row, sentence in enumerate(self._sentences):
                with ui.row().classes("gap-0.5 items-center w-full"):
                    for place, word in enumerate(sentence):
                        pick = Pick(row, place)
                        label = f"{word} ({numbers[pick]})" if pick in numbers else word
                        word_button(label, functools.partial(self._toggle, pick), pick in numbers)

    def _toggle(self, pick: Pick) -> None:
        self._picks ^= {pick}
        self._draw_words()

    def _prepare(self) -> Any:
        return words.occurrences(self._sentences, self._picks)

    def _compute(self, chosen: Any) -> Any:
        embedder, store = self._shown.embedder, self._shown.store
        near = neighbours_of(embedder, store, chosen, NUM_NEIGHBOURS) if store else []
        return chosen, similarities(embedder, chosen), near

    def _draw(self, result: Any) -> None:
        chosen, cosines, near = result
        heading("Similarity by layer: the cosine between the words' vectors")
        with ui.column().classes("gap-0"):
            for number, sentence in enumerate(chosen, start=1):
                note(f"{number}. {sentence.excerpt()}")
        draw_heat_maps([str(number) for number in range(1, len(chosen) + 1)], cosines)
        for number, neighbours in enumerate(near, start=1):
            heading(f"Nearest to {number}, {chosen[number - 1].word}, in the index")
            _draw_neighbours(neighbours)


def _draw_neighbours(neighbours: Sequence[TokenNeighbour]) -> None:
    for cosine, sentence in neighbours:
        with ui.row().classes("neighbour no-wrap gap-3 w-full"):
            ui.label(f"{cosine:.2f}").classes("tabular-nums opacity-70")
            ui.label(sentence.excerpt(8)).classes("min-w-0 break-words")


class _LanguageTab(_Tab):
    """A sentence, what is surprising in it, and what might have been there instead."""

    def __init__(self, shown: Shown) -> None:
        super().__init__(shown)
        if shown.language_model is None:
            note(
                "This biLM comes as vectors only, without the softmax that names words. Start the page with a trained "
                "biLM to see what it expects: allennlp elmo-demo --language-model runs/bilm/model.tar.gz"
            )
            return
        note(
            "How surprising each word is, in bits, read from the left and from the right. Click on a word to see "
            f"others in its place. The model is {shown.language_model_name}."
        )
        self._sentence = ui.input("Sentence", value=LANGUAGE_EXAMPLES[0]).props("outlined").classes("w-full")
        self._sentence.on("keydown.enter", self._on_click)
        example_chips(LANGUAGE_EXAMPLES, lambda number: self._sentence.set_value(LANGUAGE_EXAMPLES[number]))
        self._add_button("Read")

    def _prepare(self) -> Any:
        return self._sentence.value or ""

    def _compute(self, sentence: str) -> Reading:
        assert self._shown.language_model is not None
        return language_model.read(self._shown.language_model, sentence, self._shown.max_characters)

    def _draw(self, reading: Reading) -> None:
        self._reading = reading
        most_surprising = max(reading.words, key=lambda word: word.forward_bits + word.backward_bits)
        self._draw_reading(reading.words.index(most_surprising))

    def _draw_reading(self, place: int) -> None:
        def pick(number: int) -> Callable[[], None]:
            return lambda: self._show(self._draw_reading, number)

        for direction, side in (("forward", "left"), ("backward", "right")):
            perplexity = self._reading.perplexity[direction]
            heading(f"Read from the {side}: perplexity {perplexity:,.1f}")
            with ui.row().classes(f"surprise-{direction} gap-1 w-full"):
                for number, word in enumerate(self._reading.words):
                    surprise_button(word.text, getattr(word, f"{direction}_bits"), pick(number), number == place)
        note(f"Mean perplexity {self._reading.perplexity['mean']:,.1f}.")
        unknown = sorted({word.text for word in self._reading.words if not word.is_known})
        if unknown:
            note(f"Not in its vocabulary, and scored as <UNK>: {', '.join(unknown)}.")
        self._draw_substitutes(place)

    def _draw_substitutes(self, place: int) -> None:
        word = self._reading.words[place]
        heading(f"In place of “{word.text}”")
        titles = {"forward": "By the words before", "backward": "By the words after", "both": "By both, as shares"}
        with ui.element("div").classes("substitutes grid grid-cols-1 sm:grid-cols-3 gap-4 w-full"):
            for direction, title in titles.items():
                with ui.column().classes("gap-1 min-w-0"):
                    heading(title)
                    draw_bars(Bars(title, word.substitutes[direction]))


def _tasks_tab(shown: Shown) -> None:
    if shown.task_note:
        note(shown.task_note)
    if len(shown.tasks) == 1:
        _TaskTab(shown, shown.tasks[0])
        return
    titles = [task.described.task_title for task in shown.tasks]
    with ui.tabs().props("align=left dense no-caps outside-arrows mobile-arrows").classes("w-full") as tabs:
        for title in titles:
            ui.tab(title)
    with _panels(tabs, titles[0]):
        for title, task in zip(titles, shown.tasks, strict=True):
            with ui.tab_panel(title).classes("px-0"):
                _TaskTab(shown, task)


class _TaskTab(_Tab):
    """A task's texts, and beneath them what each of its models says, side by side."""

    def __init__(self, shown: Shown, task: Task) -> None:
        super().__init__(shown)
        self._task = task
        self._fields = {}
        for each in task.described.inputs:
            field = ui.textarea(each.label) if each.is_long else ui.input(each.label)
            self._fields[each.key] = field.props("outlined autogrow").classes("w-full")
        first = task.described.inputs[0].key
        example_chips([example[first][:70] for example in task.described.examples], self._fill_in)
        self._add_button("Run")
        self._fill_in(0)

    def _fill_in(self, number: int) -> None:
        for key, field in self._fields.items():
            field.set_value(self._task.described.examples[number].get(key, ""))

    def _prepare(self) -> Any:
        texts = {key: field.value or "" for key, field in self._fields.items()}
        return self._task.check_inputs(texts, self._shown.max_characters)

    def _compute(self, inputs: Any) -> Any:
        return self._task.predict(inputs)

    def _draw(self, outputs: Any) -> None:
        columns = "lg:grid-cols-2" if len(outputs) > 1 else ""
        with ui.element("div").classes(f"grid grid-cols-1 {columns} gap-4 w-full"):
            for model, displays in zip(self._task.models, outputs, strict=True):
                with ui.card().classes("model w-full min-w-0 gap-1"):
                    ui.label(model.name).classes("text-lg font-semibold break-words")
                    for display in displays or ():
                        draw(display)
                    if not displays:
                        note("Nothing was found in this text.")
                    for weights in model.layer_weights:
                        draw(weights)
                    if not model.layer_weights:
                        note("A baseline: it has no ELMo layers to weigh.")


def serve(shown: Shown, sockets: List[socket.socket], when_ready: Callable[[], None]) -> None:
    """Serves on open sockets until it is interrupted, which raises KeyboardInterrupt."""

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        when_ready()
        yield

    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, lifespan=lifespan)
    ui.run_with(app, root=lambda: build(shown), title="ELMo", dark=None, show_welcome_message=False)
    config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1)
    uvicorn.Server(config).run(sockets)
