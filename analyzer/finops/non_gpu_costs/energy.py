"""Energy and carbon: joules at the GPUs, times what the hall adds, once; of the fleet, and of whose runs drew it.

The price of a GPU-hour has power in it already, be it a cloud's or the site's own books: energy is told beside it.
Pure, and exact: integers in, integers out, each hour rounded down by itself, so that hours sum to days and weeks.

Each hour of a node group is rounded once, as a whole; its holders get whole millionths and milligrams of that by
largest remainder. What teams are told then sums to what the fleet is told, to the millionth, for any window.

The rates of this, of traffic and of storage are those of the files now, or as they were when hours closed for finance.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, reduce
from itertools import groupby
from typing import TYPE_CHECKING

from agent.wire.units import HOUR_US
from analyzer.measures.traffic.tariff import TariffBook, tariff_book
from analyzer.period import Period, local
from analyzer.prices.non_gpu_rows import Energy, NonGpuPrices, row_of
from analyzer.prices.price_book import PriceBook, price_book
from analyzer.settings.settings import Settings
from analyzer.text.words import apportion
from collector.store.session import Session

if TYPE_CHECKING:
    from pydantic import TypeAdapter


@dataclass(frozen=True, slots=True)
class Rates:
    """The rows of the price file that are no GPU's price or charge, and the tariffs of traffic."""

    beside: NonGpuPrices
    tariffs: TariffBook

    @property
    def content(self) -> str:
        """All of it, as JSON."""
        return _adapter().dump_json(self).decode()

    @property
    def version(self) -> str:
        """A digest of the content; empty where there is no row and no tariffs file."""
        if not self.beside.rows and self.tariffs == TariffBook():
            return ""
        return hashlib.sha256(self.content.encode()).hexdigest()[:12]


@dataclass(frozen=True, slots=True)
class Stretch:
    """Hours of a period that one version of the rates is for; `closed`: they are those of then, whatever files say."""

    period: Period
    rates: Rates
    closed: bool


@cache
def _adapter() -> "TypeAdapter[Rates]":
    from pydantic import TypeAdapter

    return TypeAdapter(Rates)


def stretches(session: Session, period: Period, now: Rates) -> list[Stretch]:
    """Return a period cut where its rates change: of closed hours those that they closed with, of all others `now`.

    Hours that the ledger does not have are closed with the others of their month.
    """
    asked: dict[str, object] = {"start": period.start, "end": period.end}
    rows = session.rows(
        "SELECT hour, rates_version FROM ledger_hours LEFT JOIN closed_hours USING (hour) "
        "WHERE hour >= $start AND hour < $end",
        asked,
    )
    versions = _of_all_hours(dict(rows), period)
    known = {
        version: _adapter().validate_json(content)
        for version, content in session.rows(
            "SELECT rates_version, content FROM closed_rates WHERE list_contains($versions::VARCHAR[], rates_version)",
            {"versions": sorted({version for version in versions if version is not None})},
        )
    }
    found, at = [], period.start
    for version, hours in groupby(versions):
        span = replace(period, start=at, end=at + HOUR_US * len(list(hours)))
        rates = None if version is None else known.get(version)
        found.append(Stretch(span, rates or now, rates is not None))
        at = span.end
    return found


def _of_all_hours(versions: Mapping[int, str | None], period: Period) -> list[str | None]:
    """Return of each hour of a period its version; of one without a ledger the next one's of its month, or the last."""
    found = [versions.get(hour) for hour in range(period.start, period.end, HOUR_US)]
    if any(version is not None for version in found):
        months = [f"{local(hour, period.timezone):%Y-%m}" for hour in range(period.start, period.end, HOUR_US)]
        missing = [hour not in versions for hour in range(period.start, period.end, HOUR_US)]
        for places in (range(len(found) - 2, -1, -1), range(1, len(found))):
            step = places.step
            for at in places:
                if missing[at] and found[at] is None and months[at] == months[at - step]:
                    found[at] = found[at - step]
    return found


def close_rates(session: Session, rates: Rates) -> None:
    """Keep the content of the rates by which hours close, once."""
    if not session.rows("SELECT 1 FROM closed_rates WHERE rates_version = ?", [rates.version]):
        session.load("closed_rates", ("rates_version", "content"), [(rates.version, rates.content)])


def non_gpu_rates(settings: Settings, prices: PriceBook | None = None) -> Rates:
    """Read what costs besides GPUs by a site's settings; `prices` is the price book, where it is read already.

    Raises:
        ConfigError: a file cannot be read.
    """
    return Rates((price_book(settings) if prices is None else prices).beside, tariff_book(settings))


MILLIJOULES_PER_KWH = 3_600_000_000
_MILLION = 1_000_000
BY_POWER = ", by power"  # where no counter told some of it


@dataclass(frozen=True, slots=True)
class Drawn:
    """What the GPUs of a node group drew in one UTC hour, in millijoules, and of how much time that is known.

    For `power_ms` of it no counter told, and it is the trapezoid of the power.
    """

    node_group: str | None
    hour: int
    millijoules: int
    measured_ms: int
    power_ms: int = 0


