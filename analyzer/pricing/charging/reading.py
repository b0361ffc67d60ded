"""Read from the ledger who held what in each hour."""

from typing import TYPE_CHECKING

from analyzer.pricing.charging.sums import Held

if TYPE_CHECKING:
    from analyzer.period import Period
    from collector.store.session import Session


def read_held(session: "Session", period: "Period") -> list[Held]:
    """Return the GPU time of a period by team, kind and hour; its cost is None where any of it has no price."""
    rows = session.rows(
        """
        SELECT team, l.run_id IS NOT NULL AS held, l.sku, purchase_option, hour, sum(milliseconds)::BIGINT,
            CASE WHEN count(cost_micros) = count(*) THEN sum(cost_micros)::HUGEINT END
        FROM ledger l LEFT JOIN runs ON runs.run_id = l.run_id WHERE hour >= ? AND hour < ?
        GROUP BY ALL ORDER BY ALL
        """,
        [period.start, period.end],
    )
    return [Held(*row) for row in rows]
