"""Durations and sizes as people write them, 0.1s, 500ms, 2m, 64MB; durations and columns as they read them."""

import math
import re
from collections.abc import Iterable, Sequence

from agent.errors import ConfigError
from agent.wire.units import MINUTE_SECONDS

_MINUTES_PER_HOUR = 60
_SECONDS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_BYTES = {"": 1, "B": 1, "kB": 10**3, "KiB": 2**10, "MB": 10**6, "MiB": 2**20, "GB": 10**9, "GiB": 2**30}
_QUANTITY = re.compile(r"\s*([0-9]*\.?[0-9]+)\s*([A-Za-z]*)\s*")


def seconds(given: str | float) -> float:
    """Return a duration in seconds; a bare number means seconds.

    Raises:
        ConfigError: it is no duration.
    """
    return _quantity(given, _SECONDS, "a valid duration; examples: 10s, 500ms, 2m")


def size_bytes(given: str | float) -> int:
    """Return a size in bytes; a bare number means bytes.

    Raises:
        ConfigError: it is no size.
    """
    return round(_quantity(given, _BYTES, "a valid size; examples: 256MB, 1GiB"))


def duration(seconds_: float) -> str:
    """Return a duration for a person: "4.2 s", "45 min 00 s", "2 h 05 min 00 s"."""
    if seconds_ < MINUTE_SECONDS:
        return f"{seconds_:.1f} s"
    minutes, rest = divmod(round(seconds_), MINUTE_SECONDS)
    hours, minutes = divmod(minutes, _MINUTES_PER_HOUR)
    return f"{hours} h {minutes:02} min {rest:02} s" if hours else f"{minutes} min {rest:02} s"


def counted(names: Sequence[str]) -> str:
    """Return how many there are of each name: "4 x H100-80GB, 1 x A100-40GB"."""
    return ", ".join(f"{names.count(name)} x {name}" for name in dict.fromkeys(names))


def in_columns(cells: Iterable[str], widths: Iterable[int]) -> str:
    """Return a line of cells two spaces apart: numbers flush right (width > 0), words flush left (width < 0)."""
    pairs = zip(cells, widths, strict=True)
    return "  ".join(cell.rjust(width) if width > 0 else cell.ljust(-width) for cell, width in pairs)


def _quantity(given: str | float, units: dict[str, float] | dict[str, int], wanted: str) -> float:
    if isinstance(given, int | float) and not isinstance(given, bool) and math.isfinite(given) and given >= 0:
        return given
    match = _QUANTITY.fullmatch(given) if isinstance(given, str) else None
    if match is None or match[2] not in units:
        raise ConfigError(f"{given!r} is not {wanted}")
    return float(match[1]) * units[match[2]]
