"""What is remembered of each scraped target between its scrapes: the last values, how often it is scraped, what waits.

All of it is bounded: so many series at once, and a target that has been silent for ten minutes is forgotten. Scrapes
that are whole, or have waited long enough, become batches: a row a subject, a batch a target and scrape.

What labels tell beside the samples, what a GPU is and who holds it, is told when it is first seen and when it changes.
Who holds a GPU is told again every few minutes with the time until which it was seen: the later word on an allocation
counts, and if we die none is left open for ever.
"""

import hashlib
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from agent.wire.tables import TABLES
from agent.wire.units import MILLISECOND_US
from collector.pipeline.batch_commit import Receipt
from collector.pipeline.decoding.arrow_messages import arrow_schema
from collector.pipeline.decoding.batch import Batch, encoded_batch
from collector.pipeline.decoding.validation import Array
from collector.prometheus.gathering import constants, leave_out_mixed
from collector.prometheus.labels import (
    Clusters,
    ExporterHolder,
    GpuFacts,
    Labels,
    ServedModels,
    Subject,
    gpu_facts,
    holder,
    model_of,
    part_of,
    run_of,
    subject,
    witness,
)
from collector.prometheus.names import MOST_BYTES, RANK, Slot, catalogue, finish
from collector.prometheus.pivot import LONGEST_STEP, REACH, Samples, pivot, plausible_step, rows_and_subjects
from collector.prometheus.request import Pending

STREAM = "prometheus-write:"
_SILENT_SECONDS = 600.0
_MOST_VOTES = 20  # for one time between scrapes, so that another can win


