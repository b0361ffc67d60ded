"""Answers of one window put together: which series is of which subject, and the rows that follow.

And who held a GPU when, by the labels of its exporter: stretches of scrapes that name the same holder.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from itertools import pairwise
from typing import Any

import pyarrow as pa

from agent.wire.serving import REQUESTS
from agent.wire.tables import TABLES
from agent.wire.units import MILLISECOND_US
from collector.pipeline.decoding.arrow_messages import arrow_schema
from collector.pipeline.decoding.validation import Array, pc
from collector.prometheus.client import SeriesAnswer
from collector.prometheus.labels import (
    DEFAULT,
    Clusters,
    ExporterHolder,
    GpuFacts,
    ServedModels,
    Subject,
    gpu_facts,
    holder,
    model_of,
    part_of,
    subject,
    target_pod,
    witness,
)
from collector.prometheus.names import RANK, Metric, Slot, finish, memory_bytes
from collector.prometheus.pivot import LONGEST_STEP, REACH, Pivoted, Samples, pivot, rows, shifted

_ZERO = pa.scalar(0, pa.int64())


@dataclass(slots=True)
class LabelledGpu:
    """What is known of one GPU by its labels and by metrics that are facts."""

    facts: GpuFacts
    rank: int  # of the exporter that is believed
    memory_bytes: int | None = None
    power_limit_watts: float | None = None


@dataclass(slots=True)
class Gathered:
    """The rows of one window by table, how many values were not believed, and the GPUs as found."""

    tables: dict[str, pa.Table] = field(default_factory=dict)
    implausible: int = 0
    gpus: dict[Subject, LabelledGpu] = field(default_factory=dict)


Witnesses = dict[Subject, list[str]]  # who scraped a subject; the first is believed, the others in its gaps


class Gathering:
    """Takes the answers about many metrics over one window. Exporters of a better rank are to be added first."""

    def __init__(
        self,
        nodes: frozenset[str] = frozenset(),
        names: Mapping[str, str] | None = None,
        clusters: Clusters = DEFAULT,
        witnesses: Witnesses | None = None,
    ) -> None:
        """`nodes` are the hosts with GPUs: of others nothing is taken. `names` has hosts by their instance label.

        `witnesses` are kept from window to window, so that the same one is believed.
        """
        self._witnesses = {} if witnesses is None else witnesses
        self._scraped: dict[str, dict[int, dict[str, list[Array]]]] = defaultdict(
            dict
        )  # times by table, subject, witness
        self.strangers: set[str] = set()
        self.nameless: set[str] = set()  # addresses of services whose run no label names
        self._clusters = clusters
        self.models = ServedModels()
        self._nodes = nodes
        self._names = names or {}
        self._numbers: dict[str, dict[Subject, int]] = defaultdict(dict)
        self._parts: dict[str, int] = {}
        self._samples: dict[str, dict[Slot, list[Samples]]] = defaultdict(lambda: defaultdict(list))
        self._known: dict[Subject, LabelledGpu] = {}
        self._believed: dict[str, int] = {}  # rank by GPU

    def add(self, metric: Metric, answer: SeriesAnswer) -> None:
        """Take all series of one metric."""
        for slot in metric.slots:
            subjects = [self._number(metric, slot, labels) for labels in answer.labels]
            if slot.column == "known" or all(number < 0 for number in subjects):
                continue
            parts = [self._part(part_of(slot, labels)) if slot.parts else 0 for labels in answer.labels]
            whose = repeated_values(subjects, answer.lengths)
            which = repeated_values(parts, answer.lengths) if slot.parts else pa.repeat(_ZERO, len(answer.times))
            found = Samples(whose, which, answer.times, answer.values)
            if min(subjects) < 0:
                found = found.filtered(pc.greater_equal(whose, 0))
            self._samples[slot.table][slot].append(found)
            self._note_witnesses(slot.table, subjects, answer, found)

    def rows(self, since: int, until: int, steps: Mapping[str, int] | None = None) -> Gathered:
        """Return the rows whose scrapes lie in (since, until], milliseconds UTC; `steps` are by table, where known."""
        gathered = Gathered(gpus=self._known)
        for name, slots in self._samples.items():
            numbers = self._numbers[name]
            kept = self._kept(name, until, (steps or {}).get(name))
            joined = {slot: _joined([_of_witnesses(one, kept) for one in found]) for slot, found in slots.items()}
            step = (steps or {}).get(name)
            pivoted = pivot(joined, None if step is None else dict.fromkeys(numbers.values(), step))
            if pivoted is not None:
                pivoted.columns.update(self._finished(name, pivoted))
                leave_out_mixed(pivoted, numbers, self.models)
                gathered.tables[name] = rows(TABLES[name], pivoted, constants(numbers, self.models), since, until)
                gathered.implausible += pivoted.implausible
        return gathered

    def _note_witnesses(self, table: str, subjects: Sequence[int], answer: SeriesAnswer, found: Samples) -> None:
        """Keep who scraped what when, by the metric of which each has most."""
        times: dict[tuple[int, str], list[Array]] = defaultdict(list)
        at = 0
        for number, labels, length in zip(subjects, answer.labels, answer.lengths, strict=True):
            if number >= 0 and length:
                who = witness(labels, table == "gpu_samples", self._clusters.of_targets)
                times[number, who].append(found.times.slice(at, length))
                found.series.append((number, who, length))
                at += length
        for (number, who), slices in times.items():
            known = self._scraped[table].setdefault(number, {})
            if sum(map(len, slices)) > sum(map(len, known.get(who, ()))):
                known[who] = slices

    def _kept(self, table: str, until: int, step: int | None) -> dict[int, dict[str, Array | None]]:
        """Return of each subject with several witnesses which times of each are believed; None is all of them."""
        found: dict[int, dict[str, Array | None]] = {}
        subjects = list(self._numbers[table])
        for number, scraped in self._scraped[table].items():
            order = self._witnesses.setdefault(subjects[number], [])
            new = scraped.keys() - set(order)
            if len(scraped) == 1:
                order += new
                continue
            times = {who: sorted({at for one in slices for at in one.to_pylist()}) for who, slices in scraped.items()}
            order += sorted(new, key=lambda who: (-len(times[who]), who))
            found[number] = believed_times({who: times[who] for who in order if who in times}, until, step)
        return found

    def _number(self, metric: Metric, slot: Slot, labels: Mapping[str, str]) -> int:
        """Return the number of a series' subject in its table, or -1 where it is not read."""
        if metric.exporter == "node_exporter" and labels.get("instance") in self._names:
            labels = {"node": self._names[labels["instance"]], **labels}
        found = subject(metric, slot, labels, self._clusters)
        if metric.exporter == "serving":
            self._note_service(found, slot, labels)
        if found is None:
            return -1
        if metric.exporter == "node_exporter" and found.node not in self._nodes:
            self.strangers.add(found.node)
            return -1
        if slot.table == "gpu_samples" and not self._is_believed(metric, found, labels):
            return -1
        numbers = self._numbers[slot.table]
        return numbers.setdefault(found, len(numbers))

    def _note_service(self, found: Subject | None, slot: Slot, labels: Mapping[str, str]) -> None:
        if found is None:
            if not labels.get("run_id") and holder(labels) is None:
                self.nameless.add(labels.get("instance", ""))
        else:
            self.models.note(found, slot, model_of(slot, labels))

    def _is_believed(self, metric: Metric, found: Subject, labels: Mapping[str, str]) -> bool:
        """Whether the GPU's best exporter says this; if so, what its labels say is kept."""
        rank = RANK[metric.exporter]
        if self._believed.setdefault(found.key("gpu_uuid") or "", rank) != rank:
            return False
        if found not in self._known or metric.slots[0].column == "known":
            self._known[found] = LabelledGpu(gpu_facts(labels), rank)
        return True

    def _part(self, name: str) -> int:
        return self._parts.setdefault(name, len(self._parts))

    def _finished(self, table: str, pivoted: Pivoted) -> dict[str, Array]:
        if table == "gpu_samples":
            self._note_facts(pivoted)
        return finish(table, pivoted.columns, len(pivoted.grid.keys))

    def _note_facts(self, pivoted: Pivoted) -> None:
        """Keep the largest of what is a fact of a GPU and comes as a metric."""
        by_number = {number: found for found, number in self._numbers["gpu_samples"].items()}
        held = {
            "memory_bytes": memory_bytes(pivoted.columns),
            "power_limit_watts": pivoted.columns.get("power_limit_watts"),
        }
        for name, values in held.items():
            if values is None:
                continue
            most = (
                pa.table({"subject": pivoted.grid.subjects, "value": values})
                .group_by("subject")
                .aggregate([("value", "max")])
            )
            whose: list[Any] = most["subject"].to_pylist()
            for number, value in zip(whose, most["value_max"].to_pylist(), strict=True):
                known = self._known.get(by_number[number])
                if known is not None and value is not None:
                    setattr(known, name, int(value) if name == "memory_bytes" else value)


