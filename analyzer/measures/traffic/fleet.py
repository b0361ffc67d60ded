"""The traffic of many runs together: how far their bytes went, by team, and which runs moved most beyond a rack."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from analyzer.errors import LedgerError
from analyzer.measures.traffic.matrix import LOCALITIES, ClassBytes, Locality
from analyzer.measures.traffic.run_traffic import RunTraffic, Waited, read_traffic
from analyzer.measures.traffic.tariff import Bill, TariffBook
from analyzer.period import Period
from analyzer.queries.ledger_query import Gap, gaps, known_sum
from collector.store.session import Session

_NEAR = frozenset(("gpu_link", "rack"))


@dataclass(frozen=True, slots=True)
class Whose:
    """Whose a run is."""

    name: str | None
    team: str | None


@dataclass(frozen=True, slots=True)
class TeamTraffic:
    """What the runs of one team moved; None is the team of those that map to none."""

    team: str | None
    classes: tuple[ClassBytes, ...]


@dataclass(frozen=True, slots=True)
class FarRun:
    """One run that moved bytes beyond a rack; `ordered_bytes` would remain with its ranks ordered by rack."""

    run_id: str
    name: str | None
    team: str | None
    far_bytes: int
    ordered_bytes: int | None
    waited: Waited | None


@dataclass(frozen=True, slots=True)
class FleetTraffic:
    """The traffic of a fleet, or of one team, over a period. Bytes are those of all its runs; each is counted once."""

    period: Period
    currency: str
    team: str | None
    runs: int
    classes: tuple[ClassBytes, ...]
    teams: tuple[TeamTraffic, ...]
    bills: tuple[Bill, ...]
    far: tuple[FarRun, ...]
    link_bytes: int | None
    unattributed_bytes: int | None
    waited: Waited | None
    gaps: tuple[Gap, ...] = ()  # hours that are in none of it


def read_fleet_traffic(
    session: Session, period: Period, currency: str, tariffs: TariffBook, team: str | None = None
) -> FleetTraffic:
    """Return the traffic of all runs of a period, or of one team's.

    Raises:
        LedgerError: no run of the period is of this team.
    """
    whose = runs_of(session, period, team)
    if team is not None and not whose:
        raise LedgerError(f"{period.label} has no runs of team {team!r}: gpuledger report lists the teams")
    found = read_traffic(session, list(whose), period.start, period.end, tariffs)
    return replace(fleet_traffic(period, currency, team, found, whose), gaps=gaps(session, period, "traffic"))


def runs_of(session: Session, period: Period, team: str | None = None) -> dict[str, Whose]:
    """Return the runs that held GPUs in a period, or those of one team."""
    rows = session.rows(
        "SELECT DISTINCT run_id, name, team FROM ledger JOIN runs USING (run_id) "
        "WHERE hour >= ? AND hour < ? AND coalesce(team = ?, ? IS NULL) ORDER BY run_id",
        [period.start, period.end, team, team],
    )
    return {run_id: Whose(name, its_team) for run_id, name, its_team in rows}


def fleet_traffic(
    period: Period, currency: str, team: str | None, found: Mapping[str, RunTraffic], whose: Mapping[str, Whose]
) -> FleetTraffic:
    """Return what the traffic of runs comes to together."""
    by_team: dict[str | None, list[RunTraffic]] = defaultdict(list)
    for run_id, one in found.items():
        if one.classes:
            by_team[whose[run_id].team].append(one)
    teams = [TeamTraffic(name, _classes(own)) for name, own in by_team.items()]
    far = [_far(one, whose[run_id]) for run_id, one in found.items()]
    return FleetTraffic(
        period,
        currency,
        team,
        len(found),
        _classes(found.values()),
        tuple(sorted(teams, key=lambda one: (-_beyond(one.classes), one.team or ""))),
        _bills(found.values()),
        tuple(sorted((one for one in far if one.far_bytes), key=lambda one: (-one.far_bytes, one.run_id))),
        known_sum(one.link_bytes for one in found.values()),
        known_sum(one.unattributed_bytes for one in found.values()),
        _waited(found.values()),
    )


def _classes(runs: Iterable[RunTraffic]) -> tuple[ClassBytes, ...]:
    sums: dict[Locality, list[int]] = defaultdict(lambda: [0, 0])
    for run in runs:
        for one in run.classes:
            sums[one.locality][0] += one.bytes
            sums[one.locality][1] += one.estimated_bytes
    return tuple(ClassBytes(name, *sums[name]) for name in LOCALITIES if name in sums)


def _beyond(classes: Iterable[ClassBytes]) -> int:
    return sum(one.bytes for one in classes if one.locality not in _NEAR)


def _far(run: RunTraffic, whose: Whose) -> FarRun:
    ordered = None if run.ordered is None else run.ordered.contiguous_bytes
    return FarRun(run.run_id, whose.name, whose.team, _beyond(run.classes), ordered, run.waited)


def _bills(runs: Iterable[RunTraffic]) -> tuple[Bill, ...]:
    """Return the bills by border and tariff; what has no price stays apart from what has."""
    sums: dict[Bill, list[Bill]] = defaultdict(list)
    for run in runs:
        for bill in run.bills:
            sums[Bill(bill.locality, 0, None if bill.cost_micros is None else 0, bill.source, bill.as_of)].append(bill)
    keys = sorted(sums, key=lambda bill: (LOCALITIES.index(bill.locality), bill.source))
    return tuple(
        replace(key, bytes=sum(one.bytes for one in sums[key]), cost_micros=known_sum(o.cost_micros for o in sums[key]))
        for key in keys
    )


def _waited(runs: Iterable[RunTraffic]) -> Waited | None:
    known = [run.waited for run in runs if run.waited is not None]
    if not known:
        return None
    costs = [one.cost_micros for one in known]
    return Waited(sum(one.milliseconds for one in known), None if None in costs else known_sum(costs))
