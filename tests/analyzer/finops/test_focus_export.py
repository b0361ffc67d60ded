"""The ledger as a bill in FOCUS: every sum is the ledger's, every identity holds in the decimals that are printed."""

import json
import os
import random
import re
import subprocess
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analyzer.errors import ConfigError, LedgerError
from analyzer.finops.focus.charges import Charge
from analyzer.finops.focus.columns import FOCUS, Issuer, Version, columns
from analyzer.finops.focus.export import Exported, ExportOptions, FileFormat, export_focus, write
from analyzer.finops.focus.read import read_focus
from analyzer.finops.focus.rows import RowContext, exact_shares, nano_hours, scaled, usage_rows
from analyzer.finops.reconcile.bill import gather
from analyzer.finops.reconcile.gpu_lines import SkuMap
from analyzer.period import Period
from analyzer.states import BOOKINGS
from analyzer.text.table import decimal_digits, safe_cell
from tests.analyzer.finops.focus_books import DAY, HOUR, MS_PER_HOUR, NOVEMBER, Books
from tests.analyzer.finops.focus_checker import complaints, rows_of, total
from tests.analyzer.ledger.amounts import book

MONTH = Period(NOVEMBER, NOVEMBER + 30 * DAY, "2026-11", "UTC")
VERSIONS: tuple[Version, ...] = get_args(Version)
WORK = [("slurm/a/1", "productive", "compute", 2_000_001), ("slurm/a/1", "starved", "storage", 999_999)]
FREE = [(None, "unallocated", "free", MS_PER_HOUR)]


def exported(
    books: Books, path: Path, version: Version = "1.2", form: FileFormat = "csv", **more: object
) -> tuple[list[dict[str, str]], Exported]:
    """Export November, and read it back."""
    issuer = Issuer(version, "alpha", "alpha", "USD", "UTC")
    asked = replace(ExportOptions(issuer, MONTH, form=form), **more)  # type: ignore[arg-type]
    file = path / f"bill.{form}"
    with books.session() as session:
        done = export_focus(session, asked, file)
    return rows_of(file), done


def small() -> Books:
    """One GPU of each way to buy, for an hour of work, reserve and rest."""
    books = Books()
    books.run("slurm/a/1")
    books.run("slurm/a/2", team=None)
    rest = [*WORK, (None, "unallocated", "free", 600_000)]
    books.gpu_hour(rest, gpu="GPU-1", option="owned", price=1_100_000, sku="A100-80GB")
    books.gpu_hour(rest, gpu="GPU-2", option="reserved")
    books.gpu_hour(FREE, gpu="GPU-3", option="reserved")
    books.gpu_hour([("slurm/a/2", "productive", "decode", MS_PER_HOUR)], gpu="GPU-4", option="spot", price=333_333)
    books.gpu_hour([("slurm/a/2", "held_idle", "abandoned", 7)], gpu="GPU-5", option="on_demand", node="n2")
    return books


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_bill_is_what_the_specification_says(tmp_path: Path, version: Version, form: FileFormat) -> None:
    """Every mandatory column, every identity, by a checker that shares nothing with the writer."""
    books = small()
    rows, done = exported(books, tmp_path, version, form)
    assert complaints(rows, version) == []
    assert len(rows) == done.rows
    assert total(rows, "EffectiveCost") == total(rows, "BilledCost") == done.cost_micros == books.total()


VALIDATOR = Path(__file__).parents[3] / ".venv-focus" / "bin" / "focus-validator"
# What applies to a fleet's bill; docs/focus.md says what does not, and why the failures below are the validator's own.
CRITERIA = (
    "ACCOUNT_NAMING_SUPPORTED", "AVAILABILITY_ZONE_SUPPORTED", "BILLING_BASED_ON_PROVISIONED_RESOURCES_SUPPORTED",
    "COMMITMENT_DISCOUNT_SUPPORTED", "MULTIPLE_PRICING_CATEGORIES_SUPPORTED", "NEGOTIATED_PRICING_SUPPORTED",
    "REGION_SUPPORTED", "RESOURCE_TYPE_ASSIGNMENT_SUPPORTED", "SUB_ACCOUNT_SUPPORTED", "TAGGING_SUPPORTED",
    "UNIT_PRICING_SUPPORTED", "USAGE_MEASUREMENT_SUPPORTED",
)  # fmt: skip
VALIDATORS_OWN = {
    "CommitmentDiscountStatus-C-000-C", "CommitmentDiscountStatus-C-002-C", "CommitmentDiscountStatus-C-004-C",
    "InvoiceId-C-005-C",
}  # fmt: skip


