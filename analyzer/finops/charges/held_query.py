"""Read from the ledger who held what in each hour."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from analyzer.finops.charges.sums import Charged, HeldHour, charges
from analyzer.period import Period, local
from analyzer.prices.charge_rows import Charge
from analyzer.queries.booked import booked
from analyzer.states import words_of

if TYPE_CHECKING:
    from collector.store.session import Session

_AVOIDABLE = words_of("avoidable")
# Cost is null where any part of it has no price.
_SUMS = """
SELECT team, l.run_id IS NOT NULL AS held, l.sku, purchase_option, hour, sum(milliseconds)::BIGINT AS ms,
    CASE WHEN count(cost_micros) = count(*) THEN sum(cost_micros)::HUGEINT END AS cost, cost_centre,
    CASE WHEN count(cost_micros) = count(*) THEN coalesce(sum(cost_micros)
        FILTER (list_contains($avoidable::VARCHAR[], state || '/' || coalesce(cause, ''))), 0)::HUGEINT END AS avoidable
"""
# In closed hours a row of closed_charges is what is charged, and where there is none, the cost is.
_HELD = f"""
WITH held AS ({_SUMS} FROM {booked("ledger")} l WHERE hour >= $start AND hour < $end GROUP BY ALL)
SELECT h.*, c.hour IS NOT NULL, coalesce(q.charged_micros, h.cost) FROM held h
LEFT JOIN (SELECT hour FROM closed_hours WHERE hour >= $start AND hour < $end) c ON c.hour = h.hour
LEFT JOIN (FROM closed_charges WHERE hour >= $start AND hour < $end) q ON q.hour = h.hour AND h.held
    AND q.team IS NOT DISTINCT FROM h.team AND q.cost_centre IS NOT DISTINCT FROM h.cost_centre
    AND q.sku IS NOT DISTINCT FROM h.sku AND q.purchase_option IS NOT DISTINCT FROM h.purchase_option
"""
# What an adjustment of a closed hour moved of a charge stands in charge_corrections.
_CORRECTED = f"""
WITH held AS (
    {_SUMS}, recorded_at FROM {booked("adjustments")} l WHERE recorded_at >= $start AND recorded_at < $end GROUP BY ALL
)
SELECT h.* EXCLUDE (recorded_at), c.hour IS NOT NULL, CASE WHEN h.cost IS NOT NULL THEN 0 END FROM held h
LEFT JOIN closed_hours c ON c.hour = h.hour
UNION ALL
SELECT team, true, sku, purchase_option, hour, 0, 0, cost_centre, 0, true, sum(charged_micros)::HUGEINT
FROM charge_corrections WHERE recorded_at >= $start AND recorded_at < $end GROUP BY ALL
"""


def read_held(session: "Session", period: Period) -> list[HeldHour]:
    """Return the GPU time of a period by team, cost centre, kind and hour; cost is None where any has no price."""
    rows = session.rows(f"{_HELD} ORDER BY ALL", _span(period))
    return [HeldHour(*row) for row in rows]


def read_corrections(session: "Session", period: Period) -> dict[str, list[HeldHour]]:
    """Return what was learned in a period of hours that had closed, by the month of the hour; amounts are differences.

    As in a FOCUS file: a closed month's file stays, and what is learned of it later stands in the month it is learned.
    """
    rows = session.rows(f"{_CORRECTED} ORDER BY ALL", _span(period))
    found: dict[str, list[HeldHour]] = {}
    for row in rows:
        one = HeldHour(*row)
        found.setdefault(f"{local(one.hour, period.timezone):%Y-%m}", []).append(one)
    return found


def charged(session: "Session", period: Period, rates: Sequence[Charge]) -> tuple[Charged, ...]:
    """Return what teams are charged; nothing where no rate holds, and none held in a closed hour, gone since or not."""
    (was_charged,) = session.row(
        "SELECT EXISTS (FROM closed_charges WHERE hour >= $start AND hour < $end)",
        {"start": period.start, "end": period.end},
    )
    return charges(read_held(session, period), rates) if rates or was_charged else ()


def _span(period: Period) -> dict[str, object]:
    return {"start": period.start, "end": period.end, "avoidable": _AVOIDABLE}
