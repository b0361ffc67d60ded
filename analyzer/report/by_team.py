"""A period's GPU time by team: who held it, how much was useful, how much avoidable."""

from dataclasses import dataclass

from analyzer.period import Period
from analyzer.report.readings import Breakdown, Counted, fold, within
from collector.store.session import Session


@dataclass(frozen=True, slots=True)
class TeamRow:
    """One team. `team` None with `held` is "unmapped"; without it, GPU time that nobody held."""

    team: str | None
    held: bool
    breakdown: Breakdown


def teams(session: Session, period: Period) -> tuple[TeamRow, ...]:
    """Return all teams that held GPUs, dearest first, then unmapped runs, then what nobody held."""
    where, values = within(period)
    rows = session.rows(
        "SELECT team, ledger.run_id IS NOT NULL AS held, state, cause, sum(milliseconds), sum(cost_micros) "
        f"FROM ledger LEFT JOIN runs ON runs.run_id = ledger.run_id WHERE {where} "
        "GROUP BY team, held, state, cause, cost_micros IS NULL",
        values,
    )
    counted: dict[tuple[str | None, bool], list[Counted]] = {}
    for team, held, *count in rows:
        counted.setdefault((team, held), []).append((count[0], count[1], count[2], count[3]))
    found = [TeamRow(team, held, Breakdown(fold(counts))) for (team, held), counts in counted.items()]
    return tuple(sorted(found, key=_place))


def _place(row: TeamRow) -> tuple[bool, bool, int, int, str]:
    cost = row.breakdown.cost_micros or 0
    return not row.held, row.team is None, -cost, -row.breakdown.milliseconds, row.team or ""
