"""What the team has and leaves idle, and what the fleet has free: on average, and on its lowest day."""

from collections import defaultdict
from dataclasses import dataclass, field

from agent.wire.units import HOUR_MS
from analyzer.capacity.profile.facts import Free, Holding
from analyzer.capacity.profile.work import Work
from analyzer.period import local
from analyzer.queries.statements import statements
from collector.store.session import Session


@dataclass(frozen=True, slots=True)
class OwnedKind:
    """One kind of GPU of the fleet: how many are owned, and the memory of one."""

    sku: str | None
    gpus: int
    memory_bytes: int | None


@dataclass(slots=True)
class _Spare:
    """GPU milliseconds of one kind: free ones by day, with the hours of the day that are known, and drained ones."""

    free: int = 0
    drained: int = 0
    by_day: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    hours: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))


def holdings(session: Session, work: Work) -> tuple[Holding, ...]:
    """Return what the team held of each kind, on average over the period; nothing where no team is known."""
    if work.team is None:
        return ()
    select, _, _ = statements("capacity/profile/owned.sql")
    rows = work.rows(session, select, team=work.team)
    return tuple(Holding(sku, *(round(ms / work.span_ms, 3) for ms in amounts)) for sku, *amounts in rows)


def kinds(session: Session, work: Work) -> tuple[OwnedKind, ...]:
    """Return the kinds of GPU that the fleet owned, most numerous first."""
    _, _, select = statements("capacity/profile/owned.sql")
    return tuple(OwnedKind(*row) for row in work.rows(session, select))


def free(session: Session, work: Work, owned: tuple[OwnedKind, ...]) -> tuple[Free, ...]:
    """Return what the fleet had free of each kind. A day counts with the hours of it that the period has."""
    _, select, _ = statements("capacity/profile/owned.sql")
    spare: dict[str | None, _Spare] = defaultdict(_Spare)
    for sku, hour, _, free_ms, drained_ms in work.rows(session, select):
        day = local(hour, work.period.timezone).date().isoformat()
        one = spare[sku]
        one.free += free_ms
        one.drained += drained_ms
        one.by_day[day] += free_ms
        one.hours[day].add(hour)
    return tuple(_free(kind, spare[kind.sku], work) for kind in owned if kind.sku in spare)


def _free(kind: OwnedKind, spare: _Spare, work: Work) -> Free:
    by_day = {day: ms // (len(spare.hours[day]) * HOUR_MS) for day, ms in spare.by_day.items()}
    lowest = min(by_day, key=lambda day: (by_day[day], day))
    mean, drained = spare.free / work.span_ms, spare.drained / work.span_ms
    return Free(kind.sku, kind.gpus, round(mean, 3), by_day[lowest], lowest, round(drained))
