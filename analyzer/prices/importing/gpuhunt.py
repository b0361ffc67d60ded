"""Read a catalogue of gpuhunt (https://github.com/dstackai/gpuhunt): one provider's CSV.

instance_name,location,price,cpu,memory,gpu_count,gpu_name,gpu_memory,spot,disk_size,gpu_vendor,flags,…

Traps: `price` is the whole instance's; `gpu_memory` is one GPU's, in GB that are GiB; `spot` is a word, and a spot
price is what was asked when the catalogue was made, not a series.
"""

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

_COLUMNS = ("instance_name", "location", "price", "gpu_count", "gpu_name", "gpu_memory", "spot")
SOURCE = "gpuhunt catalogue"
_OPTIONS = {"true": "spot", "false": "on_demand"}


def read_gpuhunt(path: Path) -> Catalogue:
    """Return the offers of a gpuhunt catalogue.

    Raises:
        ConfigError: it cannot be read, or is none.
    """
    return read_catalogue(path, _COLUMNS, _offers)


def _offers(line: Mapping[str, str]) -> list[Offer]:
    gpus = gpus_of(line["gpu_count"])
    if line.get("gpu_vendor", "").strip().lower() not in ("", "nvidia"):
        raise LeftOutError("not NVIDIA")
    option = _OPTIONS.get(line["spot"].strip().lower())
    if option is None:
        raise LeftOutError("neither spot nor not")
    memory = round(number_of(line["gpu_memory"], "GPU memory"))
    return [
        Offer(
            canonical_sku(name_of(line["gpu_name"], "GPU name"), str(memory)),
            option,
            name_of(line["location"], "region"),
            None,
            name_of(line["instance_name"], "instance type"),
            gpus,
            number_of(line["price"], "price"),
            line["price"].strip(),
        )
    ]
