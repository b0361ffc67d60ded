"""Gather a bill by GPU kind and UTC day: one pass over its lines, bounded by kinds, days and resources, amounts exact.

What lies across days is divided by time, in whole billionths, so that the days of a line sum to the line. Which lines
are which GPUs, and for how many hours, is said by gpu_lines.py.

A line that names an instance is not yet its time: fees of platforms, marketplaces and licences name it too, for the
same hours. One resource has no more instance-hours than its charges cover time; of two products that together have
more, or as many at less than half the price, the cheaper is the fee; so is what another service than compute bills for
less than half of compute's price. Fees are listed, and are no GPU's time.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import ROUND_HALF_EVEN, Decimal, localcontext
from typing import NamedTuple

from agent.wire.units import DAY_US, HOUR_US
from analyzer.errors import ConfigError
from analyzer.finops.focus.read import BillLine
from analyzer.finops.focus.rows import exact_shares
from analyzer.finops.reconcile.gpu_lines import KIND_COLUMNS, BilledKind, SkuMap, hours_of_line, is_host_part
from analyzer.text.words import counted, dollars

_NANOS = Decimal(1_000_000_000)
_DIGITS = 60  # of a price times a quantity, of 38 digits each at most, as far as billionths need them
_HOUR_NANOS = 1_000_000_000
_SAME = 1_000  # amounts that differ by less than a thousandth are rounded, and the same
Span = tuple[int | None, int | None]  # microseconds; None is what the bill covers
OTHERS_KEPT = 200  # kinds of lines that are about no GPU; what more there are is summed under one name
_RESOURCES_MOST = 1_000_000  # GPU resources times days times products, about a gigabyte
_KINDS_MOST = 20_000  # different texts of lines whose GPU kind is remembered
_HOSTS_MOST = 200_000  # resources whose lines of cores and memory are remembered, for a word alone


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
    """Lines that are no GPU's usage: tax, credits, fees, or something that is not known to be a GPU."""

    why: str
    name: str
    lines: int = 0
    nanos: int = 0
    currency: str = ""


class PriceKey(NamedTuple):
    """Of what a bill has a price: what stays apart however much of it was bought."""

    sku: str
    option: str | None
    provider: str | None
    region: str | None


@dataclass(slots=True)
class PaidDay:
    """What was paid on one UTC day: prices of a GPU-hour with the billionths of GPU-hours that each was paid for.

    `host_nanos` is what parts of the machines cost that are lines of their own, less discounts that are. `fee_nanos` is
    what commitments cost on lines of their own, whose usage (`covered_nano_hours`) is billed at nothing. `is_by_cost`
    says that a unit price did not make the cost of its line, and cost by quantity was taken.
    """

    paid: Counter[Decimal] = field(default_factory=Counter)
    host_nanos: int = 0
    fee_nanos: int = 0
    covered_nano_hours: int = 0
    is_by_cost: bool = False

    @property
    def nano_hours(self) -> int:
        """Of how many billionths of GPU-hours prices are known, less those that were taken back.

        What a commitment covered has its fee as the price where nothing else of the day has one.
        """
        return sum(self.paid.values()) if self.paid or self.fee_nanos <= 0 else self.covered_nano_hours

    def add(self, more: "PaidDay") -> None:
        """Add what was paid beside it; what was taken back is below 0."""
        self.paid.update(more.paid)
        self.host_nanos += more.host_nanos
        self.fee_nanos += more.fee_nanos
        self.covered_nano_hours += more.covered_nano_hours
        self.is_by_cost |= more.is_by_cost


