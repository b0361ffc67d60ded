"""Bills of a truth that is known: GPU-hours and prices, written as providers and resellers write them.

Beside the GPUs' time stand fees, parts of machines, taxes, credits, corrections, purchases and lines in other
currencies; cells are null in each dialect's way, days are missing, unit prices belong to other quantities.
"""

import csv
import gzip
import io
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_EVEN, Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from agent.wire.units import DAY_US, HOUR_MS
from analyzer.errors import ConfigError
from analyzer.finops.reconcile.bill import Bill
from analyzer.finops.reconcile.compare import OwnedTime, compare, gathered
from analyzer.finops.reconcile.unit_prices import unit_prices
from tests.analyzer.finops.native_bills import big_query, cost_details, cost_report, cur, cur_2, nested

FIRST = datetime(2026, 11, 1, tzinfo=UTC)
FIRST_US = int(FIRST.timestamp()) * 1_000_000
# GPU kind, GPUs of a machine, and what AWS, Azure, Google and Oracle call that machine.
MACHINES = (
    ("H100-80GB", 8, ("p5.48xlarge", "Standard_ND96isr_H100_v5", "a3-highgpu-8g", "BM.GPU.H100.8")),
    ("A100-80GB", 8, ("p4de.24xlarge", "Standard_ND96amsr_A100_v4", "a2-ultragpu-8g", "BM.GPU.A100-v2.8")),
    ("H200-141GB", 8, ("p5en.48xlarge", "Standard_ND96isr_H200_v5", None, None)),
    ("L4-24GB", 4, ("g6.12xlarge", None, None, None)),
    ("T4-16GB", 4, ("g4dn.12xlarge", "Standard_NC64as_T4_v3", None, None)),
)
CATEGORIES = {"on_demand": "Standard", "reserved": "Committed", "spot": "Dynamic"}


@dataclass(frozen=True)
class Item:
    """Machines of one kind that were held: so many hours of each of these days, at a price per GPU-hour."""

    sku: str
    gpus: int
    machine: str
    hosts: int
    option: str
    region: str
    price: Decimal
    days: tuple[int, ...]
    hours: Decimal
    currency: str = "USD"


@dataclass(frozen=True)
class Unit:
    """What a quantity counts, as it is written."""

    text: str
    hours: Decimal = Decimal(1)
    counts_gpus: bool = False


_SECOND, _MINUTE = 1 / Decimal(3_600), 1 / Decimal(60)
MACHINE_UNITS = (
    Unit("Hours"), Unit("Hrs"), Unit("1 Hour"), Unit("10 Hours", Decimal(10)), Unit("100 Hours", Decimal(100)),
    Unit("Instance-Hours"), Unit("VM Hours"), Unit("Node-Hours"), Unit("h"), Unit("1/Hour"), Unit("Hour(s)"),
    Unit("Seconds", _SECOND), Unit("s", _SECOND), Unit("VM-Seconds", _SECOND), Unit("Minutes", _MINUTE),
    Unit("Days", Decimal(24)), Unit("1/Day", Decimal(24)), Unit("Instances/Day", Decimal(24)),
)  # fmt: skip
GPU_UNITS = (
    Unit("GPU-Hours", counts_gpus=True), Unit("GPU Hours", counts_gpus=True), Unit("GPU Per Hour", counts_gpus=True),
    Unit("GPUs/Hour", counts_gpus=True), Unit("gpu-hr", counts_gpus=True), Unit("10 GPU-Hours", Decimal(10), True),
    Unit("GPU-Seconds", _SECOND, True), Unit("GPU Days", Decimal(24), True),
)  # fmt: skip
BARE_GPU_UNITS = (Unit("h", counts_gpus=True), Unit("hour", counts_gpus=True), Unit("s", _SECOND, True))


