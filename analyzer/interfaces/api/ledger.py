"""GET /v1/ledger and /v1/hours: where GPU time and money went, by whatever one asks for, and how settled that is."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import Field
from starlette.responses import Response

from analyzer.interfaces.api.parameters import READS, VALUES_MAX, Paged, Selected, Spanned
from analyzer.interfaces.api.request_service import RequestContext, RequestService
from analyzer.ledger.coverage import Hours, known_hours
from analyzer.ledger.run_facts import find_run
from analyzer.period import Calendar, Period, day_starts, local
from analyzer.queries.ledger_query import COLUMNS, OF_RUNS, Dimension, LedgerSum, ledger_source
from analyzer.reports.document import Amounts, Iso, Listing, Micros, Milliseconds, Model, Rounding, Span, Status, Triple
from analyzer.states import CLASSES, Class, booking
from collector.store.session import Session

_DAYS_MAX = 36_600  # a century


@dataclass(frozen=True, slots=True)
class Selection:
    """Rows of the ledger: FROM and WHERE, and the values that they name."""

    conditions: tuple[str, ...]
    values: dict[str, object]
    joins: frozenset[str] = field(default_factory=frozenset)

    def source(self, dimensions: Sequence[str] = (), *, classes: bool = False) -> str:
        """Return FROM … WHERE … with what these dimensions need."""
        return ledger_source(self.conditions, dimensions, self.joins | ({"c"} if classes else set()))

    def sums(self, session: Session) -> list[LedgerSum]:
        """Return what they sum to by state and cause, ascending."""
        rows = session.rows(
            "SELECT l.state, l.cause, sum(l.milliseconds)::BIGINT, sum(l.cost_micros)::BIGINT, "
            "coalesce(sum(l.milliseconds) FILTER (l.cost_micros IS NULL), 0)::BIGINT "
            f"{self.source()} GROUP BY ALL ORDER BY ALL",
            self.values,
        )
        return [LedgerSum(tuple(row[:2]), *row[2:]) for row in rows]


def selection(session: Session, asked: Selected, period: Period) -> Selection:
    """Return what a request selects.

    Raises:
        LedgerError: it names a run that is none, or several.
    """
    conditions, values = ["l.hour >= $start", "l.hour < $end"], dict[str, object](start=period.start, end=period.end)
    joins = set[str]()
    runs = sorted({find_run(session, text) for text in asked.run})
    wanted: dict[str, Sequence[object]] = {
        "team": asked.team, "project": asked.project, "model": asked.model, "queue": asked.queue, "stage": asked.stage,
        "node_group": asked.node_group, "run": runs, "state": asked.state, "cause": asked.cause, "class": asked.klass,
    }  # fmt: skip
    for name, accepted in wanted.items():
        if accepted:
            column = COLUMNS[name][0]
            conditions.append(f"list_contains(${name}, {column})")
            values[name] = list(accepted)
            joins.add("r" if name in OF_RUNS else column[0])
    if asked.status:
        conditions.append("list_contains($status, s.status)")
        values["status"] = list(asked.status)
        joins.add("s")
    if asked.held is not None:
        conditions.append(f"(l.run_id IS NOT NULL) = {'true' if asked.held else 'false'}")
    return Selection(tuple(conditions), values, frozenset(joins - {"l"}))


def days_of(session: Session, calendar: Calendar, period: Period) -> list[int]:
    """Return the first instant of each local day of a period, from the ledger's first hour on."""
    (first,) = session.row("SELECT coalesce(min(hour), 0) FROM ledger_hours")
    return list(islice(day_starts(max(first, period.start), period.end, calendar.timezone), _DAYS_MAX))


# What has no time costs nothing; of what has some, the part that is priced counts, and no price is no 0.
_SUMS = (
    "coalesce(sum(l.milliseconds), 0)::BIGINT AS ms, sum(l.cost_micros)::BIGINT AS cost, "
    "coalesce(sum(l.milliseconds) FILTER (l.cost_micros IS NULL), 0)::BIGINT AS unpriced"
)
_BY_CLASS = ", ".join(
    f"coalesce(sum(l.milliseconds) FILTER (c.class = '{name}'), 0)::BIGINT AS ms_{name}, "
    f"if(count(*) FILTER (c.class = '{name}') = 0, 0, sum(l.cost_micros) FILTER (c.class = '{name}'))::BIGINT "
    f"AS cost_{name}, "
    f"coalesce(sum(l.milliseconds) FILTER (c.class = '{name}' AND l.cost_micros IS NULL), 0)::BIGINT AS unpriced_{name}"
    for name in CLASSES
)


@dataclass(frozen=True, slots=True)
class Group:
    """One group: the values it is grouped by, its amounts, and of each class the exact ones where they are wanted."""

    key: tuple[Any, ...]
    amounts: Amounts
    by_class: tuple[Triple, ...]
    units: tuple[int, int | None]  # its amounts as they are shown


