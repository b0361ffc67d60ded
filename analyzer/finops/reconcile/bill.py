"""Gather an invoice by GPU kind and UTC day: one pass over its lines, bounded by kinds and days, amounts exact.

What lies across days is divided by time, in whole billionths, so that the days of a line sum to the line.

Invoices name instance types. One is known where the list prices name it for one GPU kind and number alone; a mapping
file says the others, and goes first:

[[invoice]]
match = "p5.48xlarge"      # found in SkuId, SkuMeter, SkuPriceId, InstanceType, ChargeDescription; * and ? as in files
sku = "H100-80GB"          # as the ledger calls it
gpus = 8                   # in one unit that is priced
purchase_option = "reserved"   # optional; else by PricingCategory
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from decimal import ROUND_HALF_EVEN, Decimal, localcontext
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

from agent.wire.units import DAY_US
from analyzer.finops.focus.read import BillLine
from analyzer.finops.focus.rows import exact_shares
from analyzer.prices.list_prices import list_prices
from analyzer.prices.rows import PURCHASE_OPTIONS
from analyzer.settings.toml_model import between, one_of, optional, read_rows, toml_file, toml_key

_FIELDS = ("SkuMeter", "SkuId", "SkuPriceId", "ChargeDescription")
_WORDS = re.compile(r"[^A-Za-z0-9._+-]+")
# FOCUS has no owned: who sells capacity for a term writes Committed, who sells what is left over Dynamic.
_OPTIONS = {"Standard": "on_demand", "Committed": "reserved", "Dynamic": "spot"}


@dataclass(frozen=True, slots=True)
class BilledKind:
    """GPUs of one kind: how many one unit of the invoice has. `option` is None where the invoice does not say it."""

    sku: str
    gpus: int
    option: str | None


@dataclass(frozen=True, slots=True)
class Rule:
    """A row of the mapping file."""

    match: str
    sku: str
    gpus: int = field(metadata=toml_key(read=between(1, 1024)))
    option: str | None = field(metadata=toml_key("purchase_option", read=optional(one_of(PURCHASE_OPTIONS))))


@dataclass(frozen=True, slots=True)
class SkuMap:
    """Says which GPU kind a line is about: the site's rules first, then names of the ledger, then known instances."""

    rules: tuple[Rule, ...]
    kinds: frozenset[str]
    instances: Mapping[str, tuple[str, int] | None]

    @classmethod
    def of(cls, ledger_skus: Collection[str], path: Path | None = None) -> "SkuMap":
        """Make the map, with the rules of a file.

        Raises:
            ConfigError: the file cannot be read, or a row of it is wrong.
        """
        instances = known_instances()
        kinds = {kind[0] for kind in instances.values() if kind is not None}
        return cls(() if path is None else _read_rules(path), frozenset({*ledger_skus, *kinds}), instances)

    def kind(self, line: BillLine) -> BilledKind | None:
        """Return the GPU kind of a line, or None where it is about no known GPU."""
        option = _OPTIONS.get(line.pricing_category or "")
        texts = [line.instance_type or "", *(line.texts.get(name, "") for name in _FIELDS)]
        words = [word for text in texts for word in _WORDS.split(text.casefold()) if word]
        for rule in self.rules:
            pattern = rule.match.casefold()
            if any(fnmatchcase(text, pattern) for text in (*words, *map(str.casefold, texts))):
                return BilledKind(rule.sku, rule.gpus, rule.option or option)
        if (named := line.texts.get("SkuId")) in self.kinds and named is not None:
            return BilledKind(named, line.gpu_count or 1, option)
        found = {self.instances[word] for word in words if word in self.instances}
        if len(found) == 1 and (instance := found.pop()) is not None:
            return BilledKind(*instance, option)
        return None


def _read_rules(path: Path) -> tuple[Rule, ...]:
    """Return the rows of a mapping file in its order; the first that fits counts.

    Raises:
        ConfigError: the file cannot be read, or a row of it is wrong.
    """
    with toml_file(path, ("invoice",)) as (file, mistakes):
        return read_rows(file, "invoice", Rule, mistakes)


@cache
def known_instances() -> dict[str, tuple[str, int] | None]:
    """Return by instance type, in small letters, the GPU kind and number; None where the list prices disagree."""
    found: dict[str, set[tuple[str, int]]] = {}
    for row in list_prices():
        if "(" not in row.instance_type:  # "a3-highgpu (accelerator only)" is no instance type
            found.setdefault(row.instance_type.casefold(), set()).add((row.sku, row.gpus))
    return {name: next(iter(kinds)) if len(kinds) == 1 else None for name, kinds in found.items()}


