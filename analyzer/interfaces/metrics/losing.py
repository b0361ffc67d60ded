"""Who loses most, by name: the runs and teams of the last complete hour, and the dearest findings of the week.

Each list is cut, so that /metrics has an end; what is cut is in the sums beside it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.wire.units import HOUR_US
from analyzer.findings.finding import Finding
from analyzer.states import Class, booking, words_of

if TYPE_CHECKING:
    from collector.store.session import Session

RUNS_SHOWN, TEAMS_SHOWN, FINDINGS_SHOWN = 20, 20, 20
UNMAPPED = "unmapped"

_RUNS = """
WITH of_hour AS (
    SELECT run_id, state, cause, sum(milliseconds)::BIGINT AS milliseconds,
        (state || '/' || coalesce(cause, '')) IN (SELECT unnest($avoidable)) AS is_lost
    FROM ledger WHERE hour >= $start AND hour < $end AND run_id IS NOT NULL GROUP BY ALL
), most AS (
    SELECT run_id FROM of_hour WHERE is_lost GROUP BY run_id ORDER BY sum(milliseconds) DESC, run_id LIMIT $shown
)
SELECT h.run_id, coalesce(r.name, ''), coalesce(r.team, $unmapped), h.state, h.cause, h.milliseconds
FROM of_hour h JOIN most USING (run_id) LEFT JOIN runs r USING (run_id) ORDER BY ALL
"""

_TEAMS = """
WITH of_hour AS (
    SELECT coalesce(r.team, $unmapped) AS team, l.state, sum(l.milliseconds)::BIGINT AS milliseconds,
        sum(l.cost_micros)::BIGINT AS cost
    FROM ledger l JOIN runs r USING (run_id) WHERE l.hour >= $start AND l.hour < $end
        AND (l.state || '/' || coalesce(l.cause, '')) IN (SELECT unnest($avoidable)) GROUP BY ALL
), most AS (
    SELECT team FROM of_hour GROUP BY team
    ORDER BY sum(cost) DESC NULLS LAST, sum(milliseconds) DESC, team LIMIT $shown
)
SELECT team, state, cost FROM of_hour JOIN most USING (team) ORDER BY ALL
"""


@dataclass(frozen=True, slots=True)
class RunPart:
    """GPU time of one run in one state and cause, in the last complete hour or the newest stretch."""

    run_id: str
    name: str
    team: str
    klass: Class
    state: str
    cause: str
    milliseconds: int


@dataclass(frozen=True, slots=True)
class TeamLoss:
    """What one team lost in one state, in the last complete hour; the cost is None where none of it has a price."""

    team: str
    state: str
    cost_micros: int | None


@dataclass(frozen=True, slots=True)
class Losing:
    """All states of the runs that lost most, what teams lost, and the dearest findings that are still open."""

    runs: tuple[RunPart, ...] = ()
    teams: tuple[TeamLoss, ...] = ()
    findings: tuple[Finding, ...] = ()


def read_losing(session: "Session", hour: int | None, found: Sequence[Finding]) -> Losing:
    """Return who loses most in the hour that begins at `hour` (microseconds UTC), and of findings the dearest open."""
    still = tuple(each for each in found if each.still_open and not each.suspicion)[:FINDINGS_SHOWN]
    if hour is None:
        return Losing(findings=still)
    asked = {"start": hour, "end": hour + HOUR_US, "avoidable": words_of("avoidable"), "unmapped": UNMAPPED}
    runs = session.rows(_RUNS, asked | {"shown": RUNS_SHOWN})
    teams = session.rows(_TEAMS, asked | {"shown": TEAMS_SHOWN})
    return Losing(
        tuple(
            RunPart(row[0], row[1], row[2], booking(row[3], row[4]).klass, row[3], row[4] or "", row[5]) for row in runs
        ),
        tuple(TeamLoss(*row) for row in teams),
        still,
    )
