"""Which tables have tiers, how each of their columns is kept, and how the lake's tables lie in their files.

A tier's row has the contract's names: a gauge's column holds its mean, an amount's its sum. Beside them stand what else
is kept (`_ms`, `_min`, `_max`, `_histogram`), and `measured_ms`: how much of the time was told of at all, so that
silence stays silence.

Whatever is added up is an integer: amounts in whole units or millionths, gauges times milliseconds in a fixed scale.
So a minute says the same whatever came first, and hours made from minutes say what hours made from samples would.
A mean is kept as a number that people and other engines can read; from it and its milliseconds the integer it was made
of comes back to the last digit, as long as that has fewer than 15 digits. Everything a real GPU does stays far below.

Of files a day is the unit: retention drops whole days, and a file that holds two would have to be written anew for it.
Minutes of a small site are put together by the week, which a chart then reads from one file a third smaller. Rows are
ordered by host first: the GPUs of one run share hosts, so that a run's week is a few row groups of each file.
"""

from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache, partial

from agent.wire.contract import Column, Table
from agent.wire.tables import TABLES
from agent.wire.units import DAY_US, HOUR_US, MINUTE_US, WEEK_US
from collector.errors import ConfigError

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


def _spread_column(column: Column, least: str = "", most: str = "") -> Measure:
    """Keep a gauge as its mean over time, the milliseconds in which it was reported, and its extremes.

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
                f"{name}_ms",
                "BIGINT",
                f"{told_ms}::BIGINT",
                f"{merged_ms}::BIGINT",
                "milliseconds in which it was reported",
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
    return Measure(column, (TierColumn(name, _TYPES[column.type], told, merged, "the last value reported"),))


def most(column: Column) -> Measure:
    """Keep the highest; of flags, whether it was ever set."""
    name = column.name
    highest = f"bool_or({name})" if column.type == "bool" else f"max({name})"
    return Measure(column, (TierColumn(name, _TYPES[column.type], highest, highest, "most"),))


def _united(column: Column) -> Measure:
    """Keep each entry of lists, once: what was told in one interval is not taken back by the next."""
    name = column.name
    lists = f"list(string_split({name}, ',')) FILTER ({name} IS NOT NULL)"
    each = f"array_to_string(list_sort(list_distinct(flatten({lists}))), ',')"
    return Measure(column, (TierColumn(name, _TYPES[column.type], each, each, "every value reported"),))


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


SIZES = {"minutes": MINUTE_US, "hours": HOUR_US}

# Tables that are charted, or that a rule reads, long after their samples are gone. Not agent_samples: what was missed
# is in the ledger, and of an agent only its last days matter. Not progress, allocations and what else a run or a
# scheduler says: that is little, and is kept as it came.
TIERED = (
    "gpu_samples",
    "host_samples",
    "disk_samples",
    "network_samples",
    "process_samples",
    "run_samples",
    "service_samples",
    "flow_samples",
)

# Two process trees of one run on one GPU, or two ways to count flows, are not two words on one thing.
_FURTHER_KEYS = {
    "process_samples": ("pid",),
    "service_samples": ("engine",),
    "flow_samples": ("transport",),
}
_HISTOGRAMS = {"gpu_samples": ("utilization_ratio", "sm_active_ratio")}

_EXCEPTIONS: dict[str, dict[str, Rule]] = {
    "gpu_samples": {
        "up": down,
        "utilization_zero_ratio": mean,  # already shares: their extremes say nothing
        "utilization_low_ratio": mean,
        "utilization_high_ratio": mean,
        "memory_reserved_bytes": last,
        "power_watts": partial(_spread_column, least="power_watts_min", most="power_watts_max"),
        "power_watts_min": folded,
        "power_watts_max": folded,
        "sm_clock_hertz": partial(_spread_column, least="sm_clock_hertz_min"),
        "sm_clock_hertz_min": folded,
        "sm_clock_reference_hertz": mean,
        "memory_clock_hertz": mean,
        "pcie_generation": most,  # a link that rests lowers it
        "pcie_generation_max": most,
        "pcie_width": most,
        "pcie_width_max": most,
        "xid_last_timestamp_seconds": most,
        "xid_numbers": _united,
        "remapped_rows_corrected": most,
        "remapped_rows_uncorrected": most,
        "row_remap_pending": last,
        "row_remap_failure": most,
    },
    "network_samples": {"speed_bytes_per_second": last},
    "run_samples": {"cores_allotted": last},
    "service_samples": {
        "slo_seconds": last,
        "first_token_seconds_p99_low": most,  # how a promise was kept is booked from samples
        "first_token_seconds_p99_high": most,
        "inter_token_seconds_p99_low": most,
        "inter_token_seconds_p99_high": most,
    },
}
_BY_KIND: dict[str, Rule] = {"gauge": _spread_column, "amount": amount, "counter": last, "fact": last}


@dataclass(frozen=True, slots=True)
class Tiered:
    """One table with its tiers. `keys` tell its series apart, besides the time."""

    source: Table
    keys: tuple[str, ...]
    measures: tuple[Measure, ...]
    histograms: tuple[str, ...]

    @property
    def stem(self) -> str:
        """The subject's word: gpu, host, disk, …"""
        return self.source.name.removesuffix("_samples")

    def name(self, size: str) -> str:
        """Return the table of a tier: gpu_minutes, gpu_hours."""
        return f"{self.stem}_{size}"

    @property
    def kept(self) -> tuple[TierColumn, ...]:
        """Every column that is made by an aggregate, `measured_ms` first."""
        measured = TierColumn(
            "measured_ms", "BIGINT", "sum(ms)::BIGINT", "sum(measured_ms)::BIGINT", "milliseconds reported"
        )
        return (measured, *(kept for measure in self.measures for kept in measure.kept))

    @property
    def definitions(self) -> tuple[str, ...]:
        """The columns of a tier's table, as SQL defines them."""
        return (
            *(f"{key} {_KEY_TYPES[self.source.column(key).type]}" for key in self.keys),
            "started_at BIGINT NOT NULL",
            *(f"{kept.name} {kept.type}" for kept in self.kept),
            *(f"{histogram(name)} MAP(SMALLINT, INTEGER)" for name in self.histograms),
        )

    @property
    def order(self) -> str:
        """What rows are ordered by in a file: the host first, because the GPUs of a run share hosts and not UUIDs."""
        return ", ".join([*self.keys, "started_at"])


