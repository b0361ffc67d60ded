"""Bills in providers' own columns as FOCUS: by form which column is which, and what must be computed from several.

Costs are those of the day: of reservations and savings plans the amortized ones, after discounts and credits where the
file has them. Where a file cannot say that, its line is refused, with the export that can.

Sources: AWS Data Exports, dictionaries of CUR and CUR 2.0, and "Understanding your amortized reservation data";
Microsoft, "Cost and usage details file schema"; Google, "Structure of the detailed usage cost data export"; Oracle,
"Cost report schema".
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import MAXYEAR, UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from pathlib import Path
from typing import Any

from agent.wire.bounded import json_said
from analyzer.errors import ConfigError
from analyzer.settings.toml_entry import written_decimal

_NULLS = frozenset({"", "null", "(null)", "\\n", "none", "nan", "nat", "n/a", "<na>"})
_LONGEST_NULL = max(map(len, _NULLS))
_MAX_DIGITS = 38  # of a decimal, as in the widest column types of data warehouses
_MAX_LETTERS = 20_000
_CREDITS_MOST = 1_000
_UTC, _ZONE = re.compile(r"\s*UTC$"), re.compile(r"\s*([+-]\d\d:?\d\d)Z?$")  # 00:00:00 UTC, and Go's 00:00:00 +0000 UTC
_PAIR = re.compile(r"(\w+)\s*=\s*([^,{}]*)")  # Hive's and Athena's way to print a map: {InstanceType=p5.48xlarge}


def folded(name: str) -> str:
    """Return a name as query engines fold it: BilledCost, billedcost and billed_cost are one column."""
    return "".join(letter for letter in name.casefold() if letter.isalnum())


def text_of(value: object) -> str | None:
    """Return a text, or None where it is empty or a word for null; FOCUS has no empty texts."""
    text = str(value).strip()
    return None if len(text) <= _LONGEST_NULL and text.casefold() in _NULLS else text


def details_of(value: object) -> Mapping[str, object]:
    """Return what a cell of keys and values holds, by folded keys; empty where there is none: it only helps to name.

    JSON, or a map or a struct of Parquet.
    """
    if isinstance(value, str) and len(value) <= _MAX_LETTERS:
        try:
            found = json_said(value)
        except ValueError:
            found = _PAIR.findall(value)
    else:
        found = value
    if isinstance(found, list):  # a map's pairs, or BigQuery's records of key and value
        pairs = [tuple(each.values()) if isinstance(each, dict) else each for each in found]
        found = dict(each for each in pairs if isinstance(each, tuple) and len(each) == len(("key", "value")))
    return {folded(str(key)): one for key, one in found.items()} if isinstance(found, dict) else {}


@lru_cache(maxsize=4096)
def _moment(text: str) -> datetime:
    return datetime.fromisoformat(_ZONE.sub(r"\1", _UTC.sub("Z", text.strip())))


def _digits(amount: Decimal, text: str) -> int:
    """Return how many digits count, without zeros at the end: engines print a scale of 40 in full."""
    return 0 if len(text) <= _MAX_DIGITS else len("".join(map(str, amount.as_tuple().digits)).rstrip("0"))


@dataclass(frozen=True, slots=True)
class Cells:
    """Reads the cells of one line, and names line and column, as the file spells it, where one is wrong."""

    path: Path
    number: int
    cells: Mapping[str, object]
    names: Mapping[str, str] = field(default_factory=dict)

    def wrong(self, name: str, why: str) -> ConfigError:
        """Return the error of one cell."""
        shown = str(self.cells.get(name))[:60]
        return ConfigError(f"{self.path}, line {self.number}: {self.names.get(name, name)} is {shown!r}: {why}")

    def text(self, *names: str) -> str | None:
        """Return the first text of these columns that is not null."""
        return next((text for name in names if (text := text_of(self.cells.get(name))) is not None), None)

    def amount(self, *names: str) -> Decimal | None:
        """Return the first decimal of these columns, as written. A binary float of a file is its shortest decimal."""
        for name in names:
            text = text_of(self.cells.get(name))
            if text is not None:
                return self._decimal(name, text)
        return None

    def _decimal(self, name: str, text: str) -> Decimal:
        try:
            found = written_decimal(text)
        except InvalidOperation as error:
            comma = ", it has a comma; export decimals with points" if "," in text else ""
            raise self.wrong(name, f"not a decimal number{comma}") from error
        if found.is_finite() and found.adjusted() < -_MAX_DIGITS:  # 0E-40, or the noise of a binary float
            return Decimal(0)
        if not found.is_finite() or found.adjusted() > _MAX_DIGITS or _digits(found, text) > _MAX_DIGITS:
            raise self.wrong(name, "not a decimal number of up to 38 digits")
        return found

    def needed(self, *names: str) -> Decimal:
        """Return a decimal that must be there."""
        found = self.amount(*names)
        if found is None:
            raise self.wrong(names[-1], "it must not be null")
        return found

    def time(self, name: str) -> datetime:
        """Return a time; without tzinfo where the file says no zone."""
        value = self.cells.get(name)
        try:
            return value if isinstance(value, datetime) else _moment(str(value))
        except ValueError as error:
            raise self.wrong(name, "not a time such as 2026-11-01T00:00:00Z") from error


@dataclass(frozen=True, slots=True)
class BillForm:
    """How a provider writes its own bill.

    The first of the columns that are `needed` no other form has. `same` says by column of FOCUS which own ones are it,
    of several the first that is not null; `convert` makes the others, of cells by own names, `also` among them.
    `paid` is what a line was paid with, below 0, where its provider writes that beside its cost.
    """

    name: str
    provider: str
    needed: tuple[str, ...]
    same: Mapping[str, tuple[str, ...]]
    also: tuple[str, ...]
    convert: Callable[[Cells], Mapping[str, object]]
    paid: Callable[[Cells], Decimal] | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns that are read, each once."""
        return tuple(
            dict.fromkeys((*self.needed, *(name for names in self.same.values() for name in names), *self.also))
        )

    def as_focus(self, own: Cells) -> Iterator[Cells]:
        """Yield a line as FOCUS has it, then what it was paid with; what is wrong is said by its own columns."""
        cells: dict[str, object] = {"ProviderName": self.provider, "ChargeCategory": "Usage"}
        names: dict[str, str] = {}
        for name, sources in self.same.items():
            source = next((one for one in sources if text_of(own.cells.get(one)) is not None), sources[0])
            cells[name], names[name] = own.cells.get(source), own.names.get(source, source)
        line = Cells(own.path, own.number, {**cells, **self.convert(own)}, names)
        yield line
        if self.paid is not None and (paid := self.paid(own)):
            credit = {
                "ChargeCategory": "Credit",
                "BilledCost": paid,
                "EffectiveCost": paid,
                "PricingQuantity": _NOTHING,
            }
            yield replace(line, cells={**line.cells, **credit})


