"""How runs stand (whether and for how long they still run, how often they come), and what a restart of them takes."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from agent.wire.units import DAY_US, HOUR_US, MINUTE_SECONDS, SECOND_US
from analyzer.measures.efficiency.checkpoints import bursts
from analyzer.queries.statements import statements
from analyzer.recommendations.proposal import RESTART_MS
from analyzer.recommendations.recommendation import Move, Moving, Outlook, RestartPart
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
        return (run.usual_us - age) // SECOND_US, "as long as runs of its name usually take"
    # Half of the processes of some age live at least as long again (Harchol-Balter and Downey, TOCS 15(3), 1997).
    return min(age, _WEEKS_BACK_US) // SECOND_US, "as long again as it has run"


def read_life(session: Session, placed: Mapping[str, int | None], restarted: Collection[str]) -> Life:
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


# What is assumed where nothing was measured, each ours. Checkpoints: half of an hour between two; published intervals
# go from half an hour (Check-N-Run, NSDI 2022) to three hours (BLOOM, in Gemini, SOSP 2023).
_AGE_SECONDS = 30 * MINUTE_SECONDS
_RELOAD_SECONDS = RESTART_MS // 1000  # image, model load and warm-up
_QUEUE_SECONDS = 10 * MINUTE_SECONDS


def moving(runs: Sequence[RunStatus], life: Life, move: Move | None) -> Moving | None:
    """Return what restarting these running runs takes; None where there is none. The largest run's words are told."""
    gpus = sum(run.gpus for run in runs)
    if not gpus:
        return None
    waits = changes_hosts(move)
    each = [(run, restart_parts(run, life, waits=waits)) for run in runs]
    parts = []
    for place, part in enumerate(each[0][1]):
        seconds = sum(run.gpus * own[place].seconds for run, own in each) // gpus
        measured = all(own[place].measured for _, own in each)
        parts.append(RestartPart(part.what, seconds, measured, part.told))
    return Moving(gpus, tuple(parts), max((run.moved_at for run in runs if run.moved_at is not None), default=None))


def changes_hosts(move: Move | None) -> bool:
    """Return whether other hosts are needed, for which a run has to queue; where it is not known, they are."""
    return move is None or move.from_ is None or move.to is None or set(move.to.nodes) - set(move.from_.nodes) != set()


def restart_parts(run: RunStatus, life: Life, *, waits: bool) -> tuple[RestartPart, ...]:
    """Return what one restart of one run takes."""
    parts = (_age(run, life), _reload(run))
    return (*parts, _queue(run, life)) if waits else parts


def _age(run: RunStatus, life: Life) -> RestartPart:
    """Return the work that is done again: half the time between two checkpoints, since nobody knows the moment."""
    moments = life.checkpoints.get(run.run_id, ())
    if len(moments) > 1:
        steps = sorted(after - before for before, after in pairwise(moments))
        every = steps[(len(steps) - 1) // 2]
        half = every // 2 // SECOND_US
        return RestartPart(
            "checkpoint_age", half, True, f"{_span(half)} of work, half of the time between its checkpoints"
        )
    if moments:
        age = max(0, life.now - moments[-1]) // SECOND_US
        return RestartPart("checkpoint_age", age, True, f"{_span(age)} of work since its only checkpoint")
    return RestartPart(
        "checkpoint_age", _AGE_SECONDS, False, f"{_span(_AGE_SECONDS)} of work, assumed: no checkpoint observed"
    )


def _reload(run: RunStatus) -> RestartPart:
    if not run.starting_ms or not run.gpus:
        return RestartPart("reload", _RELOAD_SECONDS, False, f"{_span(_RELOAD_SECONDS)} to load, assumed")
    seconds = run.starting_ms // 1000 // run.gpus // max(1, run.attempts)
    return RestartPart("reload", seconds, True, f"{_span(seconds)} to load, as its own starts took")


def _queue(run: RunStatus, life: Life) -> RestartPart:
    wait = life.waits.get(run.queue or "")
    if wait is None:
        return RestartPart("queue", _QUEUE_SECONDS, False, f"{_span(_QUEUE_SECONDS)} in the queue, assumed")
    seconds = wait.median_us // SECOND_US
    where = f"queue {run.queue}" if run.queue else "the queue"
    starts = "1 start" if wait.starts == 1 else f"{wait.starts:,} starts"
    return RestartPart("queue", seconds, True, f"{_span(seconds)} in {where}, the median of {starts}")


def gpu_milliseconds(cost: Moving) -> int:
    """Return the GPU time that a restart takes."""
    return cost.gpus * 1000 * sum(part.seconds for part in cost.parts)


def moving_words(cost: Moving, runs: int = 1) -> str:
    """Return what a restart takes as people check it: each part, and whether it was measured."""
    whose = f"one restart of {cost.gpus} GPU{'' if cost.gpus == 1 else 's'}"
    if runs > 1:
        whose = f"one restart of each of {runs} runs, {cost.gpus} GPUs; of the largest"
    return f"{whose}: {'; '.join(part.told for part in cost.parts)}"


def _span(seconds: int) -> str:
    """Return "45 s", "12 min", "1 h 30 min"."""
    if seconds < MINUTE_SECONDS:
        return f"{seconds} s"
    minutes = round(seconds / MINUTE_SECONDS)
    hour = HOUR_US // SECOND_US // MINUTE_SECONDS
    return f"{minutes} min" if minutes < hour else f"{minutes // hour} h {minutes % hour:02d} min"
