"""Count from the store what costs besides GPUs, and price it by the file's rows: SQL counts, pure functions price."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from agent.wire.units import GIB, HOUR_US
from analyzer.finops.non_gpu_costs.energy import (
    Drawn,
    EnergySum,
    Rates,
    TeamEnergy,
    TeamHolder,
    energy,
    energy_by_team,
    non_gpu_rates,
    stretches,
    summed_energy,
)
from analyzer.measures.traffic.fleet import read_fleet_traffic
from analyzer.measures.traffic.tariff import Bill, TariffBook
from analyzer.period import Period
from analyzer.prices.derived import HOURS_PER_MONTH
from analyzer.prices.non_gpu_rows import Checkpoints, Host, NonGpuPrices, Storage, row_of
from analyzer.prices.price_book import price_book
from analyzer.queries.ledger_query import Gap, gaps, ledger_sums
from analyzer.queries.statements import placed, statements
from analyzer.queries.statements import run as run_sql
from analyzer.settings.settings import Settings
from collector.lake.series import TableExtent
from collector.store.session import Session
from collector.tier_tables import tiered

_MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Written:
    """What checkpoints wrote in one UTC hour."""

    hour: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Hosted:
    """Hosts of one node group that were owned for an hour, with their cores and memory together (None: not told)."""

    node_group: str | None
    hour: int
    hosts: int
    cores: int | None
    memory_bytes: int | None


def storage_micros(row: Storage, start_us: int, end_us: int) -> int:
    """Return what a row's storage costs from one whole hour to another.

    What hours get telescopes from the row's beginning: windows that abut sum to the window over both, to the millionth.
    """
    start = max(start_us, row.starts_at)
    end = end_us if row.ends_at is None else min(end_us, row.ends_at)
    if end <= start:
        return 0
    return _upto(row, end) - _upto(row, start)


def _upto(row: Storage, at_us: int) -> int:
    hours = (at_us - row.starts_at) // HOUR_US
    return row.gib_millionths * row.micros_per_gib_month * hours // (HOURS_PER_MONTH * _MILLION)


def checkpoint_micros(written: Iterable[Written], rows: Sequence[Checkpoints]) -> int | None:
    """Return what writing checkpoints cost, each hour rounded down; None where an hour of it has no price."""
    total = 0
    for one in written:
        row = row_of(rows, None, one.hour)
        if row is None:
            return None
        total += one.bytes * row.micros_per_gib // GIB
    return total


def host_micros(hosted: Iterable[Hosted], rows: Sequence[Host]) -> int | None:
    """Return what cores and memory cost, each hour rounded down; None where a host's are not known.

    Hosts for which no row holds are in the price of their GPUs and cost nothing here.
    """
    total = 0
    for one in hosted:
        row = row_of(rows, one.node_group, one.hour)
        if row is None:
            continue
        if one.cores is None or one.memory_bytes is None:
            return None
        total += one.cores * row.micros_per_core_hour + one.memory_bytes * row.micros_per_gib_hour // GIB
    return total


@dataclass(frozen=True, slots=True)
class Stored:
    """One storage that is paid for by the month, and what the period's hours of it cost in millionths."""

    row: Storage
    cost_micros: int


@dataclass(frozen=True, slots=True)
class Costs:
    """What a period cost besides GPUs. Amounts in millionths; None where a price or a figure is not known.

    None of it is in the ledger, no two of it are added up, and no team is charged any of it; whose runs drew how much
    is told of energy alone. `energy` is in the price of GPU-hours already, whoever sells or owns them.
    """

    period: Period
    currency: str
    version: str
    gpu_ms: int
    energy: tuple[EnergySum, ...]
    energy_by_team: tuple[TeamEnergy, ...]
    network: tuple[Bill, ...]
    storage: tuple[Stored, ...]
    written_bytes: int | None
    checkpoints_micros: int | None
    checkpoint_rows: tuple[Checkpoints, ...]
    host_hours: int
    hosts_micros: int | None
    host_rows: tuple[Host, ...]
    gaps: tuple[Gap, ...] = ()
    is_watched: bool = True  # what hosts wrote is known of some time, so that a checkpoint could have been seen
    edited: bool = False  # final hours are told by the rates that they closed with, and files say others now


