"""The same readings under dcgm-exporter's names and labels, so that dashboards made for it work unchanged.

One thing is not like there: a GPU that several runs share bears no run's labels, rather than one series for each of
them. Sums over GPUs stay true; who the sharers are says gpuledger_gpu_run_info.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from prometheus_client import Metric

from agent.config import DcgmNames
from agent.metrics.snapshot import LabelledHolder, View, family, label
from agent.source import Row, Value
from agent.wire.dcgm import Field, Unit, fields
from agent.wire.units import GIB, SECOND_US

# The labels that dcgm-exporter puts on every series of a GPU.
_MIG_PARTS = 8  # of a GPU's memory; a MIG profile is named by whole parts

_Named = dict[str, str]


def _gpu_labels(row: Row, gpu: Row, whole: Row) -> dict[str, _Named]:
    """Return the labels of a GPU under each set of names. `whole` is the GPU that a MIG instance is a part of."""
    index = label(gpu.get("gpu_index"))
    named = {
        "gpu": index,
        "UUID": label(whole.get("gpu_uuid") or row.get("parent_uuid")),
        "pci_bus_id": bus_id(label(whole.get("pci_bus_id"))),
        "device": f"nvidia{index}",
        "modelName": label(gpu.get("sku")),
    }
    if row.get("parent_uuid"):
        named |= {"GPU_I_PROFILE": mig_profile(gpu, whole), "GPU_I_ID": label(row.get("gpu_uuid"))}
    node, driver = label(row.get("node")), label(gpu.get("driver_version"))
    legacy = named | {"Hostname": node, "DCGM_FI_DRIVER_VERSION": driver}  # before 4.8.3
    current = named | {"hostname": node, "DCGM_FI_SYSTEM_DRIVER_VERSION": driver}  # of 4.9
    # Both are for the names that 4.9 kept, for dashboards of either kind.
    return {"legacy": legacy, "v4.9": current, "both": legacy | current}


def _run_labels(holders: Sequence[LabelledHolder]) -> _Named:
    """Return the labels of the one run that holds a GPU; none where it is not one, or no scheduler's."""
    if len(holders) != 1:
        return {}
    holder = holders[0]
    if holder.run_id.startswith("slurm/"):
        return {"hpc_job": label(holder.run_id.rpartition("/")[2])}
    return pod_labels(holder.identity.get("member", "")) if holder.identity.get("scheduler") == "kubernetes" else {}


def pod_labels(member: str) -> _Named:
    """Return namespace, pod and container of members like research/notebook/jupyter, as far as there is only one.

    The kubelet's containers are told in one text, separated by commas.
    """
    paths = [part.split("/") for part in member.split(", ") if part]
    named = {}
    for place, name in enumerate(("namespace", "pod", "container")):
        values = {path[place] if place < len(path) else "" for path in paths}
        if len(values) == 1 and (value := values.pop()):
            named[name] = label(value)
    return named


def mig_profile(gpu: Row, whole: Row) -> str:
    """Return an instance's profile like 1g.10gb, or an empty text where its size is not known.

    Memory is the nearest eighth above, of the whole GPU's GiB rounded up: an instance has a little less than its name
    says. Source: go-nvlib, pkg/nvlib/device, the name of a MIG profile.
    """
    slices, part, total = gpu.get("mig_slices"), gpu.get("memory_bytes"), whole.get("memory_bytes")
    if not (isinstance(slices, int) and isinstance(part, int) and isinstance(total, int) and total > 0):
        return ""
    eighths = math.ceil(part / total * _MIG_PARTS)
    return f"{slices}g.{round(eighths / _MIG_PARTS * math.ceil(total / GIB))}gb"


def bus_id(sysfs: str) -> str:
    """Return a PCI address as the driver writes it, 00000000:B1:00.0, of one as sysfs does, 0000:b1:00.0."""
    domain, colon, rest = sysfs.partition(":")
    return f"{domain.zfill(8)}:{rest}".upper() if colon else sysfs.upper()


# What dcgm-exporter says of a GPU, in our base units: our columns, and what follows from them.
_RATES = ("pcie_transmit_bytes", "pcie_receive_bytes", "nvlink_transmit_bytes", "nvlink_receive_bytes")
# Counters of the interval that dcgm-exporter adds up.
_SUMS = ("pcie_replay_events", "throttle_power_seconds", "throttle_thermal_seconds", "throttle_sync_boost_seconds")

Values = Mapping[str, float]


