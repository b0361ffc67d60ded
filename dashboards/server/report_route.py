"""GET /v1/read: the reports of the command line, from a running server; `--server URL` asks here."""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import Field, fields, replace
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_type_hints

import pydantic
from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from analyzer.errors import ConfigError, LedgerError
from analyzer.interfaces.api.parameters import MeaninglessError, Opt, Spanned, Text, WholeError, refusals
from analyzer.interfaces.api.request_service import Scope
from analyzer.interfaces.questions.registry import OF_PART, QUESTIONS, answer, of_request
from analyzer.reports.document import iso
from analyzer.reports.reader import Reader
from analyzer.reports.request import Format
from analyzer.reports.request import Request as Reading
from analyzer.text.templating import policy
from dashboards.pages.frame import SECURITY
from dashboards.pages.read_pages import Answering, Wanted, is_opened

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


def _parameter(each: Field[Any], kind: Any) -> tuple[Any, Any]:  # noqa: ANN401 - of a field of any type
    """Return what FastAPI takes for one field of Request: texts and numbers bounded, None left out of its document."""
    kinds = get_args(kind) if isinstance(kind, UnionType) or NoneType in get_args(kind) else (kind,)
    bounded = {str: Text, int: Annotated[int, pydantic.Field(ge=each.metadata.get("least"), le=_MOST)]}
    (own,) = (bounded.get(one, one) for one in kinds if one is not NoneType)
    about = each.metadata.get("about") or None
    return own | Opt if NoneType in kinds else own, pydantic.Field(each.default, description=about)


def _parameters() -> type[Spanned]:
    """Return the parameters of /v1/read: the fields of Request, which has them once."""
    types = get_type_hints(Reading)
    own: dict[str, Any] = {
        each.name: _parameter(each, types[each.name])
        for each in fields(Reading)
        if each.name not in Spanned.model_fields
    }
    return pydantic.create_model("ReadAsked", __base__=Spanned, **own | {"what": (Literal[tuple(QUESTIONS)], ...)})


if TYPE_CHECKING:
    ReadAsked = Spanned
else:
    ReadAsked = _parameters()


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
            scope, reading = Scope.of(request.scope), Reading(**asked.model_dump())
            _check_whole(scope, reading.what)
            scope.check([name for name in (reading.by, "user" if reading.user else None) if name])
            headers = _headers(reading.format)
            if reading.format == "html" and is_opened(request):
                return self._answering.answer(request, self._wanted(scope, reading), headers)
            opened = self._read()
            with opened.session:
                answer = _answer(opened, reading, scope)
            return Response(answer, media_type=_TYPES[reading.format], headers=headers)

        return router

    def ahead(self) -> None:
        """Make the week's report before anybody opens it. Raises what is wrong with the ledger or the store."""
        self._answering.ahead(self._wanted(Scope(), Reading("week", format="html")))

    def _wanted(self, scope: Scope, reading: Reading) -> Wanted:
        def make() -> tuple[Hashable, str]:
            reader = self._read()
            with reader.session, reader.session.transaction():
                return _state_of(reader), self._answering.frame.with_time(_answer(reader, reading, scope))

        return Wanted(scope, ("read", reading), make)


def _state_of(reader: Reader) -> Hashable:
    """Return the state of the ledger that a reader sees."""
    if reader.kept is None:
        raise RuntimeError("BUG: readers of a server keep what they make")
    return reader.kept.name(reader.session)


def _headers(form: Format) -> Mapping[str, str]:
    """Return what an answer comes with: a document has its style and its charts' scripts within it, a page has none."""
    if form != "html":
        return SECURITY
    return SECURITY | {"Content-Security-Policy": f"{policy(_OURS)}; frame-ancestors 'none'"}


def _check_whole(scope: Scope, what: str) -> None:
    """See that who may see some teams alone asks for what can be of them.

    Raises:
        WholeError: this question is to the whole site.
    """
    if scope.teams is not None and what not in OF_PART:
        teams = ", ".join(scope.teams)
        raise WholeError(f"{what} is of all teams, and this key is for {teams} alone: it reads {', '.join(OF_PART)}")


def _answer(reader: Reader, reading: Reading, scope: Scope) -> str:
    """Return the report, of what may be seen.

    Raises:
        LedgerError: the ledger has no such thing, or the calendar no such day.
    """
    meant = reading
    if reading.since is None and reading.until is not None:
        (first,) = reader.session.row("SELECT min(hour) FROM ledger_hours")
        meant = replace(reading, since=None if first is None else iso(first))
    try:
        with of_request(reader, meant, scope.teams) as own:
            return answer(own, meant)
    except ConfigError as error:
        raise MeaninglessError(str(error)) from error
    except (OverflowError, ValueError) as error:
        raise LedgerError(f"the calendar has no {reading.since} {reading.until}") from error
