"""What GPUs that are held and do nothing cost while this is read: of the newest hour that is wholly booked."""

from collections.abc import Sequence
from dataclasses import dataclass

from analyzer.findings.finding import Finding
from analyzer.queries.ledger_query import ledger_sums
from collector.store.session import Session

_STATE = "held_idle"  # the one loss that ends the moment somebody lets go
_NEWEST = (
    "hour = (SELECT max(hour) FROM ledger_hours WHERE status <> 'provisional') AND state = ? AND run_id IS NOT NULL"
)


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
    lost: dict[str, tuple[int, int | None]] = {}
    for each in ledger_sums(session, "run_id", where=_NEWEST, values=[_STATE]):
        if (finding_id := of_run.get(each.keys[0])) is not None:
            time, cost = lost.get(finding_id, (0, 0))
            micros = None if cost is None or each.unpriced_milliseconds else cost + (each.cost_micros or 0)
            lost[finding_id] = time + each.milliseconds, micros
    most = max(lost.items(), key=lambda one: (one[1][1] or 0, one[1][0], one[0]), default=None)
    return None if most is None else StillCosts(most[0], *most[1])
