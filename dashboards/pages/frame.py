"""What is around every page: the ways to the others, who is logged in, how fresh it is, and what a browser may load.

Pages hand what was computed to their templates; how an amount, a time or a name is written is a filter.
"""

import gzip
import re
import time
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, cast
from urllib.parse import urlencode

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, PlainTextResponse
from markupsafe import Markup
from starlette.exceptions import HTTPException

from agent.wire.bounded import json_said
from agent.wire.units import DAY_US, MICROS, SECOND_US
from analyzer.finops.unit_cost.report import UnitLine
from analyzer.finops.unit_cost.text import digits, short
from analyzer.interfaces.doctor.sight import length_words, size
from analyzer.settings.settings import Settings
from analyzer.text.templating import DRAW, PLOTLY, TEMPLATES, environment_of
from analyzer.text.words import (
    UNKNOWN,
    amount,
    at_least,
    bytes_words,
    cents_of,
    dollars,
    gpu_hours,
    moment_words,
    money,
    money_decimals,
    owner_word,
    percent,
    plain,
    plain_sentence,
    signed,
)
from collector.access.access import Access
from collector.access.gate import endpoint_of
from dashboards.pages.marks import class_bar

if TYPE_CHECKING:
    from dashboards.analysis import Pass

_STATIC = Path(__file__).parents[1] / "static"
_STYLES = ("page", "plotly", "fleet", "run", "money", "placement", "operations")
_YEAR_SECONDS = 31_536_000
_TYPES = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}


@lru_cache(maxsize=8)
def asset(name: str) -> bytes | None:
    """Return a file's bytes; None where we serve no such file."""
    files = {
        "plotly.min.js": [PLOTLY],
        "page.js": [DRAW, _STATIC / "page.js"],
        "timeline.js": [_STATIC / "timeline.js"],
        "sort.js": [_STATIC / "sort.js"],
        "copy.js": [_STATIC / "copy.js"],
        "forms.js": [_STATIC / "forms.js"],
        "page.css": [
            *(TEMPLATES / f"{name}.css" for name in ("palette", "report")),
            *(_STATIC / f"{name}.css" for name in _STYLES),
        ],
        "icon.svg": [_STATIC / "icon.svg"],
    }
    if name not in files:
        return None
    return b"".join(path.read_bytes() for path in files[name])


@lru_cache(maxsize=8)
def _packed(name: str) -> bytes:
    """Return a file in gzip, which takes a third of a second of plotly: when it is first asked for."""
    return gzip.compress(asset(name) or b"", 6)


def assets() -> APIRouter:
    """Return the route of the files."""
    router = APIRouter()

    @router.get("/static/{name}")
    def file(name: str, request: Request) -> Response:
        content = asset(name)
        if content is None:
            return PlainTextResponse(f"there is no file {name}\n", status_code=404)
        zipped = "gzip" in request.headers.get("accept-encoding", "")
        headers = {"Cache-Control": f"public, max-age={_YEAR_SECONDS if 'v' in request.query_params else 300}"}
        headers |= {"Vary": "Accept-Encoding", "X-Content-Type-Options": "nosniff"}
        if zipped:
            headers["Content-Encoding"] = "gzip"
        kind = _TYPES[Path(name).suffix]
        return Response(_packed(name) if zipped else content, media_type=kind, headers=headers)

    return router


OWN = Path(__file__).parents[1] / "templates"
# Nothing inline, nothing from elsewhere, no frame around it; plotly's pictures of charts are blobs, which leave the
# browser by no way.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "base-uri 'none'; form-action {forms}; frame-ancestors 'none'"
)
_HEADERS = {"X-Content-Type-Options": "nosniff", "Cache-Control": "private, no-cache"}
# Of a page without forms.
SECURITY = _HEADERS | {
    "Content-Security-Policy": _POLICY.format(forms="'self'"),
    "Referrer-Policy": "no-referrer",
    "Vary": "Authorization, Cookie, Sec-Fetch-Dest",
}
# Of a page whose forms come to us alone.
STRICT = _HEADERS | {
    "Content-Security-Policy": _POLICY.format(forms="'self'"),
    "Referrer-Policy": "same-origin",  # with none at all, browsers do not say either where a form of ours came from
    "Vary": "Authorization, Cookie",
}
_PAGES = (
    ("/", "Overview"),
    ("/runs", "Runs"),
    ("/findings", "Findings"),
    ("/recommendations", "Recommendations"),
    ("/money", "Money"),
    ("/placement", "Placement"),
    ("/requests", "Capacity"),
    ("/health", "Health"),
)


