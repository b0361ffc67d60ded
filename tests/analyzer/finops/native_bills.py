"""A line of FOCUS as providers write it in their own bills: AWS CUR 1 and 2, Azure, Google's BigQuery, OCI."""

import json
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

Line = Mapping[str, str]
_DISCOUNTED = ("DiscountedUsage", "SavingsPlanCoveredUsage")
_CUR_TYPES = {"Tax": "Tax", "Credit": "Credit", "Adjustment": "Refund", "Purchase": "Fee"}


def machine_of(line: Line) -> str:
    """Return the instance type of a line, or no letters."""
    details = line.get("SkuPriceDetails")
    return str(json.loads(details)["InstanceType"]) if details else ""


def cur(line: Line) -> Iterator[dict[str, str]]:
    """Yield a line of the Cost and Usage Report; what a savings plan covers is taken back on a line beside it."""
    machine, cost = machine_of(line), line["EffectiveCost"]
    is_covered = line["CommitmentDiscountStatus"] == "Used"
    kind = _CUR_TYPES.get(line["ChargeCategory"], "Refund" if line["ChargeClass"] else "Usage")
    if is_covered and kind == "Usage":
        kind = _DISCOUNTED[len(line["ResourceId"]) % 2]
    is_machine = "Virtual" in line["ServiceName"]
    is_spot = line["PricingCategory"] == "Dynamic"
    own = {
        "identity/LineItemId": "abcdef",
        "lineItem/LineItemType": kind,
        "lineItem/UsageStartDate": line["ChargePeriodStart"],
        "lineItem/UsageEndDate": line["ChargePeriodEnd"],
        "lineItem/ProductCode": "AmazonEC2" if is_machine else "AmazonEKS",
        "lineItem/UsageType": f"USE1-{'Spot' if is_spot else 'Box'}Usage:{machine}" if machine else "Storage",
        "lineItem/ResourceId": line["ResourceId"],
        "lineItem/UsageAmount": line["PricingQuantity"],
        "lineItem/CurrencyCode": line["BillingCurrency"],
        "lineItem/UnblendedRate": "" if is_covered else line["ContractedUnitPrice"],
        "lineItem/UnblendedCost": line["BilledCost"] if kind == "Fee" else "0" if kind == "DiscountedUsage" else cost,
        "lineItem/LineItemDescription": line["ChargeDescription"],
        "product/ProductName": "Amazon Elastic Compute Cloud" if is_machine else line["ServiceName"],
        "product/instanceType": machine,
        "product/regionCode": line["RegionId"],
        "pricing/term": "" if is_spot else "OnDemand",
        "pricing/unit": "" if is_spot and is_machine else "Hrs" if machine else line["PricingUnit"],
        "reservation/ReservationARN": "arn:aws:ec2::reserved-instances/r" if kind in ("Fee", "DiscountedUsage") else "",
        "reservation/EffectiveCost": cost if kind == "DiscountedUsage" else "",
        "savingsPlan/SavingsPlanEffectiveCost": cost if kind == "SavingsPlanCoveredUsage" else "",
    }
    if kind == "SavingsPlanCoveredUsage":
        own["lineItem/UnblendedCost"] = line["ContractedCost"]
        yield own | {
            "lineItem/LineItemType": "SavingsPlanNegation",
            "lineItem/UnblendedCost": f"-{line['ContractedCost']}",
            "savingsPlan/SavingsPlanEffectiveCost": "0",
        }
    yield own


def cur_2(line: Line) -> Iterator[dict[str, str]]:
    """Yield a line of CUR 2.0, with the net columns that an agreement on discounts brings."""
    for own in cur(line):
        net = {
            "lineItem/NetUnblendedCost": own["lineItem/UnblendedCost"],
            "lineItem/NetUnblendedRate": own["lineItem/UnblendedRate"],
            "reservation/NetEffectiveCost": own["reservation/EffectiveCost"],
            "savingsPlan/NetSavingsPlanEffectiveCost": own["savingsPlan/SavingsPlanEffectiveCost"],
        }
        for name in ("lineItem/UnblendedCost", "reservation/EffectiveCost", "savingsPlan/SavingsPlanEffectiveCost"):
            if own[name]:
                own[name] = f"{Decimal(own[name]) * 2:f}"
        yield {re.sub(r"[/A-Z]", lambda found: "_" + found[0].strip("/").lower(), name): cell
               for name, cell in (own | net).items()}  # fmt: skip


_AZURE_TYPES = {"Adjustment": "RoundingAdjustment", "Credit": "Refund"}
_AZURE_MODELS = {"Standard": "OnDemand", "Dynamic": "Spot", "Committed": "Reservation", "": "OnDemand"}


