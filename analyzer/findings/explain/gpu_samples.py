"""What is kept of a finding's GPUs: samples, and before those the minutes of their tier."""

from typing import TYPE_CHECKING, Any

from analyzer.findings.finding import Finding
from analyzer.queries.statements import statements
from collector.lake.series import TableExtent
from collector.tier_tables import tiered

if TYPE_CHECKING:
    from analyzer.period import Period
    from collector.store.session import Session


def kept_row(
    session: "Session", file: str, minutes: str, finding: Finding, period: "Period", **limits: int
) -> tuple[Any, ...]:
    """Return the one row of a file of findings/sql/explain; `minutes` stands in it where hours have been rolled up.

    Raises:
        StoreError: the store does not answer.
    """
    rolled = TableExtent.of(session, tiered("gpu_samples")).rolled_until
    (select,) = statements(file)
    asked = {
        "runs": list(finding.run_ids),
        "cause": finding.cause,
        "nodes": list(finding.hosts),
        "start": period.start,
        "end": min(period.end, finding.last_at),
        "rolled": rolled,
    }
    return session.row(select.format(minutes=minutes if rolled > period.start else ""), asked | limits)
