"""The columns of a FOCUS Cost and Usage file, once: name, type, whether it may be null, in which versions, and why.

Sources: FOCUS specification, releases 1.2 and 1.4, dataset Cost and Usage, each column's page. Only the columns whose
condition holds here are written; docs/focus.md says which do not, and why.
"""

from dataclasses import dataclass
from typing import Literal

Version = Literal["1.2", "1.4"]
ValueKind = Literal["text", "decimal", "time", "json"]

VERSIONS: tuple[Version, ...] = ("1.2", "1.4")
_BOTH: tuple[Version, ...] = VERSIONS
CURRENCY_DIGITS, DECIMALS = 38, 15  # what a decimal of a Parquet file holds: a price of millionths times 1e-9 hours


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its FOCUS type, whether it may be null, the values it may have (none: any), and what stands in it."""

    name: str
    kind: ValueKind
    nullable: bool
    about: str
    versions: tuple[Version, ...] = _BOTH
    allowed: tuple[str, ...] = ()


_OLD: tuple[Version, ...] = ("1.2",)
_NEW: tuple[Version, ...] = ("1.4",)

FOCUS: tuple[Column, ...] = (
    Column(
        "AllocatedMethodDetails", "json", True, "the charge's share of what its node cost; shares sum to 1", _NEW
    ),
    Column("AllocatedMethodId", "text", True, "how a node's cost was divided", _NEW),
    Column("AllocatedResourceId", "text", True, "the run that held; null for what nobody held", _NEW),
    Column("AllocatedResourceName", "text", True, "the run's name", _NEW),
    Column("AllocatedTags", "json", True, "the run's tags", _NEW),
    Column("AvailabilityZone", "text", True, "the node's zone, where inventory says it"),
    Column("BilledCost", "decimal", False, "as invoiced: of reserved GPUs 0, since their purchase is a row of its own"),
    Column("BillingAccountId", "text", False, "the fleet, or --account"),
    Column("BillingAccountName", "text", True, "the same"),
    Column("BillingCurrency", "text", False, "the ledger's one currency"),
    Column("BillingPeriodEnd", "time", False, "the end of the month, by the site's clock"),
    Column("BillingPeriodStart", "time", False, "its begin"),
    Column(
        "ChargeCategory", "text", False, "Usage; Purchase of reservations; Adjustment of what had closed",
        allowed=("Usage", "Purchase", "Adjustment"),
    ),
    Column(
        "ChargeClass", "text", True, "Correction, where an earlier month is corrected", allowed=("Correction",)
    ),
    Column("ChargeDescription", "text", True, "one line in words"),
    Column(
        "ChargeFrequency", "text", False, "how often such a charge comes",
        allowed=("One-Time", "Recurring", "Usage-Based"),
    ),
    Column("ChargePeriodEnd", "time", False, "the end of the day or hour"),
    Column("ChargePeriodStart", "time", False, "its begin"),
    Column("CommitmentDiscountCategory", "text", True, "of reserved GPUs", allowed=("Spend", "Usage")),
    Column("CommitmentDiscountId", "text", True, "the reservation, by GPU kind and node group"),
    Column("CommitmentDiscountName", "text", True, "the same in words"),
    Column("CommitmentDiscountQuantity", "decimal", True, "GPU-hours of the reservation"),
    Column("CommitmentDiscountStatus", "text", True, "Unused where nobody held", allowed=("Used", "Unused")),
    Column("CommitmentDiscountType", "text", True, "of reserved GPUs"),
    Column("CommitmentDiscountUnit", "text", True, "GPU-Hours"),
    Column("ConsumedQuantity", "decimal", True, "GPU-hours; null of unused reservations, purchases and adjustments"),
    Column("ConsumedUnit", "text", True, "GPU-Hours"),
    Column("ContractedCost", "decimal", False, "ContractedUnitPrice x PricingQuantity, exactly"),
    Column("ContractedUnitPrice", "decimal", True, "the price per GPU-hour that the ledger was booked with"),
    Column("EffectiveCost", "decimal", False, "the ledger's cost, to the millionth"),
    Column("HostProviderName", "text", False, "as the provider's", _NEW),
    Column("InvoiceId", "text", True, "null: this is not an invoice", _OLD),
    Column("InvoiceIssuerName", "text", False, "the fleet, or --provider"),
    Column("ListCost", "decimal", False, "as ContractedCost: no list price is guessed"),
    Column("ListUnitPrice", "decimal", True, "as ContractedUnitPrice"),
    Column(
        "PricingCategory", "text", True, "Committed of reserved, Dynamic of spot, Standard of owned and on demand",
        allowed=("Standard", "Dynamic", "Committed", "Other"),
    ),
    Column("PricingQuantity", "decimal", True, "GPU-hours, to 1e-9; those of one node and day sum to whole hours"),
    Column("PricingUnit", "text", True, "GPU-Hours"),
    Column("ProviderName", "text", False, "the fleet, or --provider", _OLD),
    Column("PublisherName", "text", False, "the same", _OLD),
    Column("RegionId", "text", True, "the node's region, where inventory says it"),
    Column("RegionName", "text", True, "the same"),
    Column("ResourceId", "text", True, "1.2: the run that held, else the node; 1.4: the node"),
    Column("ResourceName", "text", True, "its name"),
    Column("ResourceType", "text", True, "Run or Node"),
    Column("ServiceCategory", "text", False, "Compute", allowed=("Compute",)),
    Column("ServiceName", "text", False, "GPU compute"),
    Column("ServiceProviderName", "text", False, "the fleet, or --provider", _NEW),
    Column("ServiceSubcategory", "text", False, "Other (Compute)", allowed=("Other (Compute)",)),
    Column("SkuId", "text", True, "the GPU kind"),
    Column("SkuMeter", "text", True, "GPU time"),
    Column("SkuPriceDetails", "json", True, "GpuCount 1, and the GPU kind"),
    Column("SkuPriceId", "text", True, "GPU kind, purchase option and price"),
    Column("SubAccountId", "text", True, "the team; null where nobody held, or the run maps to no team"),
    Column("SubAccountName", "text", True, "the same"),
    Column("Tags", "json", True, "team, cost centre, project, queue, stage, model, node group, as far as known"),
)  # fmt: skip

_OWN: tuple[Column, ...] = (
    Column("x_AdjustmentReason", "text", True, "of adjustments: why the booking changed"),
    Column("x_AvoidableCost", "decimal", True, "EffectiveCost, where the class is avoidable, else 0"),
    Column("x_BookStatus", "text", True, "provisional, open, closed or final: the least settled hour's"),
    Column("x_Cause", "text", True, "the ledger's cause"),
    Column("x_Class", "text", True, "useful, avoidable, overhead, spare or unknown"),
    Column("x_EnergyKwh", "decimal", True, "what the GPUs drew by their own counters, with --energy; in no cost"),
    Column("x_GpuMilliseconds", "decimal", True, "the ledger's GPU time, exactly"),
    Column("x_Holder", "text", True, "team, unmapped (a run of no known team) or nobody"),
    Column("x_Node", "text", True, "the node"),
    Column("x_NodeGroup", "text", True, "its group, where inventory says it"),
    Column("x_PurchaseOption", "text", True, "on_demand, reserved, spot or owned"),
    Column("x_RunId", "text", True, "the run that held"),
    Column("x_State", "text", True, "the ledger's state"),
    Column("x_UsefulCost", "decimal", True, "EffectiveCost, where the class is useful, else 0"),
)


def columns(version: Version) -> tuple[Column, ...]:
    """Return the columns of a version in the order in which they are written: FOCUS by name, then ours by name."""
    return tuple(column for column in (*FOCUS, *_OWN) if version in column.versions)


@dataclass(frozen=True, slots=True)
class Issuer:
    """The names on a bill. `timezone` decides where a month and a day begin."""

    version: Version
    provider: str
    account: str
    currency: str
    timezone: str
