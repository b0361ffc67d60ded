"""Read from the ledger who held what in each hour."""

from typing import TYPE_CHECKING

from analyzer.pricing.charging.sums import Held
from analyzer.states import words_of

if TYPE_CHECKING:
    from analyzer.period import Period
    from collector.store.session import Session

_AVOIDABLE = words_of("avoidable")


def booked_hours(session: "Session", period: "Period") -> int:
    """Return of how many hours of the period the ledger has anything."""
    return int(
        session.rows(
            "SELECT count(DISTINCT hour) FROM ledger WHERE hour >= $start AND hour < $end",
            {"start": period.start, "end": period.end},
        )[0][0]
    )


def read_held(session: "Session", period: "Period") -> list[Held]:
    """Return the GPU time of a period by team, cost centre, kind and hour; cost is None where any has no price."""
    rows = session.rows(
        """
        SELECT team, l.run_id IS NOT NULL AS held, l.sku, purchase_option, hour, sum(milliseconds)::BIGINT,
            CASE WHEN count(cost_micros) = count(*) THEN sum(cost_micros)::HUGEINT END, cost_centre,
            CASE WHEN count(cost_micros) = count(*) THEN coalesce(sum(cost_micros)
                FILTER (list_contains($avoidable::VARCHAR[], state || '/' || coalesce(cause, ''))), 0)::HUGEINT END
        FROM ledger l LEFT JOIN runs ON runs.run_id = l.run_id WHERE hour >= $start AND hour < $end
        GROUP BY ALL ORDER BY ALL
        """,
        {"start": period.start, "end": period.end, "avoidable": _AVOIDABLE},
    )
    return [Held(*row) for row in rows]