@pytest.mark.skipif(not VALIDATOR.exists(), reason="optional: the public validator is not here; make validator")
@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_the_public_validator_finds_what_is_its_own_alone(tmp_path: Path, form: FileFormat) -> None:
    """578 rules of 1.2; of 1.4 the public validator has none. It reads files of its own below the working folder."""
    exported(small(), tmp_path, "1.2", form)
    asked: list[str | Path] = [
        VALIDATOR, "--data-file", tmp_path / f"bill.{form}", "--validate-version", "1.2", "--block-download",
        "--show-violations", "--applicability-criteria", ",".join(CRITERIA),
    ]  # fmt: skip
    (packages,) = VALIDATOR.parents[1].glob("lib/python3.*/site-packages")
    said = subprocess.run(asked, cwd=packages, capture_output=True, text=True, timeout=300, check=False).stdout
    assert "Total: 578 | Pass: 288 | Fail: 4 | Skipped: 286" in said
    assert set(re.findall(r"^\S+ (\S+): FAIL", said, re.MULTILINE)) == VALIDATORS_OWN


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_what_is_exported_is_read_back_as_a_bill(tmp_path: Path, version: Version, form: FileFormat) -> None:
    """By kind and day the ledger's cost to the millionth, and its GPU-hours; no line of it is passed over."""
    books = small()
    exported(books, tmp_path, version, form)
    bill = gather(read_focus(tmp_path / f"bill.{form}"), SkuMap.of(()))
    with books.session() as session:
        ledger = session.rows("SELECT sku, sum(cost_micros), sum(milliseconds) FROM ledger GROUP BY 1 ORDER BY 1")
    assert [(sku, day.nanos, day.hours_known) for (sku, _, _), day in sorted(bill.days.items())] == [
        (sku, int(micros) * 1000, True) for sku, micros, _ in ledger
    ]
    for (_, day), (_, _, milliseconds) in zip(sorted(bill.days.items()), ledger, strict=True):
        assert abs(day.nano_hours - int(milliseconds) * 10**9 // MS_PER_HOUR) <= len(bill.days) * bill.lines
    assert not bill.others


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("ContractedCost", "1.5", "ContractedUnitPrice x PricingQuantity is not ContractedCost"),
        ("BilledCost", "0.1", "billed twice"),
        ("ChargePeriodStart", "2026-11-01", "ChargePeriodStart is '2026-11-01'"),
        ("ChargeCategory", "usage", "ChargeCategory is 'usage'"),
        ("AllocatedMethodDetails", '{"Elements":[{"AllocatedRatio":0.5}]}', "sum to"),
        ("PricingUnit", "", "a quantity without its unit"),
    ],
)
def test_the_checker_finds_what_is_broken(tmp_path: Path, column: str, value: str, words: str) -> None:
    """A checker that finds nothing proves nothing."""
    rows, _ = exported(small(), tmp_path, "1.4")
    broken = next(row for row in rows if row["CommitmentDiscountStatus"] == "Used")
    broken[column] = value
    assert any(words in complaint for complaint in complaints(rows, "1.4")), complaints(rows, "1.4")


def test_the_two_formats_say_the_same(tmp_path: Path) -> None:
    """Who loads the Parquet must not get another bill than who opens the CSV."""
    books = small()
    assert exported(books, tmp_path, "1.4", "csv")[0] == exported(books, tmp_path, "1.4", "parquet")[0]


@pytest.mark.parametrize("examples", [8, pytest.param(100, marks=pytest.mark.soak)])
def test_any_bill_sums_to_the_ledger(examples: int, tmp_path: Path) -> None:
    """Export, read back, sum: whatever was held, whenever it was owned, at whatever price."""
    settings(max_examples=examples)(given(st.data(), st.just(tmp_path))(_sums_to_the_ledger))()