@dataclass(frozen=True, slots=True)
class EnergySum:
    """Energy of one node group over a period; None where the price file does not say enough.

    `gpu_millijoules` is what the GPUs' own counters tell (for `power_ms` their power), `facility_millijoules` with
    cooling and losses. Hosts, network and disks are in neither. `rows` are those it was made by.
    """

    node_group: str | None
    gpu_millijoules: int
    measured_ms: int
    facility_millijoules: int | None
    cost_micros: int | None
    carbon_milligrams: int | None
    rows: tuple[Energy, ...]
    power_ms: int = 0


def energy(drawn: Iterable[Drawn], rows: Sequence[Energy]) -> tuple[EnergySum, ...]:
    """Return the energy of each node group, its price and its carbon."""
    sums: dict[str | None, EnergySum] = {}
    for one in drawn:
        before = sums.get(one.node_group, EnergySum(one.node_group, 0, 0, 0, 0, 0, ()))
        sums[one.node_group] = _add(before, one, row_of(rows, one.node_group, one.hour))
    return tuple(sums[name] for name in sorted(sums, key=lambda name: (name is None, name or "")))


def _add(before: EnergySum, one: Drawn, row: Energy | None) -> EnergySum:
    facility, cost, carbon = (None, None, None) if row is None else _of_hour(one.millijoules, row)
    return replace(
        before,
        gpu_millijoules=before.gpu_millijoules + one.millijoules,
        measured_ms=before.measured_ms + one.measured_ms,
        power_ms=before.power_ms + one.power_ms,
        facility_millijoules=_sum(before.facility_millijoules, facility),
        cost_micros=_sum(before.cost_micros, cost),
        carbon_milligrams=_sum(before.carbon_milligrams, carbon),
        rows=before.rows if row is None or row in before.rows else (*before.rows, row),
    )


def _of_hour(millijoules: int, row: Energy) -> tuple[int | None, int | None, int | None]:
    """Return an hour's facility energy, price and carbon, each from the exact product and not from one another."""
    facility, cost, carbon = (None if one is None else one * millijoules // 1 for one in factors(row))
    return facility, cost, carbon


def summed_energy(sums: Sequence[EnergySum]) -> EnergySum:
    """Return the energy of all node groups as one; there must be at least one."""
    return reduce(_together, sums)


def _together(one: EnergySum, other: EnergySum) -> EnergySum:
    return replace(
        one,
        node_group=None,
        gpu_millijoules=one.gpu_millijoules + other.gpu_millijoules,
        measured_ms=one.measured_ms + other.measured_ms,
        power_ms=one.power_ms + other.power_ms,
        facility_millijoules=_sum(one.facility_millijoules, other.facility_millijoules),
        cost_micros=_sum(one.cost_micros, other.cost_micros),
        carbon_milligrams=_sum(one.carbon_milligrams, other.carbon_milligrams),
        rows=tuple(dict.fromkeys((*one.rows, *other.rows))),
    )


def factors(row: Energy) -> tuple[Fraction, Fraction | None, Fraction | None]:
    """Return what a millijoule at the GPUs comes to: millijoules with the hall, millionths, milligrams of carbon."""
    facility = Fraction(row.pue_millionths, _MILLION)
    cost = None if row.micros_per_kwh is None else facility * row.micros_per_kwh / MILLIJOULES_PER_KWH
    carbon = None if row.carbon is None else facility * row.carbon.milligrams_per_kwh / MILLIJOULES_PER_KWH
    return facility, cost, carbon


def _sum(before: int | None, more: int | None) -> int | None:
    return None if before is None or more is None else before + more


TeamHolder = tuple[str | None, bool]  # a team (None: unmapped), and whether anybody held the GPU


@dataclass(frozen=True, slots=True)
class TeamEnergy:
    """What the GPUs drew that one team held; without a team and not held, what free GPUs drew."""

    team: str | None
    held: bool
    millijoules: int
    cost_micros: int | None
    carbon_milligrams: int | None


def energy_by_team(drawn: Mapping[TeamHolder, Sequence[Drawn]], rows: Sequence[Energy]) -> tuple[TeamEnergy, ...]:
    """Return each holder's energy, price and carbon; None where an hour of it has no row that says them."""
    hours: dict[tuple[str | None, int], dict[TeamHolder, int]] = {}
    for holder, taken in drawn.items():
        for one in taken:
            parts = hours.setdefault((one.node_group, one.hour), {})
            parts[holder] = parts.get(holder, 0) + one.millijoules
    sums = {holder: TeamEnergy(*holder, 0, 0, 0) for holder in drawn}
    for (node_group, hour), parts in hours.items():
        row = row_of(rows, node_group, hour)
        cost, carbon = (None, None) if row is None else factors(row)[1:]
        costs, grams = _divided(parts, cost), _divided(parts, carbon)
        for holder, millijoules in parts.items():
            before = sums[holder]
            sums[holder] = replace(
                before,
                millijoules=before.millijoules + millijoules,
                cost_micros=_sum(before.cost_micros, costs.get(holder)),
                carbon_milligrams=_sum(before.carbon_milligrams, grams.get(holder)),
            )
    return tuple(sums.values())


def _divided(parts: Mapping[TeamHolder, int], factor: Fraction | None) -> dict[TeamHolder, int]:
    """Return what the holders of one hour get of it; nobody anything where the factor is not known."""
    if factor is None:
        return {}
    exact = [millijoules * factor.numerator for millijoules in parts.values()]
    whole = sum(exact) // factor.denominator
    return dict(zip(parts, apportion(whole, exact, factor.denominator), strict=True))
