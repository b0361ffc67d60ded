"""Prices that are made of other figures: a contract with a payment in advance ([[reserved]]), GPUs that are owned.

Reserved: what is paid in advance is amortised evenly over the hours of the term.

[[reserved]]
sku = "H100-80GB"
usd_upfront_per_node = 105_120    # or usd_upfront_per_gpu
gpus_per_node = 8
usd_per_gpu_hour = 1.10           # what each hour costs beside it; 0 where all was paid in advance
from = 2026-01-01
until = 2027-01-01                # the term; it must be there
source = "contract 4711"
as_of = 2026-11-01

Hours in which such a GPU stands free cost the same; the ledger shows them as unallocated.

Owned: capital, power, space and staff make up what a GPU-hour costs.

[[owned]]
sku = "A100-80GB"
gpus_per_node = 8
usd_capital_per_node = 160_000    # or _per_gpu; what was paid for the hosts with their part of racks and network
usd_resale_per_node = 16_000      # optional: what it will fetch at the end
depreciation_years = 5            # straight line, by the hour
in_service = 2024-03-01           # optional: since when it is written off; `from` where it is left out
watts_per_node = 4_800            # or _per_gpu; what the hosts draw at the mean, cooling left out
usd_per_kwh = 0.11
pue = 1.30                        # cooling and losses of the hall, applied once, here; 1 where the tariff has them
usd_space_per_node_month = 190    # or _per_gpu_month
usd_staff_per_node_month = 240
from = 2026-01-01                 # since when these figures hold
source = "books of 2026"
as_of = 2026-11-01

A month is a twelfth of 8,760 hours. What is left out is not in the price, and `gpuledger bill prices check` says so;
a part that another one includes is 0. After its years the capital is written off, and the price falls by it.

A spot market's price as a series: a CSV beside the price file says what each hour cost.

[[spot]]
sku = "H100-80GB"
file = "spot-h100.csv"            # beside the price file: time,usd_per_gpu_hour
from = 2026-11-01                 # from when the series speaks
source = "provider's price history"
as_of = 2026-11-15

time,usd_per_gpu_hour
2026-11-01T00:00:00Z,1.2500

Each line is the price of that one hour. An hour without a line has no price: it is not carried on from the one before,
and no other price of the file takes its place.
"""

import csv
import io
from bisect import bisect_left
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from decimal import InvalidOperation
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

from agent.wire.units import HOUR_US
from analyzer.errors import ConfigError
from analyzer.prices.rows import GpuPrice
from analyzer.settings.toml_entry import TomlEntry, whole_micros, written_decimal
from analyzer.settings.toml_model import between, fixed, read_row, since, toml_key, until
from analyzer.text.words import dollars


@dataclass(frozen=True, slots=True)
class PricePart:
    """One part of a GPU-hour's price over a period: millionths an hour as a fraction, and in words how they came about.

    An amount that is spread over n hours seldom divides into whole millionths. Hour i gets what lies between the i-th
    and the next whole sum, so that the hours sum to the amount, and no hour is a millionth off.
    """

    name: str
    micros: Fraction
    starts_at: int
    ends_at: int | None
    how: str

    def micros_at(self, at_us: int) -> int:
        """Return what it adds to the hour that this microsecond lies in; 0 outside its period."""
        if at_us < self.starts_at or (self.ends_at is not None and at_us >= self.ends_at):
            return 0
        hour = (at_us - self.starts_at) // HOUR_US
        whole, by = self.micros.numerator, self.micros.denominator
        return whole * (hour + 1) // by - whole * hour // by


