"""The labels that dcgm-exporter puts on every series of a GPU."""

import math
from collections.abc import Mapping, Sequence

from agent.metrics.holders import LabelledHolder
from agent.metrics.series import label
from agent.source import Row
from agent.wire.units import GIB

_MIG_PARTS = 8  # of a GPU's memory; a MIG profile is named by whole parts

_Named = dict[str, str]


def legacy_labels(row: Row, gpu: Row, whole: Row) -> _Named:
    """Return the labels before 4.8.3: the host is `Hostname`. `whole` is the GPU that a MIG instance is a part of."""
    return _labels(row, gpu, whole, {"Hostname": "node"}, {"DCGM_FI_DRIVER_VERSION": "driver_version"})


def current_labels(row: Row, gpu: Row, whole: Row) -> _Named:
    """Return the labels of 4.9: the host is `hostname`."""
    return _labels(row, gpu, whole, {"hostname": "node"}, {"DCGM_FI_SYSTEM_DRIVER_VERSION": "driver_version"})


def both_labels(row: Row, gpu: Row, whole: Row) -> _Named:
    """Return the labels of a name that 4.9 kept, for dashboards of either kind."""
    return legacy_labels(row, gpu, whole) | current_labels(row, gpu, whole)


def run_labels(holders: Sequence[LabelledHolder]) -> _Named:
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


def _labels(row: Row, gpu: Row, whole: Row, host: Mapping[str, str], driver: Mapping[str, str]) -> _Named:
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
    named |= {name: label(row.get(column)) for name, column in host.items()}
    return named | {name: label(gpu.get(column)) for name, column in driver.items()}
