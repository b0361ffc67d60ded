"""Bills as providers, marketplaces and query engines write them, each of one day of 16 hosts of 8 H100 at 2.60.

What is right is said of each: it matches and gives 2.60 per GPU-hour, or the sentence that refuses it.
"""

import csv
import gzip
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from analyzer.errors import ConfigError
from analyzer.finops.charges.sums import charges, read_held
from analyzer.finops.reconcile.bill import Bill
from analyzer.finops.reconcile.compare import Comparison, gathered, reconcile
from analyzer.finops.reconcile.gpu_lines import SkuMap, unit_of
from analyzer.finops.reconcile.invoice_matches import InvoiceSource, keep, last_match, match_words
from analyzer.finops.reconcile.text import label_of_compared, reconcile_text
from analyzer.finops.reconcile.unit_prices import price_file, unit_prices
from analyzer.interfaces.cli.bills import import_focus, prices_reconcile
from analyzer.period import Calendar, Period
from analyzer.prices.price_book import PriceBook
from tests.analyzer.finops.focus_books import DAY, HOUR, LEDGER, MS_PER_HOUR, NOVEMBER, Books

HOSTS, GPUS = 16, 128
TENTH = NOVEMBER + 9 * DAY
COST = 7_987_200_000  # of the day, in millionths
LINE: Mapping[str, str] = {
    "BilledCost": "499.20", "EffectiveCost": "499.20", "ContractedCost": "499.20", "ListCost": "800.00",
    "BillingCurrency": "USD", "BillingAccountId": "4711", "ChargeCategory": "Usage", "ChargeClass": "",
    "ChargeDescription": "$20.80 per On Demand Linux p5.48xlarge Instance Hour",
    "ChargePeriodStart": "2026-11-10T00:00:00Z", "ChargePeriodEnd": "2026-11-11T00:00:00Z",
    "ContractedUnitPrice": "20.80", "PricingCategory": "Standard", "PricingQuantity": "24", "PricingUnit": "Hours",
    "ProviderName": "Example Cloud", "RegionId": "us-east-1", "ServiceName": "Compute", "SkuId": "ABCDEFGH",
    "ServiceCategory": "", "SkuMeter": "", "SkuPriceDetails": "", "ResourceId": "",
}  # fmt: skip
GPU_HOURS = {"PricingUnit": "GPU-Hours", "PricingQuantity": "192", "ContractedUnitPrice": "2.60"}
PARTS = {"ChargeDescription": "Compute - GPU - H100", "SkuId": "B98415", "PricingCategory": ""}
PART_MAP = '[[invoice]]\nmatch = "B98415"\nsku = "H100-80GB"\ngpus = 1\n'
FEE = {"EffectiveCost": "59.904", "BilledCost": "59.904", "ContractedUnitPrice": "2.496", "SkuId": "FEE1"}
TAX = {
    "EffectiveCost": "1", "BilledCost": "1", "ChargeCategory": "Tax", "ChargeDescription": "VAT",
    "ContractedUnitPrice": "", "PricingQuantity": "",
}  # fmt: skip
HOST = [
    {"SkuMeter": "Nvidia H100 80GB GPU running in Iowa", "ChargeDescription": "", "SkuId": "GPU-1",
     "EffectiveCost": "384", "ContractedUnitPrice": "2", "PricingQuantity": "192"},
    {"SkuMeter": "A3 Instance Core running in Iowa", "ChargeDescription": "", "SkuId": "CORE-1",
     "EffectiveCost": "74.88", "ContractedUnitPrice": "0.015", "PricingQuantity": "4992"},
    {"SkuMeter": "A3 Instance Ram running in Iowa", "ChargeDescription": "", "SkuId": "RAM-1",
     "EffectiveCost": "40.32", "ContractedUnitPrice": "0.0009", "PricingQuantity": "44800", "PricingUnit": "GiB-Hours"},
]  # fmt: skip
GPU_MAP = '[[invoice]]\nmatch = "*H100 80GB GPU*"\nsku = "H100-80GB"\ngpus = 1\n'
HOST_MAP = GPU_MAP + '[[invoice]]\nmatch = "A3 Instance *"\nsku = "H100-80GB"\ngpus = 0\n'
Lines = Sequence[Mapping[str, str]]


@pytest.fixture(scope="module")
def books() -> Books:
    """The ledger of the week from 9 November."""
    books = Books()
    hours = [TENTH - DAY + hour * HOUR for hour in range(7 * 24)]
    rows = [
        (hour, f"GPU-{gpu}", f"n{gpu // 8}", "H100-80GB", "reserved", None, 0, "unallocated", "free", False,
         MS_PER_HOUR, 2_600_000, "test")
        for hour in hours
        for gpu in range(GPUS)
    ]  # fmt: skip
    with books.session() as session:
        session.load("ledger", LEDGER, rows)
    for hour in hours:
        books.hour(hour)
    return books


def hosts(*lines: Mapping[str, str]) -> list[dict[str, str]]:
    """Return these lines for each of the hosts, or the plain one."""
    return [{**LINE, "ResourceId": f"i-{host:03}", **line} for host in range(HOSTS) for line in (lines or ({},))]


def csv_of(lines: Lines) -> str:
    """Return lines as CSV."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(lines[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()


def written(path: Path, content: str | bytes) -> Path:
    """Write a file."""
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def held(books: Books, path: Path | Sequence[Path], mapping: str = "") -> tuple[Comparison, Bill]:
    """Hold a bill against the ledger."""
    paths = [path] if isinstance(path, Path) else path
    maps = [written(paths[0].with_name("map.toml"), mapping)] if mapping else []
    with books.session() as session:
        return reconcile(session, paths, maps, "USD")


def prices(bill: Bill) -> list[tuple[str, str | None, str | None, int]]:
    """Return the rows of a bill's prices, as the price book reads them: kind, option, region, millionths."""
    found = unit_prices(bill, "bill", date(2026, 12, 1))
    assert found is not None
    book = PriceBook.parse("prices", price_file(found).encode())
    return [(row.sku or "", row.purchase_option, row.region, row.micros_per_gpu_hour) for row in book.rows]


