"""The list prices that ship: rows with a source, and their traps kept out of every hint."""

from dataclasses import replace
from datetime import date
from pathlib import Path

from analyzer.prices.list_prices import canonical_sku, list_prices, median_of, on_demand, range_of

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
    for sku in {row.sku for row in objectionable}:
        assert on_demand(sku, [*list_prices(), without_host, doubtful]) == on_demand(sku, plain)


def test_every_source_has_a_licence() -> None:
    """Of a source without one nobody may pass rows on: NOTICE names each that we have."""
    notice = (ROOT / "NOTICE").read_text("utf-8")
    for row in list_prices():
        name = row.source.partition(":")[2].split()[0]
        assert name in notice, row


def test_a_model_gets_the_ledgers_name() -> None:
    """One spelling: the driver's H100 with 80 GB is H100-80GB, and a name that has its memory keeps it."""
    assert canonical_sku("H100", "80") == "H100-80GB"
    assert canonical_sku("A100-80GB", "80") == "A100-80GB"
    assert canonical_sku("H100-NVL", "94") == "H100-NVL-94GB"


def test_a_row_is_found_by_what_a_price_file_names() -> None:
    """Two rows of one name could not be told apart, and neither could be paid."""
    names = [(row.provider, row.region, row.instance_type, row.purchase_option) for row in list_prices()]
    assert len(set(names)) == len(names)


def test_every_row_has_its_date() -> None:
    """A price that nobody knows the age of is none."""
    assert all(date.fromisoformat(row.as_of) for row in list_prices())
