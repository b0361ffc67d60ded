"""Answers of one window put together: which series is of which subject, and the rows that follow."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from agent.wire.tables import TABLES
from collector.pipeline.decoding.arrow_messages import arrow_schema
from collector.pipeline.decoding.range_checks import Array, pc
from collector.prometheus.answer import SeriesAnswer
from collector.prometheus.derived import finish, memory_bytes
from collector.prometheus.labels import (
    DEFAULT,
    Clusters,
    GpuFacts,
    Subject,
    gpu_facts,
    holder,
    model_of,
    one_model,
    part_of,
    subject,
)
from collector.prometheus.names import RANK, Metric, Slot
from collector.prometheus.pivot import Pivoted, Samples, pivot, rows

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


class Gathering:
    """Takes the answers about many metrics over one window. Exporters of a better rank are to be added first."""

    def __init__(
        self,
        nodes: frozenset[str] = frozenset(),
        names: Mapping[str, str] | None = None,
        clusters: Clusters = DEFAULT,
    ) -> None:
        """`nodes` are the hosts with GPUs: of others nothing is taken. `names` has hosts by their instance label."""
        self.strangers: set[str] = set()
        self.nameless: set[str] = set()  # addresses of services whose run no label names
        self._clusters = clusters
        self._models: dict[Subject, set[str]] = defaultdict(set)
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
                ours = pc.greater_equal(whose, 0)
                found = Samples(*(a.filter(ours) for a in (whose, which, answer.times, answer.values)))
            self._samples[slot.table][slot].append(found)

    def rows(self, since: int, until: int, steps: Mapping[str, int] | None = None) -> Gathered:
        """Return the rows whose scrapes lie in (since, until], milliseconds UTC; `steps` are by table, where known."""
        gathered = Gathered(gpus=self._known)
        for name, slots in self._samples.items():
            joined = {slot: _joined(found) for slot, found in slots.items()}
            numbers = self._numbers[name]
            step = (steps or {}).get(name)
            pivoted = pivot(joined, None if step is None else dict.fromkeys(numbers.values(), step))
            if pivoted is not None:
                pivoted.columns.update(self._finished(name, pivoted))
                gathered.tables[name] = rows(TABLES[name], pivoted, self._constants(name), since, until)
                gathered.implausible += pivoted.implausible
        return gathered

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
        elif model := model_of(slot, labels):
            self._models[found].add(model)

    def _constants(self, table: str) -> dict[str, Array]:
        """Return the columns that say of what a row is, by the subject's number."""
        return constants(self._numbers[table], self._models)

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
        {
            "node": found.node,
            "started_at": started_at,
            "ended_at": ended_at,
            "gpu_uuid": found.key("gpu_uuid"),
            "parent_uuid": found.key("parent_uuid"),
            "gpu_index": known.facts.index,
            "pci_bus_id": known.facts.pci_bus_id,
            "sku": known.facts.sku(known.memory_bytes),
            "memory_bytes": known.memory_bytes,
            "mig_slices": known.facts.mig_slices,
            "mig_slices_max": known.facts.mig_slices_max,
            "power_limit_watts": known.power_limit_watts,
            "driver_version": known.facts.driver_version,
        }
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


def _joined(found: list[Samples]) -> Samples:
    if len(found) == 1:
        return found[0]
    return Samples(
        *(pa.concat_arrays([getattr(one, name) for one in found]) for name in ("subjects", "parts", "times", "values"))
    )


def constants(numbers: Mapping[Subject, int], models: Mapping[Subject, Collection[str]]) -> dict[str, Array]:
    """Return the columns that say of what a row is, by the subject's number."""
    columns = {name for found in numbers for name, _ in found.keys}
    told = {name: pa.array([found.key(name) for found in numbers], pa.string()) for name in columns}
    if models:
        told["model"] = pa.array([one_model(models.get(found, ())) for found in numbers], pa.string())
    return told | {"node": pa.array([found.node for found in numbers], pa.string())}
