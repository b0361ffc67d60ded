"""What was read of the runs and around them: signals, input, links, sizes, costs, and what other GPUs there are."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from agent.wire.units import HOUR_MS, PERMILLE, SECOND_MS, SECOND_US
from analyzer.capacity.profile.facts import (
    Alternative,
    Communication,
    DataPath,
    Distribution,
    Free,
    Holding,
    Memory,
    Scale,
    StateHours,
    UnitCost,
)
from analyzer.capacity.profile.work import HeldRun, Work
from analyzer.findings.health.notice import MIG_CAPABLE
from analyzer.finops.non_gpu_costs.energy import Drawn
from analyzer.measures.efficiency.efficiency_query import NOT_TRAINING, Subject, labels, reported_progress, scaling_of
from analyzer.measures.efficiency.goodput import Scaling
from analyzer.measures.traffic.run_traffic import read_traffic
from analyzer.period import local
from analyzer.queries.statements import statements
from analyzer.text.words import gib, plain
from collector.lake.series import TableExtent
from collector.store.session import Session
from collector.tier_tables import tiered

_READINGS_MOST = 200_000  # tell a tenth to a permille; a month of a hundred GPUs has ten times as many
_SPARSE_US = 30 * SECOND_US


@dataclass(frozen=True, slots=True)
class Signals:
    """What the samples say. Energy and bytes are of all the runs' GPUs together; None was not told."""

    distributions: tuple[Distribution, ...]
    memory: tuple[Memory, ...]
    at_zero_ratio: float | None
    drawn: tuple[Drawn, ...]  # by node group and hour; empty where nobody told it
    nvlink_bytes: int | None
    pcie_bytes_per_second: float | None  # into one GPU, on average


def read_signals(session: Session, work: Work) -> Signals:
    """Return what was read of these runs' GPUs.

    Where samples have expired their minutes stand for them, and hours for those: a spread is then that of means.
    """
    _gather(session, work)
    spread, zero, memory, links, drawn = statements("capacity/profile/signals.sql")
    still, measured = session.row(zero)
    nvlink, pcie, pcie_ms = session.row(links)
    return Signals(
        tuple(_distribution(*row) for row in session.rows(spread)),
        tuple(Memory(*row) for row in session.rows(memory)),
        round(still / measured, 6) if measured else None,
        tuple(Drawn(*row) for row in work.rows(session, drawn)),
        None if nvlink is None else int(nvlink),
        round(pcie * SECOND_MS / pcie_ms, 1) if pcie is not None and pcie_ms else None,
    )


def _gather(session: Session, work: Work) -> None:
    held, *of_samples, minutes, minute, hours, hour = statements("capacity/profile/held.sql")
    kept = TableExtent.of(session, tiered("gpu_samples"))
    start, end = work.period.start, work.period.end
    minutes_from = min(max(start, kept.minutes_from), end)
    samples_from = min(max(start, kept.raw_from), end)
    work.rows(session, held)
    parts: tuple[tuple[list[str], int, int], ...] = (
        (of_samples, samples_from, end),
        ([minutes, minute], minutes_from, samples_from),
        ([hours, hour], start, min(minutes_from, samples_from)),
    )
    for selects, first, last in parts:
        for select in selects:
            if first < last or select in of_samples:  # those of samples make the tables
                given = {"start": first, "end": last, "step": _step_us(work)}
                session.execute(select, {name: value for name, value in given.items() if f"${name}" in select})


def _step_us(work: Work) -> int:
    """Return how far apart the readings are of which a spread is told: all of them where there are not too many."""
    step = work.milliseconds * 1000 // _READINGS_MOST // SECOND_US * SECOND_US
    return step if step >= _SPARSE_US else 1


def _distribution(signal: str, sku: str | None, p10: int, p50: int, p90: int, most: int) -> Distribution:
    per = PERMILLE if signal.endswith("_ratio") else 1
    return Distribution(signal, sku, *(each / per for each in (p10, p50, p90, most)))


def read_around(
    session: Session, work: Work, booked: Sequence[StateHours], signals: Signals
) -> tuple[DataPath, Communication]:
    """Return the data path and the communication: workers, disks and reads of the run that waited for input most.

    Flows between hosts are looked through only of runs that lay in several racks.
    """
    select, waits_most = statements("capacity/profile/windows.sql")
    ((slowest,),) = work.rows(session, waits_most)
    ((workers, busiest, disk_busy, read, between_hosts),) = work.rows(session, select, slowest=slowest)
    racks = work.rows(
        session, "SELECT run_id, racks, nodes FROM runs WHERE list_contains($runs::VARCHAR[], run_id) ORDER BY run_id"
    )
    far = [run_id for run_id, count, _ in racks if (count or 0) > 1]
    known = [count for _, count, _ in racks if count]
    path = DataPath(
        _share(booked, "starved"),
        _limit(booked),
        workers,
        _ratio(busiest),
        _ratio(disk_busy),
        None if read is None else float(read),
        signals.pcie_bytes_per_second,
    )
    alone = all((nodes or 0) == 1 for _, _, nodes in racks)
    talk = Communication(
        max(known, default=None),
        signals.nvlink_bytes,
        0 if alone else None if between_hosts is None else int(between_hosts),
        _across_racks(session, work, far) if far else 0 if known else None,
        _share(booked, "communicating"),
    )
    return path, talk


