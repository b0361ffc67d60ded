"""What GPUs that are held and do nothing cost while this is read: of the newest hour that is wholly booked."""

from collections.abc import Sequence
from dataclasses import dataclass

from analyzer.findings.finding import Finding
from collector.store.session import Session

_STATE = "held_idle"  # the one loss that ends the moment somebody lets go


@dataclass(frozen=True, slots=True)
class StillCosts:
    """The finding whose idle GPUs lost most in the newest booked hour; `micros` is None where a price is missing."""

    finding_id: str
    milliseconds: int
    micros: int | None


def still_costs(session: Session, findings: Sequence[Finding]) -> StillCosts | None:
    """Return the open finding of idle GPUs that loses most now; None where none did in the newest booked hour."""
    open_now = [one for one in findings if one.state == _STATE and one.still_open and not one.suspicion]
    of_run = {run_id: one.id for one in open_now for run_id in one.run_ids}
    if not of_run:
        return None
    rows = session.rows(
        "SELECT run_id, sum(milliseconds)::BIGINT, sum(cost_micros)::BIGINT, count(*) = count(cost_micros) FROM ledger "
        "WHERE hour = (SELECT max(hour) FROM ledger_hours WHERE status <> 'provisional') "
        "AND state = ? AND run_id IS NOT NULL GROUP BY run_id ORDER BY run_id",
        [_STATE],
    )
    lost: dict[str, tuple[int, int | None]] = {}
    for run_id, milliseconds, micros, is_priced in rows:
        if (finding_id := of_run.get(run_id)) is not None:
            time, cost = lost.get(finding_id, (0, 0))
            lost[finding_id] = time + milliseconds, cost + micros if is_priced and cost is not None else None
    most = max(lost.items(), key=lambda one: (one[1][1] or 0, one[1][0], one[0]), default=None)
    return None if most is None else StillCosts(most[0], *most[1])
