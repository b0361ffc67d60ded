"""Samples of many metrics to rows of a table: one row a subject and scrape, set at a time in Arrow.

A row spans [the scrape before, this scrape). Where the scrape before is missing there is no row: nobody knows since
when its values hold, and silence is not idleness. A counter that went back was reset, and its amount is unknown.

Remote write and the pull of a history both come through here, so that the same samples make the same rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from agent.wire.contract import Column, Table
from agent.wire.units import MILLISECOND_US
from collector.pipeline.decoding.arrow_messages import arrow_schema
from collector.pipeline.decoding.validation import Array, pc
from collector.prometheus.names import Slot, column_of

REACH = 1.75  # scrape intervals: what is further away has a missing scrape between; scrapes jitter, by less than that
LONGEST_STEP = 300_000  # milliseconds between two scrapes; Prometheus itself forgets a series after so long
_TIME_BITS = 42  # of a key, for milliseconds: 139 years; what is left numbers two million subjects

# What DCGM writes where it has no value, in each of its types; dcgm-exporter lets some through.
# Source: DCGM, dcgmlib/dcgm_structs.h, DCGM_INT32_BLANK, DCGM_FP64_BLANK and DCGM_INT64_BLANK, and the next few.
_BLANKS = ((2147483632.0, 2147483648.0), (140737488355328.0, 140737488355344.0), (9.2233720368547e18, float("inf")))


@dataclass(frozen=True, slots=True)
class Samples:
    """Samples of one slot: of which subject, of which part of it, when (milliseconds UTC), and what was said.

    Arrays of equal length, in any order; a sample that came twice counts once. `series` says of each series that they
    are of, one after the other, its subject, who scraped it and how many it has; empty where nobody asks.
    """

    subjects: Array  # int64
    parts: Array  # int64
    times: Array  # int64
    values: Array  # float64; NaN is unknown
    series: list[tuple[int, str, int]] = field(default_factory=list)

    def filtered(self, mask: Array) -> "Samples":
        """Return the samples for which the mask is true, without their series."""
        return Samples(*(array.filter(mask) for array in (self.subjects, self.parts, self.times, self.values)))


@dataclass(frozen=True, slots=True)
class Grid:
    """The rows to be: of each its subject, its scrape, and the scrape before where there is one within reach."""

    base: int  # milliseconds UTC, of the keys
    keys: Array  # int64, ascending: subject and time in one
    subjects: Array
    times: Array
    befores: Array  # milliseconds UTC; null where the scrape before is missing

    @property
    def seconds(self) -> Array:
        """Return the length of each row; null where there is no scrape before."""
        return pc.divide(pc.cast(pc.subtract(self.times, self.befores), pa.float64()), 1000.0)


@dataclass(frozen=True, slots=True)
class Pivoted:
    """Columns by name, of equal length, steps to others among them; and how many values nobody can believe."""

    grid: Grid
    columns: dict[str, Array]
    implausible: int


def pivot(samples: Mapping[Slot, Samples], steps: Mapping[int, int] | None = None) -> Pivoted | None:
    """Return the columns that follow from these samples of one table, or None where there are none.

    `steps` has of each subject how far apart its scrapes are, in milliseconds; without it the commonest distance is
    taken.
    """
    held = {slot: _clean(found) for slot, found in samples.items() if len(found.times)}
    held = {slot: found for slot, found in held.items() if len(found.times)}
    if not held:
        return None
    base = min(pc.min(found.times).as_py() for found in held.values())
    grid = _grid([_keys(found, base) for found in held.values()], base, steps)
    columns: dict[str, Array] = {}
    refused = 0
    for name in dict.fromkeys(slot.column for slot in held):
        slots = [slot for slot in held if slot.column == name]
        values = _together(grid, [(slot, held[slot]) for slot in slots])
        column = column_of(slots[0])
        columns[name], bad = (values, 0) if column is None else _believed(column, values)
        refused += bad
    return Pivoted(grid, columns, refused)


def rows(table: Table, pivoted: Pivoted, constants: Mapping[str, Array], since: int, until: int) -> pa.Table:
    """Return the rows whose scrapes lie in (since, until], milliseconds UTC, with all columns of the table.

    `constants` has columns by subject, to be taken by its number.
    """
    return rows_and_subjects(table, pivoted, constants, since, until)[0]


def rows_and_subjects(
    table: Table, pivoted: Pivoted, constants: Mapping[str, Array], since: int, until: int
) -> tuple[pa.Table, Array]:
    """Return the same, and of each row the number of its subject."""
    grid = pivoted.grid
    ours = pc.and_(pc.greater(grid.times, since), pc.less_equal(grid.times, until))
    ours = pc.and_(ours, pc.is_valid(grid.befores))
    told = {name: values.take(grid.subjects) for name, values in constants.items()}
    told |= {
        "started_at": pc.multiply(grid.befores, MILLISECOND_US),
        "ended_at": pc.multiply(grid.times, MILLISECOND_US),
    }
    told |= {name: values for name, values in pivoted.columns.items() if table.has(name)}
    schema = arrow_schema(table)
    arrays = [told[field.name] if field.name in told else pa.nulls(len(grid.keys), field.type) for field in schema]
    nullable = pa.schema([field.with_nullable(True) for field in schema])
    found = pa.table([_whole(array) for array in arrays], schema=nullable).filter(ours)
    # What is required is there: rows without a scrape before are gone.
    return found.cast(schema), grid.subjects.filter(ours)


def _believed(column: Column, values: Array) -> tuple[Array, int]:
    """Return values in the column's type, without those out of its range, and how many these were."""
    if column.type == "bool":
        return pc.not_equal(values, 0.0), 0
    low, high = column.range or (float("-inf"), float("inf"))
    inside = pc.and_(pc.greater_equal(values, float(low)), pc.less_equal(values, float(high)))
    bad = pc.sum(pc.invert(inside)).as_py() or 0
    kept = pc.if_else(inside, values, pa.scalar(None, pa.float64()))
    return (pc.cast(pc.round(kept), pa.int64()) if column.type == "int64" else kept), bad