@dataclass(frozen=True)
class Dialect:
    """How somebody writes bills: of whose machines, by which units, and in what dress."""

    name: str
    vendor: int  # the place in MACHINES
    columns: tuple[str, ...]
    units: tuple[Unit, ...] = MACHINE_UNITS
    is_mapped: bool = False  # lines name a part number; a map says which GPU it is
    has_parts: bool = False  # cores and memory are lines of their own
    null: str = ""
    time: str = "%Y-%m-%dT%H:%M:%SZ"
    digits: int = 10  # of costs
    dress: str = "plain"
    native: Callable[[Mapping[str, str]], Iterator[dict[str, str]]] | None = None  # a line of FOCUS as it has it
    resources: bool = True
    has_options: bool = True  # says how machines were bought, so that their prices stay apart
    unit: Unit = MACHINE_UNITS[0]


_COLUMNS = (
    "BilledCost", "EffectiveCost", "ContractedCost", "ListCost", "BillingCurrency", "BillingAccountId",
    "BillingPeriodStart", "BillingPeriodEnd", "ChargeCategory", "ChargeClass", "ChargeDescription", "ChargePeriodStart",
    "ChargePeriodEnd", "CommitmentDiscountStatus", "ContractedUnitPrice", "PricingCategory", "PricingQuantity",
    "PricingUnit", "RegionId", "ResourceId", "ServiceCategory", "ServiceName", "SkuId",
)  # fmt: skip
_1_0 = (*_COLUMNS, "ProviderName", "PublisherName", "InvoiceIssuerName")
_1_1 = (*_1_0, "SkuMeter", "SkuPriceDetails", "SkuPriceId")
_1_2 = (*_1_1, "BillingAccountType", "InvoiceId")
_1_3 = (*_1_2, "ServiceProviderName", "HostProviderName")
_1_4 = tuple(name for name in _1_3 if name not in ("ProviderName", "PublisherName"))
_BLANKS = "%Y-%m-%d %H:%M:%S"
_MINUTES = "%Y-%m-%dT%H:%MZ"

DIALECTS = (
    Dialect("AWS CUR 1", 0, (), MACHINE_UNITS[:2], native=cur),
    Dialect("AWS CUR 2", 0, (), MACHINE_UNITS[:2], native=cur_2, dress="gzip", digits=15),
    Dialect("Azure, amortized", 1, (), MACHINE_UNITS[2:5], native=cost_details, dress="mark", digits=15),
    Dialect("Google, BigQuery", 2, (), GPU_UNITS[:1], native=big_query, dress="json"),
    Dialect(
        "Oracle, own", 3, (), GPU_UNITS[2:3], native=cost_report, dress="gzip", is_mapped=True, has_options=False
    ),
    Dialect("FOCUS 1.0", 0, _1_0, null="NULL", time=_BLANKS),
    Dialect("FOCUS 1.1", 0, _1_1, dress="parquet of doubles"),
    Dialect("FOCUS 1.2", 0, _1_2, null="null", digits=12, dress="parquet"),
    Dialect("FOCUS 1.3", 0, _1_3, GPU_UNITS),
    Dialect("FOCUS 1.4", 1, _1_4, MACHINE_UNITS + GPU_UNITS, time="%Y-%m-%dT%H:%M:%S.000Z"),
    Dialect("Azure", 1, (*_1_1, "x_SkuMeterName"), time=_MINUTES, digits=15, dress="mark"),
    Dialect(
        "Google", 2, _1_1, BARE_GPU_UNITS, is_mapped=True, has_parts=True, null="null", time=f"{_BLANKS} UTC", digits=6
    ),
    Dialect("Oracle", 3, _1_0, GPU_UNITS + MACHINE_UNITS, is_mapped=True, null="NULL", time=_MINUTES),
    Dialect("reseller, folded", 0, _1_2, MACHINE_UNITS + GPU_UNITS, null=r"\N", time=_BLANKS, digits=4, dress="folded"),
    Dialect("reseller, without resources", 0, _1_0, digits=2, resources=False, null="N/A"),
)  # fmt: skip