@dataclass(frozen=True)
class Case:
    """A bill that matches: 3,072 GPU-hours at 2.60."""

    lines: Lines
    mapping: str = ""
    option: str | None = "on_demand"


MATCHING: Mapping[str, Case] = {
    "plain": Case(hosts()),
    "counts GPUs": Case(hosts(GPU_HOURS)),
    "counts GPUs, names bare metal": Case(hosts(GPU_HOURS | {"ChargeDescription": "Compute - GPU - BM.GPU.H100.8"})),
    "counts GPUs, with a blank": Case(hosts(GPU_HOURS | {"PricingUnit": "GPU Hours"})),
    "part number": Case(hosts(GPU_HOURS | PARTS), PART_MAP, None),
    "part number per hour": Case(hosts(GPU_HOURS | PARTS | {"PricingUnit": "GPU Per Hour"}), PART_MAP, None),
    **{
        f"called {name}": Case(hosts(GPU_HOURS | {"ChargeDescription": "", "SkuMeter": name}))
        for name in ("NVIDIA H100 80GB HBM3", "H100-80GB", "H100 SXM5 80 GB", "Nvidia H100 80GB GPU")
    },
    "by the second": Case(
        hosts({"PricingUnit": "Seconds", "PricingQuantity": "86400", "ContractedUnitPrice": "0.005777777777"})
    ),
    "by the day": Case(hosts({"PricingUnit": "Days", "PricingQuantity": "1", "ContractedUnitPrice": "499.20"})),
    "by hundred hours": Case(
        hosts({"PricingUnit": "100 Hours", "PricingQuantity": "0.24", "ContractedUnitPrice": "2080"})
    ),
    "by hundred hours, of which single ones are counted": Case(
        hosts({"PricingUnit": "100 Hours", "ContractedUnitPrice": "2080"})
    ),
    "by hundred hours, which the unit does not say": Case(
        hosts(
            {
                "PricingQuantity": "0.24",
                "ContractedUnitPrice": "2080",
                "ConsumedQuantity": "24",
                "ConsumedUnit": "Hours",
            }
        )
    ),
    "by the minute": Case(hosts({"PricingUnit": "1/Minute", "PricingQuantity": "1440", "ContractedUnitPrice": ""})),
    "fee described": Case(hosts({}, FEE | {"ChargeDescription": "$2.496 per hour management fee for p5.48xlarge"})),
    "fee with details": Case(
        hosts({}, FEE | {"ChargeDescription": "management fee", "SkuPriceDetails": '{"InstanceType":"p5.48xlarge"}'})
    ),
    "fee that no word tells": Case(hosts({}, FEE | {"ChargeDescription": "p5.48xlarge", "ServiceName": "Kubernetes"})),
    "fee for some hours, that no word tells": Case(
        hosts(
            {"PricingQuantity": "12", "EffectiveCost": "249.60"},
            FEE | {"ChargeDescription": "p5.48xlarge", "PricingQuantity": "12", "EffectiveCost": "29.952"},
            {"PricingQuantity": "12", "EffectiveCost": "249.60"},
        )
    ),
    "a dear fee of a marketplace": Case(
        hosts(
            {},
            FEE
            | {"ChargeDescription": "software for p5.48xlarge", "EffectiveCost": "960", "ContractedUnitPrice": "40"},
        )
    ),
    "fee of another service, without resources": Case(
        hosts({"ResourceId": ""}, FEE | {"ChargeDescription": "p5.48xlarge", "ServiceName": "AI", "ResourceId": ""})
    ),
    "fee of another service, on its own resource": Case(
        hosts({}, FEE | {"ChargeDescription": "p5.48xlarge", "ServiceName": "AI", "ResourceId": "cluster-1"})
    ),
    "fee of a container service, of the category compute": Case(
        hosts(
            {"ServiceCategory": "Compute"},
            FEE
            | {
                "ChargeDescription": "p5.48xlarge",
                "ServiceName": "Amazon EKS",
                "ServiceCategory": "Compute",
                "ResourceId": "cluster-1",
            },
        )
    ),
    "a line without quantity that costs nothing": Case(
        [*hosts(), {**LINE, "PricingQuantity": "0", "EffectiveCost": "0"}]
    ),
    "fee by GPU-hours": Case(
        hosts(
            GPU_HOURS,
            GPU_HOURS
            | FEE
            | {
                "ChargeDescription": "AI Enterprise p5.48xlarge",
                "EffectiveCost": "99.84",
                "ContractedUnitPrice": "0.52",
            },
        )
    ),
    "commitment without category": Case(
        hosts({"PricingCategory": "", "CommitmentDiscountStatus": "Used", "ContractedUnitPrice": "30"}),
        option="reserved",
    ),
    "spot by words": Case(
        hosts({"PricingCategory": "", "ChargeDescription": "p5.48xlarge Spot Instance-hour"}), option="spot"
    ),
    "parts by another option, of no region": Case(
        hosts(HOST[0], *({**line, "PricingCategory": "Committed", "RegionId": ""} for line in HOST[1:])), HOST_MAP
    ),
    "fee mapped to no GPU": Case(
        hosts({}, FEE | {"ChargeDescription": "p5.48xlarge", "ResourceId": ""}),
        '[[invoice]]\nmatch = "FEE1"\nsku = "none"\n',
    ),
    "parts of a machine": Case(hosts(*HOST), HOST_MAP),
    "a line in euros": Case(
        [*hosts(), {**LINE, "BillingCurrency": "EUR", "ChargeDescription": "Support plan", "EffectiveCost": "50"}]
    ),
    "price of another quantity": Case(hosts({"ContractedUnitPrice": "2080.00"})),
    "without zone": Case(hosts({"ChargePeriodStart": "2026-11-10 00:00:00", "ChargePeriodEnd": "2026-11-11 00:00:00"})),
    "with UTC": Case(
        hosts({"ChargePeriodStart": "2026-11-10 00:00:00 UTC", "ChargePeriodEnd": "2026-11-11 00:00:00 +0000 UTC"})
    ),
    "without seconds": Case(hosts({"ChargePeriodStart": "2026-11-10T00:00Z", "ChargePeriodEnd": "2026-11-11T00:00Z"})),
    "ends a second before": Case(hosts({"ChargePeriodEnd": "2026-11-10T23:59:59Z"})),
    **{
        f"null is {word}": Case(
            [*hosts({"ChargeClass": word, "SkuMeter": word}), {**LINE, **TAX, "PricingQuantity": word}]
        )
        for word in ("NULL", "null", r"\N", "NaN", "None", "N/A")
    },
    "zero with an exponent": Case([*hosts(), {**LINE, "EffectiveCost": "0E-40", "PricingQuantity": "0"}]),
    "decimals in full": Case(hosts({"EffectiveCost": "499." + "20".ljust(40, "0")})),
    "refund as usage": Case(
        [
            *hosts(),
            *(
                {**LINE, "ResourceId": "i-99", "EffectiveCost": f"{sign}499.20", "PricingQuantity": f"{sign}24"}
                for sign in ("", "-")
            ),
        ]
    ),
    "line break in a text": Case(hosts({"ChargeDescription": "p5.48xlarge\nsecond line"})),
    "split lines": Case(hosts(*[{"EffectiveCost": "249.60", "PricingQuantity": "12"}] * 2)),
}


