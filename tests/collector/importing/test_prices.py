"""Prices from the command line hold from then on: they become the book that lies beside the store."""

from datetime import date
from pathlib import Path

import pytest

from analyzer.errors import ConfigError
from analyzer.interfaces.onboarding.prices import PRICES_NAME, given, keep_prices, priced_skus
from analyzer.prices.price_book import price_book
from analyzer.settings.settings import Settings
from collector.config import SETTINGS_NAME
from tests.analyzer.ledger.fleet import MONDAY

SKUS = ("A100-80GB", "H100-80GB", "H100-94GB")
TODAY = date(2026, 11, 22)


def prices(directory: Path, *texts: str, skus: tuple[str, ...] = SKUS, since: int = MONDAY) -> Settings:
    """Keep prices beside a store, and return its settings as the next command reads them."""
    keep_prices(directory, Settings.beside(directory / "store"), given(texts), skus, since, TODAY)
    return Settings.beside(directory / "store")


def micros(settings: Settings, sku: str, at: int = MONDAY) -> int | None:
    """Return the price of a SKU."""
    found = price_book(settings).price(sku, None, at)
    return None if found is None else found.micros_per_gpu_hour


def test_a_kind_is_every_memory_of_it_and_a_sku_itself(tmp_path: Path) -> None:
    """People say H100; the ledger says H100-80GB."""
    settings = prices(tmp_path, "h100=2.60", "A100-80GB=1.1")
    assert [micros(settings, sku) for sku in SKUS] == [1_100_000, 2_600_000, 2_600_000]


def test_another_price_takes_the_place_of_the_last_and_leaves_the_others(tmp_path: Path) -> None:
    """The second import names what the first did not, and corrects what it got wrong."""
    prices(tmp_path, "h100=2.60")
    settings = prices(tmp_path, "a100=1.1", "h100-94gb=3")
    assert [micros(settings, sku) for sku in SKUS] == [1_100_000, 2_600_000, 3_000_000]


def test_an_earlier_history_is_priced_too(tmp_path: Path) -> None:
    """The book begins with the earliest span that was brought."""
    prices(tmp_path, "h100=2.60")
    month = 30 * 86_400_000_000
    settings = prices(tmp_path, "h100=2.60", since=MONDAY - month)
    assert micros(settings, "H100-80GB", MONDAY - month) == 2_600_000


def test_settings_keep_every_line(tmp_path: Path) -> None:
    """They are the site's own."""
    own = '# ours\n[collector]\nslurm = "alpha"\n\n[analyzer]  # the ledger\ncluster = "alpha"\n'
    (tmp_path / SETTINGS_NAME).write_text(own)
    assert micros(prices(tmp_path, "h100=2"), "H100-80GB") == 2_000_000
    assert set(own.splitlines()) < set((tmp_path / SETTINGS_NAME).read_text().splitlines())


def test_a_site_s_own_book_is_not_overruled(tmp_path: Path) -> None:
    """A contract in a file, reviewed and dated, must not lose to a flag."""
    (tmp_path / "ours.toml").write_text('currency = "USD"\n')
    (tmp_path / SETTINGS_NAME).write_text('[analyzer]\nprices = "ours.toml"\n')
    with pytest.raises(ConfigError, match=r"ours\.toml"):
        prices(tmp_path, "h100=2")


def test_a_book_that_nobody_named_is_not_written_over(tmp_path: Path) -> None:
    """It may be somebody's work."""
    (tmp_path / PRICES_NAME).write_text("# mine\n")
    with pytest.raises(ConfigError, match=PRICES_NAME):
        prices(tmp_path, "h100=2")


def test_without_prices_nothing_is_written(tmp_path: Path) -> None:
    """An import without --price leaves no file that was not asked for."""
    prices(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_what_has_no_price_and_what_is_not_here_are_told(tmp_path: Path) -> None:
    """A typing mistake in a kind would leave its GPUs without a price, silently."""
    found = priced_skus(price_book(prices(tmp_path)), given(["h100=2", "b200=9"]), SKUS, MONDAY)
    assert (found.known, found.unknown, found.unused) == (SKUS[1:], SKUS[:1], ("b200",))


@pytest.mark.parametrize("text", ["h100", "h100=", "=2", "h100=cheap", "h100=-1", "h100=2.1234567", "h100=nan", "h]=2"])
def test_what_is_no_price_is_refused(text: str) -> None:
    """Exit code 2, in a sentence."""
    with pytest.raises(ConfigError):
        given([text])


def test_a_kind_has_one_price() -> None:
    """The later of two would win without a word."""
    with pytest.raises(ConfigError, match="twice"):
        given(["h100=2", "H100=3"])