def values(row: Row, carried: Mapping[str, float], gpu: Row) -> Values:
    """Return what is known of one GPU by the names of the table; what is not known is left out.

    `carried` has the sums of the amounts and the newest XID, `gpu` the GPU as found.
    """
    said: dict[str, Value] = {name: value for name, value in row.items() if name not in _SUMS}
    said |= {name: carried.get(name) for name in _SUMS}
    said |= _memory(row, gpu) | _rates(row)
    said["xid_last"] = carried.get("xid_last", 0 if row.get("xid_events") is not None else None)
    return {name: float(value) for name, value in said.items() if isinstance(value, int | float)}


def _memory(row: Row, gpu: Row) -> dict[str, Value]:
    total, used, reserved = (gpu.get("memory_bytes"), row.get("memory_used_bytes"), row.get("memory_reserved_bytes"))
    if not (isinstance(total, int) and isinstance(used, int) and row.get("up")):
        return {}
    usable = total - (reserved if isinstance(reserved, int) else 0)
    free = max(0, usable - used)
    return {
        "memory_bytes": total,
        "memory_free_bytes": free,
        "memory_used_ratio": min(1.0, used / usable) if usable > 0 else None,
    }


def _rates(row: Row) -> dict[str, Value]:
    """Return bytes a second over the row's interval, and the NVLink's both ways together."""
    started, ended = row.get("started_at"), row.get("ended_at")
    if not (isinstance(started, int) and isinstance(ended, int) and ended > started):
        return {}
    seconds = (ended - started) / SECOND_US
    rates: dict[str, Value] = {}
    for name in _RATES:
        moved = row.get(name)
        if isinstance(moved, int | float):
            rates[f"{name}_per_second"] = moved / seconds
    ways = [rates.get("nvlink_transmit_bytes_per_second"), rates.get("nvlink_receive_bytes_per_second")]
    known = [way for way in ways if isinstance(way, float)]
    if len(known) == len(ways):
        rates["nvlink_bytes_per_second"] = sum(known)
    return rates


_DECIMALS = 6  # beyond these a value is rounding of ours: 0.29 is 28.999999999999996%


@dataclass(frozen=True, slots=True)
class _Seen:
    """One GPU or MIG instance: what is known of it by reading, and its labels under either set of names."""

    uuid: str
    parent: str
    values: Values
    labels: Mapping[str, Mapping[str, str]]


def dcgm_families(view: View, names: DcgmNames) -> Iterator[Metric]:
    """Yield the families of the chosen names; none where they are off."""
    if names == "off":
        return
    seen = list(_seen(view))
    told_by_parts = {(one.parent, reading) for one in seen for reading in one.values if one.parent}
    for field in fields():
        # What the instances of a GPU tell is not told of the whole as well: a sum would count it twice.
        of = [one for one in seen if field.reading in one.values and (one.uuid, field.reading) not in told_by_parts]
        yield from _families(field, of, names)


def _families(field: Field, of: Sequence[_Seen], names: DcgmNames) -> Iterator[Metric]:
    if names == "both" and field.legacy == field.current:
        yield _family(field, field.legacy, field.legacy_unit, of, "both")
        return
    if names in ("legacy", "both"):
        yield _family(field, field.legacy, field.legacy_unit, of, "legacy")
    if names in ("v4.9", "both"):
        yield _family(field, field.current, field.current_unit, of, "v4.9")


def _family(field: Field, name: str, unit: Unit, of: Sequence[_Seen], labels: str) -> Metric:
    series = [(one.labels[labels], round(one.values[field.reading] * unit.times / unit.by, _DECIMALS)) for one in of]
    # A counter of prometheus_client ends in _total, which these do not: they are served untyped, under their own name.
    return family(name, f"{field.words} ({unit.name}).", "gauge" if field.kind == "gauge" else "unknown", series)


def _seen(view: View) -> Iterator[_Seen]:
    shown = view.shown("gpu_samples")
    holders = _by_gpu(view.holders)
    for labels, row in shown.rows.items():
        uuid = str(row.get("gpu_uuid"))
        gpu = view.gpus.get(uuid)
        if gpu is None or gpu.get("gpu_index") is None:
            continue  # not found yet: without its number it would be a series of its own, for a beat
        parent = str(row.get("parent_uuid") or "")
        whole = view.gpus.get(parent, {}) if parent else gpu
        run = _run_labels(holders.get(uuid, ()))
        made = {names: named | run for names, named in _gpu_labels(row, gpu, whole).items()}
        yield _Seen(uuid, parent, values(row, shown.carried[labels], gpu), made)


def _by_gpu(holders: Sequence[LabelledHolder]) -> dict[str, list[LabelledHolder]]:
    found: dict[str, list[LabelledHolder]] = {}
    for holder in holders:
        found.setdefault(holder.gpu_uuid, []).append(holder)
    return found