@pytest.mark.parametrize("name", MATCHING)
def test_a_bill_of_the_day_matches_and_gives_its_price(books: Books, tmp_path: Path, name: str) -> None:
    """Whatever is counted, for whatever time, and whatever else is billed beside it."""
    case = MATCHING[name]
    compared, bill = held(books, written(tmp_path / "bill.csv", csv_of(case.lines)), case.mapping)
    assert (compared.matched, compared.permille) == (True, 0), reconcile_text(compared, bill, name)
    assert compared.invoice_micros == compared.ledger_micros == COST
    assert sum(day.nano_hours for day in bill.days.values()) == 3_072 * 10**9
    assert prices(bill) == [("H100-80GB", case.option, None, 2_600_000)]
    total = sum((Decimal(line["EffectiveCost"]) for line in case.lines), Decimal(0))
    assert bill.nanos == total * 10**9, "nothing of the bill is dropped"


ENCODED: Mapping[str, Callable[[str], str | bytes]] = {
    "gzip": lambda text: gzip.compress(text.encode()),
    "mark and CRLF": lambda text: "\ufeff" + text.replace("\n", "\r\n"),
    "second mark": lambda text: "\ufeff" + text.replace("\n", "\n\ufeff", 1),
    "mark before a quote": lambda text: '\ufeff"BilledCost"' + text.removeprefix("BilledCost"),
    "blank lines": lambda text: "\n" + text.replace("\n", "\n\n", 3) + "\n  \n,,,\n",
    "folded names": lambda text: text.replace(names := text.partition("\n")[0], names.lower(), 1),
    "snake case": lambda text: text.replace("BilledCost", "billed_cost").replace("PricingUnit", "pricing_unit"),
    "header again": lambda text: text + text.partition("\n")[0] + "\n",
    "a spreadsheet's line": lambda text: "sep=,\n" + text,
    "a comma more": lambda text: text.replace("\n", ",\n"),
}


@pytest.mark.parametrize("name", ENCODED)
def test_what_engines_do_to_a_file_is_undone(books: Books, tmp_path: Path, name: str) -> None:
    """The bill says the same, however it was exported."""
    path = written(tmp_path / "bill.csv", ENCODED[name](csv_of(hosts())))
    compared, _ = held(books, path)
    assert (compared.matched, compared.invoice_micros) == (True, COST)


INSTANCE = "p5.48xlarge"
DETAILS: Mapping[str, Callable[[int], Any]] = {
    "json": lambda count: pa.array([f'{{"InstanceType":"{INSTANCE}"}}'] * count),
    "map": lambda count: pa.array([[("InstanceType", INSTANCE)]] * count, pa.map_(pa.string(), pa.string())),
    "struct": lambda count: pa.array([{"InstanceType": INSTANCE}] * count),
    "records": lambda count: pa.array([[{"key": "InstanceType", "value": INSTANCE}]] * count),
    "printed map": lambda count: pa.array([f"{{InstanceType={INSTANCE}, x=1}}"] * count),
}


@pytest.mark.parametrize("name", DETAILS)
@pytest.mark.parametrize("zone", ["UTC", None, "Europe/Berlin"])
@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
def test_details_of_parquet_are_read_in_every_shape(
    books: Books, tmp_path: Path, name: str, zone: str | None, unit: str
) -> None:
    """A map or a struct says what JSON says; NaN is null where a double may be null."""
    lines = [*hosts({"ChargeDescription": ""}), {**LINE, **TAX, "PricingQuantity": "nan"}]
    columns: dict[str, Any] = {key: pa.array([line[key] or None for line in lines]) for key in LINE}
    for key in ("BilledCost", "EffectiveCost", "PricingQuantity"):
        columns[key] = pa.array([float(line[key]) for line in lines])
    for key in ("ChargePeriodStart", "ChargePeriodEnd"):
        moments = [datetime.fromisoformat(line[key]).astimezone(UTC) for line in lines]
        columns[key] = pa.array(moments, pa.timestamp("us", "UTC")).cast(pa.timestamp(unit, zone))
    columns["SkuPriceDetails"] = DETAILS[name](len(lines))
    pq.write_table(pa.table(columns), tmp_path / "bill.parquet")
    compared, bill = held(books, tmp_path / "bill.parquet")
    assert (compared.matched, compared.invoice_micros) == (True, COST)
    assert [*bill.notes] == ([] if zone else ["17 lines have times without a zone; they were read as UTC."])


