"""The signs of a finding: each number that was seen, in windows or in samples, and the mark that it had to pass.

Seen is the median of the windows in which the verdict was given, or what the samples of idle GPUs sum to; a sign holds
where that passes the mark. Nothing holds because the verdict was given.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from agent.wire.units import HOUR_MS
from analyzer.findings.finding import Finding, Sign
from analyzer.findings.witness_signs import cause_signs, median
from analyzer.ledger.causes import exchange
from analyzer.ledger.causes.exchange import most
from analyzer.ledger.thresholds import Thresholds
from analyzer.ledger.windows import RunWindow, per_gpu_rate
from analyzer.period import WINDOW_MS, Period
from analyzer.queries.statements import statements
from analyzer.text.words import whole_percent
from collector.lake.series import TableExtent
from collector.store.session import Session
from collector.tier_tables import tiered


def _kept_row(
    session: Session, file: str, minutes: str, finding: Finding, period: Period, **limits: int
) -> tuple[Any, ...]:
    """Return the one row of a file of findings/sql/explain; `minutes` stands in it where hours have been rolled up."""
    rolled = TableExtent.of(session, tiered("gpu_samples")).rolled_until
    (select,) = statements(file)
    asked = {
        "runs": list(finding.run_ids),
        "cause": finding.cause,
        "nodes": list(finding.hosts),
        "start": period.start,
        "end": min(period.end, finding.last_at),
        "rolled": rolled,
    }
    return session.row(select.format(minutes=minutes if rolled > period.start else ""), asked | limits)


# A minute is quiet where no sample of it was more; it works by its mean.
_MINUTES = """UNION ALL
    SELECT coalesce(parent_uuid, gpu_uuid), gpu_uuid, started_at, started_at + 60000000, measured_ms,
        coalesce(sm_active_ratio, utilization_ratio), coalesce(sm_active_ratio_max, utilization_ratio_max),
        greatest(coalesce(utilization_zero_ratio, 0), 1 - coalesce(utilization_ratio, 1)), memory_used_bytes_max
    FROM gpu_minutes WHERE started_at >= $start - $around AND started_at < least($end + $around, $rolled)
        AND down_ms = 0 AND node IN (SELECT unnest($nodes::VARCHAR[]))"""


@dataclass(frozen=True, slots=True)
class IdleGpus:
    """What was measured of a finding's idle GPU time. Milliseconds; None where nothing of it was measured.

    Of what is `claimed`, `measured_ms` lies in hours of which samples or minutes are kept; all else is of that part.
    """

    claimed_ms: int
    measured_ms: int
    quiet_ms: int | None = None  # without work
    still_ms: int | None = None  # without a kernel, between those of a session or service too
    longest_ms: int | None = None  # without work, on one GPU
    worked_ms: int | None = None  # at work meanwhile
    before_ms: int | None = None  # at work before that, since the runs hold it
    memory_mb: int | None = None  # held while quiet: the median of the GPUs' hours
    is_interactive: bool = False


def idle_gpus(session: Session, finding: Finding, period: Period, limits: Thresholds) -> IdleGpus:
    """Read what is kept of a finding's idle GPUs, within a period."""
    return IdleGpus(
        *_kept_row(
            session,
            "findings/explain/idle.sql",
            _MINUTES,
            finding,
            period,
            around=1000 * limits.abandoned_ms,
            quiet=limits.quiet_permille,
            active=limits.active_permille,
        )
    )


_WindowValue = Callable[[RunWindow], int | None]


@dataclass(frozen=True, slots=True)
class Context:
    """What a verdict rests on beside windows; None is unknown."""

    racks: int | None = None
    in_rack_rate: int | None = None  # bytes a second and node
    usual_link_kb: int | None = None


def signs(
    state: str, cause: str, windows: Sequence[RunWindow], limits: Thresholds, context: Context
) -> tuple[Sign, ...]:
    """Return the signs that this rule looks at; none where its verdict needs no window."""
    if not windows:
        return ()
    if state in ("starved", "unexplained"):
        still = (_sign("GPUs without a kernel", windows, lambda w: w.still, limits.low_permille), *_told_wait(windows))
        if cause == "unknown":  # the run's own word, which needs no other
            return still
        return (*still, *cause_signs(cause, windows, is_booked=state == "starved"), *_sureness(windows, limits))
    if state == "communicating":
        return _hang(windows, limits, context) if cause == "hang" else _exchange(cause, windows, limits, context)
    if state == "throttled":
        return (_sign("SM clock lost", windows, lambda w: w.slowed_most, limits.slowed_permille),)
    if state == "underused":
        return _underused(windows, limits)
    if state == "headroom":
        return (_sign("replicas beyond policy", windows, _beyond, 1, "{:,}".format),)
    return ()


