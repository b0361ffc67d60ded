"""Parts of a row of FOCUS that a bill says again and again, each made once: pure. Who is given one changes a copy."""

import json
from collections.abc import Mapping
from decimal import Decimal
from functools import lru_cache

from analyzer.finops.focus.charges import NodeLocation, Who, month_of
from analyzer.finops.focus.columns import Version
from analyzer.finops.focus.exact import MILLIONTHS, scaled
from analyzer.finops.focus.issuer import Issuer
from analyzer.states import Class, booking

Value = str | int | Decimal  # an int is a time, in microseconds UTC
Cells = Mapping[str, Value]

GPU_HOURS = "GPU-Hours"
_HOLDERS_KEPT, _PRICES_KEPT, _PERIODS_KEPT, _STATES_KEPT = 16_384, 1024, 64, 256


@lru_cache(maxsize=_PERIODS_KEPT)
def period_cells(issuer: Issuer, start: int, end: int, billed_at: int) -> Cells:
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
def holder_cells(version: Version, place: NodeLocation, who: Who) -> Cells:
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
def allocated_cells(who: Who) -> Cells:
    """Return to whom a part of a node was allocated; nothing where nobody held it."""
    if who.run_id is None:
        return {}
    names = {"AllocatedResourceId": who.run_id, "AllocatedResourceName": who.name or who.run_id}
    return {**names, "AllocatedTags": _tags(who, NodeLocation())}


@lru_cache(maxsize=_PRICES_KEPT)
def price_cells(sku: str | None, option: str | None, unit: int) -> Cells:
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
def reservation_cells(sku: str | None, node_group: str | None) -> Cells:
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
def state_words(state: str, cause: str | None) -> tuple[Class, str]:
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