def inventory(gpus: Mapping[Subject, LabelledGpu], started_at: int, ended_at: int) -> pa.Table:
    """Return a row of `inventory` for each GPU as found, over a span in microseconds UTC."""
    told = [
        known.facts.inventory(found, known.memory_bytes)
        | {"started_at": started_at, "ended_at": ended_at, "power_limit_watts": known.power_limit_watts}
        for found, known in gpus.items()
    ]
    return pa.Table.from_pylist(told, schema=arrow_schema(TABLES["inventory"]))


def repeated_values(values: list[int], lengths: Iterable[int]) -> Array:
    """Return each value as often as its length says, int64."""
    ends, total = [], 0
    kept = []
    for value, length in zip(values, lengths, strict=True):
        total += length
        if length:
            ends.append(total)
            kept.append(value)
    if not kept:
        return pa.array([], pa.int64())
    return pc.run_end_decode(pa.RunEndEncodedArray.from_arrays(pa.array(ends, pa.int64()), pa.array(kept, pa.int64())))


def believed_times(scraped: Mapping[str, list[int]], until: int, step: int | None) -> dict[str, Array | None]:
    """Return which times of each witness are believed: all of the first (None), of the next those in the gaps.

    `scraped` has the times of each, milliseconds UTC, ascending, none twice. A gap is longer than scrapes are apart; at
    the end of a window there is one only where the next scrape can no longer come in time.
    """
    kept: dict[str, Array | None] = {}
    chosen: list[int] = []
    for who, times in scraped.items():
        if not chosen:
            kept[who], chosen = None, times
            apart = sorted(after - before for before, after in pairwise(chosen))
            reach = (step or (apart[len(apart) // 2] if apart else LONGEST_STEP)) * REACH
            continue
        edges = [-1, *chosen, until + 1 if until - chosen[-1] > reach else chosen[-1]]
        more: list[int] = []
        for before, after in pairwise(edges):
            if before < 0 or after > until or after - before > reach:
                more += times[bisect_right(times, before) : bisect_left(times, after)]
        kept[who] = pa.array(more, pa.int64())
        chosen = sorted({*chosen, *more})
    return kept


def _of_witnesses(found: Samples, kept: Mapping[int, Mapping[str, Array | None]]) -> Samples:
    """Return those samples whose witness is believed at their time."""
    at = 0
    masks: list[Array] = []
    for number, who, length in found.series:
        times = kept.get(number, {}).get(who)
        if times is None:
            masks.append(pa.repeat(pa.scalar(True), length))
        else:
            masks.append(pc.is_in(found.times.slice(at, length), value_set=times))
        at += length
    if not kept or not masks:
        return found
    return found.filtered(pa.concat_arrays(masks))


def _joined(found: list[Samples]) -> Samples:
    if len(found) == 1:
        return found[0]
    return Samples(
        *(pa.concat_arrays([getattr(one, name) for one in found]) for name in ("subjects", "parts", "times", "values"))
    )


def leave_out_mixed(pivoted: Pivoted, numbers: Mapping[Subject, int], models: ServedModels) -> None:
    """Forget the requests of services of which nobody says which model's count: an ensemble's, or its members'."""
    if mixed := [numbers[found] for found in models.mixed if found in numbers]:
        is_mixed = pc.is_in(pivoted.grid.subjects, value_set=pa.array(mixed, pa.int64()))
        for name in pivoted.columns.keys() & set(REQUESTS):
            values = pivoted.columns[name]
            pivoted.columns[name] = pc.if_else(is_mixed, pa.scalar(None, values.type), values)


def constants(numbers: Mapping[Subject, int], models: ServedModels) -> dict[str, Array]:
    """Return the columns that say of what a row is, by the subject's number."""
    columns = {name for found in numbers for name, _ in found.keys}
    told = {name: pa.array([found.key(name) for found in numbers], pa.string()) for name in columns}
    if models:
        told["model"] = pa.array([models.one(found) for found in numbers], pa.string())
    return told | {"node": pa.array([found.node for found in numbers], pa.string())}


_TEXTS = ("namespace", "pod", "container", "hpc_job")
_SCHEMA = pa.schema(
    {name: pa.string() for name in ("node", "gpu_uuid")}
    | {name: pa.int64() for name in ("started_at", "ended_at")}
    | {name: pa.string() for name in _TEXTS}
)


class Holders:
    """Collects stretches, window after window; those that meet become one."""

    def __init__(self, step: int, witnesses: Witnesses | None = None) -> None:
        self._step = step
        self._witnesses = {} if witnesses is None else witnesses
        self._targets: set[tuple[str, str]] = set()  # pods that labels have proven to be targets
        self._spells: dict[tuple[Subject, ExporterHolder], list[list[int]]] = {}

    def add(self, metric: Metric, answer: SeriesAnswer, clusters: Clusters = DEFAULT) -> None:
        """Take the series of a metric that every GPU has."""
        self._targets |= {pod for labels in answer.labels if (pod := target_pod(labels))}
        slot = metric.slots[0]
        pairs = [(subject(metric, slot, labels, clusters), holder(labels, clusters)) for labels in answer.labels]
        pairs = [
            (found, who if is_ours else None)
            for (found, who), is_ours in zip(pairs, self._ours(pairs, answer, clusters), strict=True)
        ]
        names = list(dict.fromkeys((s, h) for s, h in pairs if s is not None and h is not None))
        if not names:
            return
        number: dict[Any, int] = {pair: index for index, pair in enumerate(names)}
        whose = repeated_values([number.get(pair, -1) for pair in pairs], answer.lengths)
        table = pa.table({"whose": whose, "time": answer.times}).filter(
            pc.fill_null(pc.is_finite(answer.values), False)
        )
        for index, first, last in _stretches(table.filter(pc.greater_equal(table["whose"], 0)), self._step * REACH):
            self._note(names[index], first, last)

    def _ours(
        self, pairs: Sequence[tuple[Subject | None, object]], answer: SeriesAnswer, clusters: Clusters
    ) -> Iterator[bool]:
        """Yield of each series whether its witness is the one of its subject that is believed, where it is there."""
        seen: dict[Subject, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        names = [witness(labels, of_gpu=True, of_targets=clusters.of_targets) for labels in answer.labels]
        for (found, _), name, length in zip(pairs, names, answer.lengths, strict=True):
            if found is not None:
                seen[found][name] += length
        best: dict[Subject, str] = {}
        for found, lengths in seen.items():
            order = self._witnesses.get(found, [])
            best[found] = next((name for name in order if lengths.get(name)), "") or max(
                lengths, key=lambda name: (lengths[name], name)
            )
        return (found is None or best[found] == name for (found, _), name in zip(pairs, names, strict=True))

    def table(self) -> pa.Table:
        """Return all stretches; each begins one scrape interval before the first scrape that names the holder."""
        rows = [
            (
                found.node,
                found.key("gpu_uuid"),
                (first - self._step) * MILLISECOND_US,
                last * MILLISECOND_US,
                *astuple(who),
            )
            for (found, who), spells in self._spells.items()
            if (who.namespace or "", who.pod) not in self._targets or who.hpc_job
            for first, last in spells
        ]
        rows.sort(key=lambda row: tuple(str(value) for value in row[:2]) + row[2:4])
        columns = list(zip(*rows, strict=True)) or [()] * len(_SCHEMA)
        return pa.table({name: list(column) for name, column in zip(_SCHEMA.names, columns, strict=True)}, _SCHEMA)

    def _note(self, pair: tuple[Subject, ExporterHolder], first: int, last: int) -> None:
        spells = self._spells.setdefault(pair, [])
        if spells and first - spells[-1][1] <= self._step * REACH:
            spells[-1][1] = max(spells[-1][1], last)
        else:
            spells.append([first, last])


def _stretches(table: pa.Table, reach: float) -> list[tuple[int, int, int]]:
    """Return (whose, first, last) of each run of scrapes without a gap."""
    table = table.sort_by([("whose", "ascending"), ("time", "ascending")]).combine_chunks()
    if not table.num_rows:
        return []
    whose, time = table["whose"].combine_chunks(), table["time"].combine_chunks()
    distance = pc.cast(pc.subtract(time, shifted(time)), pa.float64())
    goes_on = pc.and_(pc.equal(whose, shifted(whose)), pc.less_equal(distance, reach))
    starts = pc.invert(pc.fill_null(goes_on, False))
    ends = pa.concat_arrays([starts.slice(1), pa.array([True])])
    told: list[list[Any]] = [
        array.to_pylist() for array in (whose.filter(starts), time.filter(starts), time.filter(ends))
    ]
    return list(zip(*told, strict=True))