REFUSED: Mapping[str, tuple[str | bytes, str]] = {
    "semicolons": (csv_of(hosts()).replace(",", ";"), r"line 1: columns are separated by semicolons"),
    "tabs": (csv_of(hosts()).replace(",", "\t"), r"line 1: columns are separated by tabs"),
    "decimal comma": (csv_of(hosts({"EffectiveCost": "499,20"})), r"line 2: EffectiveCost is '499,20'.* comma"),
    "US dates": (csv_of(hosts({"ChargePeriodStart": "11/10/2026"})), r"line 2: ChargePeriodStart is '11/10/2026'"),
    "for ever": (
        csv_of([*hosts(), {**LINE, "ChargePeriodEnd": "9999-12-31T00:00:00Z"}]),
        r"line 18: ChargePeriodEnd is '9999-12-31T00:00:00Z': the charge would last more than ten years",
    ),
    "needed amounts": (csv_of(hosts({"EffectiveCost": "NULL"})), r"line 2: EffectiveCost is 'NULL': it must not be"),
    "short line": (csv_of(hosts()) + "1,2,3\n", r"line 18: 3 cells, and the header has 23"),
    "gzip cut off": (gzip.compress(csv_of(hosts()).encode())[:-20], r"is a gzip file that is damaged or cut off"),
    "ZIP": (b"PK\x03\x04" + bytes(30), r"is a ZIP archive"),
    "JSON list": ('[{"cost": 1}]', r"is a list of JSON; export it as newline-delimited JSON, Parquet or CSV"),
    "JSON cut off": ('{"usage_start_time": "2026', r"line 1: not a line of JSON"),
    "CUR": (
        "lineItem/UsageStartDate,lineItem/UnblendedCost\n",
        r"line 1: this is an AWS .* lacks .*lineItem/UsageType",
    ),
    "Azure": ("date,meterCategory,costInBillingCurrency\n", r"this is Azure's cost details, .* lacks .* chargeType"),
    "Google": ("billing_account_id,usage_start_time,cost\n", r"line 1: this is Google Cloud's .* lacks .* credits"),
    "OCI": ("lineItem/referenceNo,lineItem/intervalUsageStart\n", r"line 1: this is an OCI cost report, .*cost/myCost"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_would_be_guessed_is_refused_in_its_words(books: Books, tmp_path: Path, name: str) -> None:
    """The sentence names the true cause, with line and column where there is one."""
    content, words = REFUSED[name]
    with pytest.raises(ConfigError, match=words):
        held(books, written(tmp_path / "bill.csv", content))


@pytest.mark.parametrize(
    "lines",
    [
        hosts({**GPU_HOURS, "EffectiveCost": "576", "ContractedUnitPrice": "3"}),
        hosts({"EffectiveCost": "576", "ContractedUnitPrice": "24"}),
        hosts({"EffectiveCost": "576", "PricingUnit": "Seconds", "PricingQuantity": "86400"}),
    ],
)
def test_dearer_hours_are_a_price_alone(books: Books, tmp_path: Path, lines: Lines) -> None:
    """The hours are the same, whatever the unit counts."""
    (difference,) = held(books, written(tmp_path / "bill.csv", csv_of(lines)))[0].differences
    assert [(reason.kind, reason.micros) for reason in difference.reasons] == [("price", 1_228_800_000)]
    assert "3.0000 per GPU-hour on the invoice, 2.6000" in difference.reasons[0].words


def test_every_line_twice_is_twice_the_hours(books: Books, tmp_path: Path) -> None:
    """A line that comes again is no fee: it is billed again."""
    compared, bill = held(books, written(tmp_path / "bill.csv", csv_of(hosts({}, {}))))
    assert not compared.matched
    assert [reason.words for reason in compared.differences[0].reasons] == [
        "3,072.0 GPU-hours more are billed than the ledger owns"
    ]
    assert prices(bill) == [("H100-80GB", "on_demand", None, 2_600_000)]


def test_two_regions_are_two_prices(tmp_path: Path) -> None:
    """Their mean is paid nowhere; the rows are read by the price book, which chooses by region."""
    dear = {"RegionId": "eu-west-1", "EffectiveCost": "748.80", "ContractedUnitPrice": "31.20"}
    bill = gathered([written(tmp_path / "bill.csv", csv_of(hosts({}, dear)))], (), (), (None, None))
    assert prices(bill) == [
        ("H100-80GB", "on_demand", "eu-west-1", 3_900_000),
        ("H100-80GB", "on_demand", "us-east-1", 2_600_000),
    ]


def test_gpus_in_two_currencies_have_no_price_and_no_sum(books: Books, tmp_path: Path) -> None:
    """No rate is guessed, and no euro is printed under dollars."""
    lines = [*hosts()[:8], *hosts({"BillingCurrency": "EUR", "EffectiveCost": "450.00"})[8:]]
    path = written(tmp_path / "bill.csv", csv_of(lines))
    compared, bill = held(books, path)
    assert (compared.matched, compared.foreign) == (False, ("EUR",))
    text = reconcile_text(compared, bill, "bill")
    assert "3,600.00  GPUs in another currency: H100-80GB, in EUR" in text
    assert "3,993.60" in text
    assert "7,593.60" not in text
    with pytest.raises(ConfigError, match="GPUs are billed in EUR, USD"):
        import_focus([str(path)])


def test_a_host_without_its_parts_is_said(books: Books, tmp_path: Path) -> None:
    """A price without cores and memory is no price of a GPU-hour; with them it says their share."""
    path = written(tmp_path / "bill.csv", csv_of(hosts(*HOST)))
    _, bill = held(books, path, GPU_MAP)
    (note,) = bill.notes
    assert note.startswith("Cores and memory of the machines of these GPUs are lines of their own, USD 1,843.20")
    _, bill = held(books, path, HOST_MAP)
    assert bill.notes == []
    found = unit_prices(bill, "bill", date(2026, 12, 1))
    assert found is not None
    assert found.rows[0].source == "bill; 23.1% of it is the host's (cores, memory)"


def test_a_price_that_does_not_make_the_cost_is_said(tmp_path: Path) -> None:
    """Two figures for one fact: the cost was paid."""
    path = written(tmp_path / "bill.csv", csv_of(hosts({"ContractedUnitPrice": "2080.00"})))
    found = unit_prices(gathered([path], (), (), (None, None)), "bill", date(2026, 12, 1))
    assert found is not None
    assert found.rows[0].source == "bill; cost by quantity, since the unit price does not make the cost"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ({"EffectiveCost": "0", "ContractedUnitPrice": "0"}, "no price of a GPU-hour: 16 lines of GPUs: they cost 0"),
        ({"PricingQuantity": "0"}, "16 lines of GPUs: their quantity is 0 or null"),
        ({"PricingUnit": "Licenses"}, "16 lines of GPUs: the unit 'Licenses' is no time of machines or GPUs"),
        (
            {"PricingUnit": "100 Hours", "ContractedUnitPrice": "2080", "ResourceId": ""},
            "its unit price is of 100 Hours, and its quantity may be of single ones",
        ),
        ({"PricingQuantity": "192"}, "16 lines of GPUs: more hours than the charge is long"),
        ({"ChargeDescription": "m5.large"}, "say which lines are GPUs with --map"),
    ],
)
def test_why_there_is_no_price_is_the_reason_that_holds(tmp_path: Path, line: dict[str, str], words: str) -> None:
    """Whoever is told to map lines that are known looks in the wrong place."""
    path = written(tmp_path / "bill.csv", csv_of(hosts(line)))
    with pytest.raises(ConfigError, match=words):
        import_focus([str(path)])


