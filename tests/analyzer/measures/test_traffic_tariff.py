"""Tariffs: strict, dated, named by the site; what has none costs GPU time or nothing that is known."""

from pathlib import Path

import pytest

from analyzer.errors import ConfigError
from analyzer.measures.traffic.matrix import Cell, HostLocation
from analyzer.measures.traffic.tariff import TariffBook, tariff_book
from analyzer.settings.settings import Settings

AT = 1_767_225_600_000_000  # 2026-01-01
PLACES = {
    "a": HostLocation("r1", "b1", "z1", "eu"),
    "b": HostLocation("r1", "b1", "z2", "eu"),
    "c": HostLocation("r2", "b1", "z1", "eu"),
}
OWN = """
provider = "aws"
[[tariff]]
between = "zones"
usd_per_gb = 0.004
charged_to = "sender"
from = 2026-01-01
as_of = 2026-11-01
source = "contract 4711"
"""


def book(directory: Path, text: str) -> TariffBook:
    """Return the book that a file makes."""
    file = directory / "tariffs.toml"
    file.write_text(text)
    return TariffBook.read(file)


def cell(from_: str, to: str, amount: int = 10**12) -> Cell:
    """Return a terabyte from one end to another."""
    return Cell(from_, to, amount, "tcp")


def test_both_sides_pay_for_a_zone_of_aws(tmp_path: Path) -> None:
    """A terabyte between zones is 1,000 GB at 0.01 from the sender and as much from the receiver: 20.00."""
    prices = book(tmp_path, 'provider = "aws"').at(AT)
    (bill,) = prices.bills([cell("a", "b")], PLACES)
    assert (bill.locality, bill.bytes, bill.cost_micros) == ("across_zones", 10**12, 20_000_000)
    assert bill.as_of is not None


def test_the_example_of_a_step_between_zones(tmp_path: Path) -> None:
    """52.5 GB a step between zones at 0.02 a GB for both sides together: 1.05."""
    (bill,) = book(tmp_path, 'provider = "aws"').at(AT).bills([cell("a", "b", 52_500_000_000)], PLACES)
    assert bill.cost_micros == 1_050_000


def test_nothing_is_priced_without_a_provider() -> None:
    """Which cloud it is, is not guessed."""
    (bill,) = TariffBook().at(AT).bills([cell("a", "b")], PLACES)
    assert (bill.cost_micros, bill.source) == (None, "no tariff: the tariffs file names no provider")


def test_crossing_racks_has_no_tariff(tmp_path: Path) -> None:
    """Nor has a rack; what that costs is GPU time."""
    assert book(tmp_path, 'provider = "aws"').at(AT).bills([cell("a", "c"), cell("a", "nas")], PLACES) == ()


def test_what_comes_from_the_internet_is_free(tmp_path: Path) -> None:
    """Only what leaves is charged."""
    prices = book(tmp_path, 'provider = "gcp"').at(AT)
    assert prices.bills([cell("52.1.2.3", "a")], PLACES) == ()
    (bill,) = prices.bills([cell("a", "52.1.2.3", 1 << 40)], PLACES)
    assert bill.cost_micros == 122_880_000  # 1,024 GiB at 0.12


def test_what_sources_disagree_about_is_unset(tmp_path: Path) -> None:
    """Azure between zones: the reason is told in the place of a price."""
    (bill,) = book(tmp_path, 'provider = "azure"').at(AT).bills([cell("a", "b")], PLACES)
    assert bill.cost_micros is None
    assert "disagree" in bill.source


def test_the_sites_own_tariff_goes_first(tmp_path: Path) -> None:
    """A contract beats a public list; before it began, the list holds, and before that, nothing."""
    own = book(tmp_path, OWN)
    assert own.at(AT).bills([cell("a", "b")], PLACES)[0].cost_micros == 4_000_000
    assert own.at(AT - 1).bills([cell("a", "b")], PLACES)[0].cost_micros is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('provider = "asw"', "name one of aws, azure, gcp"),
        ('provider = "aws"\nproviders = 1', "did you mean 'provider'?"),
        (OWN.replace("usd_per_gb", "usd_per_tb"), "unknown key 'usd_per_tb'; it may have"),
        (OWN.replace("usd_per_gb = 0.004", ""), "give one of 'usd_per_gb' and 'usd_per_gib'"),
        (OWN.replace('"zones"', '"racks"'), "must be one of zones, regions, internet"),
        (OWN.replace('"sender"', '"me"'), "must be one of sender, both"),
        (OWN.replace("as_of = 2026-11-01", ""), "'as_of' must be a date"),
        (OWN.replace('source = "contract 4711"', ""), "'source' is missing"),
        (OWN + OWN.replace('provider = "aws"', ""), "two tariffs between zones overlap"),
    ],
)
def test_a_wrong_file_is_refused_in_a_sentence(tmp_path: Path, text: str, message: str) -> None:
    """At the first reading, naming what is near."""
    with pytest.raises(ConfigError, match=message.replace("?", r"\?")):
        book(tmp_path, text)


def test_the_file_counts_in_the_ledgers_currency(tmp_path: Path) -> None:
    """Two currencies in one report could not be added; the setting names a file beside it."""
    (tmp_path / "tariffs.toml").write_text(OWN)
    (tmp_path / "gpuledger.toml").write_text('[analyzer]\ntariffs = "tariffs.toml"\n')
    settings = Settings.read(tmp_path / "gpuledger.toml", {})
    assert tariff_book(settings).own[0].micros == 4_000
    (tmp_path / "gpuledger.toml").write_text('[analyzer]\ntariffs = "tariffs.toml"\ncurrency = "EUR"\n')
    with pytest.raises(ConfigError, match="use the same currency in both"):
        tariff_book(Settings.read(tmp_path / "gpuledger.toml", {}))
