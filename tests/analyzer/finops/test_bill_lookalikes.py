"""Lines that look like a machine's time, or like another's, and are not: what a bill says beside them decides.

Each bill is of one host of 8 H100 for 10 November at 2.60 per GPU-hour, with its other lines; what is right was worked
out by hand.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from agent.wire.units import DAY_US, HOUR_MS
from analyzer.errors import ConfigError
from analyzer.finops.reconcile.bill import Bill
from analyzer.finops.reconcile.compare import Comparison, OwnedTime, compare, gathered
from analyzer.finops.reconcile.gpu_lines import unit_of
from analyzer.finops.reconcile.text import answer, label_of_compared, reconcile_text
from analyzer.finops.reconcile.unit_prices import unit_prices
from tests.analyzer.finops.test_bill_cases import (
    AZURE_LINE,
    CUR_LINE,
    FEE,
    GOOGLE_LINE,
    GPU_HOURS,
    LINE,
    csv_of,
    of_kind,
    prices,
    written,
)

HOST = {**LINE, "ResourceId": "i-0"}
NAMED_FEE = {**HOST, **FEE, "ChargeDescription": "p5.48xlarge"}
SERVICE_FEE = {**NAMED_FEE, "ServiceName": "Kubernetes", "ResourceId": "cluster-1"}
RESERVED = {"PricingCategory": "Committed", "CommitmentDiscountStatus": "Used"}
UNUSED = {
    "PricingCategory": "Committed", "CommitmentDiscountStatus": "Unused", "PricingQuantity": "96",
    "EffectiveCost": "1996.80",
}  # fmt: skip


def read(path: Path, *lines: Mapping[str, Any], as_json: bool = False) -> Bill:
    """Return a bill of these lines."""
    text = "".join(f"{json.dumps(line)}\n" for line in lines) if as_json else csv_of(lines)
    return gathered([written(path / "bill", text)], (), (), (None, None))


def others(bill: Bill) -> list[tuple[str, float]]:
    """Return what is listed beside the GPUs: why, and how much."""
    return [(other.why, other.nanos / 1e9) for other in bill.others.values()]


@pytest.mark.parametrize(
    ("lines", "option", "beside"),
    [
        ([HOST, {**NAMED_FEE, "RegionId": ""}], "on_demand", ("fee", 59.904)),
        ([HOST, {**SERVICE_FEE, "RegionId": ""}], "on_demand", ("fee", 59.904)),
        ([HOST | RESERVED, SERVICE_FEE], "reserved", ("fee", 59.904)),
        (
            [HOST, {**HOST, "SkuPriceDetails": '{"InstanceType":"m5.large"}', "EffectiveCost": "2.304",
                    "ChargeDescription": "head node of p5.48xlarge", "ResourceId": "i-head"}],
            "on_demand", ("no known GPU", 2.304),
        ),
        (
            [HOST, {**HOST, "PricingUnit": "GB-Mo", "PricingQuantity": "100", "EffectiveCost": "8",
                    "ChargeDescription": "gp3 volume of p5.48xlarge"}],
            "on_demand", ("storage or traffic", 8.0),
        ),
    ],
    ids=["fee of no region", "service's fee of no region", "service's fee on what is reserved", "another instance type",
         "storage by the month"],
)  # fmt: skip
def test_what_names_a_machine_beside_its_time_is_no_second_machine(
    tmp_path: Path, lines: Sequence[Mapping[str, str]], option: str, beside: tuple[str, float]
) -> None:
    """It made hours of its own, and a price that nobody pays: the mean of both, or the fee alone."""
    bill = read(tmp_path, *lines)
    assert of_kind(bill) == (499.2, 192, True)
    assert prices(bill) == [("H100-80GB", option, None, 2_600_000)]
    assert others(bill) == [beside]


@pytest.mark.parametrize("quantity", ["24", "", "0"])
def test_a_discount_on_a_line_of_its_own_has_no_hours_and_is_in_the_price(tmp_path: Path, quantity: str) -> None:
    """Its quantity is of the time that it is on."""
    discount = {"EffectiveCost": "-49.92", "PricingQuantity": quantity, "ContractedUnitPrice": ""}
    bill = read(tmp_path, HOST, {**HOST, **discount, "ChargeDescription": "partner discount p5.48xlarge"})
    assert of_kind(bill) == (449.28, 192, True)
    assert prices(bill) == [("H100-80GB", "on_demand", None, 2_340_000)]
    found = unit_prices(bill, "bill", date(2026, 12, 1))
    assert found is not None
    assert found.rows[0].source == "bill; 10.0% was taken off by discounts on lines of their own"


def test_a_fee_of_a_service_is_told_from_ec2_by_its_product_code(tmp_path: Path) -> None:
    """CUR 2.0 has the product's name in a map: the code of the product says compute too."""
    fee = {
        **CUR_LINE, "line_item_product_code": "ElasticMapReduce", "line_item_resource_id": "arn:aws:emr:cluster/j-1",
        "line_item_unblended_cost": "48", "line_item_unblended_rate": "2",
        "line_item_line_item_description": "$2 per hour for EMR p5.48xlarge",
    }  # fmt: skip
    bill = read(tmp_path, CUR_LINE, fee)
    assert (of_kind(bill), others(bill)) == ((624, 192, True), [("fee", 48.0)])