def commonest_steps(subjects: Array, distances: Array) -> dict[int, int]:
    """Return of each subject the commonest distance between its scrapes, to the second, in milliseconds."""
    seconds = pc.cast(pc.round(pc.divide(pc.cast(distances, pa.float64()), 1000.0)), pa.int64())
    counted = (
        pa.table({"subject": subjects, "seconds": seconds})
        .group_by(["subject", "seconds"], use_threads=False)
        .aggregate([([], "count_all")])
        .sort_by([("subject", "ascending"), ("count_all", "ascending"), ("seconds", "descending")])
    )
    # The last of a subject is its commonest; of two as common the shorter, since a gap is longer than a step.
    seen: list[Any] = counted["seconds"].to_pylist()
    whose: list[Any] = counted["subject"].to_pylist()
    return dict(zip(whose, map(plausible_step, seen), strict=True))


def plausible_step(seconds: int) -> int:
    """Return a time between two scrapes in milliseconds, for what seems to be so many seconds."""
    return min(1000 * max(1, seconds), LONGEST_STEP)


def _clean(found: Samples) -> Samples:
    """Return the samples that say something."""
    known = pc.fill_null(pc.is_finite(found.values), False)
    if pc.all(known).as_py():
        return found
    return found.filtered(known)


def _keys(found: Samples, base: int) -> Array:
    return pc.bit_wise_or(pc.shift_left(found.subjects, _TIME_BITS), pc.subtract(found.times, base))


def _grid(keys: Sequence[Array], base: int, steps: Mapping[int, int] | None) -> Grid:
    """Return the rows that any of these keys asks for. Mostly all slots have the same: then nothing is sorted."""
    first = max(keys, key=len)
    if not _ascending(first) or any(not one.equals(first) for one in keys):
        first = pc.unique(pa.chunked_array(list(keys)))
        first = first.take(pc.sort_indices(first))
    subjects, since = pc.shift_right(first, _TIME_BITS), pc.bit_wise_and(first, (1 << _TIME_BITS) - 1)
    times = pc.add(since, base)
    before, same = shifted(times), pc.fill_null(pc.equal(shifted(subjects), subjects), False)
    distances = pc.subtract(times, before)
    usual = commonest_steps(subjects.filter(same), distances.filter(same)) if steps is None else steps
    near = pc.and_(same, pc.less_equal(pc.cast(distances, pa.float64()), _reach(subjects, usual)))
    return Grid(base, first, subjects, times, pc.if_else(near, before, pa.scalar(None, pa.int64())))


def _reach(subjects: Array, steps: Mapping[int, int]) -> Array:
    """Return how far back the scrape before may lie, for each row."""
    most = pc.max(subjects).as_py() if len(subjects) else -1
    by_subject = pa.array([steps.get(n, 0) * REACH for n in range(most + 1)], pa.float64())
    return by_subject.take(subjects)


def _ascending(keys: Array) -> bool:
    """Whether each is greater than the one before."""
    return len(keys) < 2 or bool(pc.all(pc.greater(keys.slice(1), keys.slice(0, len(keys) - 1))).as_py())


def shifted(array: Array) -> Array:
    """Return an array one place later: at each place what was at the one before, null at the first."""
    return _whole(pa.chunked_array([pa.nulls(min(1, len(array)), array.type), array.slice(0, max(0, len(array) - 1))]))


def _together(grid: Grid, slots: Sequence[tuple[Slot, Samples]]) -> Array:
    """Return one column of the grid from all slots that fill it: parts are put together, else the first that speaks."""
    if any(slot.part or slot.parts for slot, _ in slots):
        choices = sorted({slot.choice for slot, _ in slots})
        told = [_of_parts(grid, [each for each in slots if each[0].choice == choice]) for choice in choices]
        return told[0] if len(told) == 1 else pc.coalesce(*told)
    columns = []
    for slot, found in slots:
        values = _on(grid.keys, *_once(_keys(found, grid.base), _scaled(slot, found.values)))
        columns.append(_read(slot, values, shifted(values), pc.is_valid(grid.befores), grid.seconds))
    return columns[0] if len(columns) == 1 else pc.coalesce(*columns)


