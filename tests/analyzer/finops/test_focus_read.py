"""Reading FOCUS files of others: strict, exact, and each error names its line and column."""

from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from analyzer.errors import ConfigError
from analyzer.finops.focus.read import is_own, read_focus
from analyzer.settings.bounded import ROW_MOST
from tests.analyzer.finops.focus_books import DAY, NOVEMBER
from tests.analyzer.finops.reconcile_invoices import LINE, invoice
from tests.analyzer.finops.test_focus_export import VERSIONS, exported, small


def test_a_line_is_read_as_it_is_written(tmp_path: Path) -> None:
    """No binary float on the way: 20.80 is 20.80, and 1e-9 a billionth."""
    (line,) = read_focus(invoice(tmp_path / "i.csv", {"EffectiveCost": "62.400000000000000001", "BilledCost": "1e-9"}))
    assert (line.effective, line.billed) == (Decimal("62.400000000000000001"), Decimal("0.000000001"))
    assert (line.start, line.end, line.provider) == (NOVEMBER, NOVEMBER + DAY, "AWS")
    assert (line.unit_price, line.quantity, line.unit) == (Decimal("20.80"), Decimal(3), "Hours")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_what_we_write_we_read(tmp_path: Path, version: str, form: str) -> None:
    """The two are written apart: what is read back sums to the ledger."""
    books = small()
    exported(books, tmp_path, version, form)  # type: ignore[arg-type]
    lines = list(read_focus(tmp_path / f"bill.{form}"))
    assert sum((line.effective for line in lines), Decimal(0)) * 1_000_000 == books.total()
    assert is_own(tmp_path / f"bill.{form}")


def test_a_parquet_of_floats_is_read_to_their_shortest_decimal(tmp_path: Path) -> None:
    """Some providers write doubles; 0.1 is then meant to be a tenth."""
    line = {name: [value] for name, value in LINE.items()} | {"EffectiveCost": [0.1], "BilledCost": [2.0]}
    pq.write_table(pa.table(line), tmp_path / "i.parquet")
    (found,) = read_focus(tmp_path / "i.parquet")
    assert (found.effective, found.billed) == (Decimal("0.1"), Decimal(2))


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"EffectiveCost": "12,50"}, r"line 3: EffectiveCost is '12,50': not a decimal number"),
        ({"EffectiveCost": "NaN"}, "EffectiveCost is 'NaN'"),
        ({"EffectiveCost": "1e999999"}, "not a decimal number of up to 38 digits"),
        ({"EffectiveCost": ""}, "EffectiveCost is '': it must not be null"),
        ({"ChargeCategory": "Use"}, "ChargeCategory is 'Use': it is one of Usage"),
        ({"BillingCurrency": "credits"}, "not an ISO 4217 code"),
        ({"ChargePeriodStart": "1 Nov"}, "not a time such as 2026-11-01T00:00:00Z"),
        (
            {"ChargePeriodEnd": "9999-12-31T00:00:00Z"},
            "ChargePeriodEnd is '9999.*: the charge would last more than ten",
        ),
        ({"ChargePeriodEnd": "2026-11-01T00:00:00Z"}, "it is not after ChargePeriodStart"),
    ],
)
def test_a_wrong_cell_is_named(tmp_path: Path, wrong: dict[str, str], words: str) -> None:
    """Nobody can mend what is not named, and nothing is guessed of a bill."""
    with pytest.raises(ConfigError, match=words):
        list(read_focus(invoice(tmp_path / "i.csv", {}, wrong)))


def test_a_file_that_is_no_bill_is_refused(tmp_path: Path) -> None:
    """The sentence says which columns it lacks, or that it is no such file."""
    with pytest.raises(ConfigError, match=r"it lacks EffectiveCost, ServiceProviderName \(or ProviderName\)"):
        list(read_focus(invoice(tmp_path / "i.csv", {}, without=["EffectiveCost", "ProviderName"])))
    ragged = tmp_path / "ragged.csv"
    ragged.write_text(invoice(tmp_path / "i.csv", {}).read_text() + "1,2,3\n")
    with pytest.raises(ConfigError, match="line 3: 3 cells, and the header has 22"):
        list(read_focus(ragged))
    for name, content in (("a.csv", b"\xff\xfe\x00bill"), ("a.parquet", b"PAR1 and no more"), ("b.csv", b"")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ConfigError):
            list(read_focus(tmp_path / name))
    with pytest.raises(ConfigError, match="cannot read"):
        list(read_focus(tmp_path / "none.csv"))


def test_a_file_without_line_ends_is_not_read_whole(tmp_path: Path) -> None:
    """A dump of gigabytes in one line must not fill the memory of whoever names the wrong file."""
    endless, quoted = tmp_path / "endless.csv", tmp_path / "quoted.csv"
    endless.write_text("x," * ROW_MOST)
    row = ",".join('"x\n"' for _ in range(ROW_MOST // 4))  # one row, of which no line is long
    quoted.write_text(invoice(tmp_path / "i.csv", {}).read_text() + row)
    for read in (is_own, lambda path: list(read_focus(path))):
        with pytest.raises(ConfigError, match=r"endless.csv, line 1: a row of more than 1,000,000 characters"):
            read(endless)
    with pytest.raises(ConfigError, match=r"quoted.csv, line \d+: a row of more than"):
        list(read_focus(quoted))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (
            b"Invoice,INV-1\nPeriod,November\n\nBilledCost,EffectiveCost\n",
            r"first line has 'Invoice, INV-1', and it lacks",
        ),
        ("BilledCost\n".encode("utf-16"), "neither text in UTF-8 nor Parquet; export it as CSV in UTF-8"),
        (b"PK\x03\x04 a workbook", "a ZIP archive or a workbook; unpack it or save its sheet as CSV"),
    ],
    ids=["notes above the head", "UTF-16", "workbook"],
)
def test_what_is_no_bill_is_refused_by_what_it_is(tmp_path: Path, content: bytes, words: str) -> None:
    """With the way out: the columns stand further down, or in another coding."""
    path = tmp_path / "bill"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=words):
        list(read_focus(path))