def read_costs(session: Session, period: Period, settings: Settings) -> Costs:
    """Return the costs of a period: of final hours by the rates that they closed with, else as the settings name them.

    Raises:
        ConfigError: one of the two files is wrong.
    """
    book = price_book(settings)
    now = non_gpu_rates(settings, book)
    found = []
    for one in stretches(session, period, now):
        version = one.rates.version if one.closed else book.beside_version
        costs = costs_of(session, one.period, one.rates.beside, version, settings.currency, one.rates.tariffs)
        found.append(replace(costs, edited=one.closed and one.rates != now))
    return replace(reduce(_joined, found), period=period, gaps=gaps(session, period, "energy", "traffic"))


def energy_of(drawn: "Sequence[Drawn]", session: Session, period: Period, rates: Rates) -> tuple[EnergySum, ...]:
    """Return the energy of each node group of a period, by the rates of each hour; `rates` are those of now."""
    parts = [
        energy(
            (one for one in drawn if stretch.period.start <= one.hour < stretch.period.end), stretch.rates.beside.energy
        )
        for stretch in stretches(session, period, rates)
    ]
    return _energies(one for part in parts for one in part)


def costs_of(
    session: Session, period: Period, beside: NonGpuPrices, version: str, currency: str, tariffs: TariffBook
) -> Costs:
    """Return the costs of a period; `version` is that of the rows."""
    span: dict[str, object] = {"start": period.start, "end": period.end}
    drawn = read_drawn(session, period)
    written = _read_written(session, period)
    hosted = [Hosted(*row) for row in session.rows(statements("prices/hosted.sql")[0], span)] if beside.hosts else []
    (every,) = ledger_sums(session, period=period)
    return Costs(
        period,
        currency,
        version,
        every.milliseconds,
        energy(drawn, beside.energy),
        energy_by_team(read_drawn_by_team(session, period), beside.energy),
        read_fleet_traffic(session, period, currency, tariffs).bills,
        tuple(_stored(row, period) for row in beside.storage if _meets(row, period)),
        sum(one.bytes for one in written) if written else None,
        checkpoint_micros(written, beside.checkpoints) if beside.checkpoints and written else None,
        tuple(row for row in beside.checkpoints if _meets(row, period)),
        sum(one.hosts for one in hosted if row_of(beside.hosts, one.node_group, one.hour)),
        host_micros(hosted, beside.hosts) if beside.hosts else None,
        tuple(row for row in beside.hosts if _meets(row, period)),
        gaps(session, period, "energy", "traffic"),
        bool(written) or _read_is_watched(session, period),
    )


def _energies(parts: Iterable[EnergySum]) -> tuple[EnergySum, ...]:
    sums: dict[str | None, list[EnergySum]] = defaultdict(list)
    for one in parts:
        sums[one.node_group].append(one)
    named = sorted(sums, key=lambda name: (name is None, name or ""))
    return tuple(replace(summed_energy(sums[name]), node_group=name) for name in named)


def _joined(one: Costs, other: Costs) -> Costs:
    """Return the costs of two stretches of a period; what is not known of one of them is not known of both."""
    teams: dict[TeamHolder, list[TeamEnergy]] = defaultdict(list)
    for team in (*one.energy_by_team, *other.energy_by_team):
        teams[team.team, team.held].append(team)
    bills: dict[Bill, list[Bill]] = defaultdict(list)
    for bill in (*one.network, *other.network):
        bills[replace(bill, bytes=0, cost_micros=None if bill.cost_micros is None else 0)].append(bill)
    stored: dict[Storage, int] = defaultdict(int)
    for storage in (*one.storage, *other.storage):
        stored[storage.row] += storage.cost_micros
    both = (one, other)
    written = [costs.written_bytes for costs in both if costs.written_bytes is not None]
    return replace(
        other,
        version=" ".join(dict.fromkeys(costs.version for costs in both if costs.version)),
        gpu_ms=one.gpu_ms + other.gpu_ms,
        energy=_energies((*one.energy, *other.energy)),
        energy_by_team=tuple(reduce(_of_team, parts) for parts in teams.values()),
        network=tuple(
            replace(bill, bytes=sum(part.bytes for part in parts), cost_micros=_all(part.cost_micros for part in parts))
            for bill, parts in bills.items()
        ),
        storage=tuple(Stored(row, cost) for row, cost in stored.items()),
        written_bytes=sum(written) if written else None,
        checkpoints_micros=_all(costs.checkpoints_micros for costs in both if costs.written_bytes is not None),
        checkpoint_rows=tuple(dict.fromkeys((*one.checkpoint_rows, *other.checkpoint_rows))),
        host_hours=one.host_hours + other.host_hours,
        hosts_micros=_all(costs.hosts_micros for costs in both if costs.host_rows),
        host_rows=tuple(dict.fromkeys((*one.host_rows, *other.host_rows))),
        is_watched=one.is_watched or other.is_watched,
        edited=one.edited or other.edited,
    )