def _of_parts(grid: Grid, slots: Sequence[tuple[Slot, Samples]]) -> Array:
    """Return the sum over all parts of each row, of shares the mean; null where a part that is there is unknown."""
    reading = slots[0][0].reading
    found = pa.concat_tables(
        [
            pa.table(
                {
                    "key": _keys(one, grid.base),
                    "part": pc.add(one.parts, number << 32),
                    "value": _scaled(slot, one.values),
                }
            )
            for number, (slot, one) in enumerate(slots)
        ]
    )
    found = found.group_by(["key", "part"], use_threads=False).aggregate([("value", "first")])
    found = found.sort_by([("part", "ascending"), ("key", "ascending")])
    key, part, value = (_whole(found[name]) for name in ("key", "part", "value_first"))
    place = pc.index_in(key, value_set=grid.keys)
    wanted = pc.subtract(key, pc.subtract(grid.times, grid.befores).take(place))  # the key of the scrape before
    follows = pc.and_(pc.equal(shifted(part), part), pc.equal(shifted(key), wanted))
    read = _read(slots[0][0], value, shifted(value), pc.fill_null(follows, False), grid.seconds.take(place))
    by_key = pa.table({"key": key, "read": read}).group_by("key", use_threads=False)
    summed = by_key.aggregate([("read", "sum"), ("read", "count"), ([], "count_all")])
    known = pc.equal(summed["read_count"], summed["count_all"])
    total = _whole(summed["read_sum"])
    if reading in ("share", "mean"):
        total = pc.divide(total, pc.cast(_whole(summed["count_all"]), pa.float64()))
    kept = pc.if_else(_whole(known), total, pa.scalar(None, pa.float64()))
    return kept.take(pc.index_in(grid.keys, value_set=_whole(summed["key"])))


def _scaled(slot: Slot, values: Array) -> Array:
    """Return values in the column's unit; what DCGM writes for "none" is none."""
    for low, high in _BLANKS if slot.table == "gpu_samples" else ():
        blank = pc.and_(pc.greater_equal(values, low), pc.less_equal(values, high))
        if pc.any(blank).as_py():
            values = pc.if_else(blank, pa.scalar(None, pa.float64()), values)
    if slot.by != 1:
        values = pc.multiply(values, float(slot.by))
    return values if slot.times == 1 else pc.divide(values, float(slot.times))


def _once(keys: Array, values: Array) -> tuple[Array, Array]:
    """Return keys ascending, each once, with its values: sharers of a GPU have a series each, which say the same."""
    if _ascending(keys):
        return keys, values
    order = pc.sort_indices(keys)
    keys, values = keys.take(order), values.take(order)
    fresh = pc.fill_null(pc.not_equal(shifted(keys), keys), True)
    return keys.filter(fresh), values.filter(fresh)


def _on(wanted: Array, keys: Array, values: Array) -> Array:
    """Return the values of the wanted keys, null where there is none."""
    return values if keys.equals(wanted) else values.take(pc.index_in(wanted, value_set=keys))


def _read(slot: Slot, now: Array, before: Array, follows: Array, seconds: Array) -> Array:
    """Return what a column makes of values and those of the scrape before, which count where `follows`."""
    if slot.reading in ("value", "mean"):
        return now
    if slot.reading == "rate":
        return pc.multiply(now, seconds)
    if slot.reading == "news":
        return _news(slot, now, pc.if_else(follows, before, pa.scalar(None, pa.float64())))
    moved = pc.subtract(now, before)
    moved = pc.if_else(pc.and_(follows, pc.greater_equal(moved, 0.0)), moved, pa.scalar(None, pa.float64()))
    # The exporter's clock and Prometheus' differ by moments: what was busy all the time may seem 1.001 of it.
    return moved if slot.reading == "growth" else pc.min_element_wise(pc.divide(moved, seconds), 1.0, skip_nulls=False)


def _news(slot: Slot, now: Array, before: Array) -> Array:
    """Return the newest number where it changed, or for a count of events 1 there and 0 where there never was any.

    A number that stays may have come again: then nobody knows.
    """
    came = pc.and_(pc.not_equal(now, before), pc.greater(now, 0.0))
    if slot.column != "xid_events":
        return pc.if_else(came, now, pa.scalar(None, pa.float64()))
    never = pc.and_(pc.equal(now, 0.0), pc.equal(before, 0.0))
    return pc.case_when(pc.make_struct(came, never), pa.scalar(1.0), pa.scalar(0.0), pa.scalar(None, pa.float64()))


def _whole(array: Array) -> Array:
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
