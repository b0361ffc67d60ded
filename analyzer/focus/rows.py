"""Make rows of FOCUS of charges: pure, decimals exact. A row is a dict by column name; what is null is left out."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from itertools import groupby

from analyzer.focus.charges import Charge, Place, month_of
from analyzer.focus.exact import MILLIONTHS, MS_PER_HOUR, NANOS, RATIO_DIGITS, nano_hours, scaled, shares
from analyzer.focus.issuer import Issuer
from analyzer.states import booking

Value = str | int | Decimal  # an int is a time, in microseconds UTC
Row = dict[str, Value]

GPU_HOURS = "GPU-Hours"
METHOD = "gpu-time"  # a node's cost is divided by GPU time; docs/focus.md says it in words
CATEGORIES = {"on_demand": "Standard", "owned": "Standard", "spot": "Dynamic", "reserved": "Committed"}
_COSTS = ("BilledCost", "EffectiveCost", "ContractedCost", "ListCost")
NOTHING = Decimal(0)
MILLIJOULES_PER_KWH = 3_600_000_000


@dataclass(frozen=True, slots=True)
class Around:
    """What rows need beside the charge: the names, where nodes are, how settled the charge period is."""

    issuer: Issuer
    places: Mapping[str, Place]
    status: str | None


def usage_rows(charges: Iterable[Charge], around: Around) -> Iterator[Row]:
    """Yield the rows of one charge period: the usage, then the purchase of each reservation.

    Every charge must have a price. What is billed for reserved GPUs stands on the purchase, what they were used for on
    the usage, so that both columns sum to the ledger.
    """
    bought: dict[tuple[str | None, str | None, int], _Bought] = {}
    for _, of_origin in groupby(charges, key=lambda charge: charge.origin):
        group = list(of_origin)
        taken = [charge.milliseconds for charge in group]
        ratios = shares(taken, max(sum(taken), 1), 10**RATIO_DIGITS)
        for charge, quantity, ratio in zip(group, nano_hours(taken), ratios, strict=True):
            yield _usage(charge, quantity, ratio, around)
            if charge.purchase_option == "reserved":
                node_group = around.places.get(charge.node, Place()).node_group
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


def adjustment_row(charge: Charge, around: Around) -> Row:
    """Return the row of an adjustment: billed in the month in which it was learned, of the hour that it corrects."""
    recorded_at = charge.recorded_at or charge.end
    cost = scaled(charge.cost_micros or 0, MILLIONTHS)
    words = f"correction of GPU time of {_kind(charge)}: {_words(charge)}"
    row = _common(charge.start, charge.end, recorded_at, around) | _holder(charge, around)
    row |= dict.fromkeys(_COSTS, cost) | {
        "ChargeCategory": "Adjustment",
        "ChargeDescription": words,
        "ChargeFrequency": "One-Time",
        "x_AdjustmentReason": charge.reason or "",
    }
    zone = around.issuer.timezone
    if month_of(charge.start, zone) != month_of(recorded_at, zone):
        row["ChargeClass"] = "Correction"
    return row | _split(charge, cost)


def _usage(charge: Charge, quantity: int, ratio: int, around: Around) -> Row:
    unit, cost = charge.unit_micros, charge.cost_micros
    if unit is None or cost is None:
        raise AssertionError("BUG: a charge without a price is not exported")
    paid = scaled(cost, MILLIONTHS)
    row = _common(charge.start, charge.end, charge.start, around) | _holder(charge, around)
    row |= _priced(charge.sku, charge.purchase_option, unit, quantity)
    row |= {
        "BilledCost": paid,
        "EffectiveCost": paid,
        "ChargeCategory": "Usage",
        "ChargeDescription": f"GPU time of {_kind(charge)}: {_words(charge)}",
        "ChargeFrequency": "Usage-Based",
        "PricingCategory": CATEGORIES.get(charge.purchase_option or "", "Other"),
        "ConsumedQuantity": scaled(quantity, NANOS),
        "ConsumedUnit": GPU_HOURS,
    }
    if charge.purchase_option == "reserved":
        row |= _reserved(charge.sku, around.places.get(charge.node, Place()).node_group, quantity)
        row |= {"BilledCost": NOTHING, "CommitmentDiscountStatus": "Unused" if charge.run_id is None else "Used"}
        if charge.run_id is None:
            del row["ConsumedQuantity"], row["ConsumedUnit"]
    if around.issuer.version != "1.2":
        row |= _allocated(charge, quantity, ratio)
    return row | _split(charge, paid)


def _purchase(sku: str | None, node_group: str | None, unit: int, bought: _Bought, around: Around) -> Row:
    row = _common(bought.start, bought.end, bought.start, around)
    row |= _priced(sku, "reserved", unit, bought.quantity) | _reserved(sku, node_group, bought.quantity)
    row |= {
        "BilledCost": scaled(bought.cost_micros, MILLIONTHS),
        "EffectiveCost": NOTHING,
        "ChargeCategory": "Purchase",
        "ChargeDescription": f"reserved GPUs: {sku or 'GPUs of unknown kind'}",
        "ChargeFrequency": "Recurring",
        "PricingCategory": "Standard",
        "x_PurchaseOption": "reserved",
    }
    return row | ({"x_NodeGroup": node_group} if node_group else {})


def _common(start: int, end: int, billed_at: int, around: Around) -> Row:
    issuer = around.issuer
    first, after = month_of(billed_at, issuer.timezone)
    names = (
        ("ProviderName", "PublisherName") if issuer.version == "1.2" else ("ServiceProviderName", "HostProviderName")
    )
    row: Row = {
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
    if around.status is not None:
        row["x_BookStatus"] = around.status
    return row


def _holder(charge: Charge, around: Around) -> Row:
    place = around.places.get(charge.node, Place())
    held = "nobody" if charge.run_id is None else "unmapped" if charge.team is None else "team"
    as_run = charge.run_id is not None and around.issuer.version == "1.2"
    known = {
        "AvailabilityZone": place.zone,
        "RegionId": place.region,
        "RegionName": place.region,
        "ResourceId": charge.run_id if as_run else charge.node,
        "ResourceName": (charge.name or charge.run_id) if as_run else charge.node,
        "ResourceType": "Run" if as_run else "Node",
        "SubAccountId": charge.team,
        "SubAccountName": charge.team,
        "Tags": _tags(charge, place),
        "x_Node": charge.node,
        "x_NodeGroup": place.node_group,
        "x_PurchaseOption": charge.purchase_option,
        "x_RunId": charge.run_id,
        "x_Holder": held,
    }
    return {name: value for name, value in known.items() if value is not None}


def _priced(sku: str | None, option: str | None, unit: int, quantity: int) -> Row:
    price, cost = scaled(unit, MILLIONTHS), scaled(unit * quantity, MILLIONTHS + NANOS)
    kind = sku or "unknown"
    return {
        "ContractedCost": cost,
        "ListCost": cost,
        "ContractedUnitPrice": price,
        "ListUnitPrice": price,
        "PricingQuantity": scaled(quantity, NANOS),
        "PricingUnit": GPU_HOURS,
        "SkuId": kind,
        "SkuMeter": "GPU time",
        "SkuPriceId": f"{kind}/{option or 'unknown'}/{unit}",
        "SkuPriceDetails": _json({"GpuCount": 1, "x_GpuModel": kind}),
    }


def _reserved(sku: str | None, node_group: str | None, quantity: int) -> Row:
    name = "/".join(["reserved", sku or "unknown", *([node_group] if node_group else [])])
    return {
        "CommitmentDiscountCategory": "Usage",
        "CommitmentDiscountId": name,
        "CommitmentDiscountName": name.replace("/", " "),
        "CommitmentDiscountType": "Reserved GPUs",
        "CommitmentDiscountQuantity": scaled(quantity, NANOS),
        "CommitmentDiscountUnit": GPU_HOURS,
    }


def _allocated(charge: Charge, quantity: int, ratio: int) -> Row:
    element = {"AllocatedRatio": scaled(ratio, RATIO_DIGITS), "UsageUnit": GPU_HOURS}
    element["UsageQuantity"] = scaled(quantity, NANOS)
    row: Row = {"AllocatedMethodId": METHOD, "AllocatedMethodDetails": _json({"Elements": [element]})}
    if charge.run_id is not None:
        row |= {"AllocatedResourceId": charge.run_id, "AllocatedResourceName": charge.name or charge.run_id}
        row["AllocatedTags"] = _tags(charge, Place())
    return row


def _split(charge: Charge, cost: Decimal) -> Row:
    klass = booking(charge.state, charge.cause).klass
    row: Row = {
        "x_State": charge.state,
        "x_Class": klass,
        "x_UsefulCost": cost if klass == "useful" else NOTHING,
        "x_AvoidableCost": cost if klass == "avoidable" else NOTHING,
        "x_GpuMilliseconds": Decimal(charge.milliseconds),
    }
    if charge.millijoules is not None:
        row["x_EnergyKwh"] = scaled(charge.millijoules * 10**NANOS // MILLIJOULES_PER_KWH, NANOS)
    return row | ({"x_Cause": charge.cause} if charge.cause else {})


def _tags(charge: Charge, place: Place) -> str:
    known = {
        "team": charge.team,
        "cost_centre": charge.cost_centre,
        "project": charge.project,
        "queue": charge.queue,
        "stage": charge.stage,
        "node_group": place.node_group,
    }
    return _json({key: value for key, value in known.items() if value is not None})


def _json(value: object) -> str:
    """Return JSON in which decimals are numbers, digit by digit as they are."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(key)}:{_json(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_json, value)) + "]"
    if isinstance(value, Decimal):
        return format(value, "f")
    return json.dumps(value, ensure_ascii=False)


def _kind(charge: Charge) -> str:
    return charge.sku or "GPUs of unknown kind"


def _words(charge: Charge) -> str:
    said = booking(charge.state, charge.cause)
    cause = f", {said.cause_label}" if said.cause_label and said.cause_label != said.label else ""
    return f"{said.label}{cause} ({said.klass})"


def hours_of(milliseconds: int) -> Decimal:
    """Return GPU milliseconds as GPU-hours, rounded down to a billionth."""
    return scaled(milliseconds * 10**NANOS // MS_PER_HOUR, NANOS)
