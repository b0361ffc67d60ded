"""A price is what somebody wrote down, with source and date; everything else is None."""

import re
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from analyzer.errors import ConfigError
from analyzer.prices.price_book import PriceBook

ROW = """
[[price]]
sku = "H100-80GB"
purchase_option = "reserved"
usd_per_gpu_hour = 2.60
from = 2026-01-01
until = 2027-04-01
source = "contract 4711"
as_of = 2026-11-01
"""
AWS = """
[[list_price]]
provider = "aws"
region = "us-east-1"
instance_type = "p5.48xlarge"
purchase_option = "on_demand"
from = 2026-07-20
"""


def at(text: str) -> int:
    """Return a moment in microseconds."""
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 1_000_000


def book(tmp_path: Path, text: str) -> PriceBook:
    """Read a price file of this text."""
    path = tmp_path / "prices.toml"
    path.write_text(text)
    return PriceBook.read(path)


def test_a_price_carries_its_source_and_date(tmp_path: Path) -> None:
    """A figure in a report must be traceable to who said it."""
    prices = book(tmp_path, ROW)
    price = prices.price("H100-80GB", "reserved", at("2026-11-09"))
    assert price is not None
    assert (price.micros_per_gpu_hour, price.source, price.as_of) == (2_600_000, "contract 4711", date(2026, 11, 1))
    assert price.version == prices.version


@pytest.mark.parametrize(
    ("sku", "option", "moment"),
    [
        ("A100-80GB", "reserved", "2026-11-09"),  # another GPU
        ("H100-80GB", "spot", "2026-11-09"),  # another way of paying
        ("H100-80GB", None, "2026-11-09"),  # nobody said how it is paid
        (None, "reserved", "2026-11-09"),  # nobody knows what it is
        ("H100-80GB", "reserved", "2025-12-31T23:59:59"),  # before
        ("H100-80GB", "reserved", "2027-04-01"),  # the end is exclusive
    ],
)
def test_no_price_is_guessed(tmp_path: Path, sku: str | None, option: str | None, moment: str) -> None:
    """A list price differs more than two-fold between providers: filling a gap with one would be invention."""
    assert book(tmp_path, ROW).price(sku, option, at(moment)) is None
    assert PriceBook().price("H100-80GB", "on_demand", at("2026-11-09")) is None


def test_the_more_particular_price_goes_first(tmp_path: Path) -> None:
    """A rack on another contract, and one very purchase option before "any"."""
    any_option = ROW.replace('"reserved"', '"any"').replace("2.60", "3.00")
    rack = ROW.replace("source", 'node_group = "rack-9"\nsource').replace("2.60", "1.00")
    prices = book(tmp_path, any_option + rack + ROW)
    moment = at("2026-11-09")
    micros = [
        price and price.micros_per_gpu_hour
        for price in (
            prices.price("H100-80GB", "reserved", moment, "rack-9"),
            prices.price("H100-80GB", "reserved", moment, "rack-1"),
            prices.price("H100-80GB", None, moment),
        )
    ]
    assert micros == [1_000_000, 2_600_000, 3_000_000]


def test_a_list_price_counts_only_where_the_file_names_it(tmp_path: Path) -> None:
    """The site says that it pays this provider's price in this region for this instance; then it is no guess."""
    price = book(tmp_path, AWS).price("H100-80GB", "on_demand", at("2026-11-09"))
    assert price is not None
    assert price.micros_per_gpu_hour == 6_880_000
    assert price.as_of == date(2026, 7, 20)
    assert "karpenter-provider-aws" in price.source


def test_the_version_is_the_content(tmp_path: Path) -> None:
    """Another order of rows changes no price, so it must not re-open the ledger; another price must."""
    version = book(tmp_path, ROW + AWS).version
    assert book(tmp_path, AWS + "# moved\n" + ROW).version == version
    assert book(tmp_path, AWS + ROW.replace("2.60", "2.61")).version != version


def test_a_flat_price_is_everybodys(tmp_path: Path) -> None:
    """`gpuledger run --price 2.60` knows neither SKU nor contract."""
    price = PriceBook.flat(2_600_000).price(None, None, at("2026-11-09"))
    assert price is not None
    assert (price.micros_per_gpu_hour, price.source) == (2_600_000, "--price")


