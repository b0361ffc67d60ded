"""A checker of FOCUS files that shares no code with the writer: what the specification says, read off its pages.

Source: FOCUS specification 1.2 and 1.4, dataset Cost and Usage: feature levels, nullability, allowed values, formats.
"""

import csv
import json
import re
from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal, localcontext
from pathlib import Path

import pyarrow.parquet as pq

MANDATORY = [
    "BilledCost",
    "BillingAccountId",
    "BillingAccountName",
    "BillingCurrency",
    "BillingPeriodEnd",
    "BillingPeriodStart",
    "ChargeCategory",
    "ChargeClass",
    "ChargeDescription",
    "ChargePeriodEnd",
    "ChargePeriodStart",
    "ContractedCost",
    "EffectiveCost",
    "InvoiceIssuerName",
    "ListCost",
    "PricingQuantity",
    "PricingUnit",
    "ServiceCategory",
    "ServiceName",
]
OF_VERSION = {"1.2": ["ProviderName", "PublisherName"], "1.4": ["HostProviderName", "ServiceProviderName"]}
GONE = {"1.2": ["AllocatedMethodId", "HostProviderName"], "1.4": ["ProviderName", "PublisherName"]}
# Of the mandatory ones, and of the conditional and recommended ones that are written: those that allow no null.
NEVER_NULL = [
    "BilledCost",
    "BillingAccountId",
    "BillingCurrency",
    "BillingPeriodEnd",
    "BillingPeriodStart",
    "ChargeCategory",
    "ChargeFrequency",
    "ChargePeriodEnd",
    "ChargePeriodStart",
    "ContractedCost",
    "EffectiveCost",
    "InvoiceIssuerName",
    "ListCost",
    "ServiceCategory",
    "ServiceName",
    "ServiceSubcategory",
]
ALLOWED = {
    "ChargeCategory": {"Usage", "Purchase", "Tax", "Credit", "Adjustment"},
    "ChargeClass": {"Correction", ""},
    "ChargeFrequency": {"One-Time", "Recurring", "Usage-Based"},
    "CommitmentDiscountCategory": {"Spend", "Usage", ""},
    "CommitmentDiscountStatus": {"Used", "Unused", ""},
    "PricingCategory": {"Standard", "Dynamic", "Committed", "Other", ""},
    "ServiceCategory": {"Compute"},
}
TIMES = ("BillingPeriodStart", "BillingPeriodEnd", "ChargePeriodStart", "ChargePeriodEnd")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
NUMBER = re.compile(r"-?\d+(\.\d+)?")
Cells = Mapping[str, str]


def rows_of(path: Path) -> list[dict[str, str]]:
    """Return the rows of a file as texts, null as the empty one."""
    if path.suffix == ".csv":
        with path.open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file, strict=True))
    return [{name: _text(value) for name, value in row.items()} for row in pq.read_table(path).to_pylist()]


def _text(value: object) -> str:
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%dT%H:%M:%SZ}"
    if isinstance(value, Decimal):
        text = format(value, "f")
        return text.rstrip("0").rstrip(".") if "." in text else text
    return "" if value is None else str(value)


def complaints(rows: list[dict[str, str]], version: str) -> list[str]:
    """Return what is wrong with a file, a sentence each; an empty list for a good one."""
    names = list(rows[0])
    found = [f"{name} is missing" for name in (*MANDATORY, *OF_VERSION[version]) if name not in names]
    found += [f"{name} is not of {version}" for name in GONE[version] if name in names]
    found += [f"{name} has no x_" for name in names if not name[0].isupper() and name[:2] != "x_"]
    for number, row in enumerate(rows, 2):
        found += [f"line {number}: {words}" for words in _row(row, version)]
    return found + _whole_file(rows, version)


def _row(row: Cells, version: str) -> list[str]:
    found = [f"{name} is null" for name in (*NEVER_NULL, *OF_VERSION[version]) if row[name] == ""]
    found += [f"{name} is {row[name]!r}" for name, allowed in ALLOWED.items() if row[name] not in allowed]
    found += [f"{name} is {row[name]!r}" for name in TIMES if not TIME.fullmatch(row[name])]
    for name, value in row.items():
        if name.endswith(("Cost", "Quantity", "UnitPrice")) and value and not NUMBER.fullmatch(value):
            found.append(f"{name} is {value!r}")
    for name in ("Tags", "SkuPriceDetails", "AllocatedTags", "AllocatedMethodDetails"):
        if row.get(name) and not isinstance(json.loads(row[name]), dict):
            found.append(f"{name} is no JSON object")
    if not re.fullmatch(r"[A-Z]{3}", row["BillingCurrency"]):
        found.append("no currency")
    return found + _identities(row)


