"""Cells of logs: numbers with the units beside them, dates and clocks as loggers spell them, and rows of cells."""

import csv
import io
import math
import re
import statistics
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, tzinfo

from agent.wire.units import SECOND_US

UNITS: dict[str, float] = {
    "%": 0.01, "pct": 0.01, "percent": 0.01, "percentage": 0.01, "ratio": 1.0,
    "b": 1.0, "bytes": 1.0, "kib": 2.0**10, "kb": 2.0**10, "mib": 2.0**20, "mb": 2.0**20, "megabytes": 1e6,
    "gib": 2.0**30, "gb": 2.0**30, "w": 1.0, "watts": 1.0, "mw": 1e-3, "milliwatts": 1e-3, "kw": 1e3,
    "uw": 1e-6, "microwatts": 1e-6, "megawatts": 1e6, "j": 1.0, "joules": 1.0, "mj": 1e-3, "uj": 1e-6, "kj": 1e3,
    "megajoules": 1e6, "kwh": 3.6e6, "wh": 3.6e3, "c": 1.0, "celsius": 1.0, "ghz": 1e9, "mhz": 1e6, "hz": 1.0,
    "s": 1.0, "sec": 1.0, "secs": 1.0, "seconds": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "nanoseconds": 1e-9,
}  # fmt: skip

_MEASURES: tuple[tuple[str, frozenset[str]], ...] = (
    ("ratio", frozenset({"%", "pct", "percent", "percentage", "ratio"})),
    ("bytes", frozenset({"b", "bytes", "kib", "kb", "mib", "mb", "megabytes", "gib", "gb"})),
    ("watts", frozenset({"w", "watts", "mw", "milliwatts", "uw", "microwatts", "kw", "megawatts"})),
    ("joules", frozenset({"j", "joules", "mj", "uj", "kj", "megajoules", "kwh", "wh"})),
    ("celsius", frozenset({"c", "celsius"})),
    ("hertz", frozenset({"ghz", "mhz", "hz"})),
)
_NUMBER = re.compile(r"\s*([+-]?(?:\d[\d,]*\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?)\s*[°º]?([A-Za-zµμ%]*)\s*")
# What stands where a tool has no number.
BLANK = re.compile(
    r"\s*(\[[a-z/ ]+\]|-*|n/?a|nan|none|null|(gpu )?.*(not supported|error|err!|lost|reset).*)\s*", re.IGNORECASE
)


def unit_said(text: str) -> str:
    """Return a unit as UNITS has it: of all letters only M is another one when it is small."""
    return {"MJ": "megajoules", "MW": "megawatts"}.get(text) or re.sub("[µμ]", "u", text).lower()


def cell_of(raw: object) -> tuple[float | None, str]:
    """Return the number of a cell and the unit beside it; None where there is no number, which is never 0.

    Of a cell of several lines the first one counts.
    """
    if isinstance(raw, bool) or raw is None:
        return None, ""
    if isinstance(raw, int | float):
        return (float(raw), "") if math.isfinite(raw) else (None, "")
    found = _NUMBER.fullmatch(str(raw).strip().partition("\n")[0])
    if found is None or ((unit := unit_said(found[2])) and unit not in UNITS):
        return None, ""
    value = float(found[1].replace(",", ""))
    return (value if math.isfinite(value) else None), unit


def measure_of(unit: str) -> str | None:
    """Return what a unit measures, as the last word of our columns: "watts" of mW."""
    return next((measure for measure, units in _MEASURES if unit in units), None)


_DATED = re.compile(
    r"^\s*(\d{4})[-/.]?(\d\d?)[-/.]?(\d\d?)[T _]+(\d\d?):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?"
    r"\s*(Z|UTC|[+-]\d\d:?\d\d)?\s*$"
)
_WRITTEN = ("%m/%d/%Y %H:%M:%S", "%m/%d/%Y %I:%M:%S %p", "%d.%m.%Y %H:%M:%S", "%a %b %d %H:%M:%S %Y",
            "%a %d %b %Y %H:%M:%S", "%d %b %Y %H:%M:%S", "%d-%b-%Y %H:%M:%S")  # fmt: skip