@pytest.mark.parametrize(
    "line",
    [
        {"PricingUnit": "8-GPU Node Hours"},
        {**GPU_HOURS, "PricingUnit": "Hours", "ConsumedQuantity": "192", "ConsumedUnit": "GPU-Hours"},
    ],
)
def test_what_a_quantity_counts_is_counted_once(tmp_path: Path, line: dict[str, str]) -> None:
    """Without a resource nothing bounds it, and a price was an eighth."""
    bill = read(tmp_path, {**LINE, "ConsumedQuantity": "", "ConsumedUnit": "", **line})
    assert of_kind(bill) == (499.2, 192, True)
    assert prices(bill) == [("H100-80GB", "on_demand", None, 2_600_000)]
    assert unit_of("100 GPU Instance Hours") is None, "a block of hours, or a machine's GPUs"


def test_columns_that_the_first_line_of_json_leaves_out_are_read(tmp_path: Path) -> None:
    """What is null is left out there: a correction further down was billed usage."""
    named = {**HOST, "ResourceId": "i-2", "ChargeDescription": "", "SkuPriceDetails": {"InstanceType": "p5.48xlarge"}}
    lines: list[dict[str, Any]] = [HOST, {**HOST, "ResourceId": "i-1", "ChargeClass": "Correction"}, named]
    bill = read(tmp_path, *({name: cell for name, cell in line.items() if cell} for line in lines), as_json=True)
    assert (of_kind(bill), others(bill)) == ((998.4, 384, True), [("correction", 499.2)])


@pytest.mark.parametrize(
    "resource",
    ["arn:aws:ec2:us-east-1:4711:reserved-instances/ab", "/providers/Microsoft.Capacity/reservationOrders/o"],
)
def test_what_nobody_used_of_a_reservation_is_of_many_machines(tmp_path: Path, resource: str) -> None:
    """Four machines for a day are behind one resource; a status of commitment says how they were bought."""
    bill = read(tmp_path, {**HOST, **UNUSED, "ResourceId": resource}, {**HOST, "CommitmentDiscountStatus": "Used"})
    assert of_kind(bill) == (2496, 960, True)
    assert prices(bill) == [("H100-80GB", "reserved", None, 2_600_000)]


def test_a_commitment_of_google_that_lowers_the_price_is_a_commitment(tmp_path: Path) -> None:
    """Since July 2025 no credit tells it, and its price was the one on demand."""
    model = {"id": "7754", "description": "Compute Flexible CUDs 1 Year"}
    bill = read(tmp_path, {**GOOGLE_LINE, "consumption_model": model}, as_json=True)
    assert prices(bill) == [("H100-80GB", "reserved", None, 2_600_000)]


ORACLE_LINE = {
    "lineItem/intervalUsageStart": "2026-11-10T00:00Z", "lineItem/intervalUsageEnd": "2026-11-11T00:00Z",
    "cost/myCost": "499.2", "cost/currencyCode": "USD", "usage/billedQuantity": "192", "cost/unitPrice": "2.6",
    "product/Description": "OCI - Compute - GPU - H100", "product/service": "COMPUTE", "cost/productSku": "B98415",
    "product/resourceId": "ocid1.instance.1", "cost/skuUnitDescription": "GPU PER HOUR",
}  # fmt: skip


