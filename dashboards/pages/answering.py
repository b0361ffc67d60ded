"""Answer with pages that are kept: whole where they are ready, else at once with what there is, and with its time.

A browser that opens a page does not look at nothing: after PATIENCE_SECONDS it gets the page as it was before the
ledger changed, or the frame alone, and asks again by itself. Scripts, and parts of pages, wait until what they asked
for is made.
"""

import threading
import time
import zlib
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote

from starlette.responses import Response

from dashboards.disk_cache import PageRecord
from dashboards.page_cache import PageCache

if TYPE_CHECKING:
    from fastapi import Request

    from analyzer.interfaces.api.scope import Scope
    from dashboards.pages.frame import Frame

PATIENCE_SECONDS = 0.3  # a third of what a first look may take
_AGAIN_SECONDS = 1  # after which a browser asks again
_AT_ONCE = "wait=0"  # RFC 7240: who prefers it takes a part as it was, or none, and waits the next time
_SEEN = 8  # views whose pages are made ahead: the whole site, and teams' keys
PAGE, PART = "text/html; charset=utf-8", "text/html;charset=utf-8"
_ACCEPTED, _NOT_MODIFIED = 202, 304

State = Callable[[], Hashable]
_Make = Callable[[], tuple[Hashable, str]]


@dataclass(frozen=True, slots=True)
class Wanted:
    """One page for one scope: `what` is its address in one spelling. `make` returns it and the state that it is of."""

    scope: "Scope"
    what: Hashable
    make: _Make
    here: str | None = None  # which page of the navigation it belongs to
    kind: str = PAGE

    @property
    def lasts(self) -> bool:
        """Whether it is kept for the next start: pages and their parts, not the curves of each zoom."""
        return self.kind in (PAGE, PART)


class Answering:
    """Answers a site's pages; `state` names the ledger's present state."""

    def __init__(self, frame: "Frame", state: State, cache: PageCache | None = None) -> None:
        self.frame = frame
        self._state = state
        self.cache = cache or PageCache()
        self._seen: OrderedDict[Scope, None] = OrderedDict()
        self._lock = threading.Lock()

    def answer(
        self, request: "Request", wanted: Wanted, headers: Mapping[str, str], state: Hashable | None = None
    ) -> Response:
        """Return the page, that it is as it was, or what there is of it at once.

        `state` is what the page must be of, where that is not the ledger's alone.

        Raises:
            LedgerError, ConfigError, BusyError: it cannot be made.
        """
        state, token = self._state() if state is None else state, request.scope.get("csrf", "")
        if wanted.kind == PART and request.headers.get("prefer") == _AT_ONCE:
            return self._at_once(request, wanted, headers, state)
        patience = None
        if is_opened(request) and wanted.kind == PAGE:
            self._see(wanted.scope)
            patience = PATIENCE_SECONDS
        made = self.cache.get(self._key(wanted), state, _made(wanted.make), patience, lasts=wanted.lasts)
        is_old = made is not None and made.state != state
        if made is None or (is_old and not self.frame.tells_time(made.text)):
            again = self.frame.render("waiting.html", wanted.here, None, wanted.scope.teams, again=_address(request))
            return Response(again, _ACCEPTED, _soon(request, headers), PAGE)
        if is_old:
            page = self.frame.finished(made.text, older_than_now=made.read_at, token=token)
            return Response(page, headers=_soon(request, headers), media_type=PAGE)
        page = self.frame.finished(made.text, token=token) if wanted.kind == PAGE else made.text
        return _tagged(request, page, headers, wanted.kind)

    def _at_once(self, request: "Request", wanted: Wanted, headers: Mapping[str, str], state: Hashable) -> Response:
        """Return what is kept of a part, of before with its time; who finds nothing here asks again and waits."""
        made = self.cache.kept(self._key(wanted), state, lasts=wanted.lasts)
        if made is None:
            return Response(status_code=_ACCEPTED, headers=_soon(request, headers))
        if made.state == state:
            return _tagged(request, made.text, headers, wanted.kind)
        part = self.frame.part_of_before(made.text, made.read_at)
        return Response(part, headers=_soon(request, headers), media_type=wanted.kind)

    def seen(self) -> "list[Scope]":
        """Return who may see what, of those who opened a page lately; the newest first."""
        with self._lock:
            return list(reversed(self._seen))

    def _see(self, scope: "Scope") -> None:
        with self._lock:
            self._seen[scope] = None
            self._seen.move_to_end(scope)
            if len(self._seen) > _SEEN:
                self._seen.popitem(last=False)

    def ahead(self, wanted: Wanted) -> None:
        """Make a page before anybody asks for it, where it is not kept. Raises as answer() does."""
        self.cache.get(self._key(wanted), self._state(), _made(wanted.make), lasts=wanted.lasts)

    def _key(self, wanted: Wanted) -> Hashable:
        """Return what decides what a page shows: who may see what comes first, so that nobody gets another's."""
        return wanted.scope, self.frame.asks, wanted.kind, wanted.what


def _made(make: _Make) -> Callable[[], PageRecord]:
    def made() -> PageRecord:
        read_at = time.time_ns() // 1000
        state, text = make()
        return PageRecord(state, text, read_at)

    return made


def kind_of(request: "Request") -> str:
    """Return whether a part is asked for by our script, or opened by itself, as a page of its own."""
    return PAGE if is_opened(request) else PART


def is_opened(request: "Request") -> bool:
    """Whether a browser opens it, rather than a script or a program."""
    return request.headers.get("sec-fetch-dest") == "document"


def _address(request: "Request") -> str:
    path = quote(request.url.path)
    return f"{path}?{request.url.query}" if request.url.query else path


def _soon(request: "Request", headers: Mapping[str, str]) -> dict[str, str]:
    """Have a browser ask again: for a named address, since one with a fragment it would scroll to and not ask for."""
    return {**headers, "Refresh": f"{_AGAIN_SECONDS}; url={_address(request)}", "Cache-Control": "no-store"}


def _tagged(request: "Request", page: str, headers: Mapping[str, str], kind: str) -> Response:
    """Return the page, or that it is as it was: what is looked at all day asks again and again."""
    tag = f'"{zlib.crc32(page.encode()):08x}"'
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=_NOT_MODIFIED, headers={**headers, "ETag": tag})
    return Response(page, media_type=kind, headers={**headers, "ETag": tag})