def test_files_of_one_bill_are_one_bill(books: Books, tmp_path: Path) -> None:
    """The half that was not read would be missing; the half that is read twice would be too much."""
    lines = hosts()
    halves = [written(tmp_path / f"{part}.csv", csv_of(lines[part::2])) for part in range(2)]
    assert held(books, halves)[0].invoice_micros == COST
    assert not held(books, halves[:1])[0].matched
    with pytest.raises(ConfigError, match="has the content of"):
        held(books, [*halves, written(tmp_path / "again.csv", csv_of(lines[0::2]))])


@pytest.mark.parametrize("option", ["--since", "--until", "--top", "--store", "--config"])
def test_an_option_that_is_repeated_is_refused(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The last would have counted, and the others would have been read by nobody."""
    with pytest.raises(SystemExit):
        prices_reconcile(["--invoice", "a.csv", option, "1", option, "2"])
    assert f"{option} is given twice" in capsys.readouterr().err


def test_files_and_maps_that_are_repeated_add_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each map's rows count, the first that fits."""
    fees = written(tmp_path / "fees.toml", '[[invoice]]\nmatch = "FEE1"\nsku = "none"\n')
    parts = written(tmp_path / "parts.toml", PART_MAP)
    lines = hosts(GPU_HOURS | PARTS, FEE | {"ChargeDescription": "p5.48xlarge"})
    halves = [str(written(tmp_path / f"{part}.csv", csv_of(lines[part::3]))) for part in range(3)]
    assert import_focus([*halves, "--map", str(fees), "--map", str(parts)]) == 0
    assert "usd_per_gpu_hour = 2.60" in capsys.readouterr().out


def test_a_match_is_named_by_the_days_that_were_compared(books: Books, tmp_path: Path) -> None:
    """A week of which one day was on the invoice has not matched for a week, in its report neither."""
    path, week = written(tmp_path / "bill.csv", csv_of(hosts())), Period(TENTH - DAY, TENTH + 6 * DAY, "W46", "UTC")
    with books.session() as session:
        compared, bill = reconcile(session, [path], [], "USD", (week.start, week.end))
        assert label_of_compared(compared) == "2026-11-10, 1 of 7 days"
        assert reconcile_text(compared, bill, "bill").startswith("invoice bill   2026-11-10 UTC, 1 of 7 days, USD\n")
        keep(session, compared, bill, label_of_compared(compared), InvoiceSource("bill", "0" * 64, "cli:test", 1))
        assert match_words(last_match(session, week)) == "invoice matched within 0.0% (2026-11-10, 1 of 7 days)"
        session.execute("DELETE FROM invoice_matches")


def test_months_of_lines_are_compared_as_far_as_the_ledger_knows(books: Books, tmp_path: Path) -> None:
    """Seven of thirty days, and it says so."""
    month = {"ChargePeriodStart": "2026-11-01T00:00:00Z", "ChargePeriodEnd": "2026-12-01T00:00:00Z"}
    lines = hosts(month | {"EffectiveCost": "14976.00", "PricingQuantity": "720"})
    compared, _ = held(books, written(tmp_path / "bill.csv", csv_of(lines)))
    assert (compared.matched, compared.invoice_micros) == (True, 7 * COST)
    assert label_of_compared(compared) == "2026-11-09 to 2026-11-15, 7 of 30 days"


@pytest.mark.parametrize(("quantity", "is_known"), [("1", True), ("0.98630137", True), ("0.5", False)])
def test_a_month_is_the_calendars_or_730_hours(tmp_path: Path, quantity: str, is_known: bool) -> None:
    """By the one by which a whole machine was held all the time; else its hours are not known."""
    month = {"ChargePeriodStart": "2026-11-01T00:00:00Z", "ChargePeriodEnd": "2026-12-01T00:00:00Z"}
    line = {**LINE, **month, "PricingUnit": "1/Month", "PricingQuantity": quantity, "EffectiveCost": "14976"}
    bill = gathered([written(tmp_path / "bill.csv", csv_of([line]))], (), (), (None, None))
    assert {day.hours_known for day in bill.days.values()} == {is_known}
    assert sum(day.nano_hours for day in bill.days.values()) == (720 * 8 * 10**9 if is_known else 0)


TIMES = {
    1: ("Second", "Seconds", "sec", "s"), 60: ("Minute", "Minutes", "min"), 3_600: ("Hour", "Hours", "Hrs", "hr", "h"),
    86_400: ("Day", "Days"), 604_800: ("Week", "Weeks"), -1: ("Month", "Months", "Mo"), -12: ("Year", "Years"),
}  # fmt: skip
THINGS = {
    "gpu": ("GPU", "GPUs", "H100 GPU", "H100", "Accelerator", "GPU H100 80GB"),
    "machine": ("", "Instance", "VM", "Node", "Unit", "Virtual Machine", "p5.48xlarge", "Bare Metal"),
    "part": ("Core", "vCPU", "OCPU", "GB", "GiB", "GiBy", "Gigabyte", "MiB"),
    "unknown": ("LCU", "Token", "License", "Connection"),
}


@pytest.mark.parametrize("thing", THINGS)
@pytest.mark.parametrize("seconds", TIMES)
def test_a_unit_is_what_is_counted_for_how_long(thing: str, seconds: int) -> None:
    """Every combination, in FOCUS's forms and in providers' own."""
    for what in THINGS[thing]:
        for time in TIMES[seconds]:
            forms = [
                f"{what}-{time}",
                f"{what} {time}",
                f"{what} per {time}",
                f"{what}/{time}",
                f"{what}.{time.lower()}",
            ]
            for text in forms if what else [time, f"1 {time}", f"1/{time}"]:
                unit = unit_of(text)
                assert unit is not None, text
                assert [unit.thing, unit.seconds, unit.count] == [thing, seconds, Decimal(1)], text
            counted = unit_of(f"1,000 {what}-{time}" if what else f"1000 {time}")
            assert counted is not None
            assert [counted.thing, counted.count] == [thing, Decimal(1_000)]


@pytest.mark.parametrize("text", [None, "", "GB/Second-Months", "Core-Hours/Day", "0 Hours", "10", "per"])
def test_a_unit_that_is_no_thing_for_a_time_is_none(text: str | None) -> None:
    """No hours follow from it."""
    assert unit_of(text) is None


@pytest.mark.parametrize(
    ("zone", "month", "day", "hours"),
    [
        ("Europe/Berlin", ("2026-10-01", "2026-10-31"), "2026-10-25", (745, 25)),
        ("America/New_York", ("2026-03-01", "2026-03-31"), "2026-03-08", (743, 23)),
        ("UTC", ("2026-10-01", "2026-10-31"), "2026-10-25", (744, 24)),
    ],
)
def test_a_change_of_the_clock_is_charged_as_it_was(
    zone: str, month: tuple[str, str], day: str, hours: tuple[int, int]
) -> None:
    """A day of 25 or 23 hours costs as much, and no hour of its month is charged twice or not at all."""
    books, calendar, now = Books(), Calendar(zone), NOVEMBER + 60 * DAY
    books.run("slurm/a/1", team="team-a")
    whole, short = calendar.span(*month, now), calendar.span(day, day, now)
    rows = [
        (hour, "GPU-1", "n1", "H100-80GB", "reserved", "slurm/a/1", 0, "productive", "compute", False, MS_PER_HOUR,
         2_600_000, "test")
        for hour in range(whole.start - DAY, whole.end + DAY, HOUR)
    ]  # fmt: skip
    with books.session() as session:
        session.load("ledger", LEDGER, rows)
        for period, count in zip((whole, short), hours, strict=True):
            (line,) = charges(read_held(session, period), [])
            assert (line.milliseconds, line.cost_micros) == (count * MS_PER_HOUR, count * 2_600_000)


def test_a_rule_of_a_map_says_how_many_gpus_or_that_there_are_none(tmp_path: Path) -> None:
    """A row without a number would make cost without hours of what is a machine."""
    path = written(tmp_path / "map.toml", '[[invoice]]\nmatch = "x"\nsku = "H100-80GB"\n')
    with pytest.raises(ConfigError, match="'gpus' is missing: how many GPUs one machine has, or 0 for a part"):
        SkuMap.of((), path)


CUR_LINE: dict[str, str] = {
    "line_item_usage_start_date": "2026-11-10T00:00:00.000Z", "line_item_usage_end_date": "2026-11-11T00:00:00.000Z",
    "line_item_line_item_type": "Usage", "line_item_usage_type": "BoxUsage:p5.48xlarge",
    "line_item_product_code": "AmazonEC2", "line_item_resource_id": "i-0", "line_item_usage_amount": "24.0",
    "line_item_unblended_cost": "624.0", "line_item_unblended_rate": "26.0", "line_item_currency_code": "USD",
    "line_item_line_item_description": "$26 per On Demand Linux p5.48xlarge Instance Hour",
    "product_instance_type": "p5.48xlarge", "product_region_code": "us-east-1", "pricing_unit": "Hrs",
    "pricing_term": "OnDemand", "reservation_reservation_a_r_n": "", "reservation_effective_cost": "",
    "reservation_unused_quantity": "", "reservation_unused_recurring_fee": "",
    "reservation_unused_amortized_upfront_fee_for_billing_period": "", "split_line_item_parent_resource_id": "",
    "savings_plan_savings_plan_effective_cost": "", "savings_plan_total_commitment_to_date": "",
    "savings_plan_used_commitment": "",
}  # fmt: skip
AZURE_LINE: dict[str, str] = {
    "date": "11/10/2026", "chargeType": "Usage", "meterCategory": "Virtual Machines", "meterName": "ND96isr H100 v5",
    "meterId": "m1", "product": "Virtual Machines NDsr H100 v5 Series - ND96isr H100 v5 - US East",
    "resourceId": "/subscriptions/s/providers/Microsoft.Compute/virtualMachines/n1", "resourceLocation": "eastus",
    "quantity": "24", "unitOfMeasure": "1 Hour", "effectivePrice": "20.8", "costInBillingCurrency": "499.2",
    "billingCurrency": "USD", "pricingModel": "OnDemand", "additionalInfo": "",
}  # fmt: skip
GOOGLE_LINE: Mapping[str, Any] = {
    "service": {"id": "6F81-5844-456A", "description": "Compute Engine"},
    "sku": {"id": "G1", "description": "Nvidia H100 80GB GPU running in Iowa"},
    "usage_start_time": "2026-11-10 00:00:00 UTC", "usage_end_time": "2026-11-11 00:00:00 UTC",
    "location": {"region": "us-central1"}, "resource": {"global_name": "//compute/1"}, "cost_type": "regular",
    "cost": 499.2, "currency": "USD", "credits": [], "project": {"labels": [{"key": "team", "value": "a"}]},
    "usage": {"amount": 691200, "unit": "seconds", "amount_in_pricing_units": 192, "pricing_unit": "hour"},
}  # fmt: skip


def of_kind(bill: Bill, sku: str = "H100-80GB") -> tuple[float, float, bool]:
    """Return what a bill says of a kind: cost, GPU-hours, and whether all of these are known."""
    days = [billed for (named, _, _), billed in bill.days.items() if named == sku]
    return (
        sum(day.nanos for day in days) / 1e9,
        sum(day.nano_hours for day in days) / 1e9,
        all(day.hours_known for day in days),
    )


def test_each_type_of_line_of_a_cur_costs_what_it_amortizes_to(tmp_path: Path) -> None:
    """What is covered costs its part of the commitment, and capacity that was held is no time beside the machine's."""
    fee = {"line_item_line_item_type": "Fee", "line_item_unblended_cost": "900"}
    changes = [
        {},
        {"line_item_line_item_type": "DiscountedUsage", "line_item_unblended_cost": "0", "line_item_resource_id": "i-1",
         "reservation_effective_cost": "499.2", "reservation_reservation_a_r_n": "arn:r"},
        {"line_item_line_item_type": "SavingsPlanCoveredUsage", "line_item_resource_id": "i-2",
         "savings_plan_savings_plan_effective_cost": "480"},
        {"line_item_line_item_type": "SavingsPlanNegation", "line_item_resource_id": "i-2",
         "line_item_unblended_cost": "-624"},
        {"line_item_line_item_type": "RIFee", "line_item_usage_type": "HeavyUsage:p5.48xlarge",
         "line_item_resource_id": "arn:r", "line_item_usage_amount": "744", "line_item_unblended_cost": "300",
         "reservation_unused_quantity": "2", "reservation_unused_recurring_fee": "30",
         "reservation_unused_amortized_upfront_fee_for_billing_period": "11.6"},
        {"line_item_usage_type": "UnusedBox:p5.48xlarge", "line_item_usage_amount": "48",
         "line_item_unblended_cost": "1248", "line_item_resource_id": "arn:aws:ec2:::capacity-reservation/cr-1"},
        {"line_item_usage_type": "Reservation:p5.48xlarge", "line_item_usage_amount": "72",
         "line_item_unblended_cost": "0", "line_item_resource_id": "arn:aws:ec2:::capacity-reservation/cr-1"},
        {"line_item_resource_id": "pod/a", "split_line_item_parent_resource_id": "i-0",
         "line_item_unblended_cost": "0"},
        {"line_item_resource_id": "i-3", "line_item_usage_type": "USW2-SpotUsage:p5.48xlarge", "pricing_unit": "",
         "pricing_term": "", "line_item_usage_amount": "1", "line_item_unblended_cost": "8",
         "line_item_unblended_rate": "8"},
        {"line_item_line_item_type": "SavingsPlanRecurringFee", "line_item_usage_type": "ComputeSP:1yrNoUpfront",
         "product_instance_type": "", "line_item_line_item_description": "1 year no upfront Compute Savings Plan",
         "savings_plan_total_commitment_to_date": "500", "savings_plan_used_commitment": "480"},
        fee | {"reservation_reservation_a_r_n": "arn:r"},
        {"line_item_line_item_type": "Tax", "line_item_unblended_cost": "70"},
        {"line_item_line_item_type": "Credit", "line_item_unblended_cost": "-5"},
        {"line_item_line_item_type": "Refund", "line_item_unblended_cost": "-6"},
    ]  # fmt: skip
    path = written(tmp_path / "cur.csv", csv_of([{**CUR_LINE, **change} for change in changes]))
    bill = gathered([path], (), (), (None, None))
    assert of_kind(bill) == (624 + 499.2 + 480 + 41.6 + 1248 + 8, (24 * 3 + 2 + 48 + 1) * 8, True)
    assert bill.nanos == 2_979_800_000_000
    found = {(row[1], row[3]) for row in prices(bill)}
    assert found >= {("on_demand", 3_250_000), ("spot", 1_000_000)}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (CUR_LINE | {"line_item_line_item_type": "EdpDiscount", "line_item_unblended_cost": "-62.4"},
         r"line 2: line_item_line_item_type is 'EdpDiscount': .*lineItem/NetUnblendedCost"),
        (CUR_LINE | {"line_item_line_item_type": "Surprise"}, "line 2: line_item_line_item_type is 'Surprise'"),
        (CUR_LINE | {"line_item_line_item_type": "DiscountedUsage"}, "line 2: reservation_effective_cost is ''"),
        (CUR_LINE | {"line_item_usage_end_date": "soon"}, "line 2: line_item_usage_end_date is 'soon': not a time"),
        (AZURE_LINE | {"pricingModel": "Reservation", "costInBillingCurrency": "0"},
         "line 2: pricingModel is 'Reservation': .* export the amortized cost"),
        (AZURE_LINE | {"date": "13/10/2026"}, "line 2: date is '13/10/2026'"),
        (AZURE_LINE | {"chargeType": ""}, "line 2: chargeType is '': it is one of"),
    ],
)  # fmt: skip
def test_what_a_providers_own_bill_cannot_say_is_refused(tmp_path: Path, line: dict[str, str], words: str) -> None:
    """Line and column are named as the file spells them, and the export that can say it."""
    with pytest.raises(ConfigError, match=words):
        gathered([written(tmp_path / "bill.csv", csv_of([line]))], (), (), (None, None))