def _sums_to_the_ledger(data: st.DataObject, folder: Path) -> None:
    books = Books()
    price = st.integers(1, 99_999_999)
    for gpu in range(data.draw(st.integers(1, 4))):
        for hour in data.draw(st.lists(st.integers(0, 40), min_size=1, max_size=3, unique=True)):
            count = data.draw(st.integers(1, 4))
            edges = sorted(data.draw(st.sets(st.integers(1, MS_PER_HOUR), min_size=count, max_size=count)))
            states = data.draw(st.lists(st.sampled_from(BOOKINGS), min_size=count, max_size=count))
            lengths = [until - since for since, until in zip([0, *edges], edges, strict=False)]
            parts = [
                (None if said.state == "unallocated" else f"slurm/a/{gpu}", said.state, said.cause, ms)
                for said, ms in zip(states, lengths, strict=True)
            ]
            option = data.draw(st.sampled_from(["reserved", "owned", "spot", "on_demand", None]))
            at = NOVEMBER + hour * HOUR
            books.gpu_hour(parts, at, data.draw(price), f"GPU-{gpu}", f"n{gpu % 2}", option=option)
    hourly = data.draw(st.booleans())
    for version in VERSIONS:
        rows, done = exported(books, folder, version, hourly=hourly)
        assert complaints(rows, version) == []
        assert total(rows, "EffectiveCost") == total(rows, "BilledCost") == done.cost_micros == books.total()


def test_ten_thousand_bills_sum_exactly() -> None:
    """The bar of the project: no rounding of any generated bill creates or loses a millionth."""
    draw = random.Random(2026)
    around = RowContext(Issuer("1.4", "a", "a", "USD", "UTC"), {}, None)
    for _ in range(10_000):
        unit, parts = draw.randrange(1, 20_000_000), draw.randrange(1, 4)
        taken = [draw.randrange(0, MS_PER_HOUR) for _ in range(parts)]
        costs = [draw.randrange(0, 20_000_000) for _ in taken]
        option = draw.choice(["reserved", "owned"])
        bill = [
            Charge(NOVEMBER, NOVEMBER + DAY, "n1", "H100", option, unit, "r/1", "productive", "compute", ms, cost)
            for ms, cost in zip(taken, costs, strict=True)
        ]
        rows = list(usage_rows(bill, around))
        for name in ("EffectiveCost", "BilledCost"):
            printed = [Decimal(decimal_digits(Decimal(str(row[name])))) for row in rows]
            assert sum(printed, Decimal(0)) == scaled(sum(costs), 6)
        for row in rows:
            price, quantity = Decimal(str(row["ContractedUnitPrice"])), Decimal(str(row["PricingQuantity"]))
            assert price * quantity == row["ContractedCost"]


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=40), st.integers(1, 10**12))
def test_shares_sum_to_what_is_shared(parts: list[int], units: int) -> None:
    """Ends telescope, so that nothing is left over, and no share is a unit off."""
    whole = max(sum(parts), 1)
    found = list(exact_shares(parts, whole, units))
    assert sum(found) == (units if sum(parts) else 0)
    assert all(abs(share - part * units / whole) <= 1 + units * 1e-12 for share, part in zip(found, parts, strict=True))


def test_the_hours_of_a_node_and_day_are_whole() -> None:
    """Three thirds of an hour are an hour, though no third can be written."""
    assert sum(nano_hours([1_200_000] * 3)) == 1_000_000_000
    assert nano_hours([1_200_000] * 3) == [333_333_333, 333_333_333, 333_333_334]


def test_what_nobody_held_of_a_reservation_is_its_unused_part(tmp_path: Path) -> None:
    """FOCUS: unused hours are rows of their own; nothing was consumed."""
    rows, _ = exported(small(), tmp_path)
    unused = [row for row in rows if row["CommitmentDiscountStatus"] == "Unused"]
    assert {row["x_State"] for row in unused} == {"unallocated"}
    assert {row["ConsumedQuantity"] for row in unused} == {""}
    assert {row["x_PurchaseOption"] for row in rows if row["CommitmentDiscountId"]} == {"reserved"}