def test_the_key_names_the_currency(tmp_path: Path) -> None:
    """A euro written as usd_per_gpu_hour would be believed."""
    euro = 'currency = "EUR"\n' + ROW
    assert book(tmp_path, euro.replace("usd_per", "eur_per")).currency == "EUR"
    with pytest.raises(ConfigError, match="usd_per_gpu_hour"):
        book(tmp_path, euro)
    with pytest.raises(ConfigError, match="list prices are in USD"):
        book(tmp_path, 'currency = "EUR"\n' + AWS)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[prices]]\n", "unknown key 'prices'; did you mean 'price'"),
        (ROW.replace("sku", "skus"), "unknown key 'skus'; did you mean 'sku'"),
        (ROW.replace('source = "contract 4711"\n', ""), "'source' is missing"),
        (ROW.replace("as_of = 2026-11-01", ""), "'as_of' must be a date"),
        (ROW.replace("2.60", '"2.60"'), "'usd_per_gpu_hour' must be a number"),
        (ROW.replace("2.60", "-1"), "must be 0 or more"),
        (ROW.replace("2.60", "nan"), "must be 0 or more"),
        (ROW.replace("2.60", "2.6000001"), "at most six decimals"),
        (ROW.replace("2.60", "true"), "must be a number"),
        (ROW.replace("reserved", "resered"), "must be one of on_demand, reserved, spot, owned, any"),
        (ROW.replace("from = 2026-01-01", "from = 2026-01-01T00:30:00Z"), "whole hour in UTC"),
        (ROW.replace("from = 2026-01-01", "from = 2026-01-01T00:00:00+05:30"), "whole hour in UTC"),
        (ROW.replace("from = 2026-01-01", "from = 2026-01-01T00:00:00"), "with its offset"),
        (ROW.replace("from = 2026-01-01", 'from = "2026-01-01"'), "with its offset"),
        (ROW.replace("2027-04-01", "2026-01-01"), "later than 'from'"),
        (ROW + ROW.replace("4711", "4712"), "two prices of H100-80GB"),
        (AWS.replace("p5.48xlarge", "p5.49xlarge"), "0 list prices for aws us-east-1 p5.49xlarge"),
        (AWS.replace("on_demand", "reserved_1yr_no_upfront"), "is an estimate"),
        ("[price]\nsku = 'x'\n", "must be written as [[price]]"),
        ("price = ", "is not valid TOML"),
    ],
)
def test_a_wrong_price_file_is_refused_in_one_sentence(tmp_path: Path, text: str, message: str) -> None:
    """A price read wrongly is worse than none: it would be believed."""
    with pytest.raises(ConfigError) as refusal:
        book(tmp_path, text)
    assert message in str(refusal.value)
    assert "prices.toml" in str(refusal.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """The way out is in the sentence."""
    with pytest.raises(ConfigError, match=r"cannot read .*none\.toml"):
        PriceBook.read(tmp_path / "none.toml")


def test_an_error_repeats_what_was_written(tmp_path: Path) -> None:
    """Nobody who keeps a price file knows what a Decimal is, or that nothing is called None."""
    for line, said in (
        ("sku = 6.5", "'sku' must be a text in quotes, not 6.5"),
        ('usd_per_gpu_hour = "2.60"', "'usd_per_gpu_hour' must be a number such as 2.60, not \"2.60\""),
        ("usd_per_gpu_hour = true", "not true"),
        ("usd_per_gpu_hour = [2.60, 1.5]", r"not [2.60, 1.5]"),
        ("usd_per_gpu_hour = { h100 = 2.60 }", "not { h100 = 2.60 }"),
        ("usd_per_gpu_hour = 1979-05-27", "not 1979-05-27"),
        ("", "'usd_per_gpu_hour' must be a number such as 2.60; it is missing"),
    ):
        key = line.partition(" ")[0] or "usd_per_gpu_hour"
        text = "\n".join(line if old.startswith(key) else old for old in ROW.splitlines())
        with pytest.raises(ConfigError, match=re.escape(said)):
            book(tmp_path, text)
