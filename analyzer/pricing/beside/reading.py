"""Count from the store what costs besides GPUs, and price it by the file's rows: SQL counts, pure functions price."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from analyzer.amounts.kept import Gap, gaps
from analyzer.pricing.beside.energy import Drawn, EnergySum, energy
from analyzer.pricing.beside.energy_by_team import Holder, TeamEnergy, energy_by_team
from analyzer.pricing.beside.rows import Beside, Checkpoints, Host, Storage, row_of
from analyzer.pricing.beside.stored import Hosted, Written, checkpoint_micros, host_micros, storage_micros
from analyzer.statements import run as run_sql
from analyzer.statements import statements
from analyzer.traffic.fleet import read_fleet_traffic
from analyzer.traffic.tariff import Bill, TariffBook

if TYPE_CHECKING:
    from analyzer.config import Settings
    from analyzer.period import Period
    from collector.store.session import Session


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

    period: "Period"
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


def read_costs(session: "Session", period: "Period", settings: "Settings") -> Costs:
    """Return the costs of a period, by the rows and the tariffs that the settings name.

    Raises:
        ConfigError: one of the two files is wrong.
    """
    book = settings.price_book()
    return costs_of(session, period, book.beside, book.beside_version, settings.currency, settings.tariff_book())


def costs_of(
    session: "Session", period: "Period", beside: Beside, version: str, currency: str, tariffs: TariffBook
) -> Costs:
    """Return the costs of a period; `version` is that of the rows."""
    span: dict[str, object] = {"start": period.start, "end": period.end}
    drawn = read_drawn(session, period)
    written = read_written(session, period)
    hosted = [Hosted(*row) for row in session.rows(statements("pricing/hosted.sql")[0], span)] if beside.hosts else []
    (gpu_ms,) = session.row(
        "SELECT coalesce(sum(milliseconds), 0)::BIGINT FROM ledger WHERE hour >= $start AND hour < $end", span
    )
    return Costs(
        period,
        currency,
        version,
        gpu_ms,
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
    )


def read_drawn(session: "Session", period: "Period") -> list[Drawn]:
    """Return what GPUs drew, by node group and hour."""
    _gather(session, period, None)
    rows = session.rows(
        """
        WITH host AS (
            SELECT node, arg_max(node_group, (started_at, batch)) AS node_group
            FROM inventory WHERE node_group IS NOT NULL GROUP BY node
        )
        SELECT node_group, hour, sum(millijoules)::HUGEINT, sum(ms)::BIGINT
        FROM pricing_drawn LEFT JOIN host USING (node) GROUP BY ALL ORDER BY ALL
        """
    )
    return [Drawn(*row) for row in rows]


def read_drawn_of_run(session: "Session", period: "Period", run_id: str) -> list[Drawn]:
    """Return the same of one run: of the hours that it shares with others its part by time, as teams get theirs."""
    _gather(session, period, run_id)
    asked: dict[str, object] = {"start": period.start, "end": period.end, "run": run_id}
    return [Drawn(*row) for row in session.rows(statements("pricing/drawn_of_run.sql")[0], asked)]


def _gather(session: "Session", period: "Period", run_id: str | None) -> None:
    """Count into pricing_drawn what each GPU drew in each hour; where a run is named, its GPUs alone."""
    run_sql(session, "pricing/drawn.sql", start=period.start, end=period.end, run=run_id)


def read_drawn_by_team(session: "Session", period: "Period") -> dict[Holder, list[Drawn]]:
    """Return the same by team and whether anybody held the GPU, once read_drawn() has counted; it sums to the whole."""
    found: dict[Holder, list[Drawn]] = {}
    span: dict[str, object] = {"start": period.start, "end": period.end}
    for team, is_held, node_group, hour, millijoules in session.rows(statements("pricing/drawn_by_team.sql")[0], span):
        found.setdefault((team, is_held), []).append(Drawn(node_group, hour, millijoules, 0))
    return found


def read_written(session: "Session", period: "Period") -> list[Written]:
    """Return what the checkpoints that were seen wrote, hour by hour."""
    rows = session.rows(
        """
        SELECT minute // 3600000000 * 3600000000 AS hour, sum(written_bytes)::HUGEINT FROM checkpoints
        WHERE minute >= ? AND minute < ? AND written_bytes IS NOT NULL GROUP BY hour ORDER BY hour
        """,
        [period.start, period.end],
    )
    return [Written(hour, int(amount)) for hour, amount in rows]


def _stored(row: Storage, period: "Period") -> Stored:
    return Stored(row, storage_micros(row, period.start, period.end))


def _meets(row: Storage | Checkpoints | Host, period: "Period") -> bool:
    return row.starts_at < period.end and (row.ends_at is None or row.ends_at > period.start)
