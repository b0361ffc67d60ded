"""Scrapes that are whole, or have waited long enough, become batches: a row a subject, a batch a target and scrape."""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from agent.wire.tables import TABLES
from collector.pipeline.decoding.batch import Batch, encoded_batch
from collector.pipeline.decoding.range_checks import Array
from collector.prometheus.gathering import constants
from collector.prometheus.labels import Subject
from collector.prometheus.names import Slot, finish
from collector.prometheus.pivot import Samples, pivot, rows_and_subjects
from collector.prometheus.targets import Bucket, Component, Target

_FOREVER = 2**53  # milliseconds
ScrapeKey = tuple[str, int]  # stream and time


@dataclass(slots=True)
class _Listed:
    """Samples of one slot, before they are Arrow."""

    subjects: list[int] = field(default_factory=list)
    parts: list[int] = field(default_factory=list)
    times: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)

    def add(self, subject: int, part: int, time: int, value: float) -> None:
        self.subjects.append(subject)
        self.parts.append(part)
        self.times.append(time)
        self.values.append(value)

    def samples(self) -> Samples:
        subjects, parts, times = (pa.array(column, pa.int64()) for column in (self.subjects, self.parts, self.times))
        return Samples(subjects, parts, times, pa.array(self.values, pa.float64()))


class Scrapes:
    """Scrapes to be put together at once: those of each target in order of time."""

    def __init__(self) -> None:
        self._slots: dict[str, dict[Slot, _Listed]] = defaultdict(lambda: defaultdict(_Listed))
        self._numbers: dict[str, dict[Subject, int]] = defaultdict(dict)
        self._whose: dict[str, list[Target]] = defaultdict(list)  # by table, the target of each number
        self._parts: dict[str, int] = {}
        self._models: dict[Subject, set[str]] = defaultdict(set)
        self.implausible = 0

    def add(self, target: Target, buckets: Sequence[Bucket]) -> None:
        """Take the next scrapes of a target, after that which it remembers."""
        if target.last:
            self._take(target, target.last_time, target.last.items())
        elif target.is_resumed:
            self._resume(target, buckets[0])
        before = target.last_time
        for bucket in buckets:
            self._take(target, bucket.time, bucket.values.items())
            if before >= 0:
                target.vote(bucket.time - before)
            before = bucket.time

    def rows(self) -> dict[ScrapeKey, dict[str, pa.Table]]:
        """Return the rows of every scrape by table; of one that has no scrape before it, there are none."""
        found: dict[ScrapeKey, dict[str, pa.Table]] = defaultdict(dict)
        for name, slots in self._slots.items():
            whose = self._whose[name]
            samples = {slot: listed.samples() for slot, listed in slots.items()}
            pivoted = pivot(samples, {number: target.step for number, target in enumerate(whose)})
            if pivoted is None:
                continue
            self.implausible += pivoted.implausible
            pivoted.columns.update(finish(name, pivoted.columns, len(pivoted.grid.keys)))
            columns = constants(self._numbers[name], self._models)
            told, subjects = rows_and_subjects(TABLES[name], pivoted, columns, -1, _FOREVER)
            for place, which in self._places(name, told, subjects).items():
                found[place][name] = told.take(pa.array(which, pa.int64()))
        return found

    def _take(self, target: Target, time: int, values: Iterable[tuple[Component, float]]) -> None:
        for component, value in values:
            slot = component.slot
            if slot.column != "known":
                number = self._number(target, component.subject)
                part = self._parts.setdefault(component.part, len(self._parts))
                if component.model:
                    self._models[component.subject].add(component.model)
                self._slots[slot.table][slot].add(number, part, time, value)

    def _resume(self, target: Target, bucket: Bucket) -> None:
        """After a restart only the time of the scrape before is known: rows begin there, and amounts are unknown."""
        for subject in {component.subject for component in bucket.values}:
            number = self._number(target, subject)
            listed = self._slots[subject.table][Slot(subject.table, "known")]
            listed.add(number, 0, target.last_time, 1.0)

    def _number(self, target: Target, subject: Subject) -> int:
        numbers = self._numbers[subject.table]
        number = numbers.get(subject)
        if number is None:
            number = numbers[subject] = len(numbers)
            self._whose[subject.table].append(target)
        return number

    def _places(self, table: str, told: pa.Table, subjects: Array) -> dict[ScrapeKey, list[int]]:
        """Return which rows are of which target and time."""
        whose = self._whose[table]
        places: dict[ScrapeKey, list[int]] = defaultdict(list)
        numbers: list[int] = subjects.to_pylist()
        ends: list[int] = told["ended_at"].to_pylist()  # type: ignore[assignment]
        for row, (number, ended_at) in enumerate(zip(numbers, ends, strict=True)):
            places[whose[number].stream, ended_at // 1000].append(row)
        return places


def batch_of(target: Target, time: int, tables: Mapping[str, pa.Table]) -> Batch:
    """Return the batch of one scrape. It is known by its target and time, so that it counts once however it is sent."""
    whole = {name: _one(rows) for name, rows in tables.items()}
    known_by = hashlib.sha256(f"{target.stream}:{time}".encode()).hexdigest()
    return encoded_batch(agent=target.agent, stream=target.stream, sequence=time, tables=whole, body_hash=known_by)


def _one(rows: pa.Table) -> pa.RecordBatch:
    return rows.combine_chunks().to_batches()[0]
