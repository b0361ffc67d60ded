"""What labels tell beside the samples of a scrape: what a GPU is, and who holds it.

Both are told when they are first seen and when they change. Who holds a GPU is told again every few minutes with the
time until which it was seen: the later word on an allocation counts, and if we die none is left open for ever.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from agent.wire.tables import TABLES
from agent.wire.units import MILLISECOND_US
from collector.pipeline.decoding.arrow_messages import arrow_schema
from collector.prometheus.derived import MOST_BYTES
from collector.prometheus.labels import Clusters, ExporterHolder, Subject, run_of
from collector.prometheus.targets import Bucket, Target

_AGAIN = 300_000  # milliseconds between two words on who holds a GPU

LabelRow = dict[str, Any]


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
        inventory: list[LabelRow] = []
        allocations: list[LabelRow] = []
        for found, facts in bucket.facts.items():
            begin = since.get((found.node, found.key("gpu_uuid") or ""))
            if begin is None:
                continue
            gpu = gpus.setdefault(found, _OfGpu())
            told = (facts, _memory(found, bucket))
            if told != gpu.facts:
                gpu.facts = told
                inventory.append(_inventory(found, *told, begin, bucket.time))
            allocations += self._held(found, gpu, bucket.holders.get(found, set()), begin, bucket.time)
        further = {"inventory": inventory, "allocations": allocations}
        return {**tables, **{name: _table(name, rows) for name, rows in further.items() if rows}}

    def forget(self, target: Target) -> None:
        """Forget a target's GPUs."""
        self._gpus.pop(target.stream, None)

    def _held(self, found: Subject, gpu: _OfGpu, now: set[ExporterHolder], begin: int, time: int) -> list[LabelRow]:
        """Return what is to be told of a GPU's holders: who is new, who has gone, and the others now and then."""
        rows: list[LabelRow] = []
        for holder in [one for one in gpu.spells if one not in now or gpu.spells[one].seen_until < begin]:
            spell = gpu.spells.pop(holder)
            if spell.told_until < spell.seen_until:
                rows.append(self._row(found, holder, spell))
        for holder in sorted(now, key=str):
            spell = gpu.spells.setdefault(holder, _Spell(begin, time))
            spell.seen_until = time
            if spell.told_until < 0 or time - spell.told_until >= _AGAIN:
                spell.told_until = time
                rows.append(self._row(found, holder, spell))
        return rows

    def _row(self, found: Subject, holder: ExporterHolder, spell: _Spell) -> LabelRow:
        run_id, scheduler, member = run_of(holder, self._clusters)
        return {
            "node": found.node,
            "gpu_uuid": found.key("gpu_uuid"),
            "started_at": spell.started_at * MILLISECOND_US,
            "ended_at": spell.seen_until * MILLISECOND_US,
            "run_id": run_id,
            "member": member,
            "scheduler": scheduler,
            "account": holder.namespace,
            "name": holder.pod,
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


def _inventory(found: Subject, facts: Any, memory: int | None, begin: int, time: int) -> LabelRow:  # noqa: ANN401
    return {
        "node": found.node,
        "started_at": begin * MILLISECOND_US,
        "ended_at": time * MILLISECOND_US,
        "gpu_uuid": found.key("gpu_uuid"),
        "parent_uuid": found.key("parent_uuid"),
        "gpu_index": facts.index,
        "pci_bus_id": facts.pci_bus_id,
        "sku": facts.sku(memory),
        "memory_bytes": memory,
        "mig_slices": facts.mig_slices,
        "mig_slices_max": facts.mig_slices_max,
        "driver_version": facts.driver_version,
    }


def _table(name: str, rows: Sequence[LabelRow]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=arrow_schema(TABLES[name]))