_KEY_TYPES = {"string": "VARCHAR", "int64": "BIGINT"}


@cache
def tiered(name: str) -> Tiered:
    """Return a table of the contract with its tiers; a KeyError is our own mistake."""
    table = TABLES[name]
    keys = tuple(column.name for column in table.columns if _is_key(table, column))
    names = (*keys, "started_at", "ended_at")
    measures = tuple(_measure(table, column) for column in table.columns if column.name not in names)
    return Tiered(table, keys, measures, _HISTOGRAMS.get(name, ()))


def _is_key(table: Table, column: Column) -> bool:
    names = column.kind == "key" and column.name not in ("started_at", "ended_at")
    return names or column.name in _FURTHER_KEYS.get(table.name, ())


def _measure(table: Table, column: Column) -> Measure:
    rule = _EXCEPTIONS.get(table.name, {}).get(column.name, _BY_KIND[column.kind])
    return rule(column)


def tier_tables() -> dict[str, tuple[str, ...]]:
    """Return the columns of every tier's table, as SQL defines them."""
    return {tiered(name).name(size): tiered(name).definitions for name in TIERED for size in SIZES}


MONDAY_US = 4 * DAY_US  # the first after 1970 began; every span counts from here
_MONTH_US = 30 * DAY_US  # not the calendar's: spans of one length
RAW = (*TIERED, "agent_samples")
LONG = ("progress",)  # kept as long as the hours: it is little


@dataclass(frozen=True, slots=True)
class Layout:
    """Of one table: the column that says when, the span that one file shall hold, and the order of its rows.

    `small_span_us` is what a file holds where that is not much.
    """

    table: str
    clock: str
    span_us: int
    order: str
    small_span_us: int = 0

    @property
    def longest_us(self) -> int:
        """The longest span that one file holds."""
        return max(self.span_us, self.small_span_us)


def layouts() -> dict[str, Layout]:
    """Return the layout of every table that grows with time."""
    found = [
        *(Layout(name, "started_at", DAY_US, tiered(name).order) for name in TIERED),
        *(Layout(tiered(name).name("minutes"), "started_at", DAY_US, tiered(name).order, WEEK_US) for name in TIERED),
        *(Layout(tiered(name).name("hours"), "started_at", _MONTH_US, tiered(name).order) for name in TIERED),
        Layout("agent_samples", "started_at", DAY_US, "node, started_at"),
        Layout("progress", "started_at", _MONTH_US, "run_id, node, started_at"),
        Layout("node_states", "started_at", _MONTH_US, "node, started_at"),
        Layout("receipts", "received_at", DAY_US, "stream, sequence"),
    ]
    return {layout.table: layout for layout in found}


def droppable() -> tuple[str, ...]:
    """Return the tables that retention may drop days of, samples first."""
    return (*RAW, *LONG, *(tiered(name).name(size) for size in SIZES for name in TIERED))


def kept_days(text: str) -> tuple[str, int]:
    """Return the table and the days of an entry of the setting keep_days, such as flow_samples=3.

    Raises:
        ConfigError: there is no such table, or it is no number of days.
    """
    table, _, days = text.partition("=")
    if table not in droppable():
        near = get_close_matches(table, droppable(), n=1)
        told = f"; the nearest is {near[0]}" if near else f"; known are {', '.join(droppable())}"
        raise ConfigError(f"collector.keep_days has {text!r}: not a table that expires{told}")
    if not days.isdecimal() or int(days) < 1:
        raise ConfigError(f"collector.keep_days has {text!r}: use a whole number of days, as in {table}=7")
    return table, int(days)


def tier_of(table: str) -> str:
    """Return raw, minutes or hours."""
    size = table.rpartition("_")[2]
    return size if size in SIZES else "raw"