def _share(booked: Sequence[StateHours], state: str) -> float:
    """Return which share of the runs' GPU time one state has."""
    whole = sum(each.milliseconds for each in booked)
    own = sum(each.milliseconds for each in booked if each.state == state)
    return round(own / whole, 6) if whole else 0.0


def _limit(booked: Sequence[StateHours]) -> str | None:
    waits = [each for each in booked if each.state == "starved" and each.milliseconds]
    return max(waits, key=lambda each: (each.milliseconds, each.cause or "")).cause if waits else None


def _across_racks(session: Session, work: Work, run_ids: list[str]) -> int | None:
    """Return the bytes of these runs that left their rack; None where nobody told any flow of theirs."""
    found = read_traffic(session, run_ids, work.period.start, work.period.end)
    classes = [one for traffic in found.values() for one in traffic.classes]
    if not classes:
        return None
    return sum(one.bytes for one in classes if one.locality.startswith("across_"))


def _ratio(permille: int | None) -> float | None:
    return None if permille is None else permille / PERMILLE


# A size pays while each of its GPUs does so much of what one does in the smallest run: the bar that capacity gates
# propose (speed-up tables are asked for by ARCHER's technical assessment and ACCESS Maximize; the number is ours).
_PAYS_RATIO = 0.70
_NAMES_MOST = 3  # of the runs that held most, by name: which of them have been at several sizes


@dataclass(frozen=True, slots=True)
class Scaled:
    """The table, smallest first; `because` says why there is none or what is not in it, `of` of which runs it is."""

    table: tuple[Scale, ...]
    knee_gpus: int | None
    of: str | None
    because: str | None = None


def read_scale(session: Session, work: Work) -> Scaled:
    """Return the table of the runs that held most and were seen at several sizes."""
    by_name: dict[str, HeldRun] = {}
    for run in work.runs:
        if run.stage not in NOT_TRAINING:
            by_name.setdefault(run.name or run.run_id, run)
    because = "none of the runs makes steps that could be compared"
    for run in list(by_name.values())[:_NAMES_MOST]:
        found = scaling_of(session, _subject(run, work), labels(session, run.run_id), session)
        if found.unit is not None:
            return _scaled(run, found)
        because = found.because or because
    return Scaled((), None, None, because)


def _scaled(run: HeldRun, found: Scaling) -> Scaled:
    table = tuple(
        Scale(size.gpus, size.runs, round(size.per_second, 6), found.unit or "", round(size.efficiency, 6))
        for size in found.sizes
    )
    return Scaled(table, knee(table), run.name, found.because)


def knee(table: tuple[Scale, ...]) -> int | None:
    """Return the largest size that pays before one that does not; None where all sizes that were seen pay."""
    for before, size in pairwise(table):
        if size.efficiency_ratio < _PAYS_RATIO:
            return before.gpus
    return None


def _subject(run: HeldRun, work: Work) -> Subject:
    moments = (work.period.start, work.period.end, None, run.started_at, run.ended_at)
    return Subject(run.run_id, run.name, run.stage, run.gpus, run.sku, *moments)


_COST = """
    SELECT run_id, if(bool_or(cost_micros IS NULL AND milliseconds > 0), NULL, sum(cost_micros))::BIGINT FROM ledger
    WHERE list_contains($runs::VARCHAR[], run_id) GROUP BY run_id
"""
_REQUESTS = """
    SELECT run_id, sum(requests)::BIGINT FROM served_amounts WHERE list_contains($runs::VARCHAR[], run_id)
    GROUP BY run_id HAVING sum(requests) > 0
"""


def unit_costs(session: Session, work: Work) -> tuple[UnitCost, ...]:
    """Return what each run came to a unit, over its whole life; runs that count nothing, or in a chorus, are left out.

    Tokens go before samples, those before steps, and requests are a service's.
    """
    cost = dict(work.rows(session, _COST))
    said = reported_progress(session, work.run_ids)
    requests = dict(work.rows(session, _REQUESTS))
    found = []
    for run_id in work.run_ids:
        one = said.get(run_id)
        counts = [("requests", requests.get(run_id))]
        if one is not None and not one.is_chorus:
            counts += [("tokens", one.tokens), ("samples", one.samples), ("steps", one.steps)]
        unit, units = next(((unit, units) for unit, units in counts if units), ("", 0))
        if units:
            found.append(UnitCost(run_id, unit, units, cost.get(run_id)))
    return tuple(found)


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
