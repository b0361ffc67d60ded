"""Whose turn a job is: a row a job, where all collectors of a lake see it. Who writes it first has the turn.

Only one job of one collector runs at a time. Two that delete the same rows would have to conflict, and DuckLake lets
both commit where one deletes few rows and the other many (its issue 1215): an hour that is rolled up again while its
day is compacted would be there twice. Who takes a turn therefore also writes one row that all share, `_ALL`, and it is
there from the beginning, since deleting nothing conflicts with nobody (issue 1393). A collector that dies within a turn
has said how long it would take at most; after that another may take one.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from collector.errors import StoreError
from collector.lake.upkeep.writing import writing

if TYPE_CHECKING:
    from collector.store.database import Store
    from collector.store.session import Session

_BEGUN = "begun"
_ALL = "*"  # the name of the row that every turn writes


@dataclass(frozen=True, slots=True)
class JobState:
    """What is known of a job across collectors and restarts. Times are microseconds UTC; 0 is never."""

    job: str
    outcome: str = ""
    said: str = ""
    finished_at: int = 0
    succeeded_at: int = 0
    due_at: int = 0


def states(session: "Session") -> dict[str, JobState]:
    """Return the jobs that have ever had a turn; of two rows of one, the later.

    Raises:
        StoreError: the store does not answer.
    """
    rows = session.rows(
        "SELECT job, outcome, said, finished_at, succeeded_at, due_at FROM upkeep ORDER BY finished_at, due_at"
    )
    return {row[0]: JobState(*row) for row in rows if row[0] != _ALL}


def take(store: "Store", job: str, now_us: int, until_us: int) -> bool:
    """Take a job's turn until then, and say whether it was ours to take: it is due, and no other job has its turn.

    Raises:
        StoreError: another took it at the same moment, or the store refused.
    """
    with writing(store) as session:
        known = states(session)
        state = known.get(job, JobState(job))
        if state.due_at > now_us or any(s.outcome == _BEGUN and s.due_at > now_us for s in known.values()):
            return False
        _write(session, JobState(_ALL))
        _write(session, JobState(job, _BEGUN, "", state.finished_at, state.succeeded_at, until_us))
    return True


def prolong(store: "Store", job: str, until_us: int, longer_us: int) -> None:
    """Take the turn that ends at `until_us` for longer.

    Raises:
        StoreError: another has taken it over, or the store refused.
    """
    with writing(store) as session:
        state = _own(session, job, until_us)
        _write(session, JobState(_ALL))
        _write(session, replace(state, due_at=longer_us))


def give(store: "Store", state: JobState, until_us: int) -> None:
    """Write down how the turn that was taken until `until_us` ended, and when the next is due.

    Raises:
        StoreError: another has taken it over, or the store refused; the turn then ends by itself.
    """
    with writing(store) as session:
        before = _own(session, state.job, until_us)
        if state.succeeded_at < before.succeeded_at:
            state = JobState(state.job, state.outcome, state.said, state.finished_at, before.succeeded_at, state.due_at)
        _write(session, state)


def _own(session: "Session", job: str, until_us: int) -> JobState:
    """Return the state of a job whose turn is still the one that was taken until then."""
    state = states(session).get(job, JobState(job))
    if (state.outcome, state.due_at) != (_BEGUN, until_us):
        raise StoreError(f"the turn of {job} was over, and another collector has taken it")
    return state


def _write(session: "Session", state: JobState) -> None:
    session.execute("DELETE FROM upkeep WHERE job = ?", [state.job])
    session.execute(
        "INSERT INTO upkeep (job, outcome, said, finished_at, succeeded_at, due_at) VALUES (?, ?, ?, ?, ?, ?)",
        [state.job, state.outcome, state.said, state.finished_at, state.succeeded_at, state.due_at],
    )
