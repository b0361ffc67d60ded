"""The figures that a fleet should reach, and how it stands against each.

The bars are those of published articles on running AI clusters, read in November 2026; a site may think otherwise, and
what they are is printed with them. Utilization there is time with any kernel: `useful` is harder to reach, and is read
in its place, since a busy loop reaches the other.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from agent.wire.units import PERMILLE
from analyzer.findings.health.notice import rolled_until
from analyzer.finops.unit_cost.report import UnitReport
from analyzer.period import Period
from analyzer.queries.statements import statements
from analyzer.states import words_of
from analyzer.text.layout import TextLayout
from analyzer.text.table import TableColumn, paper_lines
from analyzer.text.words import nearest, percent
from collector.lake.tiers import kept_from
from collector.store.session import Session

Standing = Literal["reached", "missed"]
_USEFUL_LEAST, _IDLE_MOST = 800, 50  # permille of what runs held
_HEADROOM_LEAST = 500  # permille of held time inside 10 to 20% of memory left: the bar is the range, the half is ours
_LATENCY_LEAST = 990  # permille of the time of services that declare one
_FALLING_LEAST = 500  # permille of kinds of runs: at least as many fell as rose

SOURCE = "Targets of published articles on running AI clusters, read in November 2026; your site may choose others."
_NO_RUN = "no run held a GPU that was measured"
_NO_PROMISE = "no service declares a target"
_BUCKETS = ": choose a target that is a bound of the engine's buckets"


@dataclass(frozen=True, slots=True)
class Target:
    """One figure: `permille` of what it is a share of, None where it is not known, and then why."""

    name: str
    bar: str
    permille: int | None
    standing: Standing | None
    told: str


@dataclass(frozen=True, slots=True)
class HeldTime:
    """GPU milliseconds that runs held: all, not measured, useful and idle."""

    milliseconds: int
    unobserved: int
    useful: int
    idle: int


@dataclass(frozen=True, slots=True)
class Headroom:
    """GPU milliseconds by what was left of memory at the highest: of all that was seen, under 10%, and 10 to 20%.

    What is not kept any more of a part of the period is told of nothing of it.
    """

    milliseconds: int
    tight: int
    inside: int
    is_kept: bool = True
    unread: int = 0  # GPU milliseconds of which it was not read


def _share_of(part: int, whole: int) -> int | None:
    """Return permille, rounded to the nearest; None of nothing."""
    return nearest(PERMILLE * part, whole) if whole else None


def all_targets(
    held: HeldTime, headroom: Headroom, latency: tuple[int, ...], costs: Sequence[tuple[int, int]]
) -> tuple[Target, ...]:
    """Return every target; `costs` are whole runs' now and before.

    `latency` is time with a promise, and of it that in which it was kept and that in which this is not known.

    A share of what was measured is reached or missed where it would be so whatever the rest was.
    """
    fell = sum(now <= before for now, before in costs)
    return (
        _of_held("useful", "at least 80% of allocation", held, held.useful, _USEFUL_LEAST),
        _of_held("idle allocation", "under 5% of it", held, held.idle, _IDLE_MOST, under=True),
        _memory(headroom),
        _falling(fell, len(costs)),
        _promise(*latency),
    )


def _promise(promised: int, kept: int, undecided: int = 0) -> Target:
    name, bar = "latency target", "met 99% of the time"
    permille = _share_of(kept, promised - undecided)
    if permille is None:
        known = f"its time to the first token is never certain enough{_BUCKETS}" if promised else _NO_PROMISE
        return Target(name, bar, None, None, known)
    standing = _standing(kept, undecided, promised, _LATENCY_LEAST)
    silent = percent(_share_of(undecided, promised) or 0)
    told = percent(permille) + ("" if standing else f" of what is known; {silent} is not{_BUCKETS}")
    return Target(name, bar, permille, standing, told)


def _of_held(name: str, bar: str, held: HeldTime, part: int, limit: int, *, under: bool = False) -> Target:
    permille = _share_of(part, held.milliseconds - held.unobserved)
    if permille is None:
        return Target(name, bar, None, None, _NO_RUN)
    standing = _standing(part, held.unobserved, held.milliseconds, limit, under=under)
    silent = percent(_share_of(held.unobserved, held.milliseconds) or 0)
    told = percent(permille) + ("" if standing else f" of what was measured; {silent} was not")
    return Target(name, bar, permille, standing, told)


def _standing(part: int, silent: int, whole: int, limit: int, *, under: bool = False) -> Standing | None:
    """Return how a part stands that may be larger by what is not known; None where that decides."""
    least, most, bar = PERMILLE * part, PERMILLE * (part + silent), limit * whole
    if under:
        return "reached" if most < bar else "missed" if least >= bar else None
    return "reached" if least >= bar else "missed" if most < bar else None


def _memory(headroom: Headroom) -> Target:
    inside = _share_of(headroom.inside, headroom.milliseconds)
    told = _memory_words(headroom)
    missing = "memory was not read" if headroom.is_kept else "memory in use is no longer kept"
    found = _least("free memory at peak", "10 to 20%", inside, _HEADROOM_LEAST, missing, told)
    whole = headroom.milliseconds + headroom.unread
    if inside is None or (standing := _standing(headroom.inside, headroom.unread, whole, _HEADROOM_LEAST)) is not None:
        return found if inside is None else replace(found, standing=standing)
    return replace(found, standing=None, told=f"{told}; of {percent(_share_of(headroom.unread, whole) or 0)} not read")


def _falling(fell: int, kinds: int) -> Target:
    missing = "no kind of run completed in both periods"
    told = f"{fell} of {kinds} kinds fell or stayed"
    return _least("cost per run", "falling", _share_of(fell, kinds), _FALLING_LEAST, missing, told)


def _memory_words(headroom: Headroom) -> str:
    tight = _share_of(headroom.tight, headroom.milliseconds) or 0
    inside = _share_of(headroom.inside, headroom.milliseconds) or 0
    loose = PERMILLE - tight - inside
    return f"{percent(inside)} of the time in range, {percent(tight)} below, {percent(loose)} above"


def _least(name: str, bar: str, permille: int | None, limit: int, missing: str, told: str = "") -> Target:
    if permille is None:
        return Target(name, bar, None, None, missing)
    return Target(name, bar, permille, "reached" if permille >= limit else "missed", told or percent(permille))


_USEFUL = words_of("useful")


def targets(session: Session, period: Period, units: UnitReport) -> tuple[Target, ...]:
    """Return every target as of a period; `units` are its unit economics."""
    span: dict[str, object] = {"start": period.start, "end": period.end}
    held = HeldTime(*session.row(_query("held"), span | {"useful": _USEFUL}))
    headroom = _headroom(session, period)
    promised, kept, undecided = session.row(_query("latency"), span)
    costs = [
        (line.milliseconds, line.milliseconds_before)
        if line.micros is None or line.micros_before is None
        else (line.micros, line.micros_before)
        for line in units.runs
        if line.milliseconds_before is not None
    ]
    return all_targets(held, headroom, (promised, kept, undecided), [(now, before) for now, before in costs if before])


def _headroom(session: Session, period: Period) -> Headroom:
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


_SHORT = 8  # a percentage stands in the line itself


def target_lines(targets: Sequence[Target], layout: TextLayout) -> list[str]:
    """Return the section; a word says how each stands, and what is not known says why."""
    is_narrow = layout.extra < -2
    head, *lines = paper_lines([column for column in _COLUMNS if not is_narrow or column.head != _BAR], targets)
    found = [head]
    for target, line in zip(targets, lines, strict=True):
        found.append(line)
        found += layout.wrap(f"target: {target.bar}", " " * 6) if is_narrow else []
        found += [] if _is_short(target) else layout.wrap(target.told, " " * (6 if is_narrow else 28))
    return [*found, *layout.wrap(SOURCE)]


def _is_short(target: Target) -> bool:
    return len(target.told) <= _SHORT


_BAR = "target"
_COLUMNS: tuple[TableColumn[Target], ...] = (
    TableColumn("TARGETS", lambda target: target.name, width=26, align="<"),
    TableColumn(_BAR, lambda target: target.bar, width=32, align="<"),
    TableColumn("actual", lambda target: target.told if _is_short(target) else "", width=8),
    TableColumn("status", lambda target: target.standing or "not known", width=12),
)