_SLASHED = re.compile(r"(?<![\d/])(\d\d?)/(\d\d?)/\d{4}(?![\d/])")
CLOCK = re.compile(r"^\s*(\d\d?):(\d\d):(\d\d(?:\.\d+)?)\s*$")


def is_day_first(text: str) -> bool | None:
    """Say whether 13/11/2026 is how dates are written, and not 11/13/2026; None where no date tells."""
    numbers = [(int(found[1]), int(found[2])) for found in _SLASHED.finditer(text)]
    days, months = any(first > 12 for first, _ in numbers), any(second > 12 for _, second in numbers)
    return days if days or months or not numbers else None


def moment(raw: object, zone: tzinfo = UTC, *, day_first: bool = False) -> int | None:
    """Return a time in microseconds: a date in one of the spellings of loggers, or an epoch in s, ms, us or ns."""
    value, _ = cell_of(raw) if not isinstance(raw, str) or re.fullmatch(r"\s*[\d.eE+]+\s*", raw) else (None, "")
    if value is not None:
        scale = next((by for least, by in ((1e17, 1e-3), (1e14, 1.0), (1e11, 1e3), (1e8, 1e6)) if value >= least), None)
        return None if scale is None else round(value * scale)
    text = str(raw)
    if (found := _DATED.match(text)) is not None:
        year, month, day, hour, minute, second, part, offset = found.groups()
        plain = f"{year}-{month:0>2}-{day:0>2}T{hour:0>2}:{minute}:{second or '00'}.{(part or '0')[:6]:0<6}"
        try:
            when = datetime.fromisoformat(plain + ("Z" if offset in ("Z", "UTC") else offset or ""))
        except ValueError:
            return None
        return _micros(when, zone)
    for form in _WRITTEN:
        own = form.replace("%m/%d", "%d/%m") if day_first else form
        try:
            return _micros(datetime.strptime(text.strip(), own), zone)
        except ValueError:
            continue
    return None


def _micros(when: datetime, zone: tzinfo) -> int:
    whole = when if when.tzinfo else when.replace(tzinfo=zone)
    return int(whole.replace(microsecond=0).timestamp()) * SECOND_US + whole.microsecond


def elapsed(raw: object) -> int | None:
    """Return a time since the beginning of a log in microseconds: a clock, or a number with its unit or in seconds."""
    if (clock := CLOCK.match(str(raw))) is not None:
        return round((int(clock[1]) * 3600 + int(clock[2]) * 60 + float(clock[3])) * SECOND_US)
    value, unit = cell_of(raw)
    return None if value is None else round(value * UNITS.get(unit, 1.0) * SECOND_US)


def cells_of(text: str) -> Iterator[list[str]]:
    """Yield the rows of a table that have any cell, apart by the mark that its first lines share."""
    lines = [line for line in text[:65_536].splitlines()[:20] if line.strip()]
    often = {mark: statistics.multimode(line.count(mark) for line in lines)[0] for mark in ";\t" if lines}
    mark = max(often, key=lambda one: often[one], default=",")
    mark = mark if often.get(mark) else ","
    for row in csv.reader(io.StringIO(text.replace("\0", "")), delimiter=mark, skipinitialspace=True):
        if any(cell.strip() for cell in row):
            yield [cell.strip().replace(",", ".") if mark == ";" else cell.strip() for cell in row]


def is_cut(cells: Sequence[str], before: Sequence[str]) -> bool:
    """Say whether a last line breaks off: its last cell lacks the unit, or the decimals, that the one before has."""
    last, other = cells[-1], before[-1]
    (value, unit), (reference, other_unit) = cell_of(last), cell_of(other)
    if value is None or reference is None:
        return False
    return unit != other_unit or ("." in other and "." not in last and len(last) < len(other))
