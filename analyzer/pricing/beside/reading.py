"""Count from the store what costs besides GPUs, and price it by the file's rows: SQL counts, pure functions price."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from analyzer.pricing.beside.energy import Drawn, EnergySum, energy
from analyzer.pricing.beside.rows import Beside, Checkpoints, Host, Storage, row_of
from analyzer.pricing.beside.stored import Hosted, Written, checkpoint_micros, host_micros, storage_micros
from analyzer.statements import statements
from analyzer.traffic.fleet import read_fleet_traffic
from analyzer.traffic.tariff import Bill, TariffBook
from collector.tiers.sources import Kept
from collector.tiers.tables import tiered

if TYPE_CHECKING:
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

    None of it is in the ledger, no two of it are added up, and it is nobody's: no share of it is booked to a team.
    `energy` is in the price of GPU-hours already, whoever sells or owns them; the rest is paid apart.
    """

    period: "Period"
    currency: str
    version: str
    gpu_ms: int
    energy: tuple[EnergySum, ...]
    network: tuple[Bill, ...]
    storage: tuple[Stored, ...]
    written_bytes: int | None
    checkpoints_micros: int | None
    checkpoint_rows: tuple[Checkpoints, ...]
    host_hours: int
    hosts_micros: int | None
    host_rows: tuple[Host, ...]


def read_costs(
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
        read_fleet_traffic(session, period, currency, tariffs).bills,
        tuple(_stored(row, period) for row in beside.storage if _meets(row, period)),
        sum(one.bytes for one in written) if written else None,
        checkpoint_micros(written, beside.checkpoints) if beside.checkpoints and written else None,
        tuple(row for row in beside.checkpoints if _meets(row, period)),
        sum(one.hosts for one in hosted if row_of(beside.hosts, one.node_group, one.hour)),
        host_micros(hosted, beside.hosts) if beside.hosts else None,
        tuple(row for row in beside.hosts if _meets(row, period)),
    )


def read_drawn(session: "Session", period: "Period") -> list[Drawn]:
    """Return what GPUs drew, by node group and hour: from the tier of hours, then from samples not yet rolled up."""
    rolled_until = Kept.of(session, tiered("gpu_samples")).rolled_until
    edge = min(max(rolled_until, period.start), period.end)
    rolled, sampled = statements("pricing/drawn.sql")
    rows = session.rows(rolled, {"start": period.start, "end": edge}) if edge > period.start else []
    rows += session.rows(sampled, {"start": edge, "end": period.end}) if edge < period.end else []
    return [Drawn(*row) for row in rows]


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
