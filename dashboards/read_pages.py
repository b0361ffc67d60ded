"""Pages that are read through the API's door: what a key may not see is not read for it, nor summed."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from fastapi.responses import HTMLResponse
from starlette.responses import Response

from analyzer.api.faults import BusyError
from analyzer.api.scope import Scope
from analyzer.errors import ConfigError, LedgerError
from analyzer.report.sheet import sheet_text
from dashboards.cache import PageCache
from dashboards.frame import STRICT

if TYPE_CHECKING:
    from fastapi import Request

    from analyzer.api.desk import Desk, Reading
    from dashboards.frame import Frame

NOT_FOUND, BAD_REQUEST, UNAVAILABLE = 404, 400, 503
CSV = "text/csv; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Sheet:
    """The numbers of a table or chart, exact: what its CSV holds. `head` names the unit of each column."""

    head: tuple[str, ...]
    rows: Sequence[Sequence[object]]


@dataclass(frozen=True, slots=True)
class Asked:
    """The state of a page as its address has it: which page, which period, and what else was chosen."""

    here: str
    week: str | None = None
    chosen: Mapping[str, str] = field(default_factory=dict)

    def link(self, path: str | None = None, **changed: str | None) -> str:
        """Return the address of this state, or of one that differs; None leaves a word out."""
        words = {"week": self.week, **self.chosen, **changed}
        query = urlencode({name: value for name, value in words.items() if value})
        return f"{path or self.here}?{query}" if query else path or self.here


View = Callable[["Reading"], Mapping[str, object]]


class ReadPages:
    """Answers with pages and sheets of what a request may see."""

    def __init__(self, desk: "Desk", frame: "Frame") -> None:
        self._desk = desk
        self._frame = frame
        self._cache = PageCache()

    def page(
        self,
        request: "Request",
        asked: Asked,
        template: str,
        view: View,
        *,
        follows_ledger: bool = True,
        status: int = 200,
    ) -> Response:
        """Return a page; one that changes with the ledger alone is kept until that does."""
        teams = Scope.of(request.scope).teams

        def made(reading: "Reading") -> str:
            shown = {"asked": asked, "link": asked.link, **view(reading)}
            return self._frame.render(template, asked.here, asked.week, teams, **shown)

        try:
            with self._desk.reading(request) as reading:
                if not follows_ledger:
                    return HTMLResponse(made(reading), status, STRICT)
                key = (request.url.path, request.url.query, teams, reading.generation, self._frame.state)
                return HTMLResponse(self._cache.get(key, lambda: made(reading)), status, STRICT)
        except (LedgerError, ConfigError, BusyError) as error:
            return self.told(asked, teams, error)

    def told(self, asked: Asked, teams: tuple[str, ...] | None, error: Exception) -> Response:
        """Return the page that says what is wrong with what was asked."""
        status = NOT_FOUND if isinstance(error, LedgerError) else BAD_REQUEST
        status = UNAVAILABLE if isinstance(error, BusyError) else status
        page = self._frame.render("told.html", asked.here, None, teams, message=f"{error}.")
        return HTMLResponse(page, status, STRICT)

    def sheet(self, request: "Request", name: str, sheets: Mapping[str, Callable[["Reading"], Sheet]]) -> Response:
        """Return one of a page's sheets as CSV."""
        if name not in sheets:
            known = ", ".join(sheets)
            return Response(f"there is no sheet {name!r}; there are {known}\n", NOT_FOUND, STRICT, "text/plain")
        try:
            with self._desk.reading(request) as reading:
                made = sheets[name](reading)
        except (LedgerError, ConfigError, BusyError) as error:
            status = NOT_FOUND if isinstance(error, LedgerError) else BAD_REQUEST
            return Response(f"{error}\n", status, STRICT, "text/plain; charset=utf-8")
        kept = {"Content-Disposition": f'attachment; filename="{name}"'}
        return Response(sheet_text(made.head, made.rows), media_type=CSV, headers=STRICT | kept)