@dataclass(frozen=True, slots=True)
class Grouped:
    """One page of groups, whether more follow, and how the whole was rounded."""

    groups: list[Group]
    more: bool
    rounding: Rounding


def _total(session: Session, chosen: Selection) -> Triple:
    """Return what all selected rows sum to; where there is none, that is 0 of hours that are known, else unknown."""
    milliseconds, cost, unpriced = session.row(f"SELECT {_SUMS} {chosen.source()}", chosen.values)
    if milliseconds == 0 and "start" in chosen.values:
        span = [chosen.values["start"], chosen.values["end"]]
        (known,) = session.row("SELECT count(*) FROM ledger_hours WHERE hour >= ? AND hour < ?", span)
        cost = 0 if known else None
    return milliseconds, cost, unpriced


def grouped(
    session: Session,
    chosen: Selection,
    by: Sequence[str],
    currency: str,
    limit: int,
    after: tuple[Any, ...] | None,
    *,
    dearest_first: bool = False,
    days: Sequence[int] = (),
) -> Grouped:
    """Return a page of the groups of a selection, those after the key `after`; `days` is what days are told by.

    They come in the order of their keys, or dearest first, and then the key begins with minus cost and minus time.
    """
    rounding = Rounding(_total(session, chosen), currency)
    keys = [f"k{place}" for place in range(len(by))]
    columns = ", ".join(f"{COLUMNS[name][0]} AS {key}" for name, key in zip(by, keys, strict=True))
    order = ["by_cost", "by_time", *keys] if dearest_first else keys
    values, where = chosen.values | ({"days": list(days)} if "day" in by else {}), "true"
    if after is not None:
        values |= {f"a{place}": value for place, value in enumerate(after)}
        where = f"row({', '.join(order)}) > row({', '.join(f'$a{place}' for place in range(len(after)))})"
    rows = session.rows(
        f"""
        WITH sums AS (
            SELECT {columns}, {_SUMS} {f", {_BY_CLASS}" if dearest_first else ""}
            {chosen.source(by, classes=dearest_first)} GROUP BY {", ".join(keys)}
        ), rounded AS (
            SELECT *, -coalesce(cost, -1) AS by_cost, -ms AS by_time,
                {_apportioned("ms", rounding.hours, keys)} AS shown_hours,
                {_apportioned("cost", rounding.costs, keys)} AS shown_cost
            FROM sums
        )
        SELECT * EXCLUDE (by_cost, by_time) FROM rounded WHERE {where}
        ORDER BY {", ".join(f"{column} NULLS LAST" for column in order)} LIMIT {limit + 1}
        """,
        values,
    )
    groups = [_group(row, len(by), rounding) for row in rows[:limit]]
    return Grouped(groups, len(rows) > limit, rounding)


def _apportioned(column: str, units: tuple[int, int, int], keys: Sequence[str]) -> str:
    """Return a column in the units that are shown, by largest remainder, as analyzer.text.rounding has it."""
    whole, factor, per = units
    exact = f"({column}::HUGEINT * {factor})"
    ranked = f"row_number() OVER (PARTITION BY {column} IS NULL ORDER BY {exact} % {per} DESC, {', '.join(keys)})"
    return f"({exact} // {per} + if({ranked} <= {whole} - sum({exact} // {per}) OVER (), 1, 0))::BIGINT"


def _group(row: tuple[Any, ...], width: int, rounding: Rounding) -> Group:
    exact: Triple = (row[width], row[width + 1], row[width + 2])
    classes = row[width + 3 : -2]
    by_class = tuple((classes[at], classes[at + 1], classes[at + 2]) for at in range(0, len(classes), 3))
    hours, cost = row[-2], row[-1]
    return Group(row[:width], rounding.amounts(exact, hours, cost), by_class, (hours, cost))


_BY_MAX = 6


class _LedgerAsked(Selected, Paged):
    """What of the ledger, and by what it is summed."""

    by: Annotated[list[Dimension], Field(min_length=1, max_length=_BY_MAX)] = Field(
        ["class", "state", "cause"], description="What the rows are grouped by; no value twice."
    )


class Row(Amounts):
    """One group: the values that it was asked to be grouped by, and its amounts. null is none, or not known."""

    team: str | None = None
    user: str | None = Field(None, description="Who submitted the run; shown to owners and admins only.")
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
    label: str | None = Field(
        None, description="What people are shown for the state and cause; only when both are grouped by."
    )
    day: str | None = Field(None, description="A day of the site's time zone.", json_schema_extra={"format": "date"})
    day_start: Micros | None = None
    hour: Micros | None = None
    hour_iso: Iso | None = None


class LedgerPage(Listing):
    """A part of the ledger. The items of all pages sum to `total`, exactly and as shown."""

    period: Span
    hours: Hours
    total: Amounts
    items: list[Row]


