"""Catalogues of prices become rows of a price file, dated and with their source, for a person to look over.

gpuhunt (https://github.com/dstackai/gpuhunt), one provider's CSV:
instance_name,location,price,cpu,memory,gpu_count,gpu_name,gpu_memory,spot,disk_size,gpu_vendor,flags,…
Traps: `price` is the whole instance's; `gpu_memory` is one GPU's, in GB that are GiB; `spot` is a word, and a spot
price is what was asked when the catalogue was made, not a series.

SkyPilot, catalogs/v8/<provider>/vms.csv of https://github.com/skypilot-org/skypilot-catalog:
InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,Price,Region,GpuInfo,SpotPrice
Traps: `Price` is the whole instance's. A GPU's memory is `Gpus[0].MemoryInfo` of GpuInfo: `TotalGpuMemoryInMiB` is one
GPU's in some providers' files and all GPUs' in others. A row without InstanceType (of GCP) is an accelerator without
its host, and no price that anybody pays. GpuInfo is a Python literal, and is read as one, never run.
"""

import argparse
import ast
import csv
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import InvalidOperation
from fractions import Fraction
from pathlib import Path

from agent.wire.sku import sku
from agent.wire.units import GIB, MIB
from analyzer.errors import ConfigError
from analyzer.prices.price_book import PriceBook
from analyzer.prices.rows import price_digits, price_rows_toml
from analyzer.settings.bounded import BoundedLines
from analyzer.settings.toml_entry import exact, written_decimal
from analyzer.text.words import dollars

_ROWS_MOST = 2_000_000
_NAME_MOST = 120
_GPUS_MOST = 1024
_FORMULA = ("=", "+", "-", "@")  # how a spreadsheet's formula begins: no name of an instance does
_NUMBER_MOST = 40
_TOLD = 8


@dataclass(frozen=True, slots=True)
class Offer:
    """One instance type in one place: its GPUs and its price an hour, as the catalogue has it."""

    sku: str
    purchase_option: str
    region: str
    zone: str | None
    instance_type: str
    gpus: int
    price: Fraction
    told: str  # the price as it was written

    @property
    def micros_per_gpu_hour(self) -> int:
        """One GPU's part of an hour, to the nearest millionth."""
        micros = self.price * 1_000_000 / self.gpus
        return (2 * micros.numerator + micros.denominator) // (2 * micros.denominator)


@dataclass(slots=True)
class Catalogue:
    """What a file offers, and how many of its rows were left out, by reason."""

    offers: list[Offer] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)


class LeftOutError(ValueError):
    """A row is no offer of whole GPUs at a price; its message is the reason."""


def _read_catalogue(
    path: Path, columns: Collection[str], offers_of: Callable[[Mapping[str, str]], Sequence[Offer]]
) -> Catalogue:
    """Return the offers of a CSV; rows of which `offers_of` says LeftOutError are counted by its reason.

    Raises:
        ConfigError: it cannot be read, is no CSV, or lacks a column.
    """
    found = Catalogue()
    for line in _lines(path, columns):
        try:
            found.offers += offers_of(line)
        except LeftOutError as reason:
            found.left_out[str(reason)] += 1
    return found


def _lines(path: Path, columns: Collection[str]) -> Iterator[Mapping[str, str]]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            bounded = BoundedLines(path, file)
            lines = csv.DictReader(bounded, restval="")
            if lacking := [name for name in columns if name not in (lines.fieldnames or ())]:
                raise ConfigError(f"{path} is not such a catalogue: it has no column {', '.join(lacking)}")
            bounded.next_row()
            for number, line in enumerate(lines, 1):
                bounded.next_row()
                if number > _ROWS_MOST:
                    raise ConfigError(f"{path} has more than {_ROWS_MOST:,} rows; cut it to the provider that is paid")
                yield line
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text") from error
    except csv.Error as error:
        raise ConfigError(f"{path} is not valid CSV: {error}") from error


def name_of(text: str, what: str) -> str:
    """Return a name that may stand in a price file.

    Raises:
        LeftOutError: it is empty, too long, not printable, or begins as a formula does.
    """
    name = text.strip()
    if not name:
        raise LeftOutError(f"no {what}")
    if len(name) > _NAME_MOST or not name.isprintable() or name.startswith(_FORMULA):
        raise LeftOutError(f"{what} that is not a valid name")
    return name


