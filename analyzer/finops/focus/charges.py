"""Read the ledger as charges: SQL counts a day at a time, so that memory holds no more of one."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date, timedelta
from itertools import pairwise
from typing import Any, NamedTuple

from agent.wire.units import HOUR_US
from analyzer.ledger.coverage import least_settled
from analyzer.ledger.pending import reached_until
from analyzer.period import Period, local, midnight
from analyzer.queries.statements import booked, placed
from collector.store.session import Session


class Who(NamedTuple):
    """The node, how it was bought, and the run that held; a run's own words are None where nobody held."""

    node: str
    purchase_option: str | None
    run_id: str | None
    name: str | None
    team: str | None
    cost_centre: str | None
    project: str | None
    queue: str | None
    stage: str | None
    model: str | None


@dataclass(frozen=True, slots=True)
class Charge:
    """What one holder took of one node's GPUs of one kind and price, in one state, in one charge period.

    `unit_micros` is the price of a GPU-hour; it and `cost_micros` are None where no price is known. `run_id` is None
    where nobody held, `team` for runs that map to none, `millijoules` (the GPUs' own) where they were not asked for or
    are not known. Of an adjustment the amounts are differences, `reason` says why, and there is no unit price.
    """

    start: int
    end: int
    node: str
    sku: str | None
    purchase_option: str | None
    unit_micros: int | None
    run_id: str | None
    state: str
    cause: str | None
    milliseconds: int
    cost_micros: int | None
    name: str | None = None
    team: str | None = None
    cost_centre: str | None = None
    project: str | None = None
    queue: str | None = None
    stage: str | None = None
    model: str | None = None
    millijoules: int | None = None
    recorded_at: int | None = None
    reason: str | None = None

    @property
    def origin(self) -> tuple[object, ...]:
        """What was divided between holders: one node's GPUs of one kind and price, in one charge period."""
        return self.start, self.node, self.sku, self.purchase_option, self.unit_micros

    @property
    def who(self) -> Who:
        """Who held what: the same in every state of one run on one node."""
        run = (self.name, self.team, self.cost_centre, self.project, self.queue, self.stage, self.model)
        return Who(self.node, self.purchase_option, self.run_id, *run)


@dataclass(frozen=True, slots=True)
class NodeLocation:
    """Where a node was, as far as its inventory says."""

    node_group: str | None = None
    region: str | None = None
    zone: str | None = None


_OF_RUN = ("name", "team", "cost_centre", "project", "queue", "stage", "model")
_RUN = ", ".join(f"l.{name}" for name in _OF_RUN)
# A price holds for whole hours: it is what a GPU cost that was owned for the whole of one. Of a GPU that was not, it is
# what its neighbours cost, else what its own cost makes of it.
_CHARGES = """
WITH owned AS (
    SELECT hour, gpu_uuid, node, sku, purchase_option,
        sum(milliseconds)::HUGEINT AS ms, sum(cost_micros)::HUGEINT AS cost
    FROM ledger WHERE hour >= $start AND hour < $end GROUP BY ALL
), unit AS (
    SELECT hour, gpu_uuid, node, sku, purchase_option, coalesce(
        max(cost) FILTER (ms = 3600000) OVER (PARTITION BY hour, node, sku, purchase_option),
        (cost * 3600000 + ms // 2) // nullif(ms, 0)
    ) AS unit_micros, ms FROM owned
), held AS (
    SELECT hour, gpu_uuid, run_id, sum(milliseconds)::HUGEINT AS held_ms FROM ledger
    WHERE hour >= $start AND hour < $end GROUP BY ALL
), drawn AS ({drawn})
SELECT $start + ((l.hour - $start) // $each) * $each AS began, l.node, l.sku, l.purchase_option,
    CASE WHEN l.cost_micros IS NOT NULL THEN u.unit_micros END AS unit, l.run_id,
    l.state, l.cause, sum(l.milliseconds), sum(l.cost_micros), {run},
    sum(d.millijoules * l.milliseconds // nullif(w.held_ms, 0))
FROM {booked} l JOIN unit u ON u.hour = l.hour AND u.gpu_uuid = l.gpu_uuid AND u.node = l.node
    AND u.sku IS NOT DISTINCT FROM l.sku AND u.purchase_option IS NOT DISTINCT FROM l.purchase_option
JOIN held w ON w.hour = l.hour AND w.gpu_uuid = l.gpu_uuid AND w.run_id IS NOT DISTINCT FROM l.run_id
LEFT JOIN drawn d ON d.hour = l.hour AND d.gpu_uuid = l.gpu_uuid AND d.run_id IS NOT DISTINCT FROM l.run_id
WHERE l.hour >= $start AND l.hour < $end
GROUP BY began, l.node, l.sku, l.purchase_option, unit, l.run_id, l.state, l.cause, {run}
ORDER BY began, l.node, l.sku, l.purchase_option, unit, l.run_id NULLS LAST, l.state, l.cause, {run}
"""
# What was booked for each GPU, hour and holder, in whole millijoules, so that no order of a sum changes them.
_DRAWN = """
    SELECT hour, gpu_uuid, run_id, sum(millijoules)::HUGEINT AS millijoules
    FROM energy_amounts WHERE hour >= $start AND hour < $end GROUP BY ALL
"""
_NOTHING_DRAWN = f"{_DRAWN} HAVING false"
_ADJUSTED = f"""
SELECT a.hour, a.node, a.sku, a.purchase_option, a.run_id, a.state, a.cause, sum(a.milliseconds), sum(a.cost_micros),
    {_RUN.replace("l.", "a.")}, a.recorded_at, a.reason
FROM {booked("adjustments")} a WHERE a.recorded_at >= $start AND a.recorded_at < $end
GROUP BY ALL
ORDER BY a.recorded_at, a.hour, a.node, a.sku, a.purchase_option, a.run_id NULLS LAST, a.state, a.cause, a.reason,
    {_RUN.replace("l.", "a.")}
"""


