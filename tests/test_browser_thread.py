"""The browser's thread: what tests leave in it stays in it, and what they raise there reaches them."""

import asyncio
import threading
from collections.abc import Callable, Iterator

import pytest
from greenlet import getcurrent  # type: ignore[import-untyped]
from playwright.sync_api import Browser

from tests.browser import BrowserThread


@pytest.fixture
def thread() -> Iterator[BrowserThread]:
    """Yield a thread without a browser."""
    thread = BrowserThread()
    yield thread
    thread.end()


@pytest.fixture
def around(browser: Browser) -> Iterator[int]:
    """Yield the thread of the other tests, and see afterwards that the browser has left nothing in it."""
    yield threading.get_ident()
    with pytest.raises(RuntimeError, match="no running event loop"):
        asyncio.get_running_loop()
    assert getcurrent().parent is None
    assert browser.contexts == []


def test_the_browser_is_driven_where_no_other_test_runs(browser: Browser, around: int) -> None:
    """Its loop counts as running between two calls: a test that starts one of its own could not, and ended a worker."""
    assert threading.get_ident() != around
    assert threading.current_thread().name == "browser"
    page = browser.new_page()
    page.set_content("<p>here</p>")
    assert page.inner_text("p") == "here"
    assert asyncio.get_running_loop() is not None, "or this test shows nothing"


@pytest.mark.parametrize("ends", [pytest.skip, pytest.fail, pytest.exit])
def test_what_ends_a_test_ends_it_from_there_too(thread: BrowserThread, ends: Callable[[str], None]) -> None:
    """A skip and a failure are exceptions that are no `Exception`, and the next test finds the thread as it was."""
    with pytest.raises(BaseException, match="said in the thread") as raised:
        thread.does(lambda: ends("said in the thread"))
    assert "<lambda>" in [entry.name for entry in raised.traceback]
    assert thread.does(threading.current_thread).name == "browser"


def test_a_body_that_does_not_end_is_waited_for_so_long(thread: BrowserThread) -> None:
    """Who interrupts a run waits no longer than for a browser to end."""
    holds = threading.Event()
    with pytest.raises(TimeoutError):
        thread.does(holds.wait, 0.05)
    holds.set()