@dataclass(slots=True)
class Bill:
    """An invoice, gathered. `first` and `last` are UTC days (their first microseconds) that lines of GPUs lie in.

    `begins` and `ends` are from when to when it has usage of anything: a bill may be cut in a day, or be by the days of
    another time zone. None where that is not known.

    `days` is by GPU kind, day and currency, `currencies` those of GPUs. `unpriced` counts lines of GPUs from which no
    price follows, by reason, `by_fee` those of commitments that have a price together with their fee alone, `untimed`
    those of which no hours follow; `notes` are sentences on how it was read.
    """

    days: dict[tuple[str, int, str], Billed] = field(default_factory=dict)
    others: dict[tuple[str, str, str], Other] = field(default_factory=dict)
    lines: int = 0
    prices: dict[PriceKey, dict[int, PaidDay]] = field(default_factory=dict)
    unpriced: Counter[str] = field(default_factory=Counter)
    by_fee: Counter[str] = field(default_factory=Counter)
    untimed: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)
    begins: int | None = None
    ends: int | None = None

    @property
    def currencies(self) -> set[str]:
        """In which GPUs are billed."""
        return {currency for _, _, currency in self.days}

    @property
    def first(self) -> int | None:
        """The first UTC day of a line of GPUs."""
        return min((day for _, day, _ in self.days), default=None)

    @property
    def last(self) -> int | None:
        """The last one."""
        return max((day for _, day, _ in self.days), default=None)

    @property
    def nanos(self) -> int:
        """All that is billed, in billionths, of whatever currency."""
        return sum(day.nanos for day in self.days.values()) + sum(other.nanos for other in self.others.values())


class _Slot(NamedTuple):
    """What one resource is billed on one day, as long as it is not known which of its products is the machine."""

    sku: str
    day: int
    currency: str
    region: str | None  # ids of resources are of one region alone
    resource: str | None


class _Product(NamedTuple):
    name: str
    is_compute: bool
    key: PriceKey


@dataclass(slots=True)
class _Part:
    """One product of a slot. `machine_nanos` are billionths of machine-hours, where machines are counted.

    `is_mapped` says that the site's own file says what it is.
    """

    lines: int = 0
    nanos: int = 0
    nano_hours: int = 0
    machine_nanos: int = 0
    is_mapped: bool = False
    covered: int = 0  # a bit for each hour of the day that its charges touch
    hours_known: bool = True
    day: PaidDay = field(default_factory=PaidDay)

    @property
    def price(self) -> float:
        """Of a machine-hour; only to order by."""
        return self.nanos / self.machine_nanos if self.machine_nanos else 0.0

    @property
    def gpu_price(self) -> float:
        """Of a GPU-hour, whether GPUs are counted or machines."""
        return self.nanos / self.nano_hours if self.nano_hours else 0.0


def gather(lines: Iterable[BillLine], skus: SkuMap, start: int | None = None, end: int | None = None) -> Bill:
    """Return what an invoice says of each GPU kind and UTC day, and of everything else; of `start` to `end` alone.

    The cost is EffectiveCost: of a reservation the part of the day, as in the ledger.

    Raises:
        ConfigError: it has more resources and days than memory is given to.
    """
    gathering = _Gathering(skus, (start, end))
    with localcontext(prec=_DIGITS):
        for line in lines:
            if (start is None or line.end > start) and (end is None or line.start < end):
                gathering.add(line)
        return gathering.settled()