def idle_signs(cause: str, gpus: IdleGpus, windows: Sequence[RunWindow], limits: Thresholds) -> tuple[Sign, ...]:
    """Return the signs of an idle GPU, from the samples of the time that is claimed.

    `windows` are those in which a service's policy called it idle. A session and a service are booked between their
    kernels, all else only where nothing worked for long.
    """
    requests = [window for window in windows if window.policy is not None or window.requests is not None]
    if requests:
        answered = _sign("requests", requests, lambda w: w.requests, 0, "{:,} in 10 min".format, most_allowed=True)
        return (_of_time("GPUs without a kernel", gpus, gpus.still_ms, limits), answered)
    if gpus.is_interactive:
        found = [_of_time("GPUs without a kernel", gpus, gpus.still_ms, limits)]
    else:
        quiet = f"GPUs {whole_percent(limits.quiet_permille)} active or less"
        found = [_of_time(quiet, gpus, gpus.quiet_ms, limits), _in_a_row(cause, gpus, limits)]
    if cause == "never_used":
        found.append(_unused(gpus, limits))
    if cause == "held_memory":
        mark = limits.held_mb
        held_mb, needed = gpus.memory_mb, f"more than {mark:,} MB"
        seen = "not reported" if held_mb is None else f"{held_mb:,} MB"
        found.append(Sign("memory in use", seen, needed, None if held_mb is None else held_mb > mark))
    return tuple(found)


def _of_time(what: str, gpus: IdleGpus, found_ms: int | None, limits: Thresholds) -> Sign:
    """Return a share of the claimed time that is still kept; a fifth may lie in samples that edges cut."""
    needed = f"{whole_percent(limits.covered_permille)} or more"
    if found_ms is None or not gpus.measured_ms:
        return Sign(what, "not reported", needed, None)
    share = 1000 * found_ms // gpus.measured_ms
    return Sign(
        what, f"{whole_percent(share)} of {_hours_words(gpus.measured_ms)}", needed, share >= limits.covered_permille
    )