def _number_of(text: str, what: str) -> Fraction:
    """Return a number above 0, exactly as written.

    Raises:
        LeftOutError: it is none.
    """
    try:
        number = exact(written_decimal(text.strip())) if len(text) <= _NUMBER_MOST else None
    except InvalidOperation:
        number = None
    if not number:
        raise LeftOutError(f"no {what}")
    return number


def _gpus_of(text: str) -> int:
    """Return how many GPUs an instance has.

    Raises:
        LeftOutError: none, or a part of one.
    """
    count = _number_of(text or "0", "GPU")
    if count.denominator != 1:
        raise LeftOutError("a part of a GPU")
    if count > _GPUS_MOST:
        raise LeftOutError(f"more than {_GPUS_MOST:,} GPUs")
    return int(count)


def chosen_offers(offers: Sequence[Offer]) -> list[tuple[Offer, int]]:
    """Return one offer for each GPU and way of paying, with how many others cost the same.

    Raises:
        ConfigError: several prices or regions are left for one; which is paid is not ours to guess.
    """
    groups: dict[tuple[str, str], list[Offer]] = {}
    for offer in sorted(offers, key=_order):
        groups.setdefault((offer.sku, offer.purchase_option), []).append(offer)
    found = []
    for (kind, option), group in sorted(groups.items()):
        if len({(one.micros_per_gpu_hour, one.region) for one in group}) > 1:
            raise ConfigError(_contested(kind, option, group))
        found.append((group[0], len({(one.instance_type, one.zone) for one in group}) - 1))
    return found


def _contested(sku: str, option: str, group: Sequence[Offer]) -> str:
    told = list(
        dict.fromkeys(
            f"{one.zone or one.region} {one.instance_type} {dollars(one.micros_per_gpu_hour)}" for one in group
        )
    )
    more = f" and {len(told) - _TOLD} more" if len(told) > _TOLD else ""
    return (
        f"{sku} ({option}) has more than one price: {', '.join(told[:_TOLD])}{more}; say which is paid by --region,"
        " --instance-type or --sku"
    )


def _order(offer: Offer) -> tuple[str, str, int, str, str]:
    return offer.sku, offer.purchase_option, offer.micros_per_gpu_hour, offer.region, offer.instance_type


_GPUHUNT_COLUMNS = ("instance_name", "location", "price", "gpu_count", "gpu_name", "gpu_memory", "spot")
GPUHUNT = "gpuhunt catalogue"
_OPTIONS = {"true": "spot", "false": "on_demand"}


def read_gpuhunt(path: Path) -> Catalogue:
    """Return the offers of a gpuhunt catalogue.

    Raises:
        ConfigError: it cannot be read, or is none.
    """
    return _read_catalogue(path, _GPUHUNT_COLUMNS, _gpuhunt_offers)


def _gpuhunt_offers(line: Mapping[str, str]) -> list[Offer]:
    gpus = _gpus_of(line["gpu_count"])
    if line.get("gpu_vendor", "").strip().lower() not in ("", "nvidia"):
        raise LeftOutError("not NVIDIA")
    option = _OPTIONS.get(line["spot"].strip().lower())
    if option is None:
        raise LeftOutError("neither spot nor not")
    memory_bytes = int(_number_of(line["gpu_memory"], "GPU memory") * GIB)
    return [
        Offer(
            sku(name_of(line["gpu_name"], "GPU name"), memory_bytes),
            option,
            name_of(line["location"], "region"),
            None,
            name_of(line["instance_name"], "instance type"),
            gpus,
            _number_of(line["price"], "price"),
            line["price"].strip(),
        )
    ]


_SKYPILOT_COLUMNS = ("InstanceType", "AcceleratorName", "AcceleratorCount", "Price", "Region", "GpuInfo")
SKYPILOT = "SkyPilot catalogue"
_INFO_MOST = 2000
_MIB_LEAST = 1024  # below it a column called MiB holds GiB, as RunPod's does: no GPU has so little memory
_MIB_MOST = 2**24