class _Gathering:
    """Adds lines up. What one resource is billed for is told apart once all of them are known."""

    def __init__(self, skus: SkuMap, within: Span) -> None:
        self._skus = skus
        self._within = within
        self._bill = Bill()
        self._slots: dict[_Slot, dict[_Product, _Part]] = {}
        self._kinds: dict[tuple[object, ...], BilledKind | str] = {}
        self._parts = 0
        self._without_zone = 0
        self._host_nanos: dict[tuple[str, str], int] = {}  # of lines that name no GPU, by resource and currency

    def add(self, line: BillLine) -> None:
        """Add one line."""
        self._bill.lines += 1
        self._without_zone += not line.has_zone
        kind = self._kind(line)
        nanos = _nanos(line.effective)
        self._extend(line, has_hours=not isinstance(kind, str) and bool(line.quantity))
        if line.correction or line.category in ("Tax", "Credit", "Adjustment"):
            self._add_other(line, "correction" if line.correction else line.category.lower(), nanos)
        elif isinstance(kind, str):
            self._add_other(line, kind, nanos)
            if kind == "no known GPU" and line.resource is not None and is_host_part(line):
                self._remember(line.resource, line.currency, nanos)
        elif nanos or line.category != "Purchase":  # what a purchase without cost bought stands with the usage
            self._add_usage(line, kind, nanos)

    def _extend(self, line: BillLine, *, has_hours: bool) -> None:
        """Note from when to when the bill has usage; what is billed by the month does not say where it is cut off."""
        if line.category == "Usage" and not line.correction and (has_hours or line.end - line.start <= DAY_US):
            bill = self._bill
            bill.begins = line.start if bill.begins is None else min(bill.begins, line.start)
            bill.ends = line.end if bill.ends is None else max(bill.ends, line.end)

    def _kind(self, line: BillLine) -> BilledKind | str:
        """Return what the map says of a line; thousands of lines have the same texts."""
        key = (line.instance_type, line.gpu_count, *map(line.texts.get, KIND_COLUMNS))
        kind = self._kinds.get(key)
        if kind is None:
            if len(self._kinds) >= _KINDS_MOST:
                self._kinds.clear()
            kind = self._kinds[key] = self._skus.kind(line)
        return kind

    def _remember(self, resource: str, currency: str, nanos: int) -> None:
        key = resource, currency
        if key in self._host_nanos or len(self._host_nanos) < _HOSTS_MOST:
            self._host_nanos[key] = self._host_nanos.get(key, 0) + nanos

    def _add_other(self, line: BillLine, why: str, nanos: int, lines: int = 1) -> None:
        name = line.texts.get("SkuMeter") or line.texts.get("SkuId") or line.texts.get("ChargeDescription") or "unnamed"
        _add_other(self._bill, Other(why, name[:80], lines, nanos, line.currency))

    def _add_usage(self, line: BillLine, kind: BilledKind, nanos: int) -> None:
        time = hours_of_line(line, kind)
        gpus, machines = (_nanos(hours) if hours else 0 for hours in (time.gpu_hours, time.machine_hours))
        price, is_by_cost = _price(line, kind, time.gpu_hours) if line.category == "Usage" else (None, False)
        has_status = (
            "CommitmentDiscountStatus" in line.texts
        )  # then the effective cost is of usage, and what is unused apart
        is_of_commitment = kind.option == "reserved" and not has_status and not (line.effective and line.quantity)
        is_priceless = (
            price is None and not time.is_part and (line.effective > 0 or (not line.effective and line.quantity))
        )
        if line.category == "Usage" and is_priceless:
            why = (time.why or "no price") if line.effective else "they cost 0"
            (self._bill.by_fee if is_of_commitment else self._bill.unpriced)[why] += 1
        if time.gpu_hours is None and time.why is not None:
            self._bill.untimed[time.why] += 1
        product = _product(line, kind)
        pieces = list(_days(line.start, line.end, self._within))
        parts, length = [until - since for since, until in pieces], line.end - line.start
        shares = zip(*(exact_shares(parts, length, whole) for whole in (nanos, gpus, machines)), strict=True)
        for (since, until), (cost, taken, held) in zip(pieces, shares, strict=True):
            if not _is_within(since, until, self._within):
                continue
            slot = _Slot(kind.sku, since // DAY_US * DAY_US, line.currency, line.region, line.resource)
            part = self._part(slot, product)
            part.lines += 1
            part.nanos += cost
            part.nano_hours += taken
            part.is_mapped = kind.is_mapped
            part.machine_nanos += 0 if kind.is_mapped else held
            part.covered |= _hours_touched(since, until)
            part.hours_known &= time.gpu_hours is not None
            if price is not None:
                part.day.paid[price] += taken
                part.day.is_by_cost |= is_by_cost
            elif line.category != "Usage":
                continue
            elif time.is_part:
                part.day.host_nanos += cost
            elif is_of_commitment:
                part.day.fee_nanos += cost
                part.day.covered_nano_hours += taken

    def _part(self, slot: _Slot, product: _Product) -> _Part:
        products = self._slots.setdefault(slot, {})
        if product not in products:
            self._parts += 1
            if self._parts > _RESOURCES_MOST:
                raise ConfigError(
                    f"the bill has more than {_RESOURCES_MOST:,} resources and days of GPUs; compare it in parts, by"
                    " --since and --until"
                )
            products[product] = _Part()
        return products[product]

    def settled(self) -> Bill:
        """Return the bill, with fees told from machines."""
        self._join_regions()
        compute: dict[tuple[str, int, str], dict[PriceKey, float]] = {}  # the dearest price, on whatever resource
        for slot, products in self._slots.items():
            for product, part in products.items():
                if product.is_compute and part.gpu_price > 0:
                    prices = compute.setdefault((slot.sku, slot.day, slot.currency), {})
                    prices[product.key] = max(prices.get(product.key, 0.0), part.gpu_price)
        for slot, products in self._slots.items():
            fees = _fees(products) if slot.resource is not None and len(products) > 1 else []
            prices = compute.get((slot.sku, slot.day, slot.currency), {})
            fees += [
                product
                for product, part in products.items()
                if not product.is_compute
                and not part.is_mapped
                and 0 < part.gpu_price < _machine_price(prices, product.key) / 2
            ]
            for product, part in products.items():
                if product in fees:
                    _add_other(self._bill, Other("fee", product.name[:80], part.lines, part.nanos, slot.currency))
                else:
                    _settle(self._bill, slot, product, part)
        self._bill.notes += self._said()
        return self._bill

    def _join_regions(self) -> None:
        """Put what names no region beside the rest of its resource, where that lies in one region alone."""
        regions: dict[_Slot, list[_Slot]] = {}
        for slot in self._slots:
            bare = slot._replace(region=None)
            if slot.resource is not None and slot.region is not None and bare in self._slots:
                regions.setdefault(bare, []).append(slot)
        for bare, found in regions.items():
            if len(found) == 1:
                self._slots[found[0]] |= self._slots.pop(bare)

    def _said(self) -> Iterator[str]:
        if self._without_zone:
            yield f"{counted(self._without_zone, 'line')} have times without a zone; they were read as UTC."
        with_gpus = {(slot.resource, slot.currency) for slot in self._slots}
        missing = [(key, nanos) for key, nanos in self._host_nanos.items() if key in with_gpus]
        for currency in sorted({currency for (_, currency), _ in missing}):
            nanos = sum(nanos for (_, of), nanos in missing if of == currency)
            yield (
                f"Cores and memory of the machines of these GPUs are lines of their own, {currency}"
                f" {dollars(nanos // 1000)}, and not in the GPUs' cost; add them by rows with gpus = 0 in --map FILE."
            )


def _add_other(bill: Bill, more: Other) -> None:
    key = (more.why, more.name, more.currency)
    if key not in bill.others and len(bill.others) >= OTHERS_KEPT:
        key = (more.why, "others", more.currency)
    other = bill.others.setdefault(key, Other(*key[:2], currency=more.currency))
    other.lines += more.lines
    other.nanos += more.nanos


def _product(line: BillLine, kind: BilledKind) -> _Product:
    texts = line.texts
    name = texts.get("SkuMeter") or texts.get("SkuPriceId") or texts.get("SkuId") or texts.get("ChargeDescription", "")
    service = (texts.get("ServiceName") or texts.get("ServiceCategory", "")).casefold()
    is_compute = any(word in service for word in ("compute", "virtual machine", "amazonec2"))
    return _Product(name[:80], is_compute, PriceKey(kind.sku, kind.option, line.provider, line.region))


def _machine_price(prices: Mapping[PriceKey, float], key: PriceKey) -> float:
    """Return what a GPU-hour of compute costs that is sold alike, else the cheapest of the provider; 0 for none."""
    of_provider = (price for other, price in prices.items() if other.provider == key.provider)
    return prices.get(key) or min(of_provider, default=0.0)


def _fees(products: dict[_Product, _Part]) -> list[_Product]:
    """Return which products of a resource's day are no machine time beside the first: compute first, then the dearest.

    A machine that is billed in two products by turns (spot, then on demand) has the hours of both.
    """
    counted_machines = {product: part for product, part in products.items() if part.machine_nanos > 0}
    order = sorted(counted_machines, key=lambda each: (each.is_compute, products[each].price), reverse=True)
    covered = 0
    for part in counted_machines.values():
        covered |= part.covered
    most = covered.bit_count() * _HOUR_NANOS
    fees: list[_Product] = []
    held = 0
    for product in order:
        part, first = products[product], products[order[0]]
        twin = product != order[0] and abs(part.machine_nanos - first.machine_nanos) * _SAME <= first.machine_nanos
        is_cheap = part.price * 2 < first.price and product.key.option == order[0].key.option
        if held and ((held + part.machine_nanos) * _SAME > most * (_SAME + 1) or (twin and is_cheap)):
            fees.append(product)
        else:
            held += part.machine_nanos
    return fees or _gpu_fees(products)


def _gpu_fees(products: dict[_Product, _Part]) -> list[_Product]:
    """Return the products that count as many GPUs of a resource as its first one, at less than half of its price."""
    counted_gpus = {one: part for one, part in products.items() if part.gpu_price > 0 and not part.is_mapped}
    first = max(counted_gpus, key=lambda each: (each.is_compute, products[each].gpu_price), default=None)
    return [
        product
        for product, part in counted_gpus.items()
        if first is not None
        and abs(part.nano_hours - products[first].nano_hours) * _SAME <= part.nano_hours
        and part.gpu_price * 2 < products[first].gpu_price
        and product.key.option == first.key.option
    ]


def _settle(bill: Bill, slot: _Slot, product: _Product, part: _Part) -> None:
    billed = bill.days.setdefault((slot.sku, slot.day, slot.currency), Billed())
    billed.nanos += part.nanos
    billed.nano_hours += part.nano_hours
    billed.hours_known &= part.hours_known
    if part.day != PaidDay():
        bill.prices.setdefault(product.key, {}).setdefault(slot.day, PaidDay()).add(part.day)


def _price(line: BillLine, kind: BilledKind, gpu_hours: Decimal | None) -> tuple[Decimal | None, bool]:
    """Return what one GPU-hour of a line costs, and whether its unit price was set aside as not making the cost.

    None where it has no hours or costs nothing. Of a commitment it is the effective cost. Else price and cost are each
    rounded somewhere: the one of more digits is taken.
    """
    if not gpu_hours or not line.quantity or line.effective / gpu_hours <= 0:
        return None, False
    by_cost = line.effective / gpu_hours
    unit = line.unit_price
    if kind.option == "reserved" or unit is None:
        return by_cost, False
    made, of_unit, of_cost = unit * line.quantity, _half_digit(unit), _half_digit(line.effective)
    rounding = of_unit * abs(line.quantity) + of_cost
    if unit <= 0 or abs(made - line.effective) > max(rounding, abs(line.effective) / _SAME):
        return by_cost, True
    is_finer = of_unit * abs(line.effective) <= of_cost * unit
    return (made / gpu_hours if is_finer else by_cost), False


def _half_digit(amount: Decimal) -> Decimal:
    """Return half of the last digit that is written, by which an amount may be rounded."""
    exponent = amount.as_tuple().exponent
    return Decimal(5).scaleb((exponent if isinstance(exponent, int) else 0) - 1)


def _is_within(since: int, until: int, within: Span) -> bool:
    return (within[0] is None or until > within[0]) and (within[1] is None or since < within[1])


def _hours_touched(since: int, until: int) -> int:
    """Return a bit for each hour of its UTC day that a span touches."""
    first, after = since % DAY_US // HOUR_US, -(-((until - 1) % DAY_US + 1) // HOUR_US)
    return (1 << after) - (1 << first)


def _days(start: int, end: int, within: Span) -> Iterable[tuple[int, int]]:
    """Yield a span by UTC days, cut where what is asked for begins and ends too."""
    while start < end:
        until = min(end, start // DAY_US * DAY_US + DAY_US, *(cut for cut in within if cut is not None and cut > start))
        yield start, until
        start = until


def _nanos(amount: Decimal) -> int:
    """Return an amount in whole billionths; what lies below is rounded to the even one."""
    return int((amount * _NANOS).to_integral_value(ROUND_HALF_EVEN))