def test_net_costs_of_a_cur_have_its_discounts_in_them(tmp_path: Path) -> None:
    """The line of the discount then has none of its own."""
    net = CUR_LINE | {"line_item_net_unblended_cost": "561.6", "line_item_net_unblended_rate": "23.4"}
    edp = net | {"line_item_line_item_type": "EdpDiscount", "line_item_unblended_cost": "-62.4"}
    path = written(tmp_path / "cur.csv", csv_of([net, edp | {"line_item_net_unblended_cost": "0"}]))
    bill = gathered([path], (), (), (None, None))
    assert of_kind(bill) == (561.6, 192, True)
    assert prices(bill) == [("H100-80GB", "on_demand", None, 2_925_000)]


def test_costs_of_azure_are_read_by_meter_and_day(tmp_path: Path) -> None:
    """A scale set is many machines behind one resource; what of a reservation nobody used has its hours too."""
    lines = [
        AZURE_LINE,
        {**AZURE_LINE, "resourceId": "/x/virtualMachineScaleSets/pool", "quantity": "96",
         "costInBillingCurrency": "1996.8", "pricingModel": "Reservation"},
        {**AZURE_LINE, "chargeType": "UnusedReservation", "pricingModel": "Reservation", "resourceId": "",
         "quantity": "2", "costInBillingCurrency": "41.6"},
        {**AZURE_LINE, "meterName": "ND96isr H100 v5 Spot", "pricingModel": "Spot", "resourceId": "n9",
         "quantity": "1", "effectivePrice": "8", "costInBillingCurrency": "8"},
        {**AZURE_LINE, "chargeType": "Refund", "costInBillingCurrency": "-3"},
    ]  # fmt: skip
    bill = gathered([written(tmp_path / "azure.csv", csv_of(lines))], (), (), (None, None))
    assert of_kind(bill) == (499.2 + 1996.8 + 41.6 + 8, (24 + 96 + 2 + 1) * 8, True)
    assert {row[1:] for row in prices(bill)} == {
        ("on_demand", None, 2_600_000), ("reserved", None, 2_600_000), ("spot", None, 1_000_000)
    }  # fmt: skip


