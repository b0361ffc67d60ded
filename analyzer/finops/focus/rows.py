"""Make rows of FOCUS of charges: pure, decimals exact. A row is a dict by column name; what is null is left out.

What a bill says again and again is made once, and who is given it changes a copy.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from itertools import groupby

from agent.wire.units import HOUR_MS
from analyzer.finops.focus.charges import Charge, NodeLocation, Who, month_of
from analyzer.finops.focus.columns import Issuer, Version
from analyzer.states import Class, booking

MILLIONTHS, NANOS = 6, 9
_RATIO_DIGITS = 12  # a millisecond of a host of 16 GPUs is 7e-10 of its day


def scaled(units: int, digits: int) -> Decimal:
    """Return an integer of units of 10^-digits as the decimal that it is."""
    return Decimal(f"{units}E-{digits}")


def exact_shares(parts: Sequence[int], whole: int, units: int) -> Iterator[int]:
    """Yield for each part its share of `units`, rounded so that the shares of all parts of `whole` sum to the units.

    What is rounded is where each part ends, not its length: ends telescope. A part is then off by less than one unit.
    `whole` must be more than 0.
    """
    ended = given = 0
    for part in parts:
        ended += part
        until = ended * units // whole
        yield until - given
        given = until


def nano_hours(milliseconds: Sequence[int]) -> list[int]:
    """Return GPU milliseconds as billionths of hours that sum to those of their sum, rounded down."""
    return list(exact_shares(milliseconds, HOUR_MS, 10**NANOS))


Value = str | int | Decimal  # an int is a time, in microseconds UTC
Cells = Mapping[str, Value]

GPU_HOURS = "GPU-Hours"
_HOLDERS_KEPT, _PRICES_KEPT, _PERIODS_KEPT, _STATES_KEPT = 16_384, 1024, 64, 256


@lru_cache(maxsize=_PERIODS_KEPT)
def _period_cells(issuer: Issuer, start: int, end: int, billed_at: int) -> Cells:
    """Return who bills, and of when."""
    first, after = month_of(billed_at, issuer.timezone)
    names = (
        ("ProviderName", "PublisherName") if issuer.version == "1.2" else ("ServiceProviderName", "HostProviderName")
    )
    return {
        **dict.fromkeys((*names, "InvoiceIssuerName"), issuer.provider),
        "BillingAccountId": issuer.account,
        "BillingAccountName": issuer.account,
        "BillingCurrency": issuer.currency,
        "BillingPeriodStart": first,
        "BillingPeriodEnd": after,
        "ChargePeriodStart": start,
        "ChargePeriodEnd": end,
        "ServiceCategory": "Compute",
        "ServiceName": "GPU compute",
        "ServiceSubcategory": "Other (Compute)",
    }


@lru_cache(maxsize=_HOLDERS_KEPT)
def _holder_cells(version: Version, place: NodeLocation, who: Who) -> Cells:
    """Return who held which node, and where that is."""
    held = "nobody" if who.run_id is None else "unmapped" if who.team is None else "team"
    as_run = who.run_id is not None and version == "1.2"
    known = {
        "AvailabilityZone": place.zone,
        "RegionId": place.region,
        "RegionName": place.region,
        "ResourceId": who.run_id if as_run else who.node,
        "ResourceName": (who.name or who.run_id) if as_run else who.node,
        "ResourceType": "Run" if as_run else "Node",
        "SubAccountId": who.team,
        "SubAccountName": who.team,
        "Tags": _tags(who, place),
        "x_Node": who.node,
        "x_NodeGroup": place.node_group,
        "x_PurchaseOption": who.purchase_option,
        "x_RunId": who.run_id,
        "x_Holder": held,
    }
    return {name: value for name, value in known.items() if value is not None}


@lru_cache(maxsize=_HOLDERS_KEPT)
def _allocated_cells(who: Who) -> Cells:
    """Return to whom a part of a node was allocated; nothing where nobody held it."""
    if who.run_id is None:
        return {}
    names = {"AllocatedResourceId": who.run_id, "AllocatedResourceName": who.name or who.run_id}
    return {**names, "AllocatedTags": _tags(who, NodeLocation())}


@lru_cache(maxsize=_PRICES_KEPT)
def _price_cells(sku: str | None, option: str | None, unit: int) -> Cells:
    """Return what is sold, and its price of a GPU-hour, `unit` millionths."""
    price, kind = scaled(unit, MILLIONTHS), sku or "unknown"
    return {
        "ContractedUnitPrice": price,
        "ListUnitPrice": price,
        "PricingUnit": GPU_HOURS,
        "SkuId": kind,
        "SkuMeter": "GPU time",
        "SkuPriceId": f"{kind}/{option or 'unknown'}/{unit}",
        "SkuPriceDetails": _as_json({"GpuCount": 1, "x_GpuModel": kind}),
    }


@lru_cache(maxsize=_PRICES_KEPT)
def _reservation_cells(sku: str | None, node_group: str | None) -> Cells:
    """Return what a reservation is called."""
    name = "/".join(["reserved", sku or "unknown", *([node_group] if node_group else [])])
    return {
        "CommitmentDiscountCategory": "Usage",
        "CommitmentDiscountId": name,
        "CommitmentDiscountName": name.replace("/", " "),
        "CommitmentDiscountType": "Reserved GPUs",
        "CommitmentDiscountUnit": GPU_HOURS,
    }


@lru_cache(maxsize=_STATES_KEPT)
def _state_words(state: str, cause: str | None) -> tuple[Class, str]:
    """Return the class of a state, and the state in words."""
    said = booking(state, cause)
    because = f", {said.cause_label}" if said.cause_label and said.cause_label != said.label else ""
    return said.klass, f"{said.label}{because} ({said.klass})"


def _as_json(value: object) -> str:
    """Return JSON in which decimals are numbers, digit by digit as they are."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(key)}:{_as_json(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_as_json, value)) + "]"
    if isinstance(value, Decimal):
        return format(value, "f")
    return json.dumps(value, ensure_ascii=False)


