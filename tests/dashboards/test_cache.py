"""Kept pages: bounded, made once, and never of another state of the ledger without saying so."""

import threading
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analyzer.errors import LedgerError
from analyzer.interfaces.api.parameters import BusyError
from dashboards import page_cache as module
from dashboards.disk_cache import PageRecord
from dashboards.page_cache import PAGE_BYTES, PageCache
from tests.waiting import PATIENCE_SECONDS


def page(text: str, state: Hashable = 1) -> Callable[[], PageRecord]:
    """Return what makes a page."""
    return lambda: PageRecord(state, text, 0)


def text(made: PageRecord | None) -> str | None:
    """Return what a page says, or None where there is none yet."""
    return None if made is None else made.text


def test_kept_pages_are_bounded() -> None:
    """Addresses are the visitor's to choose: they must not fill the memory."""
    cache = PageCache(pages=3)
    for number in range(10):
        cache.get(number, 1, page(str(number)))
    assert text(cache.get(9, 1, page("again"))) == "9"
    assert text(cache.get(0, 1, page("again"))) == "again"


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 40)), max_size=40))
def test_their_bytes_are_bounded_too(asked: list[tuple[int, int]]) -> None:
    """A few hundred pages of a large fleet are a gigabyte; the count of bytes must not drift from what is kept."""
    cache = PageCache(size=100)
    for state, (key, size) in enumerate(asked):
        made = cache.get(key, state, page("x" * size, state))
        assert text(made) == "x" * size
        assert cache.bytes <= 100
    for key in range(6):
        cache.get(key, "last", page("", "last"))
    assert cache.bytes == 0


def test_a_page_that_is_too_large_is_not_kept() -> None:
    """One page must not drive out all others."""
    cache = PageCache()
    cache.get("large", 1, page("x" * (PAGE_BYTES + 1)))
    assert text(cache.get("large", 1, page("again"))) == "again"


def test_a_page_of_another_state_is_made_anew() -> None:
    """What the ledger said before is not what it says."""
    cache = PageCache()
    cache.get("fleet", 1, page("old"))
    assert text(cache.get("fleet", 2, page("new", 2))) == "new"


def test_who_has_patience_gets_what_there_was_and_then_what_is() -> None:
    """A reader looks at the newest figures there are, with their state, until those of now are there."""
    cache, goes_on = PageCache(), threading.Event()

    def slow() -> PageRecord:
        goes_on.wait(PATIENCE_SECONDS)
        return PageRecord(2, "new", 0)

    assert cache.get("money", 2, slow, patience=0.01) is None
    cache.get("fleet", 1, page("old"))
    assert cache.get("fleet", 2, slow, patience=0.01) == PageRecord(1, "old", 0)
    goes_on.set()
    assert text(cache.get("fleet", 2, page("made twice", 2))) == "new"
    cache.close()


def test_of_those_who_ask_at_once_one_makes_it() -> None:
    """What everybody opens on Monday morning costs one look at the ledger."""
    cache, calls, begun = PageCache(), list[int](), threading.Barrier(4)

    def make() -> PageRecord:
        calls.append(1)
        return PageRecord(1, "week", 0)

    def ask(patience: float | None) -> str | None:
        begun.wait(PATIENCE_SECONDS)
        return text(cache.get("week", 1, make, patience))

    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(ask, [None, PATIENCE_SECONDS, None, PATIENCE_SECONDS]))
    assert (answers, len(calls)) == (["week"] * 4, 1)


def test_who_waited_for_a_page_of_the_state_before_gets_that_of_now() -> None:
    """A pass may end while a page is made: who came after it must not be shown what was before it as if it were now."""
    cache, begun, goes_on = PageCache(), threading.Event(), threading.Event()

    def before() -> PageRecord:
        begun.set()
        goes_on.wait(PATIENCE_SECONDS)
        return PageRecord(1, "before", 0)

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(cache.get, "week", 1, before)
        assert begun.wait(PATIENCE_SECONDS)
        second = pool.submit(cache.get, "week", 2, page("after", 2))
        goes_on.set()
        assert (text(first.result()), text(second.result())) == ("before", "after")


def test_a_failure_is_told_and_not_kept() -> None:
    """The ledger may be there a moment later; a page of before stays until then."""
    cache = PageCache()

    def fail() -> PageRecord:
        raise LedgerError("empty")

    for patience in (None, PATIENCE_SECONDS):
        with pytest.raises(LedgerError):
            cache.get("week", 1, fail, patience)
    assert text(cache.get("week", 1, page("there"))) == "there"


def test_as_many_as_may_are_made_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A queue without an end is a server without an answer."""
    monkeypatch.setattr(module, "MAKING", 2)
    cache, goes_on = PageCache(), threading.Event()

    def slow() -> PageRecord:
        goes_on.wait(PATIENCE_SECONDS)
        return PageRecord(1, "", 0)

    for key in ("a", "b"):
        assert cache.get(key, 1, slow, patience=0.0) is None
    with pytest.raises(BusyError):
        cache.get("c", 1, slow, patience=0.0)
    goes_on.set()
    cache.close()
