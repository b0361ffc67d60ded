"""What stood around the GPUs of the runs: their input, and what their ranks said to each other."""

from collections.abc import Sequence
from dataclasses import dataclass

from agent.wire.units import PERMILLE
from analyzer.capacity.profile.facts import Communication, DataPath, StateHours
from analyzer.capacity.profile.signals import Signals
from analyzer.capacity.profile.work import Work
from analyzer.measures.traffic.traffic_query import read_traffic
from analyzer.queries.statements import statements
from collector.store.session import Session


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
