"""Read a catalogue of SkyPilot: catalogs/v8/<provider>/vms.csv of https://github.com/skypilot-org/skypilot-catalog.

InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,Price,Region,GpuInfo,SpotPrice

Traps: `Price` is the whole instance's. A GPU's memory is `Gpus[0].MemoryInfo` of GpuInfo: `TotalGpuMemoryInMiB` is one
GPU's in some providers' files and all GPUs' in others. A row without InstanceType (of GCP) is an accelerator without
its host, and no price that anybody pays. GpuInfo is a Python literal, and is read as one, never run.
"""

import ast
from collections.abc import Mapping
from pathlib import Path

from analyzer.prices.importing.offers import (
    Catalogue,
    LeftOutError,
    Offer,
    gpus_of,
    name_of,
    number_of,
    read_catalogue,
)
from analyzer.prices.list_prices import canonical_sku

_COLUMNS = ("InstanceType", "AcceleratorName", "AcceleratorCount", "Price", "Region", "GpuInfo")
SOURCE = "SkyPilot catalogue"
_INFO_MOST = 2000
_MIB_PER_GIB = 1024


def read_skypilot(path: Path) -> Catalogue:
    """Return the offers of a SkyPilot catalogue, on demand and spot.

    Raises:
        ConfigError: it cannot be read, or is none.
    """
    return read_catalogue(path, _COLUMNS, _offers)


def _offers(line: Mapping[str, str]) -> list[Offer]:
    gpus = gpus_of(line["AcceleratorCount"])
    if not line["InstanceType"].strip():
        raise LeftOutError("an accelerator without its host")
    sku = canonical_sku(name_of(line["AcceleratorName"], "GPU name"), str(_memory_gib(line["GpuInfo"])))
    region, instance = name_of(line["Region"], "region"), name_of(line["InstanceType"], "instance type")
    zone = line.get("AvailabilityZone", "").strip()
    where = (region, name_of(zone, "zone") if zone else None, instance, gpus)
    told = (("on_demand", line["Price"]), ("spot", line.get("SpotPrice", "")))
    found = [
        Offer(sku, option, *where, number_of(text, "price"), text.strip()) for option, text in told if text.strip()
    ]
    if not found:
        raise LeftOutError("no price")
    return found


def _memory_gib(info: str) -> int:
    """Return one GPU's memory, to the nearest GiB."""
    try:
        gpu = ast.literal_eval(info)["Gpus"][0] if len(info) <= _INFO_MOST else {}
        maker, mib = gpu["Manufacturer"], gpu["MemoryInfo"]["SizeInMiB"]
    except (ValueError, SyntaxError, TypeError, KeyError, IndexError, MemoryError, RecursionError) as error:
        raise LeftOutError("GPU memory not told") from error
    if str(maker).upper() != "NVIDIA":
        raise LeftOutError("not NVIDIA")
    if isinstance(mib, bool) or not isinstance(mib, int | float) or not _MIB_PER_GIB <= mib <= 2**24:
        raise LeftOutError("GPU memory not told")
    return round(mib / _MIB_PER_GIB)
