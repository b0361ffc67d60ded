"""What the team has and leaves idle, what the fleet has free, and what else of it the work could run on."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agent.wire.units import HOUR_MS
from analyzer.capacity.profile.facts import Alternative, Free, Holding, Memory
from analyzer.capacity.profile.work import Work
from analyzer.findings.health.limits import MIG_CAPABLE
from analyzer.period import local
from analyzer.queries.statements import statements
from analyzer.text.wording import gib
from analyzer.text.words import plain
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


_HALF = 2


def alternatives(
    session: Session, work: Work, owned: Sequence[OwnedKind], memory: Sequence[Memory]
) -> tuple[Alternative, ...]:
    """Return what there is instead of the kind that the runs held most of, other kinds of GPU first.

    A memory gauge proves that something fits on the kind that it is of, never that it does not: frameworks set memory
    aside. So `fits` is true or not known, and of another kind it is not known before the work ran there.
    """
    own = _own(work)
    if own is None:
        return ()
    prices = _prices(session, work)
    peak = next((each.peak_bytes for each in memory if each.sku == own), None)
    tried = _tried(session, work)
    others = [kind for kind in owned if kind.sku not in (None, own) and _is_less(kind, own, owned, prices)]
    peaks = {each.sku: each.peak_bytes for each in memory}
    found = [_kind(kind, prices.get(kind.sku or ""), own, peaks, tried) for kind in others]
    return (*found, *_parts(own, owned, peak, prices, work))


def _own(work: Work) -> str | None:
    held: dict[str, int] = {}
    for run in work.runs:
        if run.sku is not None:
            held[run.sku] = held.get(run.sku, 0) + run.milliseconds
    return max(held, key=lambda sku: (held[sku], sku), default=None)


def _prices(session: Session, work: Work) -> dict[str, int]:
    """Return what a GPU-hour of each kind came to, millionths; of several ways to buy one the dearest."""
    (select,) = statements("recommendations/rates.sql")
    found: dict[str, int] = {}
    for sku, _, micros in work.rows(session, select):
        found[sku] = max(micros, found.get(sku, 0))
    return found


def _tried(session: Session, work: Work) -> dict[str, int]:
    """Return on how many other runs of these names each kind of GPU was tried."""
    rows = session.rows(
        "SELECT sku, count(*) FROM runs WHERE list_contains($names::VARCHAR[], name) AND sku IS NOT NULL GROUP BY ALL",
        {"names": list(work.names)},
    )
    return dict(rows)


def _is_less(kind: OwnedKind, own: str, owned: Sequence[OwnedKind], prices: dict[str, int]) -> bool:
    """Say whether a kind is cheaper, or where a price is missing, smaller."""
    mine, theirs = prices.get(own), prices.get(kind.sku or "")
    if mine is not None and theirs is not None:
        return theirs < mine
    memory = next((each.memory_bytes for each in owned if each.sku == own), None)
    return memory is not None and kind.memory_bytes is not None and kind.memory_bytes < memory


def _kind(
    kind: OwnedKind, micros: int | None, own: str, peaks: Mapping[str | None, int], tried: dict[str, int]
) -> Alternative:
    there, peak = peaks.get(kind.sku), peaks.get(own)
    fits = True if there is not None and kind.memory_bytes is not None and there <= kind.memory_bytes else None
    runs = tried.get(kind.sku or "", 0)
    if runs:
        why = f"{runs} run{'' if runs == 1 else 's'} of this work had it"
    elif peak is None or kind.memory_bytes is None:
        why = "no run of this work had it, and its memory or the work's peak is not known"
    else:
        held = f"{gib(peak)} were in use at the peak on {plain(own)}, it has {gib(kind.memory_bytes)}"
        aside = "" if peak <= kind.memory_bytes else ", and what was only set aside is not known"
        why = f"no run of this work had it; {held}{aside}"
    return Alternative(kind.sku or "", "another kind of GPU", bool(runs), fits, micros, why)


def _parts(
    own: str, owned: Sequence[OwnedKind], peak: int | None, prices: dict[str, int], work: Work
) -> tuple[Alternative, ...]:
    """Return a slice and packing, of work that has single GPUs: what runs on several needs them whole."""
    memory = next((each.memory_bytes for each in owned if each.sku == own), None)
    if peak is None or memory is None or any(run.gpus > 1 for run in work.runs):
        return ()
    price = prices.get(own)
    half = None if price is None else price // _HALF
    fits = True if peak * _HALF <= memory else None
    why = f"{gib(peak)} of {gib(memory)} were in use at the peak"
    sliced = Alternative(own, "half of it, as a MIG slice", False, fits, half, why)
    packed = Alternative(own, "two such runs on one", False, fits, half, why)
    return (sliced, packed) if own.split("-")[0].upper() in MIG_CAPABLE else (packed,)