class Component:
    """One number of one subject, or a part of it: what is counted on from scrape to scrape.

    A plain class, since its hash is asked for with every sample and is worth keeping.
    """

    __slots__ = ("_hash", "model", "part", "slot", "subject")

    def __init__(self, slot: Slot, subject: Subject, part: str, model: str | None = None) -> None:
        self.slot = slot
        self.subject = subject
        self.part = part
        self.model = model  # of a service; the part has it too
        self._hash = hash((slot, subject, part))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Component):
            return NotImplemented
        return (self.slot, self.subject, self.part) == (other.slot, other.subject, other.part)


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a series means. `facts` and `holder` are of the GPU that it is of."""

    stream: str  # of the target
    agent: str
    rank: int  # of the exporter, among those of the same GPU
    components: tuple[Component, ...]
    facts: GpuFacts | None
    holder: ExporterHolder | None


def meaning(labels: Labels, clusters: Clusters) -> Meaning | None:
    """Return what a series means, or None where the contract has no word for it."""
    metric = catalogue().get(labels.get("__name__", ""))
    if metric is None:
        return None
    found = []
    for slot in metric.slots:
        whose = subject(metric, slot, labels, clusters)
        if whose is not None:
            found.append(Component(slot, whose, part_of(slot, labels), model_of(slot, labels)))
    if not found:
        return None
    of_gpu = found[0].slot.table == "gpu_samples"
    instance = labels.get("instance") or found[0].subject.node
    who = witness(labels, of_gpu=False) if of_gpu else ""  # replicas that write alike are scrapers of their own
    return Meaning(
        stream=_stream(instance, labels.get("job", ""), metric.exporter.split()[0] + who),
        agent="".join(letter if letter.isprintable() else "?" for letter in f"prometheus:{instance}"[:200]),
        rank=RANK[metric.exporter],
        components=tuple(found),
        facts=gpu_facts(labels) if of_gpu else None,
        holder=holder(labels) if of_gpu else None,
    )


@dataclass(slots=True, eq=False)
class Settling:
    """A batch on its way into the store. It is kept until it is there: who sent it may have to send it again."""

    batch: Batch
    receipt: Future[Receipt] | None = None


@dataclass(slots=True, eq=False)
class Bucket:
    """One scrape of a target, as far as it has come; NaN is the mark of a series that ended."""

    time: int  # milliseconds UTC
    due: float  # when it waits no longer, by the monotonic clock
    values: dict[Component, float] = field(default_factory=dict)
    facts: dict[Subject, GpuFacts] = field(default_factory=dict)
    holders: dict[Subject, set[ExporterHolder]] = field(default_factory=dict)
    waiting: set[Pending] = field(default_factory=set)


@dataclass(slots=True, eq=False)
class Target:
    """One scraped target, by its instance, its job and its exporter."""

    stream: str
    agent: str
    heard_at: float
    last_time: int = -1  # of the last scrape that was put together, milliseconds UTC
    last: dict[Component, float] = field(default_factory=dict)
    is_resumed: bool = False  # `last_time` is from the store, and `last` is not known
    buckets: dict[int, Bucket] = field(default_factory=dict)
    unsettled: list[Settling] = field(default_factory=list)
    step_seconds: int = 0
    votes: int = 0

    def is_whole(self, bucket: Bucket) -> bool:
        """Whether everything has come that came the last time."""
        return bool(self.last) and len(bucket.values) >= len(self.last) and self.last.keys() <= bucket.values.keys()

    def vote(self, milliseconds: int) -> None:
        """Count one time between two scrapes; what most of them are is the scrape interval (Boyer and Moore's vote)."""
        seconds = max(1, round(milliseconds / 1000))
        if seconds == self.step_seconds:
            self.votes = min(self.votes + 1, _MOST_VOTES)
        elif self.votes == 0:
            self.step_seconds, self.votes = seconds, 1
        else:
            self.votes -= 1

    @property
    def step(self) -> int:
        """The time between two scrapes, milliseconds."""
        return plausible_step(self.step_seconds)


@dataclass(slots=True)
class _Witness:
    """Who is believed of a GPU: the rank of its exporter, its stream, its last sample (milliseconds UTC)."""

    rank: int
    stream: str
    last: int
    heard_at: float  # by the monotonic clock


class Targets:
    """All targets, the one that was heard last at the end."""

    def __init__(self, most_series: int, resumed: Mapping[str, int]) -> None:
        self._most_series = most_series
        self._resumed = dict(resumed)
        self._targets: OrderedDict[str, Target] = OrderedDict()
        self._believed: dict[str, _Witness] = {}  # by GPU
        self.series = 0

    def __len__(self) -> int:
        return len(self._targets)

    def of(self, found: Meaning, now: float) -> Target | None:
        """Return the target of a series, or None where there are too many series to remember another target."""
        target = self._targets.get(found.stream)
        if target is None:
            self.forget_silent(now)
            if self.series >= self._most_series:
                return None
            target = self._targets[found.stream] = Target(found.stream, found.agent, now)
            before = self._resumed.pop(found.stream, None)
            if before is not None:
                target.last_time, target.is_resumed = before, True
        target.heard_at = now
        self._targets.move_to_end(found.stream)
        return target

    def believes(self, found: Meaning, first: int, last: int, now: float) -> bool:
        """Whether a GPU is believed of whoever speaks of it from a time until a time, milliseconds UTC.

        It is of its best exporter, and of several scrapers of that one of one, until it is silent for longer than its
        scrapes are apart.
        """
        uuid = found.components[0].subject.key("gpu_uuid") if found.facts is not None else None
        if uuid is None:
            return True
        known = self._believed.get(uuid)
        if known is not None and known.stream != found.stream:
            if found.rank > known.rank and now - known.heard_at < _SILENT_SECONDS:
                return False
            target = self._targets.get(known.stream)
            apart = target.step if target is not None and target.step_seconds else LONGEST_STEP
            if found.rank == known.rank and first - known.last <= 2 * REACH * apart:
                return False
        if known is None or known.stream != found.stream:
            self._believed[uuid] = _Witness(found.rank, found.stream, last, now)
        else:
            known.last, known.heard_at = max(known.last, last), now
        return True

    def remembers(self, target: Target, last: dict[Component, float]) -> None:
        """Keep the values of a scrape for the next."""
        self.series += len(last) - len(target.last)
        target.last, target.is_resumed = last, False

    def forget_silent(self, now: float) -> list[Target]:
        """Forget who has been silent for long, and return them; one that has something unsettled is kept."""
        gone: list[Target] = []
        for target in self._targets.values():
            if now - target.heard_at < _SILENT_SECONDS:
                break
            if not target.buckets and not target.unsettled:
                gone.append(target)
        for target in gone:
            del self._targets[target.stream]
            self.series -= len(target.last)
        if gone:
            old = [uuid for uuid, one in self._believed.items() if now - one.heard_at >= _SILENT_SECONDS]
            for uuid in old:
                del self._believed[uuid]
        return gone


def _stream(instance: str, job: str, exporter: str) -> str:
    named = f"{instance}\0{job}\0{exporter}".encode()
    return f"{STREAM}{hashlib.blake2b(named, digest_size=16).hexdigest()}"


_AGAIN = 300_000  # milliseconds between two words on who holds a GPU

_LabelRow = dict[str, Any]


@dataclass(slots=True)
class _Spell:
    started_at: int
    seen_until: int
    told_until: int = -1


@dataclass(slots=True)
class _OfGpu:
    facts: tuple[object, ...] = ()
    spells: dict[ExporterHolder, _Spell] = field(default_factory=dict)


class LabelMemory:
    """What was last told of each GPU."""

    def __init__(self, clusters: Clusters) -> None:
        self._clusters = clusters
        self._gpus: dict[str, dict[Subject, _OfGpu]] = defaultdict(dict)  # by target

    def with_facts(self, target: Target, bucket: Bucket, tables: Mapping[str, pa.Table]) -> Mapping[str, pa.Table]:
        """Return the tables of a scrape with what is new in its labels. Without a row of a GPU nothing is told."""
        if "gpu_samples" not in tables:
            return tables
        since = {
            (row["node"], row["gpu_uuid"]): row["started_at"] // MILLISECOND_US
            for row in tables["gpu_samples"].select(["node", "gpu_uuid", "started_at"]).to_pylist()
        }
        gpus = self._gpus[target.stream]
        inventory: list[_LabelRow] = []
        allocations: list[_LabelRow] = []
        for found, facts in bucket.facts.items():
            begin = since.get((found.node, found.key("gpu_uuid") or ""))
            if begin is None:
                continue
            gpu = gpus.setdefault(found, _OfGpu())
            told = (facts, _memory(found, bucket))
            if told != gpu.facts:
                gpu.facts = told
                span = {"started_at": begin * MILLISECOND_US, "ended_at": bucket.time * MILLISECOND_US}
                inventory.append(facts.inventory(found, told[1]) | span)
            allocations += self._held(found, gpu, bucket.holders.get(found, set()), begin, bucket.time)
        further = {"inventory": inventory, "allocations": allocations}
        schemas = {name: arrow_schema(TABLES[name]) for name in further}
        new = {name: pa.Table.from_pylist(rows, schema=schemas[name]) for name, rows in further.items() if rows}
        return {**tables, **new}

    def forget(self, target: Target) -> None:
        """Forget a target's GPUs."""
        self._gpus.pop(target.stream, None)

    def _held(self, found: Subject, gpu: _OfGpu, now: set[ExporterHolder], begin: int, time: int) -> list[_LabelRow]:
        """Return what is to be told of a GPU's holders: who is new, who has gone, and the others now and then."""
        rows: list[_LabelRow] = []
        for who in [one for one in gpu.spells if one not in now or gpu.spells[one].seen_until < begin]:
            spell = gpu.spells.pop(who)
            if spell.told_until < spell.seen_until:
                rows.append(self._row(found, who, spell))
        for who in sorted(now, key=str):
            spell = gpu.spells.setdefault(who, _Spell(begin, time))
            spell.seen_until = time
            if spell.told_until < 0 or time - spell.told_until >= _AGAIN:
                spell.told_until = time
                rows.append(self._row(found, who, spell))
        return rows

    def _row(self, found: Subject, who: ExporterHolder, spell: _Spell) -> _LabelRow:
        run_id, scheduler, member = run_of(who, self._clusters)
        return {
            "node": found.node,
            "gpu_uuid": found.key("gpu_uuid"),
            "started_at": spell.started_at * MILLISECOND_US,
            "ended_at": spell.seen_until * MILLISECOND_US,
            "run_id": run_id,
            "member": member,
            "scheduler": scheduler,
            "account": who.namespace,
            "name": who.pod,
        }


def _memory(found: Subject, bucket: Bucket) -> int | None:
    """Return the device memory of a GPU as a scrape says it, or None where it does not."""
    said: dict[str, float] = {}
    for component, value in bucket.values.items():
        if component.subject == found and component.slot.column.startswith("memory_") and 0 <= value < MOST_BYTES:
            said[component.slot.column] = value * component.slot.by / component.slot.times
    if any(value >= MOST_BYTES for value in said.values()):
        return None
    if "memory_bytes" in said:
        return int(said["memory_bytes"])
    if "memory_free_bytes" in said and "memory_used_bytes" in said:
        return int(said["memory_free_bytes"] + said["memory_used_bytes"] + said.get("memory_reserved_bytes", 0.0))
    return None


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
        self._models = ServedModels()
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
            leave_out_mixed(pivoted, self._numbers[name], self._models)
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
                self._models.note(component.subject, slot, component.model)
                self._slots[slot.table][slot].add(number, part, time, value)

    def _resume(self, target: Target, bucket: Bucket) -> None:
        """After a restart only the time of the scrape before is known: rows begin there, and amounts are unknown."""
        for which in {component.subject for component in bucket.values}:
            number = self._number(target, which)
            listed = self._slots[which.table][Slot(which.table, "known")]
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
    whole = {name: rows.combine_chunks().to_batches()[0] for name, rows in tables.items()}
    known_by = hashlib.sha256(f"{target.stream}:{time}".encode()).hexdigest()
    return encoded_batch(agent=target.agent, stream=target.stream, sequence=time, tables=whole, body_hash=known_by)