def cost_details(line: Line) -> Iterator[dict[str, str]]:
    """Yield a line of the export of amortized costs, which has no purchase of what it covers."""
    machine, category = machine_of(line), line["ChargeCategory"]
    day = datetime.fromisoformat(line["ChargePeriodStart"])
    is_covered = line["CommitmentDiscountStatus"] == "Used"
    if category == "Purchase":
        return
    yield {
        "InvoiceSectionName": "research",
        "Date": f"{day:%m/%d/%Y}",
        "ChargeType": "Refund" if line["ChargeClass"] else _AZURE_TYPES.get(category, category),
        "MeterCategory": line["ServiceName"],
        "MeterName": machine.removeprefix("Standard_").replace("_", " ") or "Data Stored",
        "ProductName": line["ChargeDescription"],
        "ResourceId": line["ResourceId"],
        "ResourceLocation": line["RegionId"],
        "Quantity": line["PricingQuantity"],
        "UnitOfMeasure": line["PricingUnit"],
        "EffectivePrice": line["ContractedUnitPrice"],
        "CostInBillingCurrency": line["EffectiveCost"],
        "BillingCurrencyCode": line["BillingCurrency"],
        "PricingModel": "Reservation" if is_covered else _AZURE_MODELS[line["PricingCategory"]],
        "AdditionalInfo": json.dumps({"UsageType": "ComputeHR", "ServiceType": machine, "VCPUs": 96})
        if machine and len(line["ResourceId"]) % 2
        else "",
    }


_GPUS = {"a3-highgpu-8g": "Nvidia H100 80GB GPU", "a2-ultragpu-8g": "Nvidia Tesla A100 80GB GPU"}
_GOOGLE_TYPES = {"Usage": "regular", "Tax": "tax", "Credit": "adjustment", "Adjustment": "rounding_error"}


def big_query(line: Line) -> Iterator[dict[str, str]]:
    """Yield a line of the detailed export; of a commitment the usage is covered, and its fee is a line of its own."""
    category, cost = line["ChargeCategory"], Decimal(line["EffectiveCost"])
    if category == "Purchase":
        return
    machine = machine_of(line)
    of_gpus = _GPUS.get(machine, machine)
    is_spot = line["PricingCategory"] == "Dynamic"
    is_covered = line["CommitmentDiscountStatus"] == "Used" and category == "Usage" and not line["ChargeClass"]
    kind = "COMMITTED_USAGE_DISCOUNT" if is_covered else "DISCOUNT"
    is_gpu = bool(machine) and "Virtual" in line["ServiceName"]
    where = "attached to Spot Preemptible VMs running in Iowa" if is_spot else "running in Iowa"
    credits_: list[dict[str, Any]] = [{"name": "x", "amount": -cost, "type": kind}] if is_covered or cost > 1 else []
    yield {
        "service.description": "Compute Engine" if is_gpu else line["ServiceName"],
        "sku.id": line["SkuId"],
        "sku.description": f"{of_gpus} {where}" if is_gpu else f"Management Fee {line['ChargeDescription']}",
        "usage_start_time": line["ChargePeriodStart"],
        "usage_end_time": line["ChargePeriodEnd"],
        "location.region": line["RegionId"],
        "resource.global_name": line["ResourceId"],
        "cost_type": "adjustment" if line["ChargeClass"] else _GOOGLE_TYPES[category],
        "cost": f"{cost - sum((one['amount'] for one in credits_), Decimal(0)):f}",
        "credits": json.dumps(credits_, default=float),
        "currency": line["BillingCurrency"],
        "usage.amount": "86400",
        "usage.unit": "seconds",
        "usage.amount_in_pricing_units": line["PricingQuantity"],
        "usage.pricing_unit": "hour",
    }


def nested(row: Mapping[str, str]) -> dict[str, Any]:
    """Return a row as BigQuery extracts it: records within it, lists as lists."""
    found: dict[str, Any] = {}
    for name, cell in row.items():
        before, _, key = name.rpartition(".")
        (found.setdefault(before, {}) if before else found)[key] = json.loads(cell) if name == "credits" else cell
    return found


def cost_report(line: Line) -> Iterator[dict[str, str]]:
    """Yield a line of Oracle's cost report, which has usage and corrections alone."""
    if line["ChargeCategory"] == "Purchase":
        return
    is_usage = line["ChargeCategory"] == "Usage" and not line["ChargeClass"]
    yield {
        "lineItem/intervalUsageStart": line["ChargePeriodStart"],
        "lineItem/intervalUsageEnd": line["ChargePeriodEnd"],
        "product/service": "COMPUTE" if line["SkuId"].startswith("PART") else "OTHER",
        "product/region": line["RegionId"],
        "product/resourceId": line["ResourceId"],
        "product/Description": line["ChargeDescription"],
        "usage/billedQuantity": line["PricingQuantity"],
        "cost/productSku": line["SkuId"],
        "cost/unitPrice": line["ContractedUnitPrice"],
        "cost/myCost": line["EffectiveCost"],
        "cost/myCostOverage": line["BilledCost"],
        "cost/currencyCode": line["BillingCurrency"],
        "cost/skuUnitDescription": line["PricingUnit"],
        "lineItem/isCorrection": "" if is_usage else "true",
    }
