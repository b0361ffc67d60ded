"""How one column of the contract is kept in a tier: from samples, from a finer tier, and read back as a sample.

Whatever is added up is an integer: amounts in whole units or millionths, gauges times milliseconds in a fixed scale.
So a minute says the same whatever came first, and hours made from minutes say what hours made from samples would.
A mean is kept as a number that people and other engines can read; from it and its milliseconds the integer it was made
of comes back to the last digit, as long as that has fewer than 15 digits. Everything a real GPU does stays far below.
"""

from collections.abc import Callable
from dataclasses import dataclass

from agent.wire.contract import Column

BIN = 5  # permille: how finely distributions are kept, which is as finely as the analyzer asks (run_activity)
_MILLIONTHS = "1e6"

# What one unit of a gauge counts as, and what it is held to before it is multiplied: 63 bits hold an hour of it.
_SCALES: dict[str, tuple[float, float]] = {
    "ratio": (1e6, 1.0),
    "bytes": (1e-6, 2.0**60),
    "bytes_per_second": (1e-6, 2.0**60),
    "watts": (1e2, 1e6),
    "celsius": (1e3, 300.0),
    "hertz": (1e-6, 1e12),
    "seconds": (1e5, 1e6),
    "count": (1e3, 1e9),
    "cores": (1e3, 1e6),
}
_TYPES = {"string": "VARCHAR", "int64": "BIGINT", "float64": "DOUBLE", "bool": "BOOLEAN"}


@dataclass(frozen=True, slots=True)
class TierColumn:
    """One column of a tier: its definition, and the expressions that make it.

    `told` aggregates pieces of samples (`ms` long, of a whole sample or a part of it); `merged` aggregates rows of a
    finer tier.
    """

    name: str
    type: str
    told: str
    merged: str
    about: str


@dataclass(frozen=True, slots=True)
class Measure:
    """A column of the contract with what a tier keeps of it."""

    column: Column
    kept: tuple[TierColumn, ...]


Rule = Callable[[Column], Measure]


def spread_column(column: Column, least: str = "", most: str = "") -> Measure:
    """Keep a gauge as its mean over time, the milliseconds it was told in, and its extremes.

    `least` and `most` are columns in which the driver tells the extremes between two readings.
    """
    low = f"least({column.name}, {least})" if least else column.name
    high = f"greatest({column.name}, {most})" if most else column.name
    name, type_ = column.name, _TYPES[column.type]
    extremes = (
        TierColumn(f"{name}_min", type_, f"min({low})", f"min({name}_min)", "least"),
        TierColumn(f"{name}_max", type_, f"max({high})", f"max({name}_max)", "most"),
    )
    return Measure(column, (*mean(column).kept, *extremes))


def mean(column: Column) -> Measure:
    """Keep a gauge as its mean over time and the milliseconds that it was told in."""
    name = column.name
    scale, limit = _SCALES[column.unit]
    scaled = f"round({scale:e} * least({name}::DOUBLE, {limit:e}))::BIGINT"
    told = f"sum({scaled} * ms) FILTER ({name} IS NOT NULL)"
    merged = f"sum(round({name} * ({scale:e} * {name}_ms))::BIGINT) FILTER ({name} IS NOT NULL)"
    told_ms, merged_ms = f"sum(ms) FILTER ({name} IS NOT NULL)", f"sum({name}_ms)"
    return Measure(
        column,
        (
            TierColumn(
                name, "DOUBLE", _quotient(told, told_ms, scale), _quotient(merged, merged_ms, scale), "mean over time"
            ),
            TierColumn(
                f"{name}_ms", "BIGINT", f"{told_ms}::BIGINT", f"{merged_ms}::BIGINT", "milliseconds it was told in"
            ),
        ),
    )


def _quotient(integral: str, milliseconds: str, scale: float) -> str:
    return f"{integral} / ({scale:e} * nullif({milliseconds}, 0))"  # written so, or they would be decimals


def amount(column: Column) -> Measure:
    """Keep an amount as its sum: of a sample that crosses an edge, the part that lies within, to the unit."""
    name = column.name
    if column.type == "int64":
        told, merged = _saturated(f"sum({_part(name)})"), _saturated(f"sum({name})")
    else:
        told = f"sum({_part(_millionths(name))}) / {_MILLIONTHS}"
        merged = f"sum({_millionths(name)}) / {_MILLIONTHS}"
    return Measure(column, (TierColumn(name, _TYPES[column.type], told, merged, "sum"),))


def _saturated(total: str) -> str:
    """Return a sum that a liar cannot lift out of its type: a roll-up must not fail over one host's nonsense."""
    return f"CASE WHEN {total} > 9223372036854775807 THEN 9223372036854775807 ELSE {total} END::BIGINT"


def _millionths(name: str) -> str:
    """Return an amount in whole millionths."""
    return f"round({_MILLIONTHS} * {name})::BIGINT"


def _part(whole: str) -> str:
    """Return what falls into a piece of an integer that was told of its whole sample; pieces of one sum to it."""
    upto = f"(({whole})::HUGEINT * (piece_until - started_at) // whole_us)"
    before = f"(({whole})::HUGEINT * (piece_from - started_at) // whole_us)"
    return f"CASE WHEN is_whole THEN {whole} ELSE {upto} - {before} END"


def last(column: Column) -> Measure:
    """Keep what was told last; what was not told does not take it back."""
    name = column.name
    told = f"arg_max({name}, piece_from) FILTER ({name} IS NOT NULL)"
    merged = f"arg_max({name}, started_at) FILTER ({name} IS NOT NULL)"
    return Measure(column, (TierColumn(name, _TYPES[column.type], told, merged, "the last that was told"),))


def most(column: Column) -> Measure:
    """Keep the highest; of flags, whether it was ever set."""
    name = column.name
    highest = f"bool_or({name})" if column.type == "bool" else f"max({name})"
    return Measure(column, (TierColumn(name, _TYPES[column.type], highest, highest, "most"),))


def united(column: Column) -> Measure:
    """Keep each entry of lists, once: what was told in one interval is not taken back by the next."""
    name = column.name
    lists = f"list(string_split({name}, ',')) FILTER ({name} IS NOT NULL)"
    each = f"array_to_string(list_sort(list_distinct(flatten({lists}))), ',')"
    return Measure(column, (TierColumn(name, _TYPES[column.type], each, each, "each that was told"),))


def down(column: Column) -> Measure:
    """Keep of a flag that is nearly always set the milliseconds in which it was told not to be."""
    kept = TierColumn(
        "down_ms",
        "BIGINT",
        f"coalesce(sum(ms) FILTER ({column.name} = false), 0)::BIGINT",
        "sum(down_ms)::BIGINT",
        f"milliseconds in which {column.name} was 0",
    )
    return Measure(column, (kept,))


def folded(column: Column) -> Measure:
    """Keep nothing of its own: another column's extremes have taken it in, under this name."""
    return Measure(column, ())


def histogram(name: str) -> str:
    """Return the name of the column that holds a ratio's distribution."""
    return f"{name}_histogram"
