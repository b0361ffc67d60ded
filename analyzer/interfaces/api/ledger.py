"""GET /v1/ledger: where GPU time and money went, by whatever one asks for."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import Field
from starlette.responses import Response

from analyzer.interfaces.api.grouping import Group, grouped
from analyzer.interfaces.api.parameters import READS, Paged, Selected
from analyzer.interfaces.api.request_service import RequestContext, RequestService
from analyzer.interfaces.api.selection import days_of, selection
from analyzer.ledger.coverage import known_hours
from analyzer.period import Calendar, local
from analyzer.queries.dimensions import COLUMNS, Dimension
from analyzer.reports.document import Amounts, Class, Coverage, Iso, Listing, Micros, Span, iso
from analyzer.states import booking

_BY_MAX = 6


class LedgerAsked(Selected, Paged):
    """What of the ledger, and by what it is summed."""

    by: Annotated[list[Dimension], Field(min_length=1, max_length=_BY_MAX)] = Field(
        ["class", "state", "cause"], description="What the rows are grouped by; a value may be named once."
    )


class Row(Amounts):
    """One group: the values that it was asked to be grouped by, and its amounts. null is none, or not known."""

    team: str | None = None
    user: str | None = Field(None, description="Who asked for the run; for owners and admins.")
    project: str | None = None
    model: str | None = None
    stage: str | None = None
    queue: str | None = None
    node_group: str | None = None
    held: bool | None = Field(None, description="Whether a run held the GPU.")
    run_id: str | None = None
    node: str | None = None
    gpu_uuid: str | None = None
    sku: str | None = None
    purchase_option: str | None = None
    klass: Class | None = Field(None, serialization_alias="class")
    state: str | None = None
    cause: str | None = None
    label: str | None = Field(None, description="What people are shown for the state and cause; with both of them.")
    day: str | None = Field(None, description="A day of the site's time zone.", json_schema_extra={"format": "date"})
    day_start: Micros | None = None
    hour: Micros | None = None
    hour_iso: Iso | None = None


class LedgerPage(Listing):
    """A part of the ledger. The items of all pages sum to `total`, exactly and as shown."""

    period: Span
    hours: Coverage
    total: Amounts
    items: list[Row]


def ledger_routes(service: RequestService) -> APIRouter:
    """Return the routes."""
    router = APIRouter()

    @router.get("/ledger", response_model=LedgerPage, responses=READS, tags=["ledger"])
    def ledger(request: Request, asked: Annotated[LedgerAsked, Query()]) -> Response:
        """Where GPU time and money went: the ledger, summed by what `by` names."""
        return service.answer(request, lambda context: _ledger_page(context, asked))

    return router


def _ledger_page(context: RequestContext, asked: LedgerAsked) -> LedgerPage:
    """Return one page of the ledger.

    Raises:
        PeopleError: it would name people to who may not know them.
    """
    by = list(dict.fromkeys(asked.by))
    context.scope.check(by)
    place = context.place(asked.cursor, tuple(COLUMNS[name][1] for name in by))
    period = place.period if place and place.period else context.period(asked.since, asked.until)
    chosen = selection(context.session, asked, period)
    days = days_of(context.session, context.reader.calendar, period) if "day" in by else ()
    after = place.key if place else None
    found = grouped(context.session, chosen, by, context.currency, asked.limit, after, days=days)
    last = found.groups[-1].key if found.more else None
    return LedgerPage(
        **context.head(),
        next_cursor=None if last is None else context.next(last, period),
        period=Span.of(period),
        hours=Coverage.of(known_hours(context.session, period)),
        total=found.rounding.whole(),
        items=[_row(group, by, context.reader.calendar) for group in found.groups],
    )


def _row(group: Group, by: list[Dimension], calendar: Calendar) -> Row:
    return Row(**dict(group.amounts), **values_of(by, group.key, calendar))


def values_of(by: list[Dimension], key: tuple[Any, ...], calendar: Calendar) -> dict[str, Any]:
    """Return the values that a group is of, under the names that the API has for them."""
    known: dict[str, Any] = dict(zip(by, key, strict=True))
    names = {"run": "run_id", "gpu": "gpu_uuid", "class": "klass"}
    found = {names.get(name, name): value for name, value in known.items() if name not in ("day", "hour")}
    if "state" in known and "cause" in known:
        found["label"] = booking(known["state"], known["cause"]).label
    if "hour" in known:
        found |= {"hour": known["hour"], "hour_iso": iso(known["hour"])}
    if "day" in known:
        found |= {"day": local(known["day"], calendar.timezone).date().isoformat(), "day_start": known["day"]}
    return found