@pytest.mark.parametrize("name", ["NVIDIA AI Enterprise - GPU - H100", "Premium - GPU - H100"])
def test_a_fee_by_the_gpu_beside_gpus_is_no_gpu(tmp_path: Path, name: str) -> None:
    """For the same hours of the same GPUs the cheaper of two products is the fee, as it is of machines."""
    fee = {"product/Description": name, "cost/productSku": "B1", "cost/myCost": "96", "cost/unitPrice": "0.5"}
    bill = read(tmp_path, ORACLE_LINE, ORACLE_LINE | fee)
    assert (of_kind(bill), others(bill)) == ((499.2, 192, True), [("fee", 96.0)])
    assert prices(bill) == [("H100-80GB", None, None, 2_600_000)]


def test_what_was_taken_back_and_billed_anew_has_its_new_price(tmp_path: Path) -> None:
    """The mean of what was billed, taken back and billed anew is paid by nobody."""
    back = {**HOST, "EffectiveCost": "-499.20", "PricingQuantity": "-24", "ResourceId": "i-1"}
    anew = {**HOST, "EffectiveCost": "450", "ContractedUnitPrice": "18.75"}
    bill = read(tmp_path, back, HOST, anew)
    assert of_kind(bill) == (450, 192, True)
    assert prices(bill) == [("H100-80GB", "on_demand", None, 2_343_750)]


def test_details_that_contradict_the_machine_make_no_hours(tmp_path: Path) -> None:
    """One GPU of eight: its price was an eighth."""
    details = '{"InstanceType":"p5.48xlarge","GpuCount":1}'
    bill = read(tmp_path, {**HOST, "SkuPriceDetails": details, "EffectiveCost": "62.40", "ContractedUnitPrice": "2.60"})
    assert of_kind(bill) == (62.4, 0, False)
    assert dict(bill.unpriced) == {"it names a machine of 8 GPUs, and its details say 1": 1}


@pytest.mark.parametrize("words", ["VAT 19% on p5.48xlarge", "GST p5.48xlarge"])
def test_a_tax_that_is_called_usage_is_a_tax(tmp_path: Path, words: str) -> None:
    """Where it counts no time; an hour whose text says that VAT comes on top stays an hour."""
    tax = {"ChargeDescription": words, "EffectiveCost": "94.85", "PricingUnit": "", "ContractedUnitPrice": ""}
    bill = read(tmp_path, HOST | {"ChargeDescription": "p5.48xlarge, excl. VAT"}, {**HOST, **tax})
    assert (of_kind(bill), others(bill)) == ((499.2, 192, True), [("tax", 94.85)])


def test_what_the_ledger_has_no_price_of_is_not_told_as_equal(tmp_path: Path) -> None:
    """It costs nothing there, as what the bill has at no cost."""
    free = {**HOST, "ResourceId": "i-1", "ChargeDescription": "p4de.24xlarge", "EffectiveCost": "0"}
    bill = read(tmp_path, HOST, free)
    assert bill.first is not None
    milliseconds, span = 192 * HOUR_MS, (bill.first, bill.first + DAY_US)
    ledger = {
        ("H100-80GB", bill.first): OwnedTime(milliseconds, 499_200_000, 0, 0, 0, 0),
        ("A100-80GB", bill.first): OwnedTime(milliseconds, 0, 0, 0, 0, milliseconds),
    }
    compared = compare(ledger, bill, "USD", span, {bill.first: 24})
    text = reconcile_text(compared, bill, "bill")
    assert "1 of 2 kinds and days are equal to the cent." in text
    assert "192.0 GPU-hours have no price in the ledger" in text
    assert "Of 1 of 2 kinds and days the ledger has no price of some hours." in answer(compared)
    assert label_of_compared(compared) == "2026-11-10, in part without prices in the ledger"


