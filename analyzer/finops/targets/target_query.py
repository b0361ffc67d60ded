"""Read how a period stands against the targets."""

from typing import TYPE_CHECKING

from analyzer.findings.health.gathering import rolled_until
from analyzer.finops.targets.targets import Headroom, HeldTime, Target, all_targets
from analyzer.period import Period
from analyzer.queries.statements import statements
from analyzer.states import words_of
from collector.lake.tiers.retained import kept_from

if TYPE_CHECKING:
    from analyzer.finops.unit_cost.report import UnitReport
    from collector.store.session import Session

_USEFUL = words_of("useful")


def targets(session: "Session", period: Period, units: "UnitReport") -> tuple[Target, ...]:
    """Return every target as of a period; `units` are its unit economics."""
    span: dict[str, object] = {"start": period.start, "end": period.end}
    held = HeldTime(*session.row(_query("held"), span | {"useful": _USEFUL}))
    headroom = _headroom(session, period)
    latency = session.row(_query("latency"), span)
    costs = [
        (line.milliseconds, line.milliseconds_before)
        if line.micros is None or line.micros_before is None
        else (line.micros, line.micros_before)
        for line in units.runs
        if line.milliseconds_before is not None
    ]
    return all_targets(held, headroom, (latency[0], latency[1]), [(now, before) for now, before in costs if before])


def _headroom(session: "Session", period: Period) -> Headroom:
    if kept_from(session, ("gpu_hours",)) > period.start:
        return Headroom(0, 0, 0, is_kept=False)
    boards, hours, samples = statements("finops/targets/memory.sql")
    rolled = rolled_until(session, "gpu_samples")
    span: dict[str, object] = {"start": period.start, "end": period.end}
    peaks: dict[tuple[str, str], int] = {}
    later = span | {"start": max(period.start, rolled)}
    seen = [*(session.rows(hours, span) if rolled > period.start else ()), *session.rows(samples, later)]
    for run_id, gpu, peak in seen:
        peaks[run_id, gpu] = max(peaks.get((run_id, gpu), 0), peak)
    whole = tight = inside = unread = 0
    for run_id, gpu, milliseconds, memory in session.rows(boards, span):
        peak = peaks.get((run_id, gpu))
        if peak is None:
            unread += milliseconds
            continue
        whole += milliseconds
        tight += milliseconds if 10 * (memory - peak) < memory else 0
        inside += milliseconds if memory <= 10 * (memory - peak) <= 2 * memory else 0
    return Headroom(whole, tight, inside, unread=unread)


def _query(name: str) -> str:
    (query,) = statements(f"finops/targets/{name}.sql")
    return query