def spread_over_hours(name: str, total: Fraction, starts_at: int, ends_at: int, how: str) -> PricePart:
    """Return an amount spread evenly over the hours of a period."""
    return PricePart(name, total / ((ends_at - starts_at) // HOUR_US), starts_at, ends_at, how)


GPUS_PER_NODE = "gpus_per_node"
_GPUS_MOST = 1024
PRICE_MOST_MICROS = 10**12  # a million an hour: what is more was meant per node, per year, or not at all


@dataclass(frozen=True, slots=True)
class Amount:
    """Millionths of the currency, said of one GPU or of a node of `gpus`."""

    micros: int
    gpus: int

    @property
    def per_gpu(self) -> Fraction:
        """One GPU's part of it, in millionths."""
        return Fraction(self.micros, self.gpus)

    @property
    def told(self) -> str:
        """As it was said: "200,000.00 per node of 8"."""
        return dollars(self.micros) + (f" per node of {self.gpus}" if self.gpus > 1 else " per GPU")


@dataclass(frozen=True, slots=True)
class DerivedRow(GpuPrice):
    """What all derived rows have: what they are the price of, over which period, and who says so."""

    sku: str
    node_group: str | None
    provider: str | None
    region: str | None
    starts_at: int = field(metadata=since())
    ends_at: int | None = field(metadata=until())
    source: str
    as_of: date

    stale_days: ClassVar[int] = 90  # as of prices that were written; books and tariffs are made by the year

    def parts(self) -> tuple[PricePart, ...]:
        """Return what a GPU-hour's price consists of; nothing where it has no parts."""
        raise NotImplementedError

    def micros_at(self, at_us: int) -> int | None:
        """Return what a GPU-hour costs at this microsecond; None where it does not say."""
        return sum(part.micros_at(at_us) for part in self.parts()) if self.covers(at_us) else None

    def faults(self, today: date) -> list[tuple[str, str]]:
        """Return what is to be asked of it besides its age, as (kind, sentence with the way out)."""
        raise NotImplementedError


def _amount_keys(stem: str, unit: str = "", *, is_needed: bool = False) -> dict[str, Any]:
    """Return the metadata of an amount that is said of a GPU or of a node.

    Of usd_staff and _month these are the keys usd_staff_per_gpu_month and usd_staff_per_node_month.
    """
    keys = f"{stem}_per_gpu{unit}", f"{stem}_per_node{unit}", GPUS_PER_NODE
    return toml_key(*keys, read=_amount if is_needed else _amount_or_none)


def _amount_or_none(entry: TomlEntry, gpu: str) -> Amount | None:
    """Return an amount that is said of a GPU or of a node, or None where it is left out; `gpu` is the GPU's key.

    Raises:
        ConfigError: both are given, or a node's without its GPUs.
    """
    node = _of_node(gpu)
    if entry.has(gpu) and entry.has(node):
        raise ConfigError(f"{entry.where}: give one of {gpu!r} and {node!r}, not both")
    if entry.has(gpu):
        return Amount(entry.micros(gpu), 1)
    return Amount(entry.micros(node), _gpus_per_node(entry, node)) if entry.has(node) else None


def _amount(entry: TomlEntry, gpu: str) -> Amount:
    found = _amount_or_none(entry, gpu)
    if found is None:
        raise ConfigError(f"{entry.where}: {gpu!r} is missing (or {_of_node(gpu)!r})")
    return found


def _of_node(gpu: str) -> str:
    return gpu.replace("_per_gpu", "_per_node")


def _gpus_per_node(entry: TomlEntry, key: str) -> int:
    """Return how many GPUs share what is said of a node."""
    if not entry.has(GPUS_PER_NODE):
        raise ConfigError(f"{entry.where}: {key!r} needs {GPUS_PER_NODE!r}, such as 8")
    gpus: int = between(1, _GPUS_MOST)(entry, GPUS_PER_NODE)
    return gpus


def _term_end(entry: TomlEntry, key: str) -> int:
    ends_at = entry.end(key)
    if ends_at is None:
        raise ConfigError(f"{entry.where}: 'until' is missing: what is paid in advance is spread over the term")
    return ends_at


@dataclass(frozen=True, slots=True)
class Reserved(DerivedRow):
    """A reservation: what was paid in advance, and what an hour costs beside it in millionths."""

    purchase_option: str | None = field(metadata=fixed("reserved"))
    upfront: Amount = field(metadata=_amount_keys("{money}_upfront", is_needed=True))
    micros_per_gpu_hour: int = field(metadata=toml_key("{money}_per_gpu_hour", read=TomlEntry.micros))
    term_ends_at: int = field(metadata=toml_key("until", read=_term_end))  # as ends_at, which a term must have

    def parts(self) -> tuple[PricePart, ...]:
        """Return what a GPU-hour consists of."""
        start, hours = self.starts_at, (self.term_ends_at - self.starts_at) // HOUR_US
        how = f"{self.upfront.told} over the {hours:,} hours of the term"
        upfront = spread_over_hours("upfront", self.upfront.per_gpu, start, self.term_ends_at, how)
        by_hour = Fraction(self.micros_per_gpu_hour)
        return (
            upfront,
            PricePart(
                "by the hour", by_hour, start, self.term_ends_at, f"{dollars(self.micros_per_gpu_hour)} per GPU-hour"
            ),
        )

    def faults(self, today: date) -> list[tuple[str, str]]:
        """Return what is to be asked of it besides its age: what comes after the term, once it is over or nearly so."""
        end = datetime.fromtimestamp(self.term_ends_at // 1_000_000, UTC).date()
        if end > today:
            return []
        return [("over", f"its term ended {end}; write what such GPUs cost now, or take them out of the fleet")]


HOURS_PER_MONTH = 730  # a twelfth of 8,760
_years = between(1, 30)
_PUE_MOST = 3  # surveys of halls find 1.1 to 2; what is more is a percentage, or watts
_WATTS = ("watts_per_gpu", "watts_per_node")


def _in_service(entry: TomlEntry, key: str) -> int:
    starts_at = entry.hour("from")
    in_service = entry.hour_or_none(key)
    if in_service is not None and in_service > starts_at:
        raise ConfigError(f"{entry.where}: {key!r} must not be later than 'from'")
    return starts_at if in_service is None else in_service


def _written_off(entry: TomlEntry, key: str) -> int:
    """Return when the years are over that it is written off in."""
    years = _years(entry, key)
    moment = datetime.fromtimestamp(_in_service(entry, "in_service") // 1_000_000, UTC)
    leap = (moment.month, moment.day) == (2, 29)
    try:
        later = moment.replace(year=moment.year + years, day=28 if leap else moment.day)
    except ValueError as error:
        raise ConfigError(f"{entry.where}: {key!r} ends after the year 9999") from error
    return int(later.timestamp()) * 1_000_000


def read_pue(entry: TomlEntry, key: str = "pue") -> int:
    """Return what the hall adds to what the machines draw, in millionths: 1,300,000 for 1.30."""
    millionths = entry.micros(key)
    if not 1_000_000 <= millionths <= _PUE_MOST * 1_000_000:
        raise ConfigError(f"{entry.where}: {key!r} must be 1 to {_PUE_MOST}, such as 1.30, not {dollars(millionths)}")
    return millionths


@dataclass(frozen=True, slots=True)
class Power:
    """What a GPU draws with its part of the host, in micro-watts, the tariff, and what cooling adds, in millionths."""

    watts: Amount
    micros_per_kwh: int
    pue_millionths: int

    @property
    def micros_per_hour(self) -> Fraction:
        """What an hour of it costs, in millionths."""
        kilowatts = self.watts.per_gpu / 1_000_000 / 1000
        return kilowatts * Fraction(self.pue_millionths, 1_000_000) * self.micros_per_kwh


def _power(entry: TomlEntry, tariff: str) -> Power | None:
    watts = _amount_or_none(entry, _WATTS[0])
    if watts is None:
        if extra := [key for key in (tariff, "pue") if entry.has(key)]:
            raise ConfigError(f"{entry.where}: {extra[0]!r} needs 'watts_per_gpu' or 'watts_per_node'")
        return None
    if missing := [key for key in (tariff, "pue") if not entry.has(key)]:
        raise ConfigError(f"{entry.where}: watts need {missing[0]!r}; pue = 1 where the tariff has the cooling")
    return Power(watts, entry.micros(tariff), read_pue(entry))


@dataclass(frozen=True, slots=True)
class Owned(DerivedRow):
    """What was paid, since when and over how many years, and what runs on; None was not told."""

    purchase_option: str | None = field(metadata=fixed("owned"))
    capital: Amount = field(metadata=_amount_keys("{money}_capital", is_needed=True))
    resale: Amount | None = field(metadata=_amount_keys("{money}_resale"))
    years: int = field(metadata=toml_key("depreciation_years", read=_years))
    in_service: int = field(metadata=toml_key(read=_in_service))
    written_off: int = field(metadata=toml_key("depreciation_years", read=_written_off))
    power: Power | None = field(metadata=toml_key("{money}_per_kwh", "pue", *_WATTS, read=_power))
    space: Amount | None = field(metadata=_amount_keys("{money}_space", "_month"))  # a month
    staff: Amount | None = field(metadata=_amount_keys("{money}_staff", "_month"))

    stale_days: ClassVar[int] = 400

    def __post_init__(self) -> None:
        if self.resale is not None and self.resale.per_gpu > self.capital.per_gpu:
            raise ValueError("the resale value is more than the capital; is one of them a node's?")

    def parts(self) -> tuple[PricePart, ...]:
        """Return what a GPU-hour consists of; a part that was not told is left out."""
        found = [self._depreciation()]
        start, end = self.starts_at, self.ends_at
        if self.power is not None:
            found.append(PricePart("power", self.power.micros_per_hour, start, end, _power_words(self.power)))
        for name, monthly in (("space", self.space), ("staff", self.staff)):
            if monthly is not None:
                how = f"{monthly.told} per month of {HOURS_PER_MONTH} hours"
                found.append(PricePart(name, monthly.per_gpu / HOURS_PER_MONTH, start, end, how))
        return tuple(found)

    def faults(self, today: date) -> list[tuple[str, str]]:
        """Return what is to be asked of it besides its age, each with the way out."""
        parts = (("power", self.power), ("space", self.space), ("staff", self.staff))
        lacking = [name for name, part in parts if part is None]
        found = []
        if lacking:
            names = " and ".join(", ".join(lacking).rsplit(", ", 1))
            found.append(("missing", f"{names} not in the price; give the figures, or 0 where another includes them"))
        written_off = datetime.fromtimestamp(self.written_off // 1_000_000, UTC).date()
        if written_off <= today and (self.ends_at is None or self.written_off < self.ends_at):
            found.append(
                (
                    "over",
                    f"written off since {written_off}: from then on it costs what runs on; end it with 'until' if the"
                    " GPUs are gone, or lengthen depreciation_years if they are still being paid for",
                )
            )
        return found

    def _depreciation(self) -> PricePart:
        worth = self.capital.per_gpu - (self.resale.per_gpu if self.resale else 0)
        less = f" less {self.resale.told} resale" if self.resale and self.resale.micros else ""
        how = f"{self.capital.told}{less} over {self.years} {'year' if self.years == 1 else 'years'}"
        return spread_over_hours("depreciation", worth, self.in_service, self.written_off, how)


def _power_words(power: Power) -> str:
    watts = dollars(power.watts.micros).removesuffix(".00")
    whose = f" per node of {power.watts.gpus}" if power.watts.gpus > 1 else " per GPU"
    return f"{watts} W{whose} x PUE {dollars(power.pue_millionths)} x {dollars(power.micros_per_kwh)} per kWh"


_BYTES_MOST = 10_000_000  # thirty years of hours
_TOLD = 40


@dataclass(frozen=True, slots=True)
class Spot(DerivedRow):
    """A series: hours (microseconds UTC, ascending) and what a GPU-hour cost in each, in millionths."""

    purchase_option: str | None = field(metadata=fixed("spot"))
    hours: tuple[int, ...]
    micros: tuple[int, ...]

    def parts(self) -> tuple[PricePart, ...]:
        """Return none: a market's price has no parts."""
        return ()

    def micros_at(self, at_us: int) -> int | None:
        """Return what a GPU-hour costs in the hour of this microsecond; None in a gap."""
        hour = at_us // HOUR_US * HOUR_US
        place = bisect_left(self.hours, hour)
        return self.micros[place] if place < len(self.hours) and self.hours[place] == hour else None

    def faults(self, today: date) -> list[tuple[str, str]]:
        """Return what is to be asked of it besides its age: the hours without a price, up to yesterday's end."""
        end = int(datetime(today.year, today.month, today.day, tzinfo=UTC).timestamp()) * 1_000_000
        end = end if self.ends_at is None else min(end, self.ends_at)
        wanted = max(0, (end - self.starts_at) // HOUR_US)
        lacking = wanted - bisect_left(self.hours, end)
        if lacking <= 0:
            return []
        first = next(at for at in range(self.starts_at, end, HOUR_US) if self.micros_at(at) is None)
        told = f"{datetime.fromtimestamp(first // 1_000_000, UTC):%Y-%m-%dT%H:00Z}"
        return [
            (
                "gaps",
                f"{lacking:,} of {wanted:,} hours have no price, the first {told}: their cost is unknown then; add the"
                " lines, or end the series with 'until'",
            )
        ]


def read_spot(entry: TomlEntry, money: str, folder: Path | None) -> Spot:
    """Return one [[spot]] with its series; `folder` is where the price file lies.

    Raises:
        ConfigError: the series cannot be read, or a line of it is wrong.
    """
    lacking = {"hours": (), "micros": ()}  # stands in its file
    row, name = read_row(entry, Spot, others=("file",), given=lacking), entry.text("file")
    if Path(name).name != name or not name.endswith(".csv") or name.startswith("."):
        raise ConfigError(f"{entry.where}: 'file' must name a CSV beside the price file, such as spot-h100.csv")
    if folder is None:
        raise ConfigError(f"{entry.where}: 'file' {name} cannot be found: the price file itself is not a file here")
    lines = _series(folder / name, f"{money}_per_gpu_hour")
    if lines and not (row.starts_at <= min(lines) and (row.ends_at is None or max(lines) < row.ends_at)):
        raise ConfigError(f"{entry.where}: {name} has hours outside 'from' and 'until'; take them out, or widen these")
    ordered = sorted(lines)
    return replace(row, hours=tuple(ordered), micros=tuple(lines[hour] for hour in ordered))


def _series(path: Path, column: str) -> dict[int, int]:
    try:
        with path.open("rb") as file:
            content = file.read(_BYTES_MOST + 1)
        text = content.decode("utf-8-sig")
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}; put the series beside the price file") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text") from error
    if len(content) > _BYTES_MOST:
        raise ConfigError(f"{path} has more than {_BYTES_MOST:,} bytes; a series is one line per hour")
    found: dict[int, int] = {}
    try:
        lines = csv.reader(io.StringIO(text, newline=""))
        if next(lines, None) != ["time", column]:
            raise ConfigError(f"{path}: the first line must be time,{column}")
        for line in lines:
            _take(found, line, f"{path}, line {lines.line_num}")
    except csv.Error as error:
        raise ConfigError(f"{path} is not valid CSV: {error}") from error
    return found


def _take(found: dict[int, int], line: list[str], where: str) -> None:
    if not line:
        return
    if len(line) != 2:
        raise ConfigError(f"{where}: a line is a time and a price, such as 2026-11-01T00:00:00Z,1.25")
    hour, micros = _hour(line[0], where), _micros(line[1], where)
    if hour in found:
        raise ConfigError(f"{where}: {line[0]} is there twice; one price per hour")
    found[hour] = micros


def _hour(text: str, where: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            raise ValueError(text)
        moment = moment.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise ConfigError(
            f"{where}: a time is written with its offset, such as 2026-11-01T00:00:00Z, not {text[:_TOLD]!r}"
        ) from error
    if moment.minute or moment.second or moment.microsecond:
        raise ConfigError(f"{where}: {text} must be a whole hour in UTC")
    return int(moment.timestamp()) * 1_000_000


def _micros(text: str, where: str) -> int:
    try:
        micros = whole_micros(written_decimal(text)) if len(text) <= _TOLD else None
    except InvalidOperation:
        micros = None
    if micros is None or micros > PRICE_MOST_MICROS:
        raise ConfigError(f"{where}: a price is 0 or more, with at most six decimals, not {text[:_TOLD]!r}")
    return micros