def test_a_slice_of_google_is_a_gpu_with_its_part_of_the_host(tmp_path: Path) -> None:
    """Its newest machines have no lines of cores and memory."""
    sku = {"id": "B", "description": "Spot Preemptible A4 Nvidia B200 (1 gpu slice) running in Americas"}
    bill = read(tmp_path, {**GOOGLE_LINE, "sku": sku}, as_json=True)
    assert of_kind(bill, "B200-180GB") == (499.2, 192, True)
    assert prices(bill) == [("B200-180GB", "spot", None, 2_600_000)]


def against(bill: Bill, *, cost_micros: int = 499_200_000, hours: int = 192, unpriced: int = 0) -> Comparison:
    """Hold a bill against a ledger of one host on the bill's first day."""
    assert bill.first is not None
    owned = OwnedTime(hours * HOUR_MS, cost_micros, 0, 0, 0, unpriced * HOUR_MS)
    span = (bill.first, bill.first + DAY_US)
    return compare({("H100-80GB", bill.first): owned}, bill, "USD", span, {bill.first: 24})


@pytest.mark.parametrize(("hours", "more"), [(192, []), (168, ["24.0 GPU-hours more are billed than the ledger owns"])])
def test_hours_that_the_bill_says_are_not_told_as_unsaid_for_want_of_a_price(
    tmp_path: Path, hours: int, more: list[str]
) -> None:
    """The ledger has no price; the bill has both."""
    (difference,) = against(read(tmp_path, HOST), cost_micros=0, hours=hours, unpriced=hours).differences
    words = [f"{hours}.0 GPU-hours have no price in the ledger", *more]
    assert [reason.words for reason in difference.reasons] == words
    assert difference.apart_micros == 499_200_000


def test_more_hours_than_a_charge_is_long_are_told_with_the_reason(tmp_path: Path) -> None:
    """Its last day may be included, as in tables that people make; that the bill says no hours was not true."""
    week = {"ChargePeriodStart": "2026-11-10", "ChargePeriodEnd": "2026-11-16", "PricingQuantity": "168"}
    bill = read(tmp_path, {**HOST, **week})
    why = "more hours than the charge is long (Hours may count something else, or its last day is included)"
    assert reconcile_text(against(bill), bill, "bill").count(f"The hours of 1 line are not known: {why}.") == 1


GOOGLE_VIEW = {
    "ChargeDescription": "Nvidia H100 80GB GPU running in Iowa", "ContractedUnitPrice": "2.60", "PricingUnit": "hour",
    "PricingQuantity": "1", "ConsumedQuantity": "691200", "ConsumedUnit": "seconds", "ChargeCategory": "usage",
}  # fmt: skip


@pytest.mark.parametrize("line", [GOOGLE_VIEW, GOOGLE_VIEW | {"PricingQuantity": "", "PricingUnit": ""}])
def test_what_was_consumed_counts_where_it_alone_makes_the_cost(tmp_path: Path, line: Mapping[str, str]) -> None:
    """Google's own view of its export as FOCUS has how many units a price is of as the quantity."""
    rule = '[[invoice]]\nmatch = "Nvidia H100 80GB GPU*"\nsku = "H100-80GB"\ngpus = 1\n'
    path = written(tmp_path / "bill", csv_of([{**HOST, "ConsumedQuantity": "", "ConsumedUnit": "", **line}]))
    bill = gathered([path], (), [written(tmp_path / "map", rule)], (None, None))
    assert of_kind(bill) == (499.2, 192, True)
    assert prices(bill) == [("H100-80GB", "on_demand", None, 2_600_000)]


@pytest.mark.parametrize("amount", ["4_99.20", "1_000"])
def test_what_python_alone_reads_as_a_number_is_none(tmp_path: Path, amount: str) -> None:
    """An underscore in a cost is a slip."""
    with pytest.raises(ConfigError, match=r"line 2: EffectiveCost is '.*': not a decimal number"):
        read(tmp_path, {**HOST, "EffectiveCost": amount})


def test_a_promotion_of_google_pays_and_lowers_no_price(tmp_path: Path) -> None:
    """Google calls it a form of payment; a bill that credits of a start-up paid had no price, and was 100% apart."""
    credits_ = [{"amount": -40.8, "type": "DISCOUNT"}, {"amount": -499.2, "type": "PROMOTION"}]
    bill = read(tmp_path, {**GOOGLE_LINE, "cost": 540, "credits": credits_}, as_json=True)
    assert (of_kind(bill), others(bill)) == ((499.2, 192, True), [("credit", -499.2)])
    assert prices(bill) == [("H100-80GB", "on_demand", None, 2_600_000)]