def _dressed(dress: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> bytes:
    """Return a table as the bytes of a file."""
    if dress.startswith("parquet"):
        return _parquet(columns, rows, of_doubles=dress == "parquet of doubles")
    if dress == "json":
        lines = [json.dumps(nested(dict(zip(columns, row, strict=True)))) for row in rows]
        return "\n".join(lines).encode()
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n" if dress == "mark" else "\n")
    writer.writerow([name.lower() for name in columns] if dress == "folded" else columns)
    writer.writerows(rows)
    plain = text.getvalue().encode()
    packed = gzip.compress(plain, compresslevel=1) if dress in ("gzip", "folded") else plain
    return b"\xef\xbb\xbf" * (dress == "mark") + packed


def _parquet(columns: Sequence[str], rows: Sequence[Sequence[str]], of_doubles: bool) -> bytes:
    table: dict[str, Any] = {}
    for place, name in enumerate(columns):
        cells = [row[place] if row[place] not in ("", "null") else None for row in rows]
        if name.endswith(("Cost", "Price", "Quantity")):
            amounts = [None if cell is None else Decimal(cell) for cell in cells]
            doubles = [None if amount is None else float(amount) for amount in amounts]
            table[name] = pa.array(doubles) if of_doubles else pa.array(amounts, pa.decimal128(38, 15))
        elif name.endswith(("Start", "End")):
            moments = [datetime.fromisoformat(cell or "") for cell in cells]
            table[name] = pa.array(moments, pa.timestamp("us", "UTC"))
        elif name == "SkuPriceDetails":
            pairs = [None if cell is None else list(json.loads(cell).items()) for cell in cells]
            table[name] = pa.array(pairs, pa.map_(pa.string(), pa.string()))
        else:
            table[name] = pa.array(cells, pa.string())
    file = io.BytesIO()
    pq.write_table(pa.table(table), file)
    return file.getvalue()


@dataclass
class Truth:
    """What is true of a bill: by kind and day the GPU-hours and the cost, by kind, option and region the price."""

    hours: dict[tuple[str, int], Decimal] = field(default_factory=lambda: defaultdict(Decimal))
    costs: dict[tuple[str, int], Decimal] = field(default_factory=lambda: defaultdict(Decimal))
    prices: dict[tuple[str, str, str], Decimal] = field(default_factory=dict)
    total: Decimal = Decimal(0)  # of all lines, as they are printed

    def add(self, item: Item) -> None:
        """Add what was held."""
        for day in item.days:
            key = item.sku, FIRST_US + day * DAY_US
            self.hours[key] += item.hours * item.gpus * item.hosts
            self.costs[key] += item.hours * item.gpus * item.hosts * item.price
        self.prices[item.sku, item.option, item.region] = item.price


@dataclass
class Made:
    """A bill in files, its map, and what is true of it."""

    dialect: Dialect
    paths: list[Path]
    maps: list[Path]
    truth: Truth
    items: list[Item]
    lines: int


def make_bill(random: Random, dialect: Dialect, folder: Path) -> Made:
    """Write a bill of this dialect."""
    dialect = replace(dialect, unit=random.choice(dialect.units))
    truth, items = Truth(), list(_items(random, dialect))
    rows: list[dict[str, str]] = []
    for item in items:
        truth.add(item)
        rows += _rows(random, dialect, item)
    rows += _others(random, dialect, items)
    random.shuffle(rows)
    truth.total = sum((Decimal(row["EffectiveCost"]) for row in rows), Decimal(0))
    if dialect.native is not None:
        rows = [own for row in rows for own in dialect.native(row)]
    columns = dialect.columns or tuple(dict.fromkeys(name for row in rows for name in row))
    table = [[row.get(name) or dialect.null for name in columns] for row in rows]
    parts = random.choice((1, 1, 2))
    if len(table) == 1 or table[0::2] == table[1::2]:
        parts = 1  # a file that says what another says is refused
    paths = [folder / f"bill-{part}.csv" for part in range(parts)]
    for part, path in enumerate(paths):
        path.write_bytes(_dressed(dialect.dress, columns, table[part::parts]))
    maps = [folder / "map.toml"] if dialect.is_mapped else []
    for path in maps:
        path.write_text(_map(dialect, items))
    return Made(dialect, paths, maps, truth, items, len(rows))


def _items(random: Random, dialect: Dialect) -> Iterator[Item]:
    sold = [(sku, gpus, names[dialect.vendor]) for sku, gpus, names in MACHINES if names[dialect.vendor]]
    of: set[tuple[str, str, str]] = set()
    for _ in range(random.randint(1, 4)):
        sku, gpus, machine = random.choice(sold)
        option, region = random.choice(tuple(CATEGORIES)), random.choice(("us-east-1", "eu-west-1"))
        if (sku, option, region) in of:
            continue
        of.add((sku, option, region))
        price = Decimal(random.choice((260, random.randint(30, 1_400)))) / 100
        if dialect.has_parts:
            price = max(price, Decimal("0.50"))
        days = tuple(sorted(random.sample(range(10), random.randint(1, 4))))
        hours = random.choice(
            (Decimal(24), Decimal(24), Decimal(random.randint(1, 24)), Decimal(random.randint(1, 95)) / 4)
        )
        yield Item(sku, gpus, str(machine), random.randint(1, 3), option, region, price, days, hours)


def _time(dialect: Dialect, day: int, hours: int = 0) -> str:
    return (FIRST + timedelta(days=day, hours=hours)).strftime(dialect.time)


def _rounded(amount: Decimal, digits: int) -> Decimal:
    return amount.quantize(Decimal(1).scaleb(-digits), ROUND_HALF_EVEN)


def _rows(random: Random, dialect: Dialect, item: Item) -> Iterator[dict[str, str]]:
    """Yield the lines of an item: a line a day and machine, sometimes one an hour."""
    by_hour = item.hours == item.hours.to_integral_value() and random.random() < 0.2
    is_wrong_price = random.random() < 0.15  # of another quantity: the cost is what is paid
    is_silent = random.random() < 0.1  # of a commitment only its status tells
    fee = _fee(random, dialect, item)
    for day in item.days:
        for host in range(item.hosts):
            spans = [(hour, hour + 1, Decimal(1)) for hour in range(int(item.hours))] if by_hour else []
            for since, until, hours in spans or [(0, 24, item.hours)]:
                resource = f"{item.machine}/{item.option}/{host}" if dialect.resources else ""
                row = _line(
                    dialect, item, (_time(dialect, day, since), _time(dialect, day, until)), resource, is_silent
                )
                yield from _usage(dialect, item, row, hours, is_wrong_price)
                if fee is not None:
                    cost = f"{_rounded(hours * item.gpus * item.price / 5, dialect.digits):f}"
                    unit = MACHINE_UNITS[0] if dialect.unit.counts_gpus else dialect.unit
                    quantity = f"{_rounded(hours / unit.hours, 10):f}"
                    yield row | fee | {
                        "EffectiveCost": cost, "BilledCost": cost, "ContractedCost": cost, "PricingQuantity": quantity,
                        "PricingUnit": unit.text,
                    }  # fmt: skip


def _line(
    dialect: Dialect, item: Item, span: tuple[str, str], resource: str, is_silent: bool = False
) -> dict[str, str]:
    is_named = not dialect.is_mapped
    return {
        "BillingCurrency": item.currency,
        "BillingAccountId": "4711",
        "BillingPeriodStart": _time(dialect, 0),
        "BillingPeriodEnd": _time(dialect, 30),
        "ChargeCategory": "Usage",
        "ChargeClass": "",
        "ChargeDescription": f"per {item.option} Linux {item.machine} Instance" if is_named else "Compute - GPU",
        "ChargePeriodStart": span[0],
        "ChargePeriodEnd": span[1],
        "CommitmentDiscountStatus": "Used" if item.option == "reserved" else "",
        "PricingCategory": "" if is_silent and item.option == "reserved" else CATEGORIES[item.option],
        "PricingUnit": dialect.unit.text,
        "RegionId": item.region,
        "ResourceId": resource,
        "ServiceCategory": "Compute",
        "ServiceName": "Virtual Machines",
        "SkuId": "ABCDEF" if is_named else f"PART-{item.sku}",
        "SkuMeter": "" if is_named else f"{item.sku} GPU",
        "SkuPriceDetails": f'{{"InstanceType":"{item.machine}"}}' if is_named else "",
        "SkuPriceId": f"ABCDEF.{item.option}",
        **dict.fromkeys(("ProviderName", "PublisherName", "InvoiceIssuerName", "ServiceProviderName"), "Example Cloud"),
        "HostProviderName": "Example Cloud",
    }


def _usage(
    dialect: Dialect, item: Item, row: Mapping[str, str], hours: Decimal, is_wrong_price: bool
) -> Iterator[dict[str, str]]:
    shares = (Decimal("0.8"), Decimal("0.15"), Decimal("0.05")) if dialect.has_parts else (Decimal(1),)
    counted = item.gpus if dialect.unit.counts_gpus else 1
    amounts = ((dialect.unit, hours * counted), (Unit("vCPU-Hours"), hours * 208), (Unit("GiBy.h"), hours * 1_872))
    parts: tuple[dict[str, str], ...] = (
        {},
        {"SkuMeter": f"{item.sku} Core", "SkuId": f"CORE-{item.sku}"},
        {"SkuId": f"RAM-{item.sku}"},
    )
    for share, (unit, amount), part in zip(shares, amounts, parts, strict=False):
        cost = _rounded(hours * item.gpus * item.price * share, dialect.digits)
        quantity = _rounded(amount / unit.hours, 10)
        price = _rounded(hours * item.gpus * item.price * share / quantity, 15)
        is_covered = item.option == "reserved"
        yield {
            **row,
            **part,
            "EffectiveCost": f"{cost:f}",
            "BilledCost": "0" if is_covered else f"{cost:f}",
            "ContractedCost": f"{cost * 2 if is_covered else cost:f}",
            "ListCost": f"{cost * 3:f}",
            "ContractedUnitPrice": f"{price * (2 if is_covered else 7 if is_wrong_price else 1):f}",
            "PricingQuantity": f"{quantity:f}",
            "PricingUnit": unit.text,
        }


def _fee(random: Random, dialect: Dialect, item: Item) -> dict[str, str] | None:
    """Return what a fee's line has else, or None: told by words, or by the machine's own time alone."""
    if random.random() < 0.6 or dialect.is_mapped:
        return None
    told = {"SkuId": "FEE1", "SkuPriceId": "FEE1.x", "ContractedUnitPrice": "", "ServiceName": "Managed Kubernetes"}
    if random.random() < 0.5:
        return told | {"ChargeDescription": f"{item.machine}", "ServiceCategory": "Other"}
    words = random.choice(("management fee", "NVIDIA AI Enterprise software", "Licensing Fee", "support plan"))
    return told | {"ChargeDescription": f"{words} for {item.machine}", "CommitmentDiscountStatus": ""}


def _others(random: Random, dialect: Dialect, items: list[Item]) -> Iterator[dict[str, str]]:
    """Yield lines that are no GPU's usage of this period."""
    item = random.choice(items)
    day = (_time(dialect, item.days[0]), _time(dialect, item.days[0] + 1))
    base = _line(dialect, item, day, "") | {
        "ContractedUnitPrice": "", "PricingQuantity": "", "PricingUnit": "", "PricingCategory": "",
        "CommitmentDiscountStatus": "", "SkuPriceDetails": "",
    }  # fmt: skip
    plain = {"ChargeDescription": "object storage", "SkuId": "S3", "SkuMeter": "", "SkuPriceId": ""}
    kinds = (
        {"ChargeCategory": "Tax", "ChargeDescription": "VAT 19 %"},
        {"ChargeCategory": "Credit", "ChargeDescription": f"promotion for {item.machine}"},
        {"ChargeClass": "Correction"},
        {"ChargeCategory": "Adjustment"},
        plain | {"PricingUnit": "GB-Months", "PricingQuantity": "12.5", "PricingCategory": "Standard"},
        plain | {"BillingCurrency": "EUR", "ChargeDescription": "Support plan"},
    )
    for kind in random.sample(kinds, random.randint(0, len(kinds))):
        cost = f"{Decimal(random.randint(-99_999, 99_999)) / 100:f}"
        yield base | kind | dict.fromkeys(("EffectiveCost", "BilledCost", "ContractedCost", "ListCost"), cost)
    if random.random() < 0.3:
        bought = {"ChargeCategory": "Purchase", "ChargePeriodEnd": _time(dialect, 365), "BilledCost": "100000"}
        yield base | bought | {"EffectiveCost": "0", "ContractedCost": "100000", "ListCost": "100000"}


def _map(dialect: Dialect, items: Iterable[Item]) -> str:
    found = []
    for sku, gpus in sorted({(item.sku, item.gpus) for item in items}):
        found += [(f"PART-{sku}", sku, 1 if dialect.unit.counts_gpus else gpus)] + [
            (f"{part}-{sku}", sku, 0) for part in ("CORE", "RAM") if dialect.has_parts
        ]
    return "".join(f'[[invoice]]\nmatch = "{match}"\nsku = "{sku}"\ngpus = {gpus}\n\n' for match, sku, gpus in found)


CENT = Decimal("0.01")


def faults(random: Random, made: Made) -> list[str]:
    """Return what is read otherwise than it is: nothing, where the bill is refused by line and column as it must be."""
    try:
        bill = gathered(made.paths, (), made.maps, (None, None))
    except ConfigError as error:
        return [f"refused: {error}"]
    prices = _prices(made, bill) if made.dialect.has_options else ()
    return [*_sums(made, bill), *prices, *_matches(random, made, bill)]


def _sums(made: Made, bill: Bill) -> Iterator[str]:
    truth = made.truth
    slack = CENT + made.lines * Decimal(1).scaleb(-made.dialect.digits)
    days = {(sku, day): one for (sku, day, _), one in bill.days.items()}
    for key in sorted({*truth.costs, *days}):
        one = days.get(key)
        if one is None or key not in truth.costs:
            yield f"{key} is {'missing' if one is None else 'made up'}"
            continue
        if abs(Decimal(one.nanos) / 10**9 - truth.costs[key]) > slack:
            yield f"{key} costs {one.nanos / 1e9}, not {truth.costs[key]}"
        if not one.hours_known or abs(Decimal(one.nano_hours) / 10**9 - truth.hours[key]) > Decimal("0.0001"):
            yield f"{key} has {one.nano_hours / 1e9} GPU-hours, known: {one.hours_known}, not {truth.hours[key]}"
    if bill.nanos != truth.total * 10**9:
        yield f"the bill is {bill.nanos / 1e9}, not {truth.total}"


def _prices(made: Made, bill: Bill) -> Iterator[str]:
    found = unit_prices(bill, "bill", FIRST.date())
    wanted = made.truth.prices
    regions = {region for _, _, region in wanted}
    rows = found.rows if found is not None else ()
    named = {(row.sku or "", row.purchase_option or "", row.region or next(iter(regions))): row for row in rows}
    if len(named) != len(rows) or set(named) != set(wanted):
        yield f"prices are of {sorted(map(str, named))}, not of {sorted(wanted)}"
    for key, row in named.items():
        if abs(Decimal(row.micros_per_gpu_hour) / 10**6 - wanted.get(key, Decimal(-1))) > CENT / 2:
            yield f"{key} is {row.micros_per_gpu_hour / 1e6}, not {wanted.get(key)}"


def _matches(random: Random, made: Made, bill: Bill) -> Iterator[str]:
    """Hold it against the truth, and against ledgers that differ by some hundredths, by hours or by price."""
    span = (FIRST_US, FIRST_US + 30 * DAY_US)
    hours = dict.fromkeys(range(*span, DAY_US), 24)
    for change in ("none", "hours", "price"):
        factor = Decimal(1) if change == "none" else 1 + random.choice((-1, 1)) * Decimal(random.randint(3, 20)) / 100
        ledger = {}
        for key, cost in made.truth.costs.items():
            milliseconds = made.truth.hours[key] * HOUR_MS * (factor if change == "hours" else 1)
            ledger[key] = OwnedTime(int(milliseconds), int(cost * factor * 10**6), 0, 0, 0, 0)
        compared = compare(ledger, bill, "USD", span, hours)
        if compared.matched != (change == "none"):
            yield f"{change} by {factor}: {'a false match' if compared.matched else 'no match'}, {compared.permille}"
        elif change != "none" and {reason.kind for one in compared.counted for reason in one.reasons} != {change}:
            yield f"{change} by {factor} is told as {[one.reasons for one in compared.counted]}"
    foreign = {(made.items[0].sku, FIRST_US, "EUR"): next(iter(bill.days.values()))}
    euros = Bill({**bill.days, **foreign}, bill.others, bill.lines)
    if compare({}, euros, "USD", span, hours).matched:
        yield "GPUs in euros match dollars"