_NOTHING = Decimal(0)


@dataclass(frozen=True, slots=True)
class _LineType:
    """What a line of AWS is: its cost is the sum of `plus` less `minus`, each the first column that is not null."""

    category: str
    plus: tuple[tuple[str, ...], ...] = ()
    minus: tuple[tuple[str, ...], ...] = ()


_UNBLENDED = ("lineItem/NetUnblendedCost", "lineItem/UnblendedCost")
_AWS_TYPES = {
    "usage": _LineType("Usage", (_UNBLENDED,)),
    "savingsplancoveredusage": _LineType(
        "Usage", (("savingsPlan/NetSavingsPlanEffectiveCost", "savingsPlan/SavingsPlanEffectiveCost"),)
    ),
    "discountedusage": _LineType("Usage", (("reservation/NetEffectiveCost", "reservation/EffectiveCost"),)),
    "savingsplannegation": _LineType("Adjustment"),  # takes back what the covered usage would have cost
    "savingsplanrecurringfee": _LineType(
        "Purchase", (("savingsPlan/TotalCommitmentToDate",),), (("savingsPlan/UsedCommitment",),)
    ),
    "savingsplanupfrontfee": _LineType("Purchase"),
    "rifee": _LineType(
        "Usage",
        (
            (
                "reservation/NetUnusedAmortizedUpfrontFeeForBillingPeriod",
                "reservation/UnusedAmortizedUpfrontFeeForBillingPeriod",
            ),
            ("reservation/NetUnusedRecurringFee", "reservation/UnusedRecurringFee"),
        ),
    ),
    "fee": _LineType("Purchase", (_UNBLENDED,)),
    "tax": _LineType("Tax", (_UNBLENDED,)),
    "credit": _LineType("Credit", (_UNBLENDED,)),
    "refund": _LineType("Credit", (_UNBLENDED,)),
}
_DISCOUNT = _LineType("Credit", (_UNBLENDED,))
_COMMITTED = ("savingsplancoveredusage", "discountedusage", "rifee")
_INSTANCE_TIME = re.compile(r"(^|-)(BoxUsage|SpotUsage|DedicatedUsage|UnusedBox|UnusedDed|HeavyUsage)(:|$)")