@pytest.mark.parametrize("form", ["json", "parquet", "list of credits as text"])
def test_an_export_of_bigquery_is_read_with_its_credits(tmp_path: Path, form: str) -> None:
    """Of a commitment the fee has the cost and the covered usage the hours; of an A100 the larger says its size."""
    named = [
        (GOOGLE_LINE["sku"]["description"], 998.4, -499.2, "DISCOUNT"),
        (GOOGLE_LINE["sku"]["description"], 998.4, -998.4, "COMMITTED_USAGE_DISCOUNT"),
        ("Commitment v1: Nvidia H100 80GB GPU running in Iowa for 1 Year", 450.0, 0.0, "NONE"),
        ("Nvidia Tesla A100 GPU attached to Spot Preemptible VMs running in Iowa", 192.0, 0.0, "NONE"),
        ("A3 Instance Core running in Iowa", 20.0, 0.0, "NONE"),
    ]
    lines: list[dict[str, Any]] = [
        {
            **GOOGLE_LINE,
            "sku": {"id": str(place), "description": name},
            "resource": {"global_name": f"//compute/{place}"},
            "cost": cost,
            "credits": [{"amount": credit, "type": kind}] if credit else [],
        }
        for place, (name, cost, credit, kind) in enumerate(named)
    ]
    path = tmp_path / "export"
    if form == "json":
        path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    elif form == "parquet":
        pq.write_table(pa.Table.from_pylist(lines), path)
    else:
        flattened = [
            {f"{name}.{key}" if isinstance(value, dict) else name: cell
             for name, value in line.items()
             for key, cell in (value.items() if isinstance(value, dict) else [("", value)])}
            for line in lines
        ]  # fmt: skip
        path.write_text(csv_of([{**line, "credits": json.dumps(line["credits"])} for line in flattened]))
    bill = gathered([path], (), (), (None, None))
    assert of_kind(bill) == (499.2 + 450, 384, True)
    assert of_kind(bill, "A100-40GB") == (192, 192, True)
    paid = {(kind, option): micros for kind, option, _, micros in prices(bill)}
    assert paid.pop(("H100-80GB", "reserved")) == 2_343_750, "450 for 192 hours"
    assert paid.keys() == {("H100-80GB", "on_demand"), ("A100-40GB", "spot")}