def test_energy_is_beside_the_bill(tmp_path: Path) -> None:
    """A GPU's joules are divided by time over what its hour was booked to, and change no cost; unknown is not 0."""
    books = Books()
    books.gpu_hour([("r/1", "productive", "compute", 2_700_000), ("r/1", "held_idle", "abandoned", 900_000)])
    books.gpu_hour(FREE, gpu="GPU-2")
    columns = ("node", "gpu_uuid", "started_at", "ended_at", "energy_joules", "batch")
    samples = [("n1", "GPU-1", NOVEMBER + half * HOUR // 2, NOVEMBER + HOUR, 720_000.0, 1) for half in range(2)]
    with books.session() as session:
        session.load("gpu_samples", columns, samples)
    book(books.store)
    rows, done = exported(books, tmp_path, energy=True)
    assert {row["x_State"]: row["x_EnergyKwh"] for row in rows} == {
        "productive": "0.3",
        "held_idle": "0.1",
        "unallocated": "",
    }
    assert total(rows, "EffectiveCost") == done.cost_micros
    assert {row["x_EnergyKwh"] for row in exported(books, tmp_path)[0]} == {""}


def test_what_nobody_held_is_no_teams(tmp_path: Path) -> None:
    """Spare capacity is never smeared over teams, and a run of no known team says so."""
    rows, _ = exported(small(), tmp_path)
    of = {(row["x_Holder"], row["SubAccountId"]) for row in rows if row["ChargeCategory"] == "Usage"}
    assert of == {("team", "team-a"), ("unmapped", ""), ("nobody", "")}


def test_useful_and_avoidable_are_the_ledgers(tmp_path: Path) -> None:
    """Only what the ledger calls avoidable may be called so on a bill."""
    rows, _ = exported(small(), tmp_path)
    for row in rows:
        if row["ChargeCategory"] == "Usage":
            assert Decimal(row["x_UsefulCost"]) == (Decimal(row["EffectiveCost"]) if row["x_Class"] == "useful" else 0)
            waste = Decimal(row["EffectiveCost"]) if row["x_Class"] == "avoidable" else 0
            assert Decimal(row["x_AvoidableCost"]) == waste


def test_a_team_that_is_a_formula_stays_text(tmp_path: Path) -> None:
    """A spreadsheet must not run what somebody called a team; the Parquet has the name as it is."""
    hostile = "=cmd|' /C calc'!A0\",\n<script>"
    books = Books()
    books.run("slurm/a/1", team=hostile, name="@SUM(A1)")
    books.gpu_hour([("slurm/a/1", "productive", "compute", MS_PER_HOUR)])
    rows, _ = exported(books, tmp_path)
    assert rows[0]["SubAccountId"] == "'=cmd|' /C calc'!A0\", <script>"
    assert rows[0]["ResourceName"] == "'@SUM(A1)"
    assert complaints(rows, "1.2") == []
    assert exported(books, tmp_path, form="parquet")[0][0]["SubAccountId"] == hostile


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("form", ["csv", "parquet"])
@pytest.mark.parametrize(
    "model", [None, "llama-3-70b", '=HYPERLINK("http://x","y")', 'a"}, "team": "others\\', "模型 <b>"]
)
def test_tags_name_the_runs_model(tmp_path: Path, version: Version, form: FileFormat, model: str | None) -> None:
    """Finance splits by model what teams share: whatever it is called, it is one value, and no cell a formula."""
    books = Books()
    books.run("slurm/a/1", model=model, stage="pretrain")
    books.gpu_hour([("slurm/a/1", "productive", "compute", 3_000_000), (None, "unallocated", "free", 600_000)])
    rows, _ = exported(books, tmp_path, version, form)
    assert complaints(rows, version) == []
    held, free = ([row for row in rows if bool(row["x_RunId"]) is is_held] for is_held in (True, False))
    known = {"team": "team-a", "stage": "pretrain"} | ({"model": model} if model else {})
    columns = ("Tags",) if version == "1.2" else ("Tags", "AllocatedTags")
    assert [json.loads(row[column]) for row in held for column in columns] == [known] * len(columns)
    assert [json.loads(row["Tags"]) for row in free] == [{}]
    assert all(row[column].startswith("{") for row in held for column in columns)


@given(st.text())
def test_no_cell_is_a_formula(text: str) -> None:
    """Whatever the text, a cell neither begins as a formula does nor breaks its line."""
    cell = safe_cell(text)
    assert not cell.lstrip().startswith(("=", "+", "-", "@", "＝", "＋", "－", "＠"))
    assert len(cell.splitlines()) <= 1


def test_a_bill_without_a_price_is_refused(tmp_path: Path) -> None:
    """What has no price is unknown, and not free."""
    books = small()
    books.gpu_hour(FREE, gpu="GPU-9", price=None)
    with pytest.raises(LedgerError, match=r"1\.0 GPU-hours have no price"):
        exported(books, tmp_path)
    assert list(tmp_path.iterdir()) == []
    rows, done = exported(books, tmp_path, leave_out_unpriced=True)
    assert done.unpriced_ms == MS_PER_HOUR
    assert total(rows, "EffectiveCost") == books.total()


def test_a_correction_is_dated_now_and_names_what_it_corrects(tmp_path: Path) -> None:
    """October is final: what is learned of it in November is November's line, for October's hour."""
    books = small()
    october, learned = NOVEMBER - 5 * HOUR, NOVEMBER + 9 * DAY
    books.adjust(october, learned, "productive", "compute", -100, -72)
    books.adjust(october, learned, "starved", "storage", 100, 72)
    books.adjust(NOVEMBER, learned, "starved", "storage", 0, -50_000)
    rows, done = exported(books, tmp_path)
    found = [row for row in rows if row["ChargeCategory"] == "Adjustment"]
    assert [row["ChargeClass"] for row in found] == ["Correction", "Correction", ""]  # November is not over
    assert {row["BillingPeriodStart"] for row in found} == {"2026-11-01T00:00:00Z"}
    assert found[0]["ChargePeriodStart"] == "2026-10-31T19:00:00Z"
    assert total(rows, "EffectiveCost", adjustments=True) == done.adjusted_micros == -50_000
    assert total(rows, "EffectiveCost") == books.total()
    assert complaints(rows, "1.2") == []


def test_a_month_is_the_sites(tmp_path: Path) -> None:
    """Hours are final with the site's month, so that the bill's month is that one too."""
    books = Books()
    books.gpu_hour(FREE, NOVEMBER - HOUR)
    berlin = Period(NOVEMBER - HOUR, NOVEMBER + DAY, "2026-11", "Europe/Berlin")
    issuer = Issuer("1.4", "alpha", "alpha", "USD", "Europe/Berlin")
    rows, _ = exported(books, tmp_path, "1.4", period=berlin, issuer=issuer)
    assert rows[0]["BillingPeriodStart"] == rows[0]["ChargePeriodStart"] == "2026-10-31T23:00:00Z"
    assert rows[0]["BillingPeriodEnd"] == "2026-11-30T23:00:00Z"


def test_nothing_half_written_is_left(tmp_path: Path) -> None:
    """A file that is there is a whole bill: what fails leaves the old one, and no other."""
    file = tmp_path / "bill.csv"
    file.write_text("the old one")

    def refuse() -> None:
        raise LedgerError("no")

    with pytest.raises(LedgerError):
        write(file, columns("1.2"), [], "csv", refuse)
    assert file.read_text() == "the old one"
    assert list(tmp_path.iterdir()) == [file]
    with pytest.raises(ConfigError, match="cannot write"):
        write(tmp_path / "none" / "bill.csv", columns("1.2"), [], "csv", lambda: None)


def test_a_name_that_was_laid_out_before_is_not_written_through(tmp_path: Path) -> None:
    """In a folder where others write too, a link under a name that could be known would let them choose the file."""
    victim = tmp_path / "victim"
    victim.write_text("untouched")
    file = tmp_path / "bill.csv"
    (tmp_path / f".{file.name}.{os.getpid()}").symlink_to(victim)
    seen: list[str] = []

    def look() -> None:
        seen.extend(path.name for path in tmp_path.iterdir() if path.name.startswith(".gpuledger-"))

    write(file, columns("1.2"), [], "csv", look)
    write(tmp_path / "again.csv", columns("1.2"), [], "csv", look)
    assert victim.read_text() == "untouched"
    assert file.exists()
    assert len(set(seen)) == 2


def test_an_empty_period_is_no_bill(tmp_path: Path) -> None:
    """An empty file would say that nothing was used."""
    with pytest.raises(LedgerError, match="no hour of 2026-11"):
        exported(Books(), tmp_path)


def test_columns_are_in_the_order_of_their_names() -> None:
    """As the specification lists them: who looks for one finds it."""
    names = [column.name for column in FOCUS]
    assert names == sorted(names)