_NANOS = Decimal(1_000_000_000)
OTHERS_KEPT = 200  # kinds of lines that are about no GPU; what more there are is summed under one name
HOUR_UNITS = ("hour", "hours", "hrs", "hr", "gpu-hours", "gpu-hour", "instance-hours", "1 hour", "h")


@dataclass(slots=True)
class Billed:
    """What a bill says of one GPU kind on one day: money and GPU-hours in billionths.

    `hours_known` is False where a line of it has a unit that is no hour.
    """

    nanos: int = 0
    nano_hours: int = 0
    hours_known: bool = True


@dataclass(slots=True)
class Other:
    """Lines that are no GPU's usage: tax, credits, or something that is not known to be a GPU."""

    why: str
    name: str
    lines: int = 0
    nanos: int = 0


@dataclass(slots=True)
class Bill:
    """An invoice, gathered. `first` and `last` are UTC days (their first microseconds) that lines of GPUs lie in."""

    days: dict[tuple[str, int], Billed] = field(default_factory=dict)
    others: dict[tuple[str, str], Other] = field(default_factory=dict)
    currencies: set[str] = field(default_factory=set)
    lines: int = 0
    first: int | None = None
    last: int | None = None

    @property
    def nanos(self) -> int:
        """All that is billed, in billionths of the currency."""
        return sum(day.nanos for day in self.days.values()) + sum(other.nanos for other in self.others.values())


def gather(lines: Iterable[BillLine], skus: SkuMap, start: int | None = None, end: int | None = None) -> Bill:
    """Return what an invoice says of each GPU kind and UTC day, and of everything else; of `start` to `end` alone.

    The cost is EffectiveCost: of a reservation the part of the day, as in the ledger.
    """
    bill = Bill()
    for line in lines:
        if (start is not None and line.end <= start) or (end is not None and line.start >= end):
            continue
        bill.lines += 1
        bill.currencies.add(line.currency)
        _add(bill, line, skus, (start, end))
    return bill


def _add(bill: Bill, line: BillLine, skus: SkuMap, within: tuple[int | None, int | None]) -> None:
    kind = skus.kind(line)
    nanos = _nanos(line.effective)
    if line.category in ("Tax", "Credit", "Adjustment") or line.correction or kind is None:
        _add_other(bill, line, nanos)
        return
    if line.category == "Purchase" and not nanos:
        return  # what it bought stands with the usage
    hours = _nano_hours(line, kind.gpus)
    pieces = list(_days(line.start, line.end))
    parts = [until - since for since, until in pieces]
    length = line.end - line.start
    money, time = exact_shares(parts, length, nanos), exact_shares(parts, length, hours or 0)
    for (since, until), cost, taken in zip(pieces, money, time, strict=True):
        if (within[0] is not None and until <= within[0]) or (within[1] is not None and since >= within[1]):
            continue
        day = since // DAY_US * DAY_US
        billed = bill.days.setdefault((kind.sku, day), Billed())
        billed.nanos += cost
        billed.nano_hours += taken
        billed.hours_known = billed.hours_known and hours is not None
        bill.first = day if bill.first is None else min(bill.first, day)
        bill.last = day if bill.last is None else max(bill.last, day)


def _add_other(bill: Bill, line: BillLine, nanos: int) -> None:
    why = "correction" if line.correction else line.category.lower()
    if why in ("usage", "purchase"):
        why = "no known GPU"
    name = line.texts.get("SkuMeter") or line.texts.get("SkuId") or line.texts.get("ChargeDescription") or "unnamed"
    key = (why, name[:80])
    if key not in bill.others and len(bill.others) >= OTHERS_KEPT:
        key = (why, "others")
    other = bill.others.setdefault(key, Other(*key))
    other.lines += 1
    other.nanos += nanos


def _days(start: int, end: int) -> Iterable[tuple[int, int]]:
    while start < end:
        until = min(end, start // DAY_US * DAY_US + DAY_US)
        yield start, until
        start = until


def _nano_hours(line: BillLine, gpus: int) -> int | None:
    if line.quantity is None or (line.unit or "").casefold() not in HOUR_UNITS:
        return None
    return _nanos(line.quantity) * gpus


def _nanos(amount: Decimal) -> int:
    """Return an amount in whole billionths; what lies below is rounded to the even one."""
    with localcontext(prec=60):
        return int((amount * _NANOS).to_integral_value(ROUND_HALF_EVEN))