HOSTILE = (
    "", "null", "-1", "1e400", "NaN", "x", "9999-12-31", "12/31/9999", "[]", "{}", "[1]", '[{"amount":"x"}]', "9" * 41,
    "1,5", "true", "Reservation", "SavingsPlanCoveredUsage", "EdpDiscount", "adjustment", "Credit",
)  # fmt: skip


@pytest.mark.parametrize("seed", range(4))
def test_hostile_cells_of_a_providers_bill_are_read_or_refused_by_line(tmp_path: Path, seed: int) -> None:
    """Nothing else comes of them: no other error, and no refusal without its place."""
    random, path = Random(seed), tmp_path / "bill"
    for _ in range(150):
        base: dict[str, Any] = random.choice((CUR_LINE, AZURE_LINE, dict(GOOGLE_LINE)))
        more = (None, 1, [[1]], {"description": 5}) if "sku" in base else ()
        line = base | {name: random.choice((*HOSTILE, *more)) for name in random.sample(sorted(base), 2)}
        lines = [base, line]
        path.write_text("\n".join(map(json.dumps, lines)) if more else csv_of(lines))
        refusal, read = "", 0
        try:
            read = gathered([path], (), (), (None, None)).lines
        except ConfigError as error:
            refusal = str(error)
        assert read == len(lines) or any(f", line {number}: " in refusal for number in (2, 3))