def _aws(own: Cells) -> Mapping[str, object]:
    word = folded(own.text("lineItem/LineItemType") or "")
    kind = _DISCOUNT if word.endswith("discount") else _AWS_TYPES.get(word)
    if kind is None:
        raise own.wrong("lineItem/LineItemType", "a type of line that gpuledger does not know; export FOCUS instead")
    cost = sum((own.needed(*names) for names in kind.plus), _NOTHING)
    cost -= sum((own.needed(*names) for names in kind.minus), _NOTHING)
    if kind is _DISCOUNT and cost and _UNBLENDED[0] not in own.names:
        raise own.wrong(
            "lineItem/LineItemType", f"discounts are lines of their own here; export it with {_UNBLENDED[0]} and the"
            " other net columns, which have them in each cost"
        )  # fmt: skip
    if word == "fee" and own.text("reservation/ReservationARN") is not None:
        cost = _NOTHING  # upfront: it stands with what it covers
    quantity, unit = own.amount("lineItem/UsageAmount"), own.text("pricing/unit")
    resource = own.text("lineItem/ResourceId")
    if word == "rifee":  # of all its instances; what was used of it are lines of their own
        quantity, resource = own.amount("reservation/UnusedQuantity") if cost else _NOTHING, None
    if own.text("splitLineItem/ParentResourceId") is not None or kind.category != "Usage":
        quantity = _NOTHING  # a pod's share of a machine that has a line of its own
    if unit is None and _INSTANCE_TIME.search(own.text("lineItem/UsageType") or ""):
        unit = "Hrs"
    term = {"ondemand": "Standard", "spot": "Dynamic", "reserved": "Committed"}.get(
        folded(own.text("pricing/term") or "")
    )
    return {
        "ChargeCategory": kind.category,
        "EffectiveCost": cost,
        "PricingCategory": "Committed" if word in _COMMITTED else None if _is_spot(own) else term,
        "PricingQuantity": quantity,
        "PricingUnit": unit,
        "ResourceId": resource,
        "ServiceCategory": "Compute" if own.text("lineItem/ProductCode") == "AmazonEC2" else None,
        "SkuPriceDetails": {"InstanceType": own.text("product/instanceType")},
    }


def _is_spot(own: Cells) -> bool:
    return "SpotUsage" in (own.text("lineItem/UsageType") or "")


_AZURE_TYPES = {
    "usage": "Usage", "purchase": "Purchase", "tax": "Tax", "refund": "Credit", "unusedreservation": "Usage",
    "unusedsavingsplan": "Usage", "roundingadjustment": "Adjustment", "adjustment": "Adjustment", "credit": "Credit",
}  # fmt: skip
_AZURE_MODELS = {
    "ondemand": "Standard",
    "spot": "Dynamic",
    "reservation": "Committed",
    "savingsplan": "Committed",
    "savingsplans": "Committed",
}
_METER_END = re.compile(r"\s+(spot|low priority)$", re.IGNORECASE)
_DAY = timedelta(days=1)
_DAY_FIRST = re.compile(r"(1[3-9]|2\d|3[01])[/.-]\d{1,2}[/.-]\d{4}")


def _azure(own: Cells) -> Mapping[str, object]:
    word = folded(own.text("chargeType") or "")
    category = _AZURE_TYPES.get(word)
    if category is None:
        raise own.wrong("chargeType", f"it is one of {', '.join(_AZURE_TYPES)}")
    cost = own.needed("costInBillingCurrency", "cost")
    model = _AZURE_MODELS.get(folded(own.text("pricingModel") or ""))
    if word == "usage" and model == "Committed" and not cost and own.amount("quantity"):
        raise own.wrong(
            "pricingModel", "usage that a commitment covers costs 0 here: export the amortized cost instead"
        )
    service = details_of(own.cells.get("additionalInfo")).get("servicetype")
    start = _azure_day(own)
    return {
        "ChargeCategory": category,
        "ChargePeriodStart": start,
        "ChargePeriodEnd": start + _DAY,
        "EffectiveCost": cost,
        "CommitmentDiscountStatus": "Unused" if word.startswith("unused") else None,
        "PricingCategory": model,
        "PricingQuantity": own.amount("quantity") if category == "Usage" else _NOTHING,
        "SkuPriceDetails": {"InstanceType": service or azure_instance(own.text("meterName") or "")},
    }