def _tags(who: Who, place: NodeLocation) -> str:
    known = {
        "team": who.team,
        "cost_centre": who.cost_centre,
        "project": who.project,
        "queue": who.queue,
        "stage": who.stage,
        "model": who.model,
        "node_group": place.node_group,
    }
    return _as_json({key: value for key, value in known.items() if value is not None})


FocusRow = dict[str, Value]

_METHOD = "gpu-time"  # a node's cost is divided by GPU time; docs/focus.md says it in words
_CATEGORIES = {"on_demand": "Standard", "owned": "Standard", "spot": "Dynamic", "reserved": "Committed"}
_COSTS = ("BilledCost", "EffectiveCost", "ContractedCost", "ListCost")
_NOTHING, _NOWHERE = Decimal(0), NodeLocation()
_MILLIJOULES_PER_KWH = 3_600_000_000


@dataclass(frozen=True, slots=True)
class RowContext:
    """What rows need beside the charge: the names, where nodes are, how settled the charge period is."""

    issuer: Issuer
    places: Mapping[str, NodeLocation]
    status: str | None


def usage_rows(charges: Iterable[Charge], around: RowContext) -> Iterator[FocusRow]:
    """Yield the rows of one charge period: the usage, then the purchase of each reservation.

    Every charge must have a price. What is billed for reserved GPUs stands on the purchase, what they were used for on
    the usage, so that both columns sum to the ledger.
    """
    bought: dict[tuple[str | None, str | None, int], _Bought] = {}
    for _, of_origin in groupby(charges, key=lambda charge: charge.origin):
        group = list(of_origin)
        taken = [charge.milliseconds for charge in group]
        ratios = exact_shares(taken, max(sum(taken), 1), 10**_RATIO_DIGITS)
        for charge, quantity, ratio in zip(group, nano_hours(taken), ratios, strict=True):
            yield _usage(charge, quantity, ratio, around)
            if charge.purchase_option == "reserved":
                node_group = around.places.get(charge.node, _NOWHERE).node_group
                key = (charge.sku, node_group, charge.unit_micros or 0)
                bought.setdefault(key, _Bought(charge.start, charge.end)).add(quantity, charge.cost_micros or 0)
    for (sku, node_group, unit), of_all in bought.items():
        yield _purchase(sku, node_group, unit, of_all, around)


@dataclass(slots=True)
class _Bought:
    """What of one reservation a charge period has, in billionths of GPU-hours and millionths of money."""

    start: int
    end: int
    quantity: int = 0
    cost_micros: int = 0

    def add(self, quantity: int, cost_micros: int) -> None:
        self.quantity += quantity
        self.cost_micros += cost_micros


def adjustment_row(charge: Charge, around: RowContext) -> FocusRow:
    """Return the row of an adjustment: billed in the month in which it was learned, of the hour that it corrects."""
    recorded_at = charge.recorded_at or charge.end
    cost = scaled(charge.cost_micros or 0, MILLIONTHS)
    row: FocusRow = {
        **_common(charge.start, charge.end, recorded_at, around),
        **_holder_cells(around.issuer.version, around.places.get(charge.node, _NOWHERE), charge.who),
        **dict.fromkeys(_COSTS, cost),
        "ChargeCategory": "Adjustment",
        "ChargeDescription": f"correction of GPU time of {_words(charge)}",
        "ChargeFrequency": "One-Time",
        "x_AdjustmentReason": charge.reason or "",
        **_split(charge, cost),
    }
    zone = around.issuer.timezone
    if month_of(charge.start, zone) != month_of(recorded_at, zone):
        row["ChargeClass"] = "Correction"
    return row


