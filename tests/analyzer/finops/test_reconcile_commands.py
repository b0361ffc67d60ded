"""The commands on bills, as finance meets them: what they print, keep and refuse."""

import json
import tomllib
from datetime import date
from pathlib import Path

import pytest

from analyzer.errors import ConfigError
from analyzer.finops.focus.read import read_focus
from analyzer.finops.reconcile.bill import gather
from analyzer.finops.reconcile.gpu_lines import SkuMap
from analyzer.finops.reconcile.unit_prices import price_file, unit_prices
from analyzer.interfaces.cli.bills import csv, focus, import_focus, prices_reconcile
from analyzer.prices.price_book import PriceBook, PriceRow
from collector.store.database import Store
from tests.analyzer.finops.focus_books import DAY, NOVEMBER, Books
from tests.analyzer.finops.focus_checker import complaints, rows_of
from tests.analyzer.finops.reconcile_invoices import invoice
from tests.analyzer.finops.test_reconcile import SECOND_DAY, three_hours

COMMITTED = {"PricingCategory": "Committed", "EffectiveCost": "31.20"}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store on disk of one host and one day, with its settings beside it."""
    path = tmp_path / "store.duckdb"
    three_hours(Books(Store.open(path, memory_limit="300MB"))).store.close()
    (tmp_path / "gpuledger.toml").write_text('[analyzer]\ncluster = "alpha"\n')
    return path


def test_a_bill_by_command(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line says what was written and that the month is not whole."""
    out = store.with_name("bill.csv")
    assert focus(["--month", "2026-11", "--version", "1.4", "--store", str(store), "--out", str(out)]) == 0
    said = capsys.readouterr().err.splitlines()
    assert said == [f"{out}: FOCUS 1.4, 1 rows, USD 62.40", "2026-11: open, 24 of 720 h"]
    rows = rows_of(out)
    assert complaints(rows, "1.4") == []
    assert rows[0]["ServiceProviderName"] == "alpha"
    assert csv(["--since", "2026-11-01", "--store", str(store), "--out", str(store.with_name("rows.csv"))]) == 0
    with pytest.raises(ConfigError, match="names no month"):
        focus(["--month", "2026-13", "--store", str(store), "--out", str(out)])
    with pytest.raises(ConfigError, match="say which month"):
        focus(["--store", str(store), "--out", str(out)])


def test_a_reconciliation_by_command_is_kept(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 1 where they do not match; --dry-run keeps nothing; --json has the integers."""
    path = invoice(store.with_name("i.csv"), {})
    arguments = ["--invoice", str(path), "--store", str(store)]
    assert prices_reconcile([*arguments, "--dry-run"]) == 0
    assert "Matched within 0.0%" in capsys.readouterr().out
    assert _kept(store) == []
    assert prices_reconcile([*arguments, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["invoice_micros"] == 62_400_000
    assert _kept(store) == [("2026-11-01", True, 0)]
    invoice(path, {"EffectiveCost": "80"})
    assert prices_reconcile(arguments) == 1


def _kept(store: Path) -> list[tuple[object, ...]]:
    with Store.open(store, read_only=True) as opened, opened.session() as session:
        return session.rows("SELECT period_label, matched, apart_permille FROM invoice_matches ORDER BY recorded_at")


def test_the_prices_of_a_bill_are_a_price_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is printed is read by the price book as it stands: kinds, options, dates and source."""
    path = invoice(tmp_path / "i.csv", {}, COMMITTED, SECOND_DAY | {"ContractedUnitPrice": "24", "EffectiveCost": "72"})
    assert import_focus([str(path), "--as-of", "2026-11-03"]) == 0
    found = PriceBook.parse("prices", capsys.readouterr().out.encode())
    assert found.currency == "USD"
    rows = [row for row in found.rows if isinstance(row, PriceRow)]
    assert [(row.sku, row.purchase_option, row.micros_per_gpu_hour, row.starts_at, row.ends_at) for row in rows] == [
        ("H100-80GB", "on_demand", 2_600_000, NOVEMBER, NOVEMBER + DAY),
        ("H100-80GB", "on_demand", 3_000_000, NOVEMBER + DAY, None),
        ("H100-80GB", "reserved", 1_300_000, NOVEMBER, None),
    ]
    assert {(row.source, row.as_of) for row in rows} == {("bill i.csv", date(2026, 11, 3))}


def test_several_prices_of_a_day_are_their_mean_and_say_so(tmp_path: Path) -> None:
    """Two hours at 20.80 and one at 24: 21.866667 an hour of eight GPUs."""
    path = invoice(
        tmp_path / "i.csv",
        {"PricingQuantity": "2", "EffectiveCost": "41.60"},
        {"PricingQuantity": "1", "ContractedUnitPrice": "24", "EffectiveCost": "24"},
    )
    found = unit_prices(gather(read_focus(path), SkuMap.of(())), "a bill", date(2026, 11, 3))
    assert found is not None
    (row,) = found.rows
    assert (row.micros_per_gpu_hour, row.source) == (2_733_333, "a bill; the day's mean of several prices")


def test_a_bill_without_prices_is_refused(tmp_path: Path) -> None:
    """No price is guessed: two currencies are not one, and an unknown instance has none."""
    euros = invoice(tmp_path / "e.csv", {}, {"BillingCurrency": "EUR"})
    with pytest.raises(ConfigError, match="GPUs are billed in EUR, USD; a price file has one currency"):
        import_focus([str(euros)])
    with pytest.raises(ConfigError, match="has no price of a GPU-hour"):
        import_focus([str(invoice(tmp_path / "u.csv", {"ChargeDescription": "m5.large"}))])


def test_a_hostile_name_is_a_string_of_the_price_file(tmp_path: Path) -> None:
    """A file's name must not write rows of its own."""
    path = invoice(tmp_path / 'a"\n[[price]]\n\U0001f4b8.csv', {})
    found = unit_prices(gather(read_focus(path), SkuMap.of(())), f"bill {path.name}", date(2026, 11, 3))
    assert found is not None
    parsed = tomllib.loads(price_file(found))
    assert [row["source"] for row in parsed["price"]] == [f"bill {path.name}"]
