"""What a browser gets while the page of the ledger's new state is being made."""

import threading
from collections.abc import Hashable

from fastapi import Request

from analyzer.interfaces.api.request_service import Scope
from dashboards.pages.read_pages import Answering, Wanted
from tests.waiting import PATIENCE_SECONDS


class Plain:
    """A frame that adds nothing."""

    asks = False

    def tells_time(self, draft: str) -> bool:
        """Every page of it has a place for its time."""
        return bool(draft)

    def finished(self, draft: str, older_than_now: int | None = None, token: str = "") -> str:
        """Return the draft with the token of its reader."""
        return f"{draft} {token}{' older' if older_than_now else ''}"


def opened(path: str, query: bytes, csrf: str) -> Request:
    """Return a request of a browser that opens a page."""
    headers = [(b"sec-fetch-dest", b"document"), (b"host", b"localhost")]
    scope = {"type": "http", "method": "GET", "path": path, "query_string": query, "headers": headers, "csrf": csrf}
    return Request(scope | {"server": ("localhost", 80), "scheme": "http"})


def test_a_page_of_before_is_asked_for_again_by_its_address() -> None:
    """Without one, a browser whose address has a #place would scroll to it and never ask."""
    state, may_end = ["before"], threading.Event()

    def make() -> tuple[Hashable, str]:
        if state[0] == "after":
            may_end.wait(PATIENCE_SECONDS)
        return state[0], f"page {state[0]}"

    answering = Answering(Plain(), lambda: state[0])  # type: ignore[arg-type]
    wanted = Wanted(Scope(), "a page", make)
    try:
        first = answering.answer(opened("/runs/a b", b"week=1", "mine"), wanted, {})
        state[0] = "after"
        second = answering.answer(opened("/runs/a b", b"week=1", "yours"), wanted, {})
    finally:
        may_end.set()
        answering.cache.close()
    assert (first.body, first.headers.get("refresh")) == (b"page before mine", None)
    assert (second.body, second.headers["refresh"]) == (b"page before yours older", "1; url=/runs/a%20b?week=1")