_PLACES = f"""
CREATE OR REPLACE TEMP TABLE focus_places AS
SELECT l.hour, l.node, h.node_group, h.region, h.zone FROM (
    SELECT hour, node FROM ledger WHERE hour >= $start AND hour < $end
    UNION SELECT hour, node FROM adjustments WHERE recorded_at >= $start AND recorded_at < $end
) l {placed("l")}
"""


def charges(
    session: Session, start: int, end: int, *, energy: bool = False, each_us: int | None = None
) -> list[Charge]:
    """Return the charges of one charge period, or of each of so many microseconds, those of one origin side by side.

    `energy` asks for what the GPUs drew as well, divided by time over what its holder's time was booked to.
    """
    drawn, each_us = _DRAWN if energy else _NOTHING_DRAWN, each_us or end - start
    text = _CHARGES.format(run=_RUN, drawn=drawn, booked=booked("ledger"))
    rows = session.rows(text, {"start": start, "end": end, "each": each_us})
    return [Charge(began, began + each_us, *row) for began, *row in rows]


def adjustments(session: Session, start: int, end: int) -> list[Charge]:
    """Return what was learned in a span about hours that had closed: each dated when it was learned."""
    rows = session.rows(_ADJUSTED, {"start": start, "end": end})
    return [_adjusted(*row) for row in rows]


def adjusted_days(session: Session, period: Period) -> Iterator[tuple[int, int]]:
    """Yield the days of a period in which anything was learned about hours that had closed: mostly few of a month."""
    rows = session.rows(
        "SELECT DISTINCT recorded_at FROM adjustments WHERE recorded_at >= ? AND recorded_at < ?",
        [period.start, period.end],
    )
    for start, end in days(period):
        if any(start <= recorded_at < end for (recorded_at,) in rows):
            yield start, end


def _adjusted(hour: int, node: str, sku: str | None, option: str | None, *row: Any) -> Charge:  # noqa: ANN401 - a row
    *what, recorded_at, reason = row
    charge = Charge(hour, hour + HOUR_US, node, sku, option, None, *what)
    return replace(charge, recorded_at=recorded_at, reason=reason)


def place_hosts(session: Session, period: Period) -> None:
    """Find out for places() where hosts were in the hours of a period, and in those that it corrects."""
    session.execute(_PLACES, {"start": period.start, "end": period.end})


def places(session: Session, start: int, end: int) -> dict[str, NodeLocation]:
    """Return where each node was in a span, of one that moved in it at its end; place_hosts() comes before."""
    rows = session.rows(
        "SELECT node, node_group, region, zone FROM focus_places WHERE hour >= $start AND hour < $end "
        "QUALIFY row_number() OVER (PARTITION BY node ORDER BY hour DESC) = 1",
        {"start": start, "end": end},
    )
    return {node: NodeLocation(*where) for node, *where in rows}


@dataclass(frozen=True, slots=True)
class Settled:
    """How settled each hour of a period is that the ledger has, and up to when all is booked."""

    by_hour: dict[int, str]
    reached_us: int

    def least(self, start: int, end: int) -> str | None:
        """Return the status of the least settled hour of a span, open where some of it is still to be booked."""
        found = [self.by_hour[hour] for hour in range(start, end, HOUR_US) if hour in self.by_hour]
        return least_settled(found, is_reached=self.reached_us > end - HOUR_US)


def statuses(session: Session, period: Period) -> Settled:
    """Return how settled each hour of a period is."""
    rows = session.rows(
        "SELECT hour, status FROM ledger_hours WHERE hour >= ? AND hour < ?", [period.start, period.end]
    )
    return Settled(dict(rows), reached_until(session))


def days(period: Period) -> Iterator[tuple[int, int]]:
    """Yield the days of a period by its clock, the first and the last cut to it."""
    first = period.first_day
    count = (period.last_day - first).days + 1
    edges = [midnight(first + timedelta(days=number), period.timezone) for number in range(count + 1)]
    for start, end in pairwise(edges):
        yield max(start, period.start), min(end, period.end)


def hours_in(period: Period) -> Iterator[tuple[int, int]]:
    """Yield the hours of a period."""
    for start in range(period.start, period.end, HOUR_US):
        yield start, start + HOUR_US


def month_of(instant: int, timezone: str) -> tuple[int, int]:
    """Return the first microsecond of the month that an instant lies in, and of the next, by a site's clock."""
    day = local(instant, timezone).date()
    after = date(day.year + day.month // 12, day.month % 12 + 1, 1)
    return midnight(day.replace(day=1), timezone), midnight(after, timezone)