def _usage(charge: Charge, quantity: int, ratio: int, around: RowContext) -> FocusRow:
    unit, cost = charge.unit_micros, charge.cost_micros
    if unit is None or cost is None:
        raise AssertionError("BUG: a charge without a price is not exported")
    paid, used = scaled(cost, MILLIONTHS), scaled(quantity, NANOS)
    place = around.places.get(charge.node, _NOWHERE)
    row: FocusRow = {
        **_common(charge.start, charge.end, charge.start, around),
        **_holder_cells(around.issuer.version, place, charge.who),
        **_price_cells(charge.sku, charge.purchase_option, unit),
        **_amounts(unit, quantity),
        "BilledCost": paid,
        "EffectiveCost": paid,
        "ChargeCategory": "Usage",
        "ChargeDescription": f"GPU time of {_words(charge)}",
        "ChargeFrequency": "Usage-Based",
        "PricingCategory": _CATEGORIES.get(charge.purchase_option or "", "Other"),
        "ConsumedQuantity": used,
        "ConsumedUnit": GPU_HOURS,
        **_split(charge, paid),
    }
    if charge.purchase_option == "reserved":
        row |= _reservation_cells(charge.sku, place.node_group)
        row |= {"BilledCost": _NOTHING, "CommitmentDiscountQuantity": used}
        row["CommitmentDiscountStatus"] = "Unused" if charge.run_id is None else "Used"
        if charge.run_id is None:
            del row["ConsumedQuantity"], row["ConsumedUnit"]
    if around.issuer.version != "1.2":
        row |= {**_allocated(used, ratio), **_allocated_cells(charge.who)}
    return row


def _purchase(sku: str | None, node_group: str | None, unit: int, bought: _Bought, around: RowContext) -> FocusRow:
    row: FocusRow = {
        **_common(bought.start, bought.end, bought.start, around),
        **_price_cells(sku, "reserved", unit),
        **_amounts(unit, bought.quantity),
        **_reservation_cells(sku, node_group),
        "CommitmentDiscountQuantity": scaled(bought.quantity, NANOS),
        "BilledCost": scaled(bought.cost_micros, MILLIONTHS),
        "EffectiveCost": _NOTHING,
        "ChargeCategory": "Purchase",
        "ChargeDescription": f"reserved GPUs: {sku or 'GPUs of unknown kind'}",
        "ChargeFrequency": "Recurring",
        "PricingCategory": "Standard",
        "x_PurchaseOption": "reserved",
    }
    return row | ({"x_NodeGroup": node_group} if node_group else {})


def _common(start: int, end: int, billed_at: int, around: RowContext) -> FocusRow:
    status: Cells = {} if around.status is None else {"x_BookStatus": around.status}
    return {**_period_cells(around.issuer, start, end, billed_at), **status}


def _amounts(unit: int, quantity: int) -> FocusRow:
    cost = scaled(unit * quantity, MILLIONTHS + NANOS)
    return {"ContractedCost": cost, "ListCost": cost, "PricingQuantity": scaled(quantity, NANOS)}


def _allocated(quantity: Decimal, ratio: int) -> FocusRow:
    share = format(scaled(ratio, _RATIO_DIGITS), "f")
    element = f'{{"AllocatedRatio":{share},"UsageUnit":"{GPU_HOURS}","UsageQuantity":{quantity:f}}}'
    return {"AllocatedMethodId": _METHOD, "AllocatedMethodDetails": f'{{"Elements":[{element}]}}'}


def _split(charge: Charge, cost: Decimal) -> FocusRow:
    klass, _ = _state_words(charge.state, charge.cause)
    row: FocusRow = {
        "x_State": charge.state,
        "x_Class": klass,
        "x_UsefulCost": cost if klass == "useful" else _NOTHING,
        "x_AvoidableCost": cost if klass == "avoidable" else _NOTHING,
        "x_GpuMilliseconds": Decimal(charge.milliseconds),
    }
    if charge.millijoules is not None:
        row["x_EnergyKwh"] = scaled(charge.millijoules * 10**NANOS // _MILLIJOULES_PER_KWH, NANOS)
    if charge.cause:
        row["x_Cause"] = charge.cause
    return row


def _words(charge: Charge) -> str:
    _, words = _state_words(charge.state, charge.cause)
    return f"{charge.sku or 'GPUs of unknown kind'}: {words}"


def hours_of(milliseconds: int) -> Decimal:
    """Return GPU milliseconds as GPU-hours, rounded down to a billionth."""
    return scaled(milliseconds * 10**NANOS // HOUR_MS, NANOS)
