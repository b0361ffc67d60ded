"""Runs that no rule maps to a team, grouped so that one new rule can take a whole line."""

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from analyzer.ledger.teams import RunIdentity, TeamBook
from analyzer.queries.labels import labels_of

if TYPE_CHECKING:
    from collector.store.session import Session


@dataclass(frozen=True, slots=True)
class UnmappedGroup:
    """Unmapped runs that say the same of themselves. `example` is one run's id."""

    what: str
    runs: int
    example: str


def identities(session: "Session") -> list[RunIdentity]:
    """Return what each run of the store's allocations says of itself: one row a run, by run id.

    What hosts call by another name is left to the run's own scheduler.
    """
    rows = session.rows(
        """
        SELECT run_id, min(coalesce(started_at, submitted_at, 0)), min(account), min("user"), min(queue),
               min(project), min(name), min(labels)
        FROM allocations
        WHERE run_id NOT IN (SELECT alias_run_id FROM run_aliases a WHERE a.run_id <> alias_run_id)
        GROUP BY run_id ORDER BY run_id
        """
    )
    return [
        RunIdentity(run_id, at_us, account, user, queue, project, name, labels_of(labels))
        for run_id, at_us, account, user, queue, project, name, labels in rows
    ]


def unmapped_runs(session: "Session", book: TeamBook) -> tuple[int, list[UnmappedGroup]]:
    """Return how many runs map to a team, and the others in groups, the largest first."""
    groups: dict[str, list[str]] = defaultdict(list)
    mapped = 0
    for run in identities(session):
        if book.team_of(run) is not None:
            mapped += 1
        else:
            groups[_what(run)].append(run.run_id)
    found = [UnmappedGroup(what, len(runs), runs[0]) for what, runs in groups.items()]
    return mapped, sorted(found, key=lambda group: (-group.runs, group.what))


def _what(run: RunIdentity) -> str:
    said = {"account": run.account, "user": run.user, "queue": run.queue, "project": run.project}
    return ", ".join(f"{key} {value}" for key, value in said.items() if value is not None) or "says nothing of itself"
