"""Why one finding says what it says: its signs, what was ruled out, and the plot that its verdict stands on.

Only what was looked at is named. A part of the host that nobody measured is not ruled out, and not named here.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from agent.wire.units import HOUR_MS, HOUR_US
from analyzer.findings.evidence import Need, Severity, need, severity
from analyzer.findings.finding import Finding, Sign
from analyzer.findings.ledger_findings import said_states
from analyzer.findings.signs import Context, broken_signs, idle_gpus, idle_signs, lost_signs, signs
from analyzer.findings.witness_signs import mark_of, speaking_against
from analyzer.ledger.causes.exchange import exchange_rate, fabric_of, usual
from analyzer.ledger.coverage import timeline
from analyzer.ledger.thresholds import Thresholds
from analyzer.ledger.windows import RunWindow, Verdict
from analyzer.period import Period
from analyzer.queries.ledger_query import ledger_sums
from analyzer.states import booking
from collector.store.session import Session

_SHOWN_LEAST_MS = 180_000  # less would be told as 0.0 GPU-hours
_OVERHEAD = {"checkpointing": "checkpoints", "starting": "starting", "collective": "normal collectives"}


@dataclass(frozen=True, slots=True)
class RuledOut:
    """One other explanation, and what speaks against it; `overhead` and `finding` are booked apart from it."""

    what: str
    why: str
    kind: Literal["cause", "overhead", "finding"] = "cause"


def ruled_out(
    finding: Finding,
    windows: Sequence[RunWindow],
    others: Sequence[Finding],
    overhead_ms: Mapping[str, int],
    limits: Thresholds,
) -> tuple[RuledOut, ...]:
    """Return the other explanations, those of the same kind first.

    `others` are findings of the same runs, which claim time of their own; `overhead_ms` is what the ledger books of
    these runs by checkpointing, starting and collective.
    """
    found: list[RuledOut] = []
    if finding.state in ("starved", "unexplained"):
        found += [RuledOut(what, why) for what, why in speaking_against(finding.cause, windows)]
    if finding.state in ("starved", "communicating", "unexplained") and finding.cause not in _OF_RANKS:
        found += _straggler(windows, others, limits)
    for name, milliseconds in overhead_ms.items():
        if milliseconds >= _SHOWN_LEAST_MS:
            hours = f"{milliseconds / HOUR_MS:,.1f} GPU-hours"
            found.append(RuledOut(_OVERHEAD[name], f"{hours} are booked as overhead", "overhead"))
    proven = [other for other in others if not other.suspicion]
    found += [RuledOut(f"{other.what} ({other.id})", "booked separately", "finding") for other in proven]
    return tuple(found)


_OF_RANKS = ("straggler", "uneven", "hang")


def _straggler(windows: Sequence[RunWindow], others: Sequence[Finding], limits: Thresholds) -> list[RuledOut]:
    several = [window for window in windows if window.gpus > 1]
    if not several or any(other.cause == "straggler" for other in others):
        return []
    behind = max(window.slowed_most - window.slowed_least for window in several)
    return [RuledOut("straggler", "no rank differs")] if behind < limits.slowed_permille else []


_POINTS = 60
_PERCENT = 10  # permille in one


@dataclass(frozen=True, slots=True)
class Signal:
    """One figure over time, on the times of its plot; None where it was not reported."""

    name: str
    unit: str
    values: tuple[float | None, ...]
    mark: float | None  # what it is held to


@dataclass(frozen=True, slots=True)
class Plot:
    """Shares of one run's GPU time, in percent: working, the finding's own label, all else; and a signal below."""

    run_id: str
    label: str
    times: tuple[int, ...]  # starts of the stretches, microseconds UTC
    working: tuple[float, ...]
    lost: tuple[float, ...]
    signal: Signal | None


def plot(
    session: Session, finding: Finding, windows: Sequence[RunWindow], within: tuple[int, int], limits: Thresholds
) -> Plot | None:
    """Return the plot of the run that lost most, within a span; None where its timeline is not kept."""
    if not finding.run_ids:
        return None
    run_id, state, cause = finding.run_ids[0], finding.state, finding.cause
    points = timeline(session, run_id, _POINTS, within)
    if not points:
        return None
    label = booking(state, None if state == "unexplained" else cause).label
    whole: dict[int, int] = defaultdict(int)
    parts: dict[tuple[int, str], int] = defaultdict(int)
    for point in points:
        whole[point.bucket_start] += point.milliseconds
        parts[point.bucket_start, booking(point.state, point.cause).label] += point.milliseconds
    times = tuple(sorted(whole))

    def shares(name: str) -> tuple[float, ...]:
        return tuple(round(100 * parts[at, name] / whole[at], 2) if whole[at] else 0.0 for at in times)

    own = [window for window in windows if window.run_id == run_id]
    return Plot(run_id, label, times, shares("productive"), shares(label), signal(state, cause, own, times, limits))


def signal(
    state: str, cause: str, windows: Sequence[RunWindow], times: Sequence[int], limits: Thresholds
) -> Signal | None:
    """Return the figure that decided, averaged in each stretch; None where the rule has none or nobody reported it."""
    for name, unit, read, mark in _candidates(state, cause, limits):
        values = _averaged(windows, times, read)
        if any(value is not None for value in values):
            return Signal(name, unit, values, mark)
    return None


_PlottedSeries = tuple[str, str, Callable[[RunWindow], float | None], float | None]


def _candidates(state: str, cause: str, limits: Thresholds) -> tuple[_PlottedSeries, ...]:
    """Return the figures of a rule, the most telling first."""
    worker: _PlottedSeries = (
        "busiest worker",
        "% of a core",
        lambda w: _share(w.busiest),
        _mark(mark_of("preprocessing", "busiest")),
    )
    disk: _PlottedSeries = ("disk busy", "%", lambda w: _share(w.disk_busy), _mark(mark_of("storage", "disk_busy")))
    waiting: _PlottedSeries = (
        "workers waiting",
        "%",
        lambda w: _share(w.waiting),
        _mark(mark_of("storage", "waiting")),
    )
    copies: _PlottedSeries = ("copies to GPUs", "GB/s", _copied, None)
    clock: _PlottedSeries = ("clock lost", "%", lambda w: _share(w.slowed_most), _mark(limits.slowed_permille))
    fabric: _PlottedSeries = ("exchange, per host", "GB/s", lambda w: _giga(exchange_rate(w, limits)), None)
    chip: _PlottedSeries = ("SM activity", "%", lambda w: _share(w.activity) if w.sm_ms else None, None)
    if state == "communicating":
        return (clock,) if cause == "straggler" else (fabric, chip)
    by_cause: dict[str, tuple[_PlottedSeries, ...]] = {
        "preprocessing": (worker,),
        "loader_software": (worker, disk),
        "storage": (disk, waiting),
        "network_storage": (waiting, disk),
        "host_to_device": (copies,),
        "unknown": (("waits for data", "%", lambda w: _share(w.data_wait), None),),
        "thermal": (clock,),
        "power": (clock,),
        "hardware": (clock,),
    }
    return by_cause.get(cause, (chip,))


def _share(permille: int | None) -> float | None:
    return None if permille is None else permille / _PERCENT


def _mark(permille: int) -> float:
    return permille / _PERCENT


def _copied(window: RunWindow) -> float | None:
    return None if window.pcie_in_kb is None or not window.ms else window.pcie_in_kb * window.gpus / window.ms / 1000


def _giga(bytes_per_second: int | None) -> float | None:
    return None if bytes_per_second is None else bytes_per_second / 1e9


def _averaged(
    windows: Sequence[RunWindow], times: Sequence[int], read: Callable[[RunWindow], float | None]
) -> tuple[float | None, ...]:
    ends = (*times[1:], 2**62)
    sums: list[list[float]] = [[] for _ in times]
    place = 0
    for window in sorted(windows, key=lambda one: one.window_ms):
        at = window.window_ms * 1000
        while place < len(times) - 1 and at >= ends[place]:
            place += 1
        value = read(window)
        if value is not None and at >= times[0]:
            sums[place].append(value)
    return tuple(round(sum(own) / len(own), 3) if own else None for own in sums)


@dataclass(frozen=True, slots=True)
class Argument:
    """What argues for and against a finding. `rules` are the versions by which its hours were judged."""

    signs: tuple[Sign, ...]
    ruled_out: tuple[RuledOut, ...]
    need: Need | None
    severity: Severity | None
    plot: Plot | None
    rules: tuple[str, ...]


def argue(
    session: Session,
    finding: Finding,
    found: Sequence[Finding],
    period: Period,
    limits: Thresholds | None = None,
    *,
    with_signs: bool = True,
) -> Argument:
    """Return the argument of one finding of a period; `found` are all of that period.

    Without signs no sample is looked at: for who shows what was ruled out and no more.
    """
    limits = limits or Thresholds()
    judged = _judged(session, finding.run_ids, period)
    windows = [window for window, _ in judged]
    cause = finding.cause or None
    own = [window for window, verdict in judged if (finding.state, cause) in said_states(window, verdict)]
    runs = set(finding.run_ids)
    others = [one for one in found if one.id != finding.id and runs & set(one.run_ids)]
    waits = finding.state == "starved"
    seen: tuple[Sign, ...] = ()
    if with_signs and finding.state == "held_idle":
        seen = idle_signs(finding.cause, idle_gpus(session, finding, period, limits), own, limits)
    elif with_signs and finding.state == "broken":
        seen = broken_signs(session, finding, period, limits)
    elif with_signs and finding.state == "lost_work":
        seen = lost_signs(session, finding, period)
    elif with_signs:
        seen = signs(finding.state, finding.cause, own, limits, _context(session, finding, windows, period))
    return Argument(
        seen,
        ruled_out(finding, own, others, _overhead(session, finding, period), limits) if runs else (),
        need(own, finding.cause) if waits else None,
        severity(own) if waits else None,
        plot(session, finding, windows, (period.start, period.end), limits),
        _rules(session, finding),
    )


def _judged(session: Session, run_ids: Sequence[str], period: Period) -> list[tuple[RunWindow, Verdict]]:
    rows = session.rows(
        "SELECT counts, verdict FROM run_windows WHERE window_start >= ? AND window_start < ? "
        "AND list_contains(?, run_id) ORDER BY run_id, window_start",
        [period.start, period.end, list(run_ids)],
    )
    return [(RunWindow.from_json(counts), Verdict.from_json(verdict)) for counts, verdict in rows]


def _context(session: Session, finding: Finding, windows: Sequence[RunWindow], period: Period) -> Context:
    if finding.state != "communicating":
        return Context()
    racks, sku = session.row(
        "SELECT CASE WHEN count(*) = count(racks) THEN max(racks) END, min(sku) FROM runs "
        "WHERE list_contains(?, run_id)",
        [list(finding.run_ids)],
    )
    (fair,) = session.row(
        "SELECT quantile_disc(bytes_per_second, 0.5) FROM in_rack_rates "
        "WHERE window_start < ? AND list_contains(?, fabric)",
        [period.end, sorted({fabric_of(window, sku) for window in windows})],
    )
    return Context(racks, fair, usual(windows).link_kb)


def _overhead(session: Session, finding: Finding, period: Period) -> dict[str, int]:
    of_runs, runs = "list_contains(?, run_id)", [list(finding.run_ids)]
    found = dict.fromkeys(("collective", "checkpointing", "starting"), 0)
    for one in ledger_sums(session, "state", "cause", period=period, where=of_runs, values=runs):
        for name in found.keys() & set(one.keys):
            found[name] += one.milliseconds
    return found


def _rules(session: Session, finding: Finding) -> tuple[str, ...]:
    rows = session.rows(
        "SELECT DISTINCT rules_version FROM ledger_hours WHERE hour > ? AND hour < ? ORDER BY 1",
        [finding.first_at - HOUR_US, finding.last_at],
    )
    return tuple(version for (version,) in rows)
