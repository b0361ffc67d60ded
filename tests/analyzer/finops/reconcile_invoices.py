"""Invoices for the reconciliation's tests, as a provider writes FOCUS 1.0."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

LINE: Mapping[str, str] = {
    "BilledCost": "62.40",
    "EffectiveCost": "62.40",
    "ContractedCost": "62.40",
    "ListCost": "98.00",
    "BillingCurrency": "USD",
    "BillingAccountId": "4711",
    "BillingPeriodStart": "2026-11-01T00:00:00Z",
    "BillingPeriodEnd": "2026-12-01T00:00:00Z",
    "ChargeCategory": "Usage",
    "ChargeClass": "",
    "ChargeDescription": "$20.80 per On Demand Linux p5.48xlarge Instance Hour",
    "ChargePeriodStart": "2026-11-01T00:00:00Z",
    "ChargePeriodEnd": "2026-11-02T00:00:00Z",
    "ContractedUnitPrice": "20.80",
    "PricingCategory": "Standard",
    "PricingQuantity": "3",
    "PricingUnit": "Hours",
    "ProviderName": "AWS",
    "PublisherName": "AWS",
    "ServiceName": "Amazon Elastic Compute Cloud",
    "SkuId": "ABCDEFGH",
    "x_Operation": "RunInstances",
}


def invoice(path: Path, *lines: Mapping[str, str], without: Sequence[str] = ()) -> Path:
    """Write an invoice: each line is the one above with what is different."""
    names = [name for name in LINE if name not in without]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, names, extrasaction="ignore")
        writer.writeheader()
        writer.writerows({**LINE, **line} for line in lines)
    return path