def _in_a_row(cause: str, gpus: IdleGpus, limits: Thresholds) -> Sign:
    least = limits.abandoned_ms if cause == "abandoned" else limits.quiet_ms
    needed = f"{length_words(least // 60_000)} or more"
    if gpus.longest_ms is None:
        seen = "none" if gpus.measured_ms else "not reported"
        return Sign("longest continuous", seen, needed, False if gpus.measured_ms else None)
    return Sign("longest continuous", length_words(gpus.longest_ms // 60_000), needed, gpus.longest_ms >= least)


def _unused(gpus: IdleGpus, limits: Thresholds) -> Sign:
    what, needed = f"work, over {whole_percent(limits.active_permille)}", "none since it started"
    if gpus.worked_ms is None or gpus.before_ms is None:
        return Sign(what, "not reported", needed, None)
    beyond = 1000 * gpus.worked_ms > (1000 - limits.covered_permille) * gpus.measured_ms
    worked_ms = gpus.before_ms + (gpus.worked_ms if beyond else 0)
    return Sign(what, _hours_words(worked_ms) if worked_ms else "none", needed, not worked_ms)


def _hours_words(milliseconds: int) -> str:
    """Return GPU time as a person reads it."""
    return f"{milliseconds / HOUR_MS:,.1f} h" if milliseconds >= HOUR_MS // 20 else "minutes"


def _rate(bytes_per_second: int) -> str:
    """Return a rate as a person reads it."""
    giga = bytes_per_second >= 100_000_000
    return f"{bytes_per_second / 1e9:.1f} GB/s" if giga else f"{bytes_per_second / 1e6:.1f} MB/s"


def _sign(
    what: str,
    windows: Sequence[RunWindow],
    read: _WindowValue,
    mark: int,
    shown: Callable[[int], str] = whole_percent,
    *,
    most_allowed: bool = False,
    either: bool = False,
) -> Sign:
    seen = median([read(window) for window in windows])
    needed = f"{'or ' if either else ''}{shown(mark)} or {'less' if most_allowed else 'more'}"
    if seen is None:
        return Sign(what, "not reported", needed, None)
    return Sign(what, shown(seen), needed, seen <= mark if most_allowed else seen >= mark)


def _told_wait(windows: Sequence[RunWindow]) -> tuple[Sign, ...]:
    told = median([window.data_wait for window in windows])
    if told is None:
        return ()
    return (Sign("waits for data, by its own clock", whole_percent(told), "decides where it is told", None),)


def _sureness(windows: Sequence[RunWindow], limits: Thresholds) -> tuple[Sign, ...]:
    minutes = WINDOW_MS // 60_000
    longest, wanted = _longest(windows), limits.persistence_windows
    fine = sum(w.sm_ms * 2 >= w.ms and w.shares_ms * 2 >= w.ms for w in windows)
    return (
        Sign(
            "longest continuous",
            length_words(longest * minutes),
            f"{wanted * minutes} min, for high confidence",
            longest >= wanted,
        ),
        Sign(
            "measured as SM activity",
            f"{whole_percent(1000 * fine // len(windows))} of the windows",
            "half of them, for high confidence",
            fine * 2 >= len(windows),
        ),
    )


def _longest(windows: Sequence[RunWindow]) -> int:
    """Return how many windows of one run follow on each other without a gap, at the most."""
    longest = length = 0
    before: tuple[str, int] | None = None
    for window in sorted(windows, key=lambda one: (one.run_id, one.window_ms)):
        length = length + 1 if before == (window.run_id, window.window_ms - WINDOW_MS) else 1
        before, longest = (window.run_id, window.window_ms), max(longest, length)
    return longest


def length_words(minutes: int) -> str:
    """Return a length of time as a person reads it."""
    return f"{minutes // 60} h {minutes % 60:02d} min" if minutes >= 60 else f"{minutes} min"


def _exchange(cause: str, windows: Sequence[RunWindow], limits: Thresholds, context: Context) -> tuple[Sign, ...]:
    found = [
        _sign("activity below its best", windows, lambda w: w.short, limits.exchange_short_permille),
        _sign("over the links, per GPU", windows, _links, limits.exchange_kb_per_ms, _megabytes),
    ]
    if cause == "straggler":
        behind = _sign("one GPU's clock behind", windows, _behind, limits.slowed_permille)
        return (*found, behind)
    if cause == "uneven":
        one = limits.uneven_most_permille
        return (
            *found,
            _sign("ranks wait for the busiest", windows, lambda w: w.uneven, limits.lag_permille),
            _sign("of it, for the same one", windows, lambda w: w.uneven_most, one, most_allowed=True),
        )
    racks, several = context.racks, "2 or more, all known"
    known = (
        Sign("racks", "not reported", several, None) if racks is None else Sign("racks", f"{racks}", several, racks > 1)
    )
    found.append(known)
    seen, fair = median([exchange.exchange_rate(window, limits) for window in windows]), context.in_rack_rate
    if seen is not None and fair is not None:
        found.append(Sign("exchange, per host", _rate(seen), f"less than {_rate(fair)}, as inside a rack", seen < fair))
    return tuple(found)


def _hang(windows: Sequence[RunWindow], limits: Thresholds, context: Context) -> tuple[Sign, ...]:
    found = [
        _sign("NVML busy", windows, lambda w: w.utilization, limits.hang_utilization_permille),
        _sign("SM activity of its best", windows, _of_best, limits.hang_activity_permille, most_allowed=True),
    ]
    if context.usual_link_kb:
        usual = context.usual_link_kb
        link = partial(_of_usual, usual=usual)
        found.append(_sign("links, of their usual", windows, link, limits.hang_link_permille, most_allowed=True))
    return tuple(found)


def _underused(windows: Sequence[RunWindow], limits: Thresholds) -> tuple[Sign, ...]:
    busy = _sign("NVML busy", windows, lambda w: w.utilization, limits.underused_busy_permille)
    if all(window.sm_ms == 0 for window in windows):
        mark = limits.underused_power_permille
        return (busy, _sign("power, of its limit", windows, lambda w: w.power, mark, most_allowed=True))
    exchanges = any(exchange.links_busy(window, limits) for window in windows)
    thin = limits.underused_sm_permille if exchanges else limits.ineffective_sm_permille
    chip: tuple[tuple[str, _WindowValue, int], ...] = (
        ("SM activity", lambda w: w.activity, thin),
        ("tensor cores", lambda w: w.tensor, limits.underused_tensor_permille),
        ("memory bandwidth", lambda w: w.dram, limits.underused_dram_permille),
    )
    return (busy, *(_sign(what, windows, read, mark, most_allowed=True) for what, read, mark in chip))


def _megabytes(kb_per_ms: int) -> str:
    return _rate(kb_per_ms * 1_000_000)


def _links(window: RunWindow) -> int | None:
    fabric_kb = None if window.rdma_out is None or window.nodes < 2 else window.rdma_out // 1000
    return per_gpu_rate(window, most(window.nvlink_kb, fabric_kb))


def _behind(window: RunWindow) -> int | None:
    return None if window.slowest_gpu is None else window.slowed_most - window.slowed_least


def _beyond(window: RunWindow) -> int | None:
    return None if window.replicas is None or window.needed is None else window.replicas - window.needed


def _of_best(window: RunWindow) -> int | None:
    return window.activity * 1000 // window.best if window.best else None


def _of_usual(window: RunWindow, usual: int) -> int | None:
    return None if window.nvlink_kb is None else window.nvlink_kb * 1000 // usual


# As attempts end that lose their work (failed.sql): by cause the words of their schedulers.
_ENDINGS = {
    "failed": ("failed", "timeout", "out_of_memory"),
    "preempted": ("preempted",),
    "node_failed": ("node_failed",),
}
# A minute of a tier says how much of it the driver had lost the GPU, and how much it answered.
_LOST_MINUTES = """UNION ALL
    SELECT coalesce(parent_uuid, gpu_uuid), started_at, measured_ms, down_ms
    FROM gpu_minutes WHERE started_at >= $start AND started_at < least($end, $rolled)
        AND node IN (SELECT unnest($nodes::VARCHAR[]))"""
_NOT_REPORTED = "not reported"


@dataclass(frozen=True, slots=True)
class _BrokenGpus:
    """GPU milliseconds that a finding calls broken, and what is known of them; None where nothing is kept of them.

    Of `told_ms` samples are kept: `lost_ms` the driver said that they are gone. `down_ms` their host was down for its
    scheduler. The hours of the ledger that are claimed are compared whole.
    """

    claimed_ms: int
    told_ms: int | None
    lost_ms: int | None
    down_ms: int | None


@dataclass(frozen=True, slots=True)
class _LostWork:
    """How runs ended that lost their work, and how long before that the last checkpoint was seen (milliseconds).

    `unsaved_ms` is since the attempt began where none was; of several runs it is that which lost most, `lost_ms`.
    """

    attempts: int
    ended_so: int
    lost_ms: int
    unsaved_ms: int | None
    saved: bool


def broken_signs(session: Session, finding: Finding, period: Period, limits: Thresholds) -> tuple[Sign, ...]:
    """Return the signs of broken GPUs: the driver's word, or the scheduler's and that none of its GPUs answered."""
    found = _BrokenGpus(*_kept_row(session, "findings/explain/broken.sql", _LOST_MINUTES, finding, period))
    needed = f"{whole_percent(limits.covered_permille)} or more"
    if finding.cause == "gpu_lost":
        return (_share("lost to the driver", found.lost_ms, found.told_ms, needed, limits.covered_permille),)
    if finding.cause != "node_down":
        return ()
    down = _share("down for its scheduler", found.down_ms, found.claimed_ms, needed, limits.covered_permille)
    least = 1000 - limits.covered_permille
    if not found.told_ms or found.lost_ms is None:
        return down, Sign("its GPUs answered", "never", f"{whole_percent(least)} or less", True)
    answered = 1000 * (found.told_ms - found.lost_ms) // max(found.claimed_ms, found.told_ms)
    seen = f"{whole_percent(answered)} of {_hours_words(found.claimed_ms)}"
    return down, Sign("its GPUs answered", seen, f"{whole_percent(least)} or less", answered <= least)


def lost_signs(session: Session, finding: Finding, period: Period) -> tuple[Sign, ...]:
    """Return the signs of lost work: how the attempts ended, and that nothing was saved in the time that is lost."""
    endings = _ENDINGS[finding.cause]
    asked = {
        "runs": list(finding.run_ids),
        "cause": finding.cause,
        "endings": list(endings),
        "start": period.start,
        "end": period.end,
    }
    (select,) = statements("findings/explain/lost.sql")
    found = _LostWork(*session.row(select, asked))
    words = " or ".join(ending.replace("_", " ") for ending in endings)
    ended = Sign(
        f"ended as {words}",
        f"{found.ended_so:,} of {found.attempts:,} attempts",
        "all of them",
        found.ended_so == found.attempts if found.attempts else None,
    )
    what = "last checkpoint before the end" if found.saved else "no checkpoint; began before the end"
    needed = f"{length_words(found.lost_ms // 60_000)} or more"
    if found.unsaved_ms is None:
        return ended, Sign(what, _NOT_REPORTED, needed, None)
    return ended, Sign(what, length_words(found.unsaved_ms // 60_000), needed, found.unsaved_ms >= found.lost_ms)


def _share(what: str, part: int | None, whole: int | None, needed: str, mark: int) -> Sign:
    if part is None or not whole:
        return Sign(what, _NOT_REPORTED, needed, None)
    share = 1000 * part // whole
    return Sign(what, f"{whole_percent(share)} of {_hours_words(whole)}", needed, share >= mark)
