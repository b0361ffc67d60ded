"""The browser of the tests: one Chromium a worker, driven from a thread of its own, and visits of pages in it.

playwright's sync API leaves a greenlet and an event loop in the thread that calls it, and marks that loop as running
between the calls: what runs in that thread next runs inside it. So the browser has a thread, called "browser", and the
body of each test that asks for it runs there. What the body raises, the test raises; where a test is interrupted, the
thread is not waited for without end.

A plugin (tests/conftest.py has its name): any test may ask for `browser`, and the first that does starts it.
"""

import shutil
import threading
from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar, cast
from urllib.parse import parse_qs, urlsplit

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

# The shell draws the same pages with three quarters of the processor time.
CHROMIUM = shutil.which("chromium-headless-shell") or shutil.which("chromium") or shutil.which("chromium-browser")
ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--font-render-hinting=none", "--disable-lcd-text", "--force-color-profile=srgb",  # the same picture anywhere
]  # fmt: skip
PATIENCE_MS = 120_000
STOPPING_SECONDS, ENDING_SECONDS = 30.0, 5.0  # of the browser, of a thread that has nothing to do
RUN = "/runs/slurm/mini/1"  # of the small demo fleet

MARKS = (
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium here: make services installs it"),
    pytest.mark.xdist_group("browser"),
)
T = TypeVar("T")


class BrowserThread:
    """A thread that does what it is given, one thing after the other."""

    def __init__(self) -> None:
        self._given: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        # A daemon: a test that was interrupted may wait in it for a page, and the process ends without it.
        self._thread = threading.Thread(target=self._work, name="browser", daemon=True)
        self._thread.start()

    def does(self, act: Callable[[], T], seconds: float | None = None) -> T:
        """Wait until something is done in the thread; return what it returns, or raise what it raises.

        Raises:
            TimeoutError: it takes longer than so many seconds.
        """
        done: Future[T] = Future()
        self._given.put((done, act))
        try:
            return done.result(seconds)
        finally:
            del done  # which has the error, whose traceback has this frame

    def end(self) -> None:
        """End the thread, unless a test that was interrupted still waits in it."""
        self._given.put(None)
        self._thread.join(ENDING_SECONDS)

    def _work(self) -> None:
        while (given := self._given.get()) is not None:
            done, act = given
            try:
                done.set_result(act())
            except BaseException as error:  # noqa: BLE001 - a skip and a failure of pytest are such, too
                done.set_exception(error)
            del given, done, act  # the error's traceback has this frame, and a test's arguments end with the test


@pytest.fixture(scope="session")
def browser_thread() -> Iterator[BrowserThread]:
    """Yield the thread in which everything of the browser is called."""
    thread = BrowserThread()
    yield thread
    thread.end()


@pytest.fixture(scope="session")
def browser(browser_thread: BrowserThread) -> Iterator["Browser"]:
    """Yield one browser for all tests of this worker; what a test leaves open in it is closed after the test."""
    from playwright.sync_api import sync_playwright  # here, where a browser is asked for: to load it takes a while

    playwright = browser_thread.does(sync_playwright().start)
    try:
        yield browser_thread.does(partial(playwright.chromium.launch, executable_path=CHROMIUM, args=ARGUMENTS))
    finally:
        # With it end its driver and the browser; where an interrupted test still waits, they end with the process.
        with suppress(TimeoutError):
            browser_thread.does(playwright.stop, STOPPING_SECONDS)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark each test that asks for the browser."""
    if "browser_thread" in getattr(item, "fixturenames", ()):
        for mark in MARKS:
            item.add_marker(mark)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Let the body of a test that asks for the browser run in the browser's thread."""
    thread = pyfuncitem.funcargs.get("browser_thread")
    if not isinstance(thread, BrowserThread):
        return (yield)
    body, browser = pyfuncitem.obj, cast("Browser", pyfuncitem.funcargs["browser"])
    pyfuncitem.obj = lambda **given: thread.does(partial(_alone, browser, body, given))
    try:
        return (yield)
    finally:
        pyfuncitem.obj = body


def _alone(browser: "Browser", body: Callable[..., object], given: Mapping[str, object]) -> object:
    try:
        return body(**given)
    finally:
        for context in browser.contexts:
            context.close()


class Visit:
    """A page that was opened with all its parts, and what went wrong on the way."""

    def __init__(self, browser: "Browser", url: str, width: int = 1280, scheme: str = "light") -> None:
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)  # type: ignore[arg-type]
        self.page: Page = context.new_page()
        self.complaints: list[str] = []
        self.elsewhere: list[str] = []
        self.page.on(
            "console", lambda message: self.complaints.append(message.text) if message.type == "error" else None
        )
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda asked: self.elsewhere.append(asked.url) if not _ours(asked.url) else None)
        self.page.goto(url)
        self.settle()

    def look(self, width: int, scheme: str) -> None:
        """Look at the page that is open in a window of this width, light or dark."""
        self.page.set_viewport_size({"width": width, "height": 900})
        self.page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]

    def settle(self) -> None:
        """Wait until every part is there."""
        self.page.wait_for_selector('[aria-busy="true"]', state="detached", timeout=PATIENCE_MS)

    def asks(self, is_wanted: Callable[[dict[str, list[str]]], bool]) -> None:
        """Wait until the address carries a state that is wanted: the browser tells of it a moment after the click.

        Raises:
            playwright.sync_api.TimeoutError: it never does.
        """
        self.page.wait_for_url(lambda url: is_wanted(parse_qs(urlsplit(url).query)), timeout=PATIENCE_MS)

    def close(self) -> None:
        """End, and say that nothing went wrong."""
        self.page.context.close()
        assert self.complaints == []
        assert self.elsewhere == []


def _ours(url: str) -> bool:
    return url.startswith(("http://127.0.0.1:", "data:", "blob:"))
