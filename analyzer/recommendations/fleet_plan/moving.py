"""What a restart takes: the work since the last checkpoint, the reload, and the queue; measured of the run itself."""

from collections.abc import Sequence
from itertools import pairwise

from agent.wire.units import HOUR_US, MINUTE_SECONDS, SECOND_US
from analyzer.recommendations.fleet_plan.move import Move
from analyzer.recommendations.proposal import RESTART_MS
from analyzer.recommendations.recommendation import Moving, RestartPart
from analyzer.recommendations.run_status import Life, RunStatus

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
        return RestartPart("checkpoint_age", age, True, f"{_span(age)} of work since its one checkpoint")
    return RestartPart(
        "checkpoint_age", _AGE_SECONDS, False, f"{_span(_AGE_SECONDS)} of work, assumed: no checkpoint of it was seen"
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
