"""Gather an invoice by GPU kind and UTC day: one pass over its lines, bounded by kinds and days, amounts exact.

What lies across days is divided by time, in whole billionths, so that the days of a line sum to the line.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import ROUND_HALF_EVEN, Decimal, localcontext

from agent.wire.units import DAY_US
from analyzer.finops.focus.exact import exact_shares
from analyzer.finops.focus.read import BillLine
from analyzer.finops.reconcile.skus import SkuMap

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
        why = "no GPU that is known"
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