# Where a kept page says what changes though the ledger does not. Nobody's text can be one: all of it is escaped.
_ANALYSED, _OLDER = Markup("<!--analysed here-->"), Markup("<!--older here-->")
_ENDS = re.compile(r"<!--figures end (\d+)-->")  # of the newest hour in the ledger, microseconds UTC
_LONG_AGO_US = DAY_US  # after which a page says by itself that its figures are not of now
_TOKEN = Markup("<!--token here-->")  # of whose session it is that the page is sent to


def _known(words: Callable[..., str]) -> Callable[..., str]:
    """Return a filter that prints a dash for what is not known: it is never 0."""
    return lambda value, *more: UNKNOWN if value is None else words(value, *more)


def _unit_price(line: UnitLine) -> str:
    """Return what one unit of work cost: so many of them as its price is told for."""
    return UNKNOWN if line.micros is None else digits(line.micros * line.unit.per / line.units / MICROS)


# Amounts of money are in millionths, GPU time in milliseconds.
FILTERS: dict[str, Callable[..., object]] = {
    "owner": owner_word,
    "money": money,  # with its currency
    "price": _known(dollars),
    "unit_price": _unit_price,
    "at_least": at_least,
    "gpu_hours": gpu_hours,
    "percent": percent,  # of a whole
    "over": lambda now, before: now / before if now is not None and before else None,
    "change": _known(lambda ratio: f"{100 * (ratio - 1):+.1f}"),  # in percent
    "number": _known("{:,}".format),
    "signed": signed,
    "short": short,
    "bytes": bytes_words,
    "size": _known(size),  # bytes on a disk
    "length_words": length_words,  # of seconds
    "offset": _known("{:+.1f} s".format),
    "plain": plain,  # somebody's name
    "sentence": plain_sentence,
    "class_bar": class_bar,  # of the weights of the classes in their order
}


@dataclass(frozen=True, slots=True)
class Way:
    """One entry of the navigation."""

    path: str
    title: str
    is_here: bool


