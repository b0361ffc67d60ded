"""The way to the ledger: nothing is made twice, and no number of readers takes all memory."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from starlette.requests import Request

from analyzer.errors import LedgerError
from analyzer.interfaces.api.parameters import BusyError
from analyzer.interfaces.api.request_service import RequestContext, RequestService
from analyzer.queries.generation import Generations, ReadingCache
from analyzer.reports.document import Document
from analyzer.settings.settings import Settings
from tests.analyzer.ledger.fleet import HOUR, MONDAY, Fleet
from tests.waiting import PATIENCE_SECONDS


def request() -> Request:
    """Return a request as the server gets it."""
    scope = {"type": "http", "method": "GET", "path": "/v1/x", "query_string": b"", "headers": [], "scheme": "http"}
    return Request(scope | {"server": ("localhost", 80)})


def test_what_many_ask_for_is_made_once() -> None:
    """A page that everybody opens on Monday morning costs one look at the ledger, not forty."""
    kept, calls, begun = ReadingCache(), list[int](), threading.Barrier(9)

    def make() -> int:
        calls.append(1)
        return 42

    def ask(_: int) -> int:
        begun.wait(PATIENCE_SECONDS)
        return kept.get("week", make)

    with ThreadPoolExecutor(8) as pool:
        answers = [pool.submit(ask, number) for number in range(8)]
        begun.wait(PATIENCE_SECONDS)
        assert [answer.result(PATIENCE_SECONDS) for answer in answers] == [42] * 8
    assert len(calls) == 1


def test_a_failure_is_not_kept() -> None:
    """The ledger may be there a moment later."""
    kept = ReadingCache()

    def fail() -> int:
        raise LedgerError("empty")

    with pytest.raises(LedgerError):
        kept.get("week", fail)
    assert kept.get("week", lambda: 1) == 1


def test_what_is_kept_has_a_bound() -> None:
    """The one that was asked for longest ago goes."""
    kept = ReadingCache(most=2)
    for key in ("a", "b", "a", "c"):
        kept.get(key, lambda key=key: key)  # type: ignore[misc]
    assert kept.get("a", lambda: "again") == "a"
    assert kept.get("b", lambda: "again") == "again"


def test_who_comes_when_all_places_are_taken_is_told_so() -> None:
    """Each reader takes memory of DuckDB's; a sentence now beats a process that is killed."""
    fleet, reads, done = Fleet(), threading.Event(), threading.Event()
    service = RequestService(fleet.store.session, Settings(), at_once=1, patience_seconds=0.01)

    def slow(context: RequestContext) -> Document:
        reads.set()
        done.wait(PATIENCE_SECONDS)
        return Document(**context.head())

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(service.answer, request(), slow)
        assert reads.wait(PATIENCE_SECONDS)
        with pytest.raises(BusyError):
            service.answer(request(), slow)
        done.set()
        assert first.result(PATIENCE_SECONDS).status_code == 200
    assert service.answer(request(), slow).status_code == 200


def test_a_generation_is_of_the_content() -> None:
    """Runs that get another team are news, though no hour has changed; other settings show other amounts."""
    fleet = Fleet()
    fleet.own("n1", ["g0"])
    fleet.hold("slurm/alpha/1", "n1", ["g0"], MONDAY, MONDAY + HOUR)
    fleet.sample("n1", "g0", MONDAY, MONDAY + HOUR)
    fleet.analyze()
    with fleet.store.session() as session:
        before = Generations(Settings()).of(session)
        assert Generations(Settings(timezone="Europe/Berlin")).of(session) != before
        session.execute("UPDATE runs SET team = 'other'")
        assert Generations(Settings()).of(session) != before