_HOURS = """
WITH page AS (
    SELECT hour, status, rules_version, price_version FROM ledger_hours
    WHERE hour >= $start AND hour < $end AND hour > $after AND ($every OR list_contains($status, status))
    ORDER BY hour LIMIT $limit
)
SELECT p.hour, p.status, p.rules_version, p.price_version, count(DISTINCT l.gpu_uuid),
    coalesce(sum(l.milliseconds), 0)::BIGINT,
    coalesce(sum(l.milliseconds) FILTER (l.state = 'unobserved'), 0)::BIGINT,
    coalesce(sum(l.milliseconds) FILTER (l.cost_micros IS NULL), 0)::BIGINT
FROM page p LEFT JOIN ledger l ON l.hour = p.hour GROUP BY ALL ORDER BY p.hour
"""


class _HoursAsked(Spanned, Paged):
    """Which hours."""

    status: Annotated[list[Status], Field(max_length=VALUES_MAX)] = Field([])


class Hour(Model):
    """One hour of the ledger. `open` may still change, `closed` ones are corrected by adjustments, `final` ones are."""

    hour: Micros
    hour_iso: Iso
    status: Status
    rules_version: str
    price_version: str | None
    gpus: int = Field(description="Number of GPUs with rows in the hour.")
    milliseconds: Milliseconds
    unobserved_milliseconds: Milliseconds = Field(description="The part that was not measured.")
    unpriced_milliseconds: Milliseconds = Field(description="The part without a price.")


_HOUR = tuple(name for name in Hour.model_fields if name != "hour_iso")  # the columns of _HOURS


class HourPage(Listing):
    """Hours of a period, the earliest first."""

    period: Span
    hours: Hours
    items: list[Hour]


def ledger_routes(service: RequestService) -> APIRouter:
    """Return the routes."""
    router = APIRouter()

    @router.get("/ledger", response_model=LedgerPage, responses=READS, tags=["ledger"])
    def ledger(request: Request, asked: Annotated[_LedgerAsked, Query()]) -> Response:
        """Where GPU time and money went: the ledger, summed by what `by` names."""
        return service.answer(request, lambda context: _ledger_page(context, asked))

    @router.get("/hours", response_model=HourPage, responses=READS, tags=["ledger"])
    def list_hours(request: Request, asked: Annotated[_HoursAsked, Query()]) -> Response:
        """Which hours the ledger has, and how far they are settled and measured."""
        return service.answer(request, lambda context: _hour_page(context, asked))

    return router


def _ledger_page(context: RequestContext, asked: _LedgerAsked) -> LedgerPage:
    """Return one page of the ledger.

    Raises:
        PeopleError: it would name people to who may not know them.
    """
    by = list(dict.fromkeys(asked.by))
    context.scope.check(by)
    after, period = context.begin(asked.cursor, tuple(COLUMNS[name][1] for name in by), asked.since, asked.until)
    chosen = selection(context.session, asked, period)
    days = days_of(context.session, context.reader.calendar, period) if "day" in by else ()
    found = grouped(context.session, chosen, by, context.currency, asked.limit, after, days=days)
    last = found.groups[-1].key if found.more else None
    return LedgerPage(
        **context.head(),
        next_cursor=None if last is None else context.next(last, period),
        period=period,
        hours=known_hours(context.session, period),
        total=found.rounding.whole(),
        items=[Row(**dict(one.amounts), **values_of(by, one.key, context.reader.calendar)) for one in found.groups],
    )


def values_of(by: list[Dimension], key: tuple[Any, ...], calendar: Calendar) -> dict[str, Any]:
    """Return the values that a group is of, under the names that the API has for them."""
    known: dict[str, Any] = dict(zip(by, key, strict=True))
    names = {"run": "run_id", "gpu": "gpu_uuid", "class": "klass"}
    found = {names.get(name, name): value for name, value in known.items() if name not in ("day", "hour")}
    if "state" in known and "cause" in known:
        found["label"] = booking(known["state"], known["cause"]).label
    if "hour" in known:
        found["hour"] = known["hour"]
    if "day" in known:
        found |= {"day": local(known["day"], calendar.timezone).date().isoformat(), "day_start": known["day"]}
    return found


def _hour_page(context: RequestContext, asked: _HoursAsked) -> HourPage:
    key, period = context.begin(asked.cursor, (int,), asked.since, asked.until)
    values: dict[str, object] = {
        "start": period.start,
        "end": period.end,
        "after": key[0] if key else period.start - 1,
        "every": not asked.status,
        "status": list(asked.status),
        "limit": asked.limit + 1,
    }
    rows = context.session.rows(_HOURS, values)
    shown = rows[: asked.limit]
    return HourPage(
        **context.head(),
        next_cursor=context.next((shown[-1][0],), period) if len(rows) > len(shown) else None,
        period=period,
        hours=known_hours(context.session, period),
        items=[Hour(**dict(zip(_HOUR, row, strict=True))) for row in shown],
    )
