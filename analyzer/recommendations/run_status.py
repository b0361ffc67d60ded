"""What a change of a run must know of it: whether it still runs, until when, how often it comes, what a start takes."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from agent.wire.units import DAY_US, SECOND_US
from analyzer.measures.efficiency.checkpoints import bursts
from analyzer.queries.statements import statements
from analyzer.recommendations.recommendation import Outlook

if TYPE_CHECKING:
    from collector.store.session import Session

_WEEKS_BACK_US = 28 * DAY_US  # how far back runs of one name and waits of one queue are counted
SERVING = "serving"


@dataclass(frozen=True, slots=True)
class RunStatus:
    """One run as it stands. Times are microseconds UTC; `ended_at` is None while it runs, all else where unknown.

    `usual_us` is how long half of the `others`, runs of its name and team in the last four weeks, took at most.
    `starting_ms` is GPU time that it spent on starting, over all its attempts.
    """

    run_id: str
    queue: str | None
    stage: str | None
    gpus: int
    attempts: int
    started_at: int | None
    ended_at: int | None
    limit_at: int | None
    newest_start: int | None
    others: int
    usual_us: int | None
    starting_ms: int | None

    @property
    def moved_at(self) -> int | None:
        """When it was last begun anew; None where its first attempt still runs."""
        return self.newest_start if self.attempts > 1 else None


@dataclass(frozen=True, slots=True)
class Wait:
    """How long runs of a queue waited: half of the `starts` at most `median_us`."""

    median_us: int
    starts: int


@dataclass(frozen=True, slots=True)
class Life:
    """Runs by id as they stand at `now`, and waits by queue; checkpoints are read when a run has to be restarted."""

    now: int
    runs: Mapping[str, RunStatus] = field(default_factory=dict)
    waits: Mapping[str, Wait] = field(default_factory=dict)
    checkpoints: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # moments, in order

    def running(self, run_ids: Collection[str]) -> list[RunStatus]:
        """Return those of these runs that still run, the largest first."""
        found = [self.runs[run] for run in run_ids if run in self.runs]
        alive = [run for run in found if run.ended_at is None or run.ended_at > self.now]
        return sorted(alive, key=lambda run: (-run.gpus, run.run_id))

    def outlook(self, run_ids: Collection[str]) -> Outlook | None:
        """Return for how long a change of these runs can still save; None where none of them is known."""
        found = [self.runs[run] for run in run_ids if run in self.runs]
        if not found:
            return None
        recurs = max(len(found) - 1, *(run.others for run in found))
        running = self.running(run_ids)
        if not running:
            return Outlook(False, None, recurs, "it has ended")
        seconds, told = max(_rest(run, self.now) for run in running)
        return Outlook(True, seconds, recurs, told)


def _rest(run: RunStatus, now: int) -> tuple[int, str]:
    """Return for how many seconds a run goes on, and from what that is taken."""
    if run.limit_at is not None and run.limit_at > now:  # a limit that has passed holds nobody
        return (run.limit_at - now) // SECOND_US, "until its time limit"
    if run.stage == SERVING:
        return _WEEKS_BACK_US // SECOND_US, "a service goes on"
    age = max(0, now - (run.started_at or now))
    if run.usual_us is not None and run.usual_us > age:
        return (run.usual_us - age) // SECOND_US, "as long as runs of its name take"
    # Half of the processes of some age live at least as long again (Harchol-Balter and Downey, TOCS 15(3), 1997).
    return min(age, _WEEKS_BACK_US) // SECOND_US, "as long again as it has run"


def read_life(session: "Session", placed: Mapping[str, int | None], restarted: Collection[str]) -> Life:
    """Read how runs stand; of those that would have to be restarted also their checkpoints.

    `placed` says on how many GPUs each is now: a run that was begun anew may have held more over time. None: not known.
    """
    (now,) = session.row("SELECT coalesce(max(hour) + 3600000000, 0) FROM ledger_hours")
    span = {"now": now, "since": now - _WEEKS_BACK_US}
    (standing,), (waiting,) = statements("recommendations/standing.sql"), statements("recommendations/queue_waits.sql")
    rows = session.rows(standing, {"runs": sorted(placed)} | span)
    runs = {row[0]: RunStatus(*row) for row in rows}
    runs = {run_id: replace(run, gpus=placed[run_id] or run.gpus) for run_id, run in runs.items()}
    waits = {queue: Wait(median, starts) for queue, median, starts in session.rows(waiting, span)}
    life = Life(now, runs, waits)
    (saving,) = statements("recommendations/saved.sql")
    saved = session.rows(saving, {"runs": [run.run_id for run in life.running(restarted)]} | span)
    return Life(now, runs, waits, {run: bursts(minutes) for run, minutes in saved})
