"""A period's GPU time by team, as reports and mails have always told it."""

from dataclasses import dataclass

from analyzer.period import Period
from analyzer.queries.ledger_query import Breakdown
from analyzer.reports.groups import groups
from collector.store.session import Session


@dataclass(frozen=True, slots=True)
class TeamRow:
    """One team. `team` None with `held` is "unmapped"; without it, GPU time that nobody held.

    It is a GroupRow under the name that `teams` of the JSON has always had (docs/json.md): that is stable.
    """

    team: str | None
    held: bool
    breakdown: Breakdown


def teams(session: Session, period: Period) -> tuple[TeamRow, ...]:
    """Return all teams that held GPUs, dearest first, then unmapped runs, then what nobody held."""
    return tuple(TeamRow(row.name, row.held, row.breakdown) for row in groups(session, period, "team").rows)
