"""The list prices that ship: rows with a source, and their traps kept out of every hint."""

from datetime import date

from analyzer.pricing.list_prices import canonical_sku, list_prices, median_of, on_demand, range_of


def test_every_row_names_its_source() -> None:
    """A price without a source is a rumour."""
    rows = list_prices()
    assert len(rows) == 156
    assert all(row.source and row.source_version and row.as_of for row in rows)


def test_the_hint_is_what_the_screens_draw() -> None:
    """Estimates, spot and doubtful rows are left out, or the range would begin at a price nobody can pay."""
    assert range_of("H100-80GB") == (2_290_000, 12_290_000)
    assert median_of("H100-80GB") == 10_000_000
    assert range_of("Z9000-1GB") is None
    assert median_of("Z9000-1GB") is None


def test_nothing_that_is_no_quote_is_in_a_hint() -> None:
    """The file marks its own traps: estimates, prices without the host, a suspected flex-start price."""
    objectionable = [row for row in list_prices() if row.objection is not None]
    assert {"is an estimate, not a quote", "leaves out the host"} <= {row.objection for row in objectionable}
    for row in objectionable:
        plain = [other for other in list_prices() if other.objection is None]
        assert on_demand(row.sku, plain) == on_demand(row.sku, list_prices())


def test_a_model_gets_the_ledgers_name() -> None:
    """One spelling: the driver's H100 with 80 GB is H100-80GB, and a name that has its memory keeps it."""
    assert canonical_sku("H100", "80") == "H100-80GB"
    assert canonical_sku("A100-80GB", "80") == "A100-80GB"
    assert canonical_sku("H100-NVL", "94") == "H100-NVL-94GB"


def test_an_undated_row_says_so() -> None:
    """Where the source has no date we keep its word and invent none."""
    for row in list_prices():
        assert row.as_of.startswith("undated") or date.fromisoformat(row.as_of)
