"""Count once what several rules ask for: GPUs, runs and ports by the hour, and who held what.

Hours come from the tier of hours as far as that reaches, and from samples where nobody has rolled up yet. They lie in
temporary tables of the session that asks (notice_gpu_hours, notice_run_hours, notice_port_hours, notice_holds).
"""

from typing import TYPE_CHECKING

from agent.wire.units import HOUR_US
from analyzer.findings.health.notice import Span
from analyzer.queries.statements import run, statements
from collector.lake.series import TableExtent
from collector.tier_tables import tiered

if TYPE_CHECKING:
    from collector.store.session import Session

_HOURS = {"gpu": "gpu_samples", "run": "run_samples", "port": "network_samples"}


def gather(session: "Session", span: Span) -> None:
    """Make the temporary tables of a period.

    Raises:
        StoreError: the store does not answer.
    """
    for name, table in _HOURS.items():
        create, from_hours, from_samples = statements(f"findings/health/hours/{name}.sql")
        session.execute(create)
        rolled = rolled_until(session, table)
        edge = min(max(span.start_us, rolled), span.end_us)
        if edge > span.start_us:
            session.execute(from_hours, {"start": span.start_us, "end": edge})
        if edge < span.end_us:
            session.execute(from_samples, {"start": edge, "end": span.end_us})
    run(session, "findings/health/holds.sql", start=span.start_us, end=span.end_us)


def rolled_until(session: "Session", table: str) -> int:
    """Return until when the tiers of a table of samples are whole, at a whole hour; 0 where there are none."""
    return TableExtent.of(session, tiered(table)).rolled_until // HOUR_US * HOUR_US