def azure_instance(meter: str) -> str:
    """Return the instance type that a meter of Azure is called by: Standard_ND96isr_H100_v5 of ND96isr H100 v5 Spot."""
    return f"Standard_{_METER_END.sub('', meter).replace(' ', '_')}"


def _azure_day(own: Cells) -> datetime:
    """Return the day of a line; Microsoft's schema has it as month, day and year, in UTC."""
    if _DAY_FIRST.match(own.text("billingPeriodEndDate") or ""):  # a month ends after its twelfth day
        raise own.wrong("billingPeriodEndDate", "the day stands before the month; name the file as it was exported")
    try:
        found = datetime.strptime(str(own.cells.get("date")).strip(), "%m/%d/%Y")
    except ValueError:
        found = own.time("date")
    if found.year == MAXYEAR:
        raise own.wrong("date", "the charge would last for ever")
    return found if found.tzinfo else found.replace(tzinfo=UTC)


_GOOGLE_TYPES = {"regular": "Usage", "tax": "Tax", "adjustment": "Adjustment", "roundingerror": "Adjustment"}
_GOOGLE_PAYS = "PROMOTION"  # "considered a form of payment"; the other types lower the price
_GOOGLE_COMMITTED = re.compile(r"\bCUDs?\b|commit", re.IGNORECASE)  # whose price is on the usage since July 2025
_GOOGLE_GPU = re.compile(r"\bGPUs?\b")
_GOOGLE_SIZES = (re.compile(r"\b(?:Tesla )?(A100|V100) GPU\b"), {"A100": "A100 40GB GPU", "V100": "V100 16GB GPU"})


def _google(own: Cells) -> Mapping[str, object]:
    category = _GOOGLE_TYPES.get(folded(own.text("cost_type") or ""))
    if category is None:
        raise own.wrong("cost_type", f"it is one of {', '.join(_GOOGLE_TYPES)}")
    credits_ = _credits(own)
    cost = own.needed("cost") + sum((amount for amount, kind in credits_ if kind != _GOOGLE_PAYS), _NOTHING)
    pattern, sizes = _GOOGLE_SIZES
    said = (own.text("sku.description") or "").replace("(1 gpu slice)", "GPU")  # a GPU with its part of the host
    name = pattern.sub(lambda found: sizes[found[1]], said)  # the larger says its size
    unit = own.text("usage.pricing_unit")
    quantity = own.amount("usage.amount_in_pricing_units")
    is_commitment = name.casefold().startswith("commitment")  # its usage are lines of their own
    is_covered = any(kind.startswith("COMMITTED_USAGE") for _, kind in credits_) or _GOOGLE_COMMITTED.search(
        own.text("consumption_model.description") or ""
    )
    is_spot = re.search(r"\b(spot|preemptible)\b", name, re.IGNORECASE) is not None
    return {
        "ChargeCategory": category,
        "EffectiveCost": cost,
        "PricingCategory": "Committed" if is_covered or is_commitment else "Dynamic" if is_spot else "Standard",
        "PricingQuantity": _NOTHING if is_commitment or category != "Usage" else quantity,
        "PricingUnit": f"GPU {unit}" if unit is not None and _GOOGLE_GPU.search(name) else unit,
        "SkuMeter": name,
    }


def _google_paid(own: Cells) -> Decimal:
    return sum((amount for amount, kind in _credits(own) if kind == _GOOGLE_PAYS), _NOTHING)


def _credits(own: Cells) -> list[tuple[Decimal, str]]:
    """Return the amounts and types of a line's credits; they are below 0."""
    value = own.cells.get("credits")
    if isinstance(value, str) and text_of(value) is not None:
        try:
            value = json_said(value, parse_float=Decimal)
        except ValueError as error:
            raise own.wrong("credits", "not a JSON list of credits") from error
    found = [] if value is None or value == "" else value
    if not isinstance(found, list) or len(found) > _CREDITS_MOST or not all(isinstance(one, dict) for one in found):
        raise own.wrong("credits", "not a list of credits, each with its amount")
    each = [Cells(own.path, own.number, {"amount": one.get("amount")}, {"amount": "credits.amount"}) for one in found]
    return [(cells.needed("amount"), str(one.get("type"))) for cells, one in zip(each, found, strict=True)]


def _oracle(own: Cells) -> Mapping[str, object]:
    unit = own.text("cost/skuUnitDescription", "cost/billingUnitReadable") or ""
    return {
        "ChargeClass": "Correction" if (own.text("lineItem/isCorrection") or "").casefold() == "true" else None,
        "PricingUnit": re.sub(r"^one\s+", "", unit, flags=re.IGNORECASE) or None,
        "ServiceCategory": "Compute" if (own.text("product/service") or "").casefold() == "compute" else None,
    }


