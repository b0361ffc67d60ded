"""GET /v1/costs and /v1/adjustments: what each run, team or project cost, and corrections of hours that had closed."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from pydantic import Field
from starlette.responses import Response

from analyzer.interfaces.api.ledger import Group, days_of, grouped, selection, values_of
from analyzer.interfaces.api.parameters import READS, CursorKey, Paged, Selected, Spanned, Texts
from analyzer.interfaces.api.request_service import RequestContext, RequestService
from analyzer.ledger.coverage import Hours, known_hours
from analyzer.ledger.run_facts import find_run
from analyzer.period import Calendar, Period
from analyzer.queries.ledger_query import COLUMNS, Dimension
from analyzer.queries.statements import booked
from analyzer.reports.document import Amounts, CostMicros, Iso, Listing, Micros, Milliseconds, Model, Rounding, Span
from analyzer.states import CLASSES, Class, booking

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


_KEY = ("recorded_at", "hour", "gpu_uuid", "run_id", "state", "cause", "reason", "team")
_COLUMNS = (*_KEY, "node", "rules_version", "price_version", "milliseconds", "cost_micros")  # of _ROWS
_KINDS = (int, int, str, str, str, str, str, str)
_BOOKED = booked("adjustments")
_ROWS = """
WITH moved AS (
    SELECT a.recorded_at, a.hour, a.gpu_uuid, a.run_id, a.state, a.cause, a.reason, a.team, a.node, a.rules_version,
        a.price_version, sum(a.milliseconds)::BIGINT AS ms, sum(a.cost_micros)::BIGINT AS cost
    FROM {booked} a
    WHERE a.hour >= $start AND a.hour < $end AND {where} GROUP BY ALL
    HAVING sum(a.milliseconds) <> 0 OR sum(a.cost_micros) <> 0  -- of another cost centre of the same team
)
SELECT * FROM moved WHERE {after} ORDER BY {order} LIMIT {limit}
"""


class _AdjustmentsAsked(Spanned, Paged):
    """Which corrections: of the hours of a period."""

    team: Texts = Field([])
    run: Texts = Field([])
    recorded_since: int = Field(
        0, ge=0, le=2**62, description="Corrections recorded at or after this instant, microseconds."
    )


class Adjustment(Model):
    """One correction of one GPU's hour: amounts are differences, and those of an hour sum to no time."""

    recorded_at: Micros = Field(description="When the correction was recorded.")
    recorded_at_iso: Iso
    hour: Micros = Field(description="The hour it corrects.")
    hour_iso: Iso
    gpu_uuid: str
    node: str
    run_id: str | None
    team: str | None
    klass: Class = Field(serialization_alias="class")
    state: str
    cause: str | None
    label: str
    milliseconds: Milliseconds
    cost_micros: CostMicros | None
    reason: str
    rules_version: str
    price_version: str | None


class Moved(Model):
    """The total of all corrections in the listing."""

    milliseconds: Milliseconds
    cost_micros: CostMicros | None


class AdjustmentPage(Listing):
    """Corrections of the hours of a period, in the order they were recorded."""

    period: Span
    total: Moved
    items: list[Adjustment]


def cost_routes(service: RequestService) -> APIRouter:
    """Return the routes."""
    router = APIRouter()

    @router.get("/costs", response_model=CostPage, responses=READS, tags=["ledger"])
    def costs(request: Request, asked: Annotated[CostsAsked, Query()]) -> Response:
        """What each run, team, project or day cost, and how it was spent."""
        return service.answer(request, lambda context: _cost_page(context, asked))

    @router.get("/adjustments", response_model=AdjustmentPage, responses=READS, tags=["ledger"])
    def adjustments(request: Request, asked: Annotated[_AdjustmentsAsked, Query()]) -> Response:
        """Corrections to hours after they had closed."""
        return service.answer(request, lambda context: _adjustment_page(context, asked))

    return router


def _cost_page(context: RequestContext, asked: CostsAsked) -> CostPage:
    """Return one page of costs. Raises as costs_of()."""
    by: list[Dimension] = [asked.by, "held"]
    after, period = context.begin(
        asked.cursor, (int, int, *(COLUMNS[name][1] for name in by)), asked.since, asked.until
    )
    return costs_of(context, asked, period, after)


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


def _adjustment_page(context: RequestContext, asked: _AdjustmentsAsked) -> AdjustmentPage:
    key, period = context.begin(asked.cursor, _KINDS, asked.since, asked.until)
    where, values = _conditions(context, asked)
    values |= {"start": period.start, "end": period.end}
    after, found = _after(key)
    rows = context.session.rows(
        _ROWS.format(booked=_BOOKED, where=where, after=after, order=_order(), limit=asked.limit + 1), values | found
    )
    shown = rows[: asked.limit]
    milliseconds, cost = context.session.row(
        "SELECT coalesce(sum(a.milliseconds), 0)::BIGINT, sum(a.cost_micros)::BIGINT FROM "
        f"{_BOOKED} a WHERE a.hour >= $start AND a.hour < $end AND {where}",
        values,
    )
    return AdjustmentPage(
        **context.head(),
        next_cursor=context.next(shown[-1][: len(_KEY)], period) if len(rows) > len(shown) else None,
        period=period,
        total=Moved(milliseconds=milliseconds, cost_micros=cost),
        items=[_item(row) for row in shown],
    )


def _conditions(context: RequestContext, asked: _AdjustmentsAsked) -> tuple[str, dict[str, object]]:
    conditions, values = ["a.recorded_at >= $recorded_since"], dict[str, object](recorded_since=asked.recorded_since)
    if asked.team:
        conditions.append("list_contains($team, a.team)")
        values["team"] = list(asked.team)
    if asked.run:
        conditions.append("list_contains($run, a.run_id)")
        values["run"] = sorted({find_run(context.session, text) for text in asked.run})
    return " AND ".join(conditions), values


def _after(key: tuple[Any, ...] | None) -> tuple[str, dict[str, object]]:
    if key is None:
        return "true", {}
    values: dict[str, object] = {f"a{place}": value for place, value in enumerate(key)}
    return f"row({', '.join(_KEY)}) > row({', '.join(f'${name}' for name in values)})", values


def _order() -> str:
    return ", ".join(f"{name} NULLS LAST" for name in _KEY)


def _item(row: tuple[Any, ...]) -> Adjustment:
    said = dict(zip(_COLUMNS, row, strict=True))
    words = booking(said["state"], said["cause"])
    return Adjustment(**said, klass=words.klass, label=words.label)
