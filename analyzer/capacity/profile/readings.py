"""What was read of the runs and around them: signals, input, links, speed at each size, and what a unit cost."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from agent.wire.units import PERMILLE, SECOND_MS, SECOND_US
from analyzer.capacity.profile.facts import Communication, DataPath, Distribution, Memory, Scale, StateHours, UnitCost
from analyzer.capacity.profile.work import HeldRun, Work
from analyzer.finops.non_gpu_costs.energy import Drawn
from analyzer.measures.efficiency.efficiency_query import NOT_TRAINING, labels, reported_progress
from analyzer.measures.efficiency.of_run import Subject, scaling_of
from analyzer.measures.efficiency.scaling import Scaling
from analyzer.measures.traffic.traffic_query import read_traffic
from analyzer.queries.statements import statements
from collector.lake.tiers.sources import TableExtent
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
        tuple(Drawn(*row) for row in session.rows(drawn)),
        _whole(nvlink),
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


def _whole(amount: int | None) -> int | None:
    return None if amount is None else int(amount)


@dataclass(frozen=True, slots=True)
class PathsAndLinks:
    """The data path and the communication of the runs."""

    data_path: DataPath
    communication: Communication


def read_around(session: Session, work: Work, booked: Sequence[StateHours], signals: Signals) -> PathsAndLinks:
    """Return it: workers, disks and reads of the run that waited for input most.

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
    return PathsAndLinks(path, talk)


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
        found = scaling_of(session, _subject(run, work), labels(session, run.run_id))
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
