"""Bills as providers, marketplaces and query engines write them, each of one day of 16 hosts of 8 H100 at 2.60.

What is right is said of each: it matches and gives 2.60 per GPU-hour, or the sentence that refuses it.
"""

import csv
import gzip
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
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
    "CUR": ("lineItem/UsageStartDate,lineItem/UnblendedCost\n", r"line 1: the column lineItem/UsageStartDate is of no"),
    "CUR 2": ("line_item_usage_start_date,bill_payer\n", r"line_item_usage_start_date .* AWS Cost and Usage Report"),
    "Azure": ("date,meterCategory,costInBillingCurrency\n", r"column meterCategory .* Azure's cost details"),
    "Google": ("billing_account_id,usage_start_time,cost\n", r"usage_start_time .* Google Cloud's billing export"),
    "OCI": ("lineItem/referenceNo,lineItem/intervalUsageStart\n", r"intervalUsageStart .* OCI cost report"),
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