class Frame:
    """Renders templates within the frame of one site."""

    def __init__(
        self,
        settings: Settings,
        last_pass: "Callable[[], Pass]",
        access: Access,
        listens_at: str = "",
        *,
        is_simulated: bool = False,
    ) -> None:
        self.settings = settings
        self._listens_at = listens_at
        self._is_simulated = is_simulated
        self.last_pass = last_pass
        self._access = access
        self._environment = environment_of(OWN, TEMPLATES)
        cents = partial(cents_of, settings.currency)
        self._environment.filters |= FILTERS | {
            "moment": lambda at: moment_words(at, settings.timezone),
            "amount": _known(lambda micros, decimals=2: amount(micros, cents(decimals))),
            "fitting": _known(lambda micros: amount(micros, cents(money_decimals(micros)))),  # as its size asks for
        }

    @property
    def asks(self) -> bool:
        """Whether the site asks for a key: a page shows the way to it then."""
        return self._access.asks

    def render(
        self,
        template: str,
        here: str | None = None,
        week: str | None = None,
        confined_to: Iterable[str] | None = None,
        **view: object,
    ) -> str:
        """Return a page, as draft() has it, whole."""
        return self.finished(self.draft(template, here, week, confined_to, None, **view))

    def draft(
        self,
        template: str,
        here: str | None = None,
        week: str | None = None,
        confined_to: Iterable[str] | None = None,
        figures_end: int | None = None,
        **view: object,
    ) -> str:
        """Return a page that may be kept, to be finished when it is sent.

        `here` is which of PAGES it belongs to, `confined_to` are the teams that a key sees alone, `figures_end` when
        the newest hour of the ledger ended, microseconds UTC.
        """
        frame = {
            "version": _version(),
            "cluster": "" if self.settings.cluster == "fleet" else self.settings.cluster,
            "site": self._listens_at.replace("0.0.0.0", "SERVER").replace("[::]", "SERVER"),  # noqa: S104 - every address
            "keep": f"?{urlencode({'week': week})}" if week else "",
            "ways": _ways(here, whole_site=confined_to is None),
            "confined_to": ", ".join(sorted(confined_to or ())),
            "asks": self._access.asks,
            "analysed_here": _ANALYSED,
            "older_here": _OLDER,
            "ends_here": "" if figures_end is None else Markup("<!--figures end {}-->").format(figures_end),
            "token_here": _TOKEN,
        }
        return self._environment.get_template(template).render(frame | view)

    def with_time(self, document: str) -> str:
        """Return a document of its own with a place for its time, first of what is read in it."""
        return document.replace("<main>", f"<main>\n{_OLDER}", 1)

    def part_of_before(self, part: str, read_at: int) -> str:
        """Return a part whose figures are older than the ledger, under it when they were read, microseconds UTC."""
        told = moment_words(read_at, self.settings.timezone)
        return part + self._environment.get_template("older_part.html").render(read_at=told)

    def tells_time(self, draft: str) -> bool:
        """Whether a page has a place to say that its figures are older than the ledger."""
        return _OLDER in draft

    def finished(self, draft: str, older_than_now: int | None = None, token: str = "") -> str:
        """Return a draft with the newest pass, and where its figures are older than the ledger, when they were read.

        `token` is what the page's forms show: of the session, or of the server where nobody logs in.
        """
        last, zone = self.last_pass(), self.settings.timezone
        since = moment_words(last.finished_at, zone) if last.finished_at is not None else ""
        words = f"{since}, in {last.seconds:.1f} s" if last.seconds is not None else since
        analysed = self._environment.get_template("analysed.html").render(last=last, last_words=words)
        read_at = None if older_than_now is None else moment_words(older_than_now, zone)
        older = "" if read_at is None else self._environment.get_template("older.html").render(read_at=read_at)
        ended = _ENDS.sub(lambda found: self._ended(int(found[1])), draft, count=1)
        return ended.replace(_ANALYSED, analysed.strip(), 1).replace(_OLDER, older.strip(), 1).replace(_TOKEN, token)

    def _ended(self, end: int) -> str:
        """Return that a page's figures are not of now, where they are not; of a simulated site they never are."""
        age = time.time_ns() // 1000 - end
        if age < _LONG_AGO_US and not self._is_simulated:
            return ""
        since, ago = moment_words(end, self.settings.timezone), length_words(age / SECOND_US)
        return self._environment.get_template("ended.html").render(
            is_simulated=self._is_simulated, since=since, ago=ago
        )


def refuse_with_pages(app: FastAPI, frame: Frame, teams: Callable[[Request], Iterable[str] | None]) -> None:
    """Let a browser see a page where an address is not there or wrong; programs have their problems as before.

    `teams` are those that a request sees alone, None where it sees the whole site.
    """
    for kind in (HTTPException, RequestValidationError):
        told = cast("Callable[[Request, Exception], Response]", app.exception_handlers[kind])

        def answer(request: Request, error: Exception, told: Callable[..., Response] = told) -> Response:
            problem = told(request, error)
            if "text/html" not in request.headers.get("accept", ""):
                return problem
            detail = json_said(bytes(problem.body))["detail"]
            page = frame.render("told.html", confined_to=teams(request), message=detail)
            return HTMLResponse(page, problem.status_code, STRICT)

        app.add_exception_handler(kind, answer)


def _ways(here: str | None, *, whole_site: bool) -> list[Way]:
    shown = [one for one in _PAGES if whole_site or endpoint_of("GET", one[0]).by_team]
    return [Way(path, title, path == here) for path, title in shown]


@lru_cache(maxsize=1)
def _version() -> str:
    """Return a word that changes with our files, so that browsers keep them until then."""
    names = ("plotly.min.js", "page.js", "timeline.js", "sort.js", "copy.js", "forms.js", "page.css")
    return f"{zlib.crc32(b''.join(asset(name) or b'' for name in names)):08x}"