def _identities(row: Cells) -> list[str]:
    found = []
    quantity = row["PricingQuantity"]
    with localcontext(prec=80):
        for price, cost in (("ContractedUnitPrice", "ContractedCost"), ("ListUnitPrice", "ListCost")):
            if row[price] and quantity and Decimal(row[price]) * Decimal(quantity) != Decimal(row[cost]):
                found.append(f"{price} x PricingQuantity is not {cost}")
    if row["ChargePeriodStart"] >= row["ChargePeriodEnd"]:
        found.append("the charge ends before it begins")
    if row["ChargeCategory"] != "Adjustment" and not row["BillingPeriodStart"] <= row["ChargePeriodStart"]:
        found.append("the charge lies before its billing period")
    if row["ChargeCategory"] in ("Usage", "Purchase") and not (quantity and row["SkuPriceId"] and row["PricingUnit"]):
        found.append("usage without quantity, unit or price id")
    if bool(quantity) != bool(row["PricingUnit"]) or bool(row["ConsumedQuantity"]) != bool(row["ConsumedUnit"]):
        found.append("a quantity without its unit")
    if not row["SkuPriceId"] and quantity:
        found.append("a quantity without SkuPriceId")
    if row["ConsumedQuantity"] and (row["ChargeCategory"] != "Usage" or row["CommitmentDiscountStatus"] == "Unused"):
        found.append("something consumed that was not")
    return found + _commitment(row)


def _commitment(row: Cells) -> list[str]:
    found = []
    committed = bool(row["CommitmentDiscountId"])
    if (row["CommitmentDiscountStatus"] != "") != (committed and row["ChargeCategory"] == "Usage"):
        found.append("CommitmentDiscountStatus does not fit CommitmentDiscountId")
    if committed and row["ChargeCategory"] == "Usage" and Decimal(row["BilledCost"]) != 0:
        found.append("billed twice: with the commitment and with its use")
    if not committed and row["BilledCost"] != row["EffectiveCost"]:
        found.append("BilledCost and EffectiveCost differ without a commitment")
    if row["ChargeCategory"] == "Purchase" and committed and Decimal(row["EffectiveCost"]) != 0:
        found.append("a purchase that covers others has an EffectiveCost")
    return found


def _whole_file(rows: list[dict[str, str]], version: str) -> list[str]:
    found = []
    used: dict[str, Decimal] = defaultdict(Decimal)
    bought: dict[str, Decimal] = defaultdict(Decimal)
    ratios: dict[tuple[str, ...], Decimal] = defaultdict(Decimal)
    for row in rows:
        if row["CommitmentDiscountId"]:
            sums, cost = (used, "EffectiveCost") if row["ChargeCategory"] == "Usage" else (bought, "BilledCost")
            sums[row["CommitmentDiscountId"]] += Decimal(row[cost])
        if row.get("AllocatedMethodDetails"):
            details = json.loads(row["AllocatedMethodDetails"], parse_float=Decimal, parse_int=Decimal)
            origin = (row["ResourceId"], row["ChargePeriodStart"], row["SkuPriceId"])
            ratios[origin] += sum(element["AllocatedRatio"] for element in details["Elements"])
    if used != bought:
        found.append(f"commitments: used {dict(used)}, bought {dict(bought)}")
    found += [f"the shares of {origin} sum to {total}" for origin, total in ratios.items() if total != 1]
    if version == "1.4" and not ratios and any(row["ChargeCategory"] == "Usage" for row in rows):
        found.append("nothing is allocated")
    return found


def total(rows: list[dict[str, str]], cost: str, *, adjustments: bool = False) -> int:
    """Return the sum of a cost column in millionths: of adjustments alone, or of all else."""
    with localcontext(prec=80):
        chosen = [row for row in rows if (row["ChargeCategory"] == "Adjustment") == adjustments]
        micros = sum((Decimal(row[cost]) for row in chosen), Decimal(0)) * 1_000_000
        assert micros == micros.to_integral_value()
        return int(micros)