@pytest.mark.parametrize("category", ["Usage", "Purchase"])
@pytest.mark.parametrize("words", ["One-time setup of p5.48xlarge", "Minimum commitment shortfall, p5.48xlarge"])
def test_what_is_paid_once_is_a_fee(tmp_path: Path, words: str, category: str) -> None:
    """It counts pieces; an hour of a machine whose text has such a word stays an hour."""
    once = {"ChargeDescription": words, "ChargeCategory": category, "PricingUnit": "Each", "PricingQuantity": "1"}
    bill = read(tmp_path, HOST | {"ChargeDescription": "p5.48xlarge, no setup"}, {**HOST, **once})
    assert (of_kind(bill), others(bill)) == ((499.2, 192, True), [("fee", 499.2)])


@pytest.mark.parametrize("category", ["Tax", "Credit", "Adjustment"])
def test_a_tax_of_a_moment_refuses_no_bill(tmp_path: Path, category: str) -> None:
    """Its provider wrote it so; time of a machine has a length."""
    moment = {"ChargePeriodEnd": HOST["ChargePeriodStart"]}
    bill = read(tmp_path, HOST, {**HOST, **moment, "ChargeCategory": category})
    assert (of_kind(bill), others(bill)) == ((499.2, 192, True), [(category.lower(), 499.2)])
    with pytest.raises(ConfigError, match=r"line 2: ChargePeriodEnd is .*: it is not after ChargePeriodStart"):
        read(tmp_path, {**HOST, **moment})


@pytest.mark.parametrize("last", ["30/11/2026", "28/2/2026", "31.12.2026"])
def test_days_before_months_are_no_other_day(tmp_path: Path, last: str) -> None:
    """A spreadsheet wrote 10 November as 10/11: it was 11 October, and nothing said so. Months end after the 12th."""
    for right in ("11/30/2026", "2026-11-30"):
        assert of_kind(read(tmp_path, AZURE_LINE | {"billingPeriodEndDate": right})) == (499.2, 192, True)
    with pytest.raises(ConfigError, match=r"line 2: billingPeriodEndDate is .*: the day stands before the month"):
        read(tmp_path, AZURE_LINE | {"date": "10/11/2026", "billingPeriodEndDate": last})


@pytest.mark.parametrize("column", ["SkuMeter", "x_SkuMeterName"])
def test_azure_in_focus_names_machines_by_their_meters(tmp_path: Path, column: str) -> None:
    """Its unit price of what is reserved is 0, which is no price (Microsoft's summary of conformance)."""
    named = {"ChargeDescription": "Virtual Machines NDsr H100 v5 Series", "SkuPriceDetails": "", "SkuId": "-2"}
    reserved = {**RESERVED, "ContractedUnitPrice": "0", "ContractedCost": "0", column: "ND96isr H100 v5"}
    bill = read(tmp_path, {**HOST, **named, **reserved})
    assert of_kind(bill) == (499.2, 192, True)
    assert prices(bill) == [("H100-80GB", "reserved", None, 2_600_000)]


def test_what_a_commitment_covers_has_its_fee_as_the_price(tmp_path: Path) -> None:
    """Google's by resource: usage is offset whole, the fee is a line of its own; neither had a price."""
    covered = {**GOOGLE_LINE, "cost": 720, "credits": [{"amount": -720, "type": "COMMITTED_USAGE_DISCOUNT"}]}
    fee = {
        **GOOGLE_LINE,
        "cost": 499.2,
        "sku": {"id": "F", "description": "Commitment v1: Nvidia H100 80GB GPU in Iowa"},
    }
    bill = read(tmp_path, covered, fee, as_json=True)
    assert of_kind(bill) == (499.2, 192, True)
    assert prices(bill) == [("H100-80GB", "reserved", None, 2_600_000)]
    found = unit_prices(bill, "bill", date(2026, 12, 1))
    assert found is not None
    assert found.rows[0].source == "bill; the fee of its commitment, by the hours that it covered"
    assert prices(read(tmp_path, covered, as_json=True)) == []
