"""Read from the ledger who held what in each hour."""

from typing import TYPE_CHECKING

from analyzer.period import local
from analyzer.pricing.charging.sums import Held
from analyzer.states import words_of

if TYPE_CHECKING:
    from analyzer.period import Period
    from collector.store.session import Session

_AVOIDABLE = words_of("avoidable")
# Cost is null where any part of it has no price.
_SUMS = """
SELECT team, l.run_id IS NOT NULL AS held, l.sku, purchase_option, hour, sum(milliseconds)::BIGINT,
    CASE WHEN count(cost_micros) = count(*) THEN sum(cost_micros)::HUGEINT END, cost_centre,
    CASE WHEN count(cost_micros) = count(*) THEN coalesce(sum(cost_micros)
        FILTER (list_contains($avoidable::VARCHAR[], state || '/' || coalesce(cause, ''))), 0)::HUGEINT END
"""
_HELD = f"""
{_SUMS} FROM ledger l LEFT JOIN runs ON runs.run_id = l.run_id WHERE hour >= $start AND hour < $end GROUP BY ALL
"""
_CORRECTED = f"""
{_SUMS} FROM adjustments l LEFT JOIN runs ON runs.run_id = l.run_id
WHERE recorded_at >= $start AND recorded_at < $end GROUP BY ALL
"""


def read_held(session: "Session", period: "Period") -> list[Held]:
    """Return the GPU time of a period by team, cost centre, kind and hour; cost is None where any has no price."""
    rows = session.rows(f"{_HELD} ORDER BY ALL", _span(period))
    return [Held(*row) for row in rows]


def read_corrections(session: "Session", period: "Period") -> dict[str, list[Held]]:
    """Return what was learned in a period of hours that had closed, by the month of the hour; amounts are differences.

    As in a FOCUS file: a closed month's file stays, and what is learned of it later stands in the month it is learned.
    """
    rows = session.rows(f"{_CORRECTED} ORDER BY ALL", _span(period))
    found: dict[str, list[Held]] = {}
    for row in rows:
        one = Held(*row)
        found.setdefault(f"{local(one.hour, period.timezone):%Y-%m}", []).append(one)
    return found


def _span(period: "Period") -> dict[str, object]:
    return {"start": period.start, "end": period.end, "avoidable": _AVOIDABLE}