def read_skypilot(path: Path) -> Catalogue:
    """Return the offers of a SkyPilot catalogue, on demand and spot.

    Raises:
        ConfigError: it cannot be read, or is none.
    """
    return _read_catalogue(path, _SKYPILOT_COLUMNS, _skypilot_offers)


def _skypilot_offers(line: Mapping[str, str]) -> list[Offer]:
    gpus = _gpus_of(line["AcceleratorCount"])
    if not line["InstanceType"].strip():
        raise LeftOutError("an accelerator without its host")
    kind = sku(name_of(line["AcceleratorName"], "GPU name"), _memory_bytes(line["GpuInfo"]))
    region, instance = name_of(line["Region"], "region"), name_of(line["InstanceType"], "instance type")
    zone = line.get("AvailabilityZone", "").strip()
    where = (region, name_of(zone, "zone") if zone else None, instance, gpus)
    told = (("on_demand", line["Price"]), ("spot", line.get("SpotPrice", "")))
    found = [
        Offer(kind, option, *where, _number_of(text, "price"), text.strip()) for option, text in told if text.strip()
    ]
    if not found:
        raise LeftOutError("no price")
    return found


def _memory_bytes(info: str) -> int:
    """Return one GPU's memory."""
    try:
        gpu = ast.literal_eval(info)["Gpus"][0] if len(info) <= _INFO_MOST else {}
        maker, mib = gpu["Manufacturer"], gpu["MemoryInfo"]["SizeInMiB"]
    except (ValueError, SyntaxError, TypeError, KeyError, IndexError, MemoryError, RecursionError) as error:
        raise LeftOutError("GPU maker or memory not given") from error
    if str(maker).upper() != "NVIDIA":
        raise LeftOutError("not NVIDIA")
    if isinstance(mib, bool) or not isinstance(mib, int | float) or not 1 <= mib <= _MIB_MOST:
        raise LeftOutError("GPU memory not given")
    return int(mib * (GIB if mib < _MIB_LEAST else MIB))


@dataclass(frozen=True, slots=True)
class Dating:
    """Who offers, by which catalogue of which version, as of when; from when it is paid, until when, and where."""

    provider: str
    catalogue: str
    version: str
    as_of: date
    starts: date
    ends: date | None
    node_group: str | None


def price_file(chosen: Sequence[tuple[Offer, int]], dating: Dating) -> str:
    """Return the text of a price file with these rows. It has been read as such before it is returned.

    Raises:
        ConfigError: the dates contradict one another.
    """
    head = [
        f"# Rows of a {dating.catalogue}, written by gpuledger bill prices import. Nothing reads this file by itself:",
        "# review the rows, and copy those that you pay into your price file.",
    ]
    text = price_rows_toml("USD", [_row(offer, others, dating) for offer, others in chosen], head)
    PriceBook.parse("the rows", text.encode())
    return text


def _row(offer: Offer, others: int, dating: Dating) -> Mapping[str, object]:
    also = f" (and {others} more at this price)" if others else ""
    price = f"{offer.told} per hour for {offer.gpus} GPUs" if offer.gpus > 1 else f"{offer.told} per hour"
    source = f"{dating.catalogue} {dating.version}: {dating.provider} {offer.instance_type}{also}, {price}"
    return {
        "sku": offer.sku,
        "purchase_option": offer.purchase_option,
        "provider": dating.provider,
        "region": offer.zone if offer.purchase_option == "spot" and offer.zone else offer.region,
        "node_group": dating.node_group,
        "usd_per_gpu_hour": price_digits(offer.micros_per_gpu_hour),
        "from": dating.starts,
        "until": dating.ends,
        "source": source,
        "as_of": dating.as_of,
    }


def day(text: str) -> date:
    """Return the day that an option names; argparse tells what is none."""
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a day such as 2026-11-01") from error


def write_new(text: str, out: Path) -> None:
    """Write price rows to a new file.

    Raises:
        ConfigError: the file is there already, or cannot be written.
    """
    try:
        with out.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        raise ConfigError(f"{out} already exists; name a new file") from error
    except OSError as error:
        raise ConfigError(f"cannot write {out}: {error.strerror}") from error
