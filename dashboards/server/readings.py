"""GET /v1/read: the reports of the command line, from a running server; `--server URL` asks here."""

from collections.abc import Callable, Hashable, Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from analyzer.charts.scripts import policy
from analyzer.errors import ConfigError, LedgerError
from analyzer.interfaces.api.asking import Spanned, Text, refusals
from analyzer.interfaces.api.faults import MeaninglessError, WholeError
from analyzer.interfaces.api.model import iso
from analyzer.interfaces.api.scope import Scope
from analyzer.interfaces.questions.answer import answer
from analyzer.reports.part_reader import READINGS, of_request
from analyzer.reports.reader import Reader
from analyzer.reports.request import By, Format, Order, What
from analyzer.reports.request import Request as Reading
from analyzer.states import Confidence
from dashboards.pages.answering import Answering, Wanted, is_opened
from dashboards.pages.pages import SECURITY, state_of

_MOST = 10_000
_OURS = "'self'"
_TYPES = {
    "json": "application/json",
    "text": "text/plain; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "markdown": "text/markdown; charset=utf-8",
    "svg": "image/svg+xml",
    "csv": "text/csv; charset=utf-8",
    "slurm": "text/plain; charset=utf-8",
    "kubernetes": "application/yaml; charset=utf-8",
}
_ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The report, as `format` asks for it.",
        "content": {kind.partition(";")[0]: {"schema": {"type": "string"}} for kind in _TYPES.values()},
    },
    **refusals(401, 403, 404, 422, 429, 500, 503),
}
_ANSWERS[200]["content"]["application/json"] = {"schema": {"type": "object"}}  # docs/json.md


class ReadAsked(Spanned):
    """One report: what, of whom, of when, and how it is written."""

    what: What
    subject: Text | SkipJsonSchema[None] = Field(
        None,
        description="Of run, explain, show, compare; the team of traffic, host of top, job of history, SKU of prices.",
    )
    format: Format = "text"
    width: int = Field(80, ge=1, le=_MOST)
    ascii: bool = False
    top: Annotated[int, Field(ge=1, le=_MOST)] | SkipJsonSchema[None] = Field(None, description="At most so many rows.")
    everything: bool = Field(False, description="List suspicions and muted ones too; what a guard holds back.")
    traffic: bool = Field(False, description="Of a run: the whole matrix of who sent how much to whom.")
    sure: Confidence | SkipJsonSchema[None] = Field(None, description="Of findings: those of this confidence alone.")
    unjudged: bool = Field(False, description="Of findings: instead, the rules that lacked a signal.")
    other: Text | SkipJsonSchema[None] = Field(None, description="Of compare: the second run.")
    at: Text | SkipJsonSchema[None] = Field(None, description="Of compare: the moment, where the subject is a name.")
    order: Order = Field("cost", description="Of top: which lines come first.")
    by: By | SkipJsonSchema[None] = Field(
        None, description="Of charges: who bears them; of week and month: what the second table is by. Else the team."
    )
    team: Text | SkipJsonSchema[None] = Field(
        None, description="Of week, findings, explain, recommend and show: of this team's runs alone."
    )
    project: Text | SkipJsonSchema[None] = Field(
        None, description="The same, of a project. All that is given must fit."
    )
    user: Text | SkipJsonSchema[None] = Field(None, description="The same, of a person; for who may know who spent it.")
    model: Text | SkipJsonSchema[None] = Field(None, description="The same, of a model.")
    stage: Text | SkipJsonSchema[None] = Field(None, description="The same, of a kind of work.")
    queue: Text | SkipJsonSchema[None] = Field(None, description="The same, of a queue.")
    gpus: Annotated[int, Field(ge=0, le=_MOST)] | SkipJsonSchema[None] = Field(
        None, description="Of history: of runs with so many GPUs; of runs without any where it is left out."
    )
    sku: Text | SkipJsonSchema[None] = Field(
        None, description="Of history: of runs on this kind of GPU; may be left out where they were on one alone."
    )


class Reports:
    """The reports of one site; `read` opens a reader on the store. One that a browser opens is kept as pages are."""

    def __init__(self, read: Callable[[], Reader], answering: Answering) -> None:
        self._read = read
        self._answering = answering

    def router(self) -> APIRouter:
        """Return the route."""
        router = APIRouter()

        @router.get("/v1/read", response_class=Response, responses=_ANSWERS, tags=["reports"])
        def report(request: Request, asked: Annotated[ReadAsked, Query()]) -> Response:
            """A report as the command line prints it."""
            scope = Scope.of(request.scope)
            _check_whole(scope, asked.what)
            scope.check([name for name in (asked.by, "user" if asked.user else None) if name])
            headers = _headers(asked.format)
            if asked.format == "html" and is_opened(request):
                return self._answering.answer(request, self._wanted(scope, asked), headers)
            opened = self._read()
            with opened.session:
                answer = _answer(opened, asked, scope)
            return Response(answer, media_type=_TYPES[asked.format], headers=headers)

        return router

    def ahead(self) -> None:
        """Make the week's report before anybody opens it. Raises what is wrong with the ledger or the store."""
        self._answering.ahead(self._wanted(Scope(), ReadAsked.model_validate({"what": "week", "format": "html"})))

    def _wanted(self, scope: Scope, asked: ReadAsked) -> Wanted:
        def make() -> tuple[Hashable, str]:
            reader = self._read()
            with reader.session, reader.session.transaction():
                return state_of(reader), self._answering.frame.with_time(_answer(reader, asked, scope))

        return Wanted(scope, ("read", asked.model_dump_json()), make)


def _headers(form: Format) -> Mapping[str, str]:
    """Return what an answer comes with: a document has its style and its charts' scripts within it, a page has none."""
    if form != "html":
        return SECURITY
    return SECURITY | {"Content-Security-Policy": f"{policy(_OURS)}; frame-ancestors 'none'"}


def _check_whole(scope: Scope, what: What) -> None:
    """See that who may see some teams alone asks for what can be of them.

    Raises:
        WholeError: this reading is of the whole site.
    """
    if scope.teams is not None and what not in READINGS:
        teams = ", ".join(scope.teams)
        raise WholeError(f"{what} is of all teams, and this key is for {teams} alone: it reads {', '.join(READINGS)}")


def _answer(reader: Reader, asked: ReadAsked, scope: Scope) -> str:
    """Return the report, of what may be seen.

    Raises:
        LedgerError: the ledger has no such thing, or the calendar no such day.
    """
    words = asked.model_dump()
    if asked.since is None and asked.until is not None:
        (first,) = reader.session.row("SELECT min(hour) FROM ledger_hours")
        words["since"] = None if first is None else iso(first)
    try:
        request = Reading(**words)
        with of_request(reader, request, scope.teams) as own:
            return answer(own, request)
    except ConfigError as error:
        raise MeaninglessError(str(error)) from error
    except (OverflowError, ValueError) as error:
        raise LedgerError(f"the calendar has no {asked.since} {asked.until}") from error
