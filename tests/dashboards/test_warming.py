"""What is made before anybody asks: in order, beside the passes, and to an end."""

import threading
from collections.abc import Callable, Iterable

import pytest

from analyzer.errors import LedgerError
from dashboards.server import prefetch as module
from dashboards.server.prefetch import Prefetch
from tests.waiting import until


def test_what_is_seen_at_once_comes_first() -> None:
    """A reader who comes a second after the start wants the page, and only then its parts."""
    made: list[str] = []

    def views(*names: str) -> Callable[[], Iterable[Callable[[], None]]]:
        return lambda: [lambda name=name: made.append(name) for name in names]  # type: ignore[misc]

    prefetch = Prefetch(views("fleet", "money"), views("advice"), lambda: False)
    assert prefetch.turn()
    assert (made, prefetch.made) == (["fleet", "money", "advice"], 3)


def test_the_rest_waits_for_the_pass_that_is_under_way() -> None:
    """Its end would void what was made, and it is to have the processors."""
    made, passing = list[str](), threading.Event()
    passing.set()
    prefetch = Prefetch(lambda: [lambda: made.append("first")], lambda: [lambda: made.append("rest")], passing.is_set)
    prefetch.start()
    until(lambda: made == ["first"], "the first is made")
    passing.clear()
    until(lambda: made == ["first", "rest"], "the rest is made")
    prefetch.stop()


def test_a_turn_gives_way_to_the_next() -> None:
    """What is made of a ledger that has changed meanwhile is made for nobody."""
    made: list[str] = []
    prefetch = Prefetch(
        lambda: [lambda: made.append("old"), prefetch.ask, lambda: made.append("never")], list, lambda: False
    )
    assert not prefetch.turn()
    assert made == ["old"]


def test_a_turn_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a fleet that is too large for it, some pages are made when they are asked for."""
    monkeypatch.setattr(module, "MOST_SECONDS", -1.0)
    prefetch = Prefetch(lambda: [lambda: None], list, lambda: False)
    assert not prefetch.turn()
    assert prefetch.made == 0


def test_a_ledger_that_cannot_be_read_ends_a_turn_and_no_more() -> None:
    """Before the first hour there is nothing to make; the next pass asks again."""

    def fail() -> None:
        raise LedgerError("the ledger is empty")

    prefetch = Prefetch(lambda: [fail], list, lambda: False)
    prefetch.start()
    until(lambda: prefetch.turns == 1, "the first turn ends")
    prefetch.ask()
    until(lambda: prefetch.turns == 2, "the second turn ends")
    assert prefetch.failed == 2
    prefetch.stop()
