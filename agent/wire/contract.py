"""What a column and a table of the contract are, and what follows from them: metric names and ranges."""

from dataclasses import dataclass
from typing import Final, Literal

ArrowType = Literal["string", "int64", "float64", "bool"]
Kind = Literal["key", "gauge", "amount", "counter", "fact"]
Sensitivity = Literal["none", "id", "identity"]  # an id may bear a name in a part of it
# Who may tell something, in order of belief. The operator may tell all of it.
Teller = Literal["scheduler", "host", "run"]

SCHEMA_VERSION = 7  # of what an agent writes; raised with every additive column
MIN_READER = 1  # the oldest collector that can read it; raised only when a meaning changes

# Microseconds that a row may name: not before the one, nor further ahead of its batch than the other.
EARLIEST = 1_420_070_400_000_000  # 2015: no GPU telemetry that anybody still wants is older
AHEAD_OF_SENDER = 600_000_000  # 10 min: a reading cannot end long after its batch was sealed by the same clock
# The plausible range of a value by its unit: what lies outside is refused, never clipped.
_RANGES: dict[str, tuple[float, float]] = {
    "ratio": (0.0, 1.0),
    "bytes": (0, 2**60),
    "bytes_per_second": (0.0, 2.0**60),
    "watts": (0.0, 1e6),
    "joules": (0.0, 1e12),
    "celsius": (-80.0, 300.0),
    "hertz": (0.0, 1e12),
    "seconds": (0.0, 1e9),
    "events": (0, 2**53),
    "count": (0, 2**53),
    "microseconds": (0, 4_102_444_800_000_000),  # until 2100
    "unix_seconds": (0.0, 4_102_444_800.0),
    "cores": (0.0, 1e6),
    "offset_seconds": (-1e9, 1e9),
}


@dataclass(frozen=True, slots=True)
class Column:
    """One column: declared here once, from which schema, DDL, metrics, imports and documents are made.

    `kind` says how to read it: a key names the row, a gauge holds at the end of the interval or as its mean,
    an amount was moved or spent within the interval, a counter grows for ever, a fact describes.
    """

    name: str
    type: ArrowType
    kind: Kind
    unit: str
    help: str
    source: str = ""
    dcgm: str = ""
    sensitivity: Sensitivity = "none"
    required: bool = False
    since: int = 1  # the schema version that appended it
    tellers: frozenset[Teller] | None = None  # where others than those of its table

    @property
    def range(self) -> tuple[float, float] | None:
        """The smallest and the largest value that is believed, or None where any text or flag is."""
        return _RANGES.get(self.unit) if self.type in ("int64", "float64") else None


_HOST: Final[frozenset[Teller]] = frozenset({"host"})  # of itself alone


@dataclass(frozen=True, slots=True)
class Table:
    """One table of the contract. `family` is the middle of its metric names, None where it is not exported.

    `labels` are the columns that tell one series of the family from another, `tellers` who may tell a row.
    """

    name: str
    row: str
    columns: tuple[Column, ...]
    family: str | None = None
    labels: tuple[str, ...] = ()
    tellers: frozenset[Teller] = _HOST

    def column(self, name: str) -> Column:
        """Return the column of this name; a KeyError is our own mistake."""
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(f"BUG: table {self.name} has no column {name}")

    def has(self, name: str) -> bool:
        """Return whether the table has a column of this name."""
        return name in self.names

    def columns_at(self, version: int) -> tuple[Column, ...]:
        """Return the columns of a batch of this schema version: columns are only ever appended.

        Of a newer version than ours these are all that we know, and a prefix of what was sent.
        """
        return tuple(column for column in self.columns if column.since <= version)

    def may_tell(self, teller: Teller, column: Column) -> bool:
        """Return whether one of this kind may tell a column; where it may not, its word is not believed."""
        return teller in (self.tellers if column.tellers is None else column.tellers)

    @property
    def names(self) -> tuple[str, ...]:
        """The column names in wire order."""
        return tuple(column.name for column in self.columns)


def metric_name(table: Table, column: Column) -> str | None:
    """Return the Prometheus name of a column, or None where the column is no series.

    Amounts become counters: the exporter adds them up, so that a scrape interval needs to know nothing of the beat.
    """
    if table.family is None or column.kind not in ("gauge", "amount", "counter"):
        return None
    if column.kind == "amount" and table.has(f"{column.name}_total"):
        return None  # the counter that the amount was taken from is the better series, and has the same name
    stem = f"gpuledger_{table.family}_{column.name.removesuffix('_total')}"
    return stem if column.kind == "gauge" else f"{stem}_total"
