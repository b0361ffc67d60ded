"""GET /v1/costs: what each run, team or project cost, and how much of it was useful, avoidable or neither."""

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from pydantic import Field
from starlette.responses import Response

from analyzer.interfaces.api.ledger import Group, days_of, grouped, selection, values_of
from analyzer.interfaces.api.parameters import READS, CursorKey, Paged, Selected
from analyzer.interfaces.api.request_service import RequestContext, RequestService
from analyzer.ledger.coverage import Hours, known_hours
from analyzer.period import Calendar, Period
from analyzer.queries.ledger_query import COLUMNS, Dimension
from analyzer.reports.document import Amounts, Listing, Model, Rounding, Span
from analyzer.states import CLASSES

Bearer = Literal["run", "team", "user", "project", "model", "stage", "queue", "node_group", "sku", "day"]


class CostsAsked(Selected, Paged):
    """Whose costs."""

    by: Bearer = Field("team", description="Who or what bears the cost.")


class Classes(Model):
    """The five classes, which sum to the whole; only avoidable may be called waste."""

    useful: Amounts
    avoidable: Amounts
    overhead: Amounts
    spare: Amounts
    unknown: Amounts


class Cost(Amounts):
    """The cost of one bearer. Without a name, `held` says whether it is unmapped, or whether nobody held the GPUs."""

    team: str | None = None
    held: bool
    run_id: str | None = None
    user: str | None = Field(None, description="Who submitted the run; shown to owners and admins only.")
    project: str | None = None
    model: str | None = None
    stage: str | None = None
    queue: str | None = None
    node_group: str | None = None
    sku: str | None = None
    day: str | None = Field(None, description="A day of the site's time zone.", json_schema_extra={"format": "date"})
    day_start: int | None = None
    classes: Classes


class CostPage(Listing):
    """Costs of a period, most expensive first. The items of all pages sum to `total`, exactly and as shown."""

    period: Span
    hours: Hours
    total: Amounts
    items: list[Cost]


def cost_routes(service: RequestService) -> APIRouter:
    """Return the routes."""
    router = APIRouter()

    @router.get("/costs", response_model=CostPage, responses=READS, tags=["ledger"])
    def costs(request: Request, asked: Annotated[CostsAsked, Query()]) -> Response:
        """What each run, team, project or day cost, and how it was spent."""
        return service.answer(request, lambda context: _cost_page(context, asked))

    return router


def _cost_page(context: RequestContext, asked: CostsAsked) -> CostPage:
    """Return one page of costs. Raises as costs_of()."""
    by: list[Dimension] = [asked.by, "held"]
    place = context.place(asked.cursor, (int, int, *(COLUMNS[name][1] for name in by)))
    period = place.period if place and place.period else context.period(asked.since, asked.until)
    return costs_of(context, asked, period, place.key if place else None)


def costs_of(context: RequestContext, asked: CostsAsked, period: Period, after: CursorKey | None = None) -> CostPage:
    """Return the costs of a period that follow after this key; what is asked of when is not looked at.

    Raises:
        PeopleError: it would name people to who may not know them.
    """
    by: list[Dimension] = [asked.by, "held"]
    context.scope.check(by)
    chosen = selection(context.session, asked, period)
    days = days_of(context.session, context.reader.calendar, period) if asked.by == "day" else ()
    found = grouped(context.session, chosen, by, context.currency, asked.limit, after, dearest_first=True, days=days)
    last = found.groups[-1] if found.more else None
    return CostPage(
        **context.head(),
        next_cursor=None if last is None else context.next(_key(last), period),
        period=period,
        hours=known_hours(context.session, period),
        total=found.rounding.whole(),
        items=[_cost(group, by, found.rounding, context.reader.calendar) for group in found.groups],
    )


def _key(group: Group) -> tuple[str | int | bool | None, ...]:
    cost = group.amounts.cost_micros
    return 1 if cost is None else -cost, -group.amounts.milliseconds, *group.key


def _cost(group: Group, by: list[Dimension], rounding: Rounding, calendar: Calendar) -> Cost:
    parts = rounding.parts(group.by_class, *group.units)
    classes = Classes(**dict(zip(CLASSES, parts, strict=True)))
    return Cost(**dict(group.amounts), **values_of(by, group.key, calendar), classes=classes)
