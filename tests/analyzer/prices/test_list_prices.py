"""The list prices that ship: rows with a source, and their traps kept out of every hint."""

import csv
from dataclasses import replace
from datetime import date
from pathlib import Path

from agent.wire.sku import sku
from agent.wire.units import MIB
from analyzer.prices.list_prices import LIST_PRICES, list_prices, median_of, on_demand, range_of

ROOT = Path(__file__).parents[3]


def test_every_row_names_its_source() -> None:
    """A price without a source is a rumour."""
    rows = list_prices()
    assert f"({len(rows)} rows)" in (ROOT / "docs" / "prices.md").read_text("utf-8")
    assert all(row.source and row.source_version and row.as_of for row in rows)


def test_the_hint_is_what_the_screens_draw() -> None:
    """Estimates, spot and doubtful rows are left out, or the range would begin at a price nobody can pay."""
    assert range_of("H100-80GB") == (2_890_000, 14_779_604)
    assert median_of("H100-80GB") == 10_000_000
    assert range_of("Z9000-1GB") is None
    assert median_of("Z9000-1GB") is None


def test_nothing_that_is_no_quote_is_in_a_hint() -> None:
    """The file marks its own traps: estimates, and whatever else is no price that is really asked."""
    plain = [row for row in list_prices() if row.objection is None]
    objectionable = [row for row in list_prices() if row.objection is not None]
    assert {row.objection for row in objectionable} == {"is an estimate, not a quote"}
    row = next(row for row in plain if row.sku == "H100-80GB")
    without_host = replace(row, price_scope="accelerator_only", micros_per_gpu_hour=1)
    doubtful = replace(row, purchase_option="flex_start", micros_per_gpu_hour=1)
    assert without_host.objection == "leaves out the host"
    assert doubtful.objection == "is of a doubtful purchase option"
    for kind in {row.sku for row in objectionable}:
        assert on_demand(kind, [*list_prices(), without_host, doubtful]) == on_demand(kind, plain)


def test_every_source_has_a_licence() -> None:
    """Of a source without one nobody may pass rows on: NOTICE names each that we have."""
    notice = (ROOT / "NOTICE").read_text("utf-8")
    for row in list_prices():
        name = row.source.partition(":")[2].split()[0]
        assert name in notice, row


# What nvidia-smi (amd-smi of the MI300X) says of each board that the list has a price of: name and MiB.
BOARDS = {
    ("A10", "24"): ("NVIDIA A10", 23028),
    ("A10G", "24"): ("NVIDIA A10G", 23028),
    ("A100", "40"): ("NVIDIA A100-SXM4-40GB", 40960),
    ("A100-80GB", "80"): ("NVIDIA A100-SXM4-80GB", 81920),
    ("B200", "180"): ("NVIDIA B200", 183359),
    ("B300", "268"): ("NVIDIA B300 SXM6 AC", 275040),
    ("GB200", "186"): ("NVIDIA GB200", 189471),
    ("GH200", "96"): ("NVIDIA GH200 480GB", 97871),
    ("H100", "80"): ("NVIDIA H100 80GB HBM3", 81559),
    ("H100-NVL", "94"): ("NVIDIA H100 NVL", 95830),
    ("H200", "141"): ("NVIDIA H200", 143771),
    ("L4", "24"): ("NVIDIA L4", 23034),
    ("L40S", "48"): ("NVIDIA L40S", 46068),
    ("MI300X", "192"): ("AMD Instinct MI300X OAM", 196592),
    ("T4", "16"): ("Tesla T4", 15360),
    ("V100", "16"): ("Tesla V100-SXM2-16GB", 16384),
    ("V100-32GB", "32"): ("Tesla V100-SXM2-32GB", 32768),
}


def test_every_row_is_called_as_its_board_is_by_the_driver() -> None:
    """A list price under another name than the agent's is a price of a GPU that no site has."""
    with LIST_PRICES.open(newline="", encoding="utf-8") as file:
        written = [(line["gpu_sku"], line["gpu_mem_gib"]) for line in csv.DictReader(file)]
    assert set(written) == set(BOARDS)
    drivers = [sku(name, mebibytes * MIB) for name, mebibytes in (BOARDS[each] for each in written)]
    assert [row.sku for row in list_prices()] == drivers


def test_a_row_is_found_by_what_a_price_file_names() -> None:
    """Two rows of one name could not be told apart, and neither could be paid."""
    names = [(row.provider, row.region, row.instance_type, row.purchase_option) for row in list_prices()]
    assert len(set(names)) == len(names)


def test_every_row_has_its_date() -> None:
    """A price that nobody knows the age of is none."""
    assert all(date.fromisoformat(row.as_of) for row in list_prices())