def _of_team(one: TeamEnergy, other: TeamEnergy) -> TeamEnergy:
    return replace(
        one,
        millijoules=one.millijoules + other.millijoules,
        cost_micros=_all((one.cost_micros, other.cost_micros)),
        carbon_milligrams=_all((one.carbon_milligrams, other.carbon_milligrams)),
    )


def _all(amounts: Iterable[int | None]) -> int | None:
    """Return a sum; None where a part of it is not known, or there is none."""
    total = None
    for amount in amounts:
        if amount is None:
            return None
        total = (total or 0) + amount
    return total


def read_drawn(session: Session, period: Period, run_id: str | None = None) -> list[Drawn]:
    """Return what GPUs drew, by node group and hour; where a run is named, what they drew while it held them."""
    run_sql(session, "prices/drawn.sql", start=period.start, end=period.end, run=run_id)
    rows = session.rows(
        "SELECT h.node_group, d.hour, sum(millijoules)::HUGEINT, sum(ms)::BIGINT, sum(power_ms)::BIGINT "
        f"FROM pricing_drawn d {placed('d')} GROUP BY ALL ORDER BY ALL"
    )
    return [Drawn(*row) for row in rows]


def read_drawn_by_team(session: Session, period: Period) -> dict[TeamHolder, list[Drawn]]:
    """Return the same by team and whether anybody held the GPU, once read_drawn() has counted; it sums to the whole."""
    found: dict[TeamHolder, list[Drawn]] = {}
    span: dict[str, object] = {"start": period.start, "end": period.end}
    for team, is_held, node_group, hour, millijoules in session.rows(statements("prices/drawn_by_team.sql")[0], span):
        found.setdefault((team, is_held), []).append(Drawn(node_group, hour, millijoules, 0))
    return found


def _read_written(session: Session, period: Period) -> list[Written]:
    """Return what the checkpoints that were seen wrote, hour by hour."""
    rows = session.rows(
        """
        SELECT minute // 3600000000 * 3600000000 AS hour, sum(written_bytes)::HUGEINT FROM checkpoints
        WHERE minute >= ? AND minute < ? AND written_bytes IS NOT NULL GROUP BY hour ORDER BY hour
        """,
        [period.start, period.end],
    )
    return [Written(hour, int(amount)) for hour, amount in rows]


def _read_is_watched(session: Session, period: Period) -> bool:
    """Return whether a checkpoint could have been seen: whether what any host wrote is known, and kept."""
    rolled = TableExtent.of(session, tiered("disk_samples")).rolled_until
    span = "SELECT 1 FROM {} WHERE written_bytes IS NOT NULL AND started_at >= $start AND started_at < $end LIMIT 1"
    return any(
        session.rows(span.format(table), {"start": period.start, "end": period.end})
        for table in ("disk_samples", *(("disk_minutes", "disk_hours") if rolled > period.start else ()))
    )


def _stored(row: Storage, period: Period) -> Stored:
    return Stored(row, storage_micros(row, period.start, period.end))


def _meets(row: Storage | Checkpoints | Host, period: Period) -> bool:
    return row.starts_at < period.end and (row.ends_at is None or row.ends_at > period.start)