FORMS = (
    BillForm(
        "an AWS Cost and Usage Report",
        "AWS",
        ("lineItem/UsageStartDate", "lineItem/UsageEndDate", "lineItem/LineItemType", "lineItem/UnblendedCost",
         "lineItem/CurrencyCode", "lineItem/UsageAmount", "lineItem/UsageType"),
        {
            "ChargePeriodStart": ("lineItem/UsageStartDate",), "ChargePeriodEnd": ("lineItem/UsageEndDate",),
            "BillingCurrency": ("lineItem/CurrencyCode",), "BilledCost": _UNBLENDED,
            "ChargeDescription": ("lineItem/LineItemDescription",), "SkuMeter": ("lineItem/UsageType",),
            "ContractedUnitPrice": ("lineItem/NetUnblendedRate", "lineItem/UnblendedRate"),
            "RegionId": ("product/regionCode", "product/region"), "SkuId": ("product/sku",),
            "ServiceName": ("product/ProductName", "lineItem/ProductCode"),
        },
        ("lineItem/ProductCode", "lineItem/ResourceId", "pricing/term", "pricing/unit", "product/instanceType",
         "reservation/ReservationARN", "reservation/UnusedQuantity", "splitLineItem/ParentResourceId",
         *(name for kind in _AWS_TYPES.values() for names in (*kind.plus, *kind.minus) for name in names)),
        _aws,
    ),
    BillForm(
        "Azure's cost details",
        "Microsoft",
        ("meterCategory", "date", "chargeType", "meterName", "quantity", "unitOfMeasure"),
        {
            "BillingCurrency": ("billingCurrency", "billingCurrencyCode"),
            "BilledCost": ("costInBillingCurrency", "cost"), "ContractedUnitPrice": ("effectivePrice",),
            "ChargeDescription": ("product", "productName"), "PricingUnit": ("unitOfMeasure",),
            "RegionId": ("resourceLocation", "location"), "ResourceId": ("resourceId", "instanceId", "instanceName"),
            "ServiceCategory": ("meterCategory",), "ServiceName": ("meterCategory",), "SkuId": ("meterId",),
            "SkuMeter": ("meterName",),
        },
        ("additionalInfo", "billingPeriodEndDate", "costInBillingCurrency", "cost", "pricingModel"),
        _azure,
    ),
    BillForm(
        "Google Cloud's billing export",
        "Google Cloud",
        ("usage_start_time", "usage_end_time", "cost", "currency", "credits", "cost_type", "sku.description"),
        {
            "ChargePeriodStart": ("usage_start_time",), "ChargePeriodEnd": ("usage_end_time",),
            "BillingCurrency": ("currency",), "BilledCost": ("cost",), "SkuId": ("sku.id",),
            "RegionId": ("location.region",), "ResourceId": ("resource.global_name", "resource.name"),
            "ServiceName": ("service.description",),
        },
        ("consumption_model.description", "usage.amount_in_pricing_units", "usage.pricing_unit"),
        _google,
        _google_paid,
    ),
    BillForm(
        "an OCI cost report",
        "Oracle",
        ("lineItem/intervalUsageStart", "lineItem/intervalUsageEnd", "cost/myCost", "cost/currencyCode",
         "usage/billedQuantity"),
        {
            "ChargePeriodStart": ("lineItem/intervalUsageStart",), "ChargePeriodEnd": ("lineItem/intervalUsageEnd",),
            "BillingCurrency": ("cost/currencyCode",), "BilledCost": ("cost/myCostOverage", "cost/myCost"),
            "EffectiveCost": ("cost/myCost",), "PricingQuantity": ("usage/billedQuantity",),
            "ContractedUnitPrice": ("cost/unitPrice",), "ChargeDescription": ("product/Description",),
            "RegionId": ("product/region",), "ResourceId": ("product/resourceId",), "ServiceName": ("product/service",),
            "SkuId": ("cost/productSku",),
        },
        ("cost/billingUnitReadable", "cost/skuUnitDescription", "lineItem/isCorrection"),
        _oracle,
    ),
)  # fmt: skip


def flat(row: Mapping[str, Any], before: str = "") -> dict[str, object]:
    """Return a row of JSON with the keys of objects within it joined by dots; lists stay."""
    found: dict[str, object] = {}
    for key, value in row.items():
        name = f"{before}{key}"
        found |= flat(value, f"{name}.") if isinstance(value, dict) else {name: value}
    return found
