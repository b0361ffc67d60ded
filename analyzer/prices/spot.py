"""A spot market's price as a series: a CSV beside the price file says what each hour cost.

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
from decimal import Decimal, InvalidOperation
from pathlib import Path

from agent.wire.units import HOUR_US
from analyzer.errors import ConfigError
from analyzer.prices.derived import PRICE_MOST_MICROS, DerivedRow, PricePart
from analyzer.settings.toml_entry import TomlEntry, whole_micros
from analyzer.settings.toml_model import fixed, read_row

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
        micros = whole_micros(Decimal(text)) if len(text) <= _TOLD else None
    except InvalidOperation:
        micros = None
    if micros is None or micros > PRICE_MOST_MICROS:
        raise ConfigError(f"{where}: a price is 0 or more, with at most six decimals, not {text[:_TOLD]!r}")
    return micros
