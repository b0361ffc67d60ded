"""The ledger against an invoice: what differs is named with its reason, and nothing of the invoice is dropped."""

import gzip
from pathlib import Path

import pytest

from analyzer.errors import ConfigError
from analyzer.finops.focus.read import digest_of, read_focus
from analyzer.finops.reconcile.bill import Bill, gather
from analyzer.finops.reconcile.compare import Comparison, Difference, reconcile
from analyzer.finops.reconcile.gpu_lines import SkuMap, known_instances
from analyzer.finops.reconcile.invoice_matches import InvoiceSource, keep, last_match, match_words
from analyzer.finops.reconcile.text import label_of, label_of_compared, reconcile_text
from analyzer.period import Period
from tests.analyzer.finops.focus_books import DAY, HOUR, MS_PER_HOUR, NOVEMBER, Books
from tests.analyzer.finops.reconcile_invoices import invoice
from tests.analyzer.finops.test_focus_export import exported, small

FREE = [(None, "unallocated", "free", MS_PER_HOUR)]
SECOND_DAY = {"ChargePeriodStart": "2026-11-02T00:00:00Z", "ChargePeriodEnd": "2026-11-03T00:00:00Z"}


def three_hours(books: Books | None = None, day: int = 0, gpus: int = 8, option: str = "on_demand") -> Books:
    """Own a host of H100 for all hours of a day, three of them at 2.60 a GPU-hour, the others at nothing."""
    books = books or Books()
    for hour in range(24):
        at = NOVEMBER + day * DAY + hour * HOUR
        if hour < 3:
            for gpu in range(gpus):
                books.gpu_hour(FREE, at, gpu=f"GPU-{gpu}", option=option)
        else:
            books.hour(at)
    return books


def against(
    books: Books, path: Path, mapping: Path | None = None, start: int | None = None, end: int | None = None
) -> tuple[Comparison, Bill]:
    """Reconcile a file with a ledger."""
    with books.session() as session:
        return reconcile(session, [path], [mapping] if mapping else [], "USD", (start, end))


def reasons(difference: Difference) -> list[tuple[str, int | None]]:
    """Return the reasons of a difference, and how much of it each makes."""
    return [(reason.kind, reason.micros) for reason in difference.reasons]


def test_a_bill_of_what_is_owned_matches(tmp_path: Path) -> None:
    """Three hours of eight GPUs at 2.60 are 62.40 on either side."""
    compared, _ = against(three_hours(), invoice(tmp_path / "i.csv", {}))
    assert (compared.matched, compared.permille, compared.apart_micros) == (True, 0, 0)
    assert compared.ledger_micros == compared.invoice_micros == 62_400_000


def test_another_price_is_named(tmp_path: Path) -> None:
    """The same hours at another price: the price is the whole difference."""
    compared, bill = against(three_hours(), invoice(tmp_path / "i.csv", {"EffectiveCost": "72"}))
    (difference,) = compared.differences
    assert reasons(difference) == [("price", 9_600_000)]
    assert "3.0000 per GPU-hour on the invoice, 2.6000 in the ledger" in difference.reasons[0].words
    assert not compared.matched
    assert "Not matched: 13.4% apart; 62.40 in the ledger, 72.00 on the invoice." in reconcile_text(compared, bill, "i")


def test_hours_that_are_not_owned_are_named(tmp_path: Path) -> None:
    """At the same price four hours are billed, and three are owned."""
    line = {"EffectiveCost": "83.20", "PricingQuantity": "4"}
    (difference,) = against(three_hours(), invoice(tmp_path / "i.csv", line))[0].differences
    assert reasons(difference) == [("hours", 20_800_000)]
    assert "8.0 GPU-hours more are billed than the ledger owns" in difference.reasons[0].words


def test_hours_and_price_together_are_the_difference(tmp_path: Path) -> None:
    """The two parts sum to it, to the millionth."""
    line = {"EffectiveCost": "100.000001", "PricingQuantity": "4"}
    (difference,) = against(three_hours(), invoice(tmp_path / "i.csv", line))[0].differences
    assert [reason.kind for reason in difference.reasons] == ["hours", "price"]
    assert sum(reason.micros or 0 for reason in difference.reasons) == difference.micros == 37_600_001


def test_what_only_one_side_has_is_named(tmp_path: Path) -> None:
    """GPUs that nobody owns are billed, and GPUs that are owned are not."""
    books = three_hours(three_hours(), day=1)
    other = {"ChargeDescription": "p4de.24xlarge Instance Hour"}
    found = against(books, invoice(tmp_path / "i.csv", other, {}, SECOND_DAY | other))[0].differences
    assert {(each.sku, each.day): reasons(each) for each in found} == {
        ("A100-80GB", NOVEMBER): [("not_owned", 62_400_000)],
        ("A100-80GB", NOVEMBER + DAY): [("not_owned", 62_400_000)],
        ("H100-80GB", NOVEMBER): [],
        ("H100-80GB", NOVEMBER + DAY): [("not_billed", -62_400_000)],
    }


def test_an_invoice_that_ends_earlier_is_not_counted(tmp_path: Path) -> None:
    """What is still to be billed is no difference, and is said."""
    books = three_hours(three_hours(), day=1)
    compared, _ = against(books, invoice(tmp_path / "i.csv", {}), start=NOVEMBER, end=NOVEMBER + 2 * DAY)
    assert [(each.counts, [kind for kind, _ in reasons(each)]) for each in compared.differences] == [
        (True, []),
        (False, ["invoice_ends"]),
    ]
    assert compared.matched


def test_hours_that_are_not_booked_yet_are_not_counted(tmp_path: Path) -> None:
    """A ledger that has not seen the day cannot say that the invoice is wrong."""
    books = Books()
    books.gpu_hour(FREE)
    (difference,) = against(books, invoice(tmp_path / "i.csv", {}))[0].differences
    assert (difference.counts, difference.reasons[0].words) == (False, "the ledger has 1 of 24 hours of this day")


def test_what_the_site_owns_itself_is_billed_by_nobody(tmp_path: Path) -> None:
    """Bought machines are on no cloud's invoice."""
    books = three_hours(option="owned")
    other = {"ChargeDescription": "p4de.24xlarge Instance Hour"}
    found = against(books, invoice(tmp_path / "i.csv", other))[0].differences
    assert [reasons(each) for each in found if each.sku == "H100-80GB"] == [[("owned", None)]]


def test_gpus_that_no_agent_saw_are_said(tmp_path: Path) -> None:
    """Capacity that is paid for and never reported is the dearest kind of silence."""
    books = Books()
    for hour in range(24):
        books.gpu_hour([(None, "unobserved", "never_seen", MS_PER_HOUR)], NOVEMBER + hour * HOUR, option="on_demand")
    compared, bill = against(books, invoice(tmp_path / "i.csv", {"EffectiveCost": "80"}))
    assert compared.unseen_ms == 24 * MS_PER_HOUR
    assert "24.0 GPU-hours are owned, and no agent ever saw these GPUs." in reconcile_text(compared, bill, "i")
    assert [reason.kind for reason in compared.differences[0].reasons][-1] == "unseen"


def test_another_currency_is_never_matched(tmp_path: Path) -> None:
    """No rate is guessed."""
    compared, bill = against(three_hours(), invoice(tmp_path / "i.csv", {"BillingCurrency": "EUR"}))
    assert (compared.matched, compared.permille) == (False, None)
    shown = reconcile_text(compared, bill, "i")
    assert "Not yet matched: the invoice is in EUR, the ledger in USD." in shown
    before = shown.partition("    the invoice is in another currency")[0]
    assert before.splitlines()[-1].endswith("     -"), "euros less dollars are no difference"


HALF = {"PricingQuantity": "1.5", "ContractedUnitPrice": "41.60"}
STORAGE = {"ChargeDescription": "EBS snapshot of p5.48xlarge", "PricingUnit": "GB-Mo"}


@pytest.mark.parametrize(
    ("lines", "kinds"),
    [
        ([HALF], ["hours", "price"]),
        ([{"ChargeDescription": "MIG 1g.10gb of p5.48xlarge"}], ["not_billed"]),
        ([{"ChargeDescription": "1/2 of p5.48xlarge"}], ["not_billed"]),
        ([STORAGE | {"PricingUnit": "GB"}], ["not_billed"]),
        ([HALF, {"EffectiveCost": "0", "PricingQuantity": "3"}], ["hours", "price"]),
        ([{"EffectiveCost": "31.20"}, {"EffectiveCost": "31.20"}], ["hours", "price"]),
        ([{}, {"EffectiveCost": "62.40"}, {"EffectiveCost": "-62.40", "PricingQuantity": "0.5"}], ["hours", "price"]),
        ([{"ChargeDescription": "p5en.48xlarge Instance Hour"}], ["not_billed", "not_owned"]),
    ],
)
def test_what_costs_the_same_is_not_yet_the_same(tmp_path: Path, lines: list[dict[str, str]], kinds: list[str]) -> None:
    """Other hours, parts of GPUs, traffic and another kind of GPU are no match, though each sum is the ledger's."""
    compared, bill = against(three_hours(), invoice(tmp_path / "i.csv", *lines), start=NOVEMBER, end=NOVEMBER + DAY)
    assert compared.ledger_micros == 62_400_000
    assert sorted(reason.kind for each in compared.differences for reason in each.reasons) == kinds
    assert not compared.matched
    assert "Matched" not in reconcile_text(compared, bill, "i")


def test_storage_by_its_category_is_no_machine(tmp_path: Path) -> None:
    """A disk that is billed by the month is no part of the machine that it is named by."""
    path = tmp_path / "i.csv"
    path.write_text(invoice(path, {}, STORAGE).read_text().replace("ServiceName", "ServiceCategory"))
    path.write_text(path.read_text().replace("Amazon Elastic Compute Cloud", "Storage"))
    _, bill = against(three_hours(), path, start=NOVEMBER, end=NOVEMBER + DAY)
    assert {other.why for other in bill.others.values()} == {"storage or traffic"}


def test_cost_alone_that_agrees_is_said_to_be_cost_alone(tmp_path: Path) -> None:
    """Hours that a bill does not say were not compared; the answer, its label and the reports say so."""
    path = invoice(tmp_path / "i.csv", {"PricingUnit": "LCU-Hours"})
    compared, bill = against(three_hours(), path)
    assert (compared.matched, compared.by_cost_alone) == (True, 1)
    assert "Cost alone was compared of 1 of 1 kinds and days: their hours on the invoice" in reconcile_text(
        compared, bill, "i"
    )
    assert label_of_compared(compared) == "2026-11-01, by cost alone"


def test_a_day_that_is_half_booked_is_no_match_by_its_cost(tmp_path: Path) -> None:
    """What the other hours cost is not known, however well these agree."""
    books = Books()
    for gpu in range(8):
        books.gpu_hour(FREE, gpu=f"GPU-{gpu}", price=7_800_000, option="on_demand")
    compared, _ = against(books, invoice(tmp_path / "i.csv", {}))
    assert (compared.matched, [reason.kind for reason in compared.differences[0].reasons]) == (False, ["not_booked"])


def test_of_a_kind_that_is_partly_owned_the_rented_part_is_compared(tmp_path: Path) -> None:
    """A bill that is as much dearer as the owned GPUs cost does not match."""
    books = three_hours()
    for gpu in range(8, 16):
        books.gpu_hour(FREE, NOVEMBER, gpu=f"GPU-{gpu}", option="owned")
    same, _ = against(books, invoice(tmp_path / "i.csv", {}))
    assert (same.matched, same.ledger_micros) == (True, 62_400_000)
    dearer, _ = against(books, invoice(tmp_path / "j.csv", {"EffectiveCost": "83.20", "PricingQuantity": "4"}))
    assert not dearer.matched


def test_a_span_that_begins_within_a_day_counts_its_part_of_each_line(tmp_path: Path) -> None:
    """Half of the day's line is half of its cost."""
    path = invoice(tmp_path / "i.csv", {"PricingQuantity": "24", "EffectiveCost": "499.20"})
    _, bill = against(three_hours(), path, start=NOVEMBER + 12 * HOUR, end=NOVEMBER + DAY)
    assert [(day.nanos, day.nano_hours) for day in bill.days.values()] == [(249_600_000_000, 96_000_000_000)]


def test_a_file_and_itself_packed_are_one_file(tmp_path: Path) -> None:
    """Each line of a bill counts once."""
    plain = invoice(tmp_path / "i.csv", {})
    packed = tmp_path / "i.csv.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    with three_hours().session() as session, pytest.raises(ConfigError, match="has the content of"):
        reconcile(session, [plain, packed], [], "USD")


def test_a_match_says_that_the_ledger_was_corrected_since(tmp_path: Path) -> None:
    """What was compared is no longer what the ledger says."""
    books = three_hours()
    compared, bill = against(books, invoice(tmp_path / "i.csv", {}))
    period = Period(NOVEMBER, NOVEMBER + 30 * DAY, "2026-11", "UTC")
    columns = ("recorded_at", "hour", "gpu_uuid", "node", "state", "shared", "milliseconds", "reason", "rules_version")
    with books.session() as session:
        keep(session, compared, bill, "2026-11-01", InvoiceSource("i.csv", "d", "me", NOVEMBER + DAY))
        assert match_words(last_match(session, period)) == "invoice matched within 0.0% (2026-11-01)"
        row = (NOVEMBER + 2 * DAY, NOVEMBER, "GPU-1", "n1", "unallocated", False, -MS_PER_HOUR, "test", "test")
        session.load("adjustments", columns, [row])
        assert match_words(last_match(session, period)).endswith("(2026-11-01); the ledger was corrected since")


def test_taxes_credits_and_other_lines_are_listed(tmp_path: Path) -> None:
    """Every cent of the invoice is either compared or listed."""
    path = invoice(
        tmp_path / "i.csv",
        {},
        {"ChargeCategory": "Tax", "EffectiveCost": "5.00", "ChargeDescription": "VAT"},
        {"ChargeCategory": "Credit", "EffectiveCost": "-7.25"},
        {"ChargeClass": "Correction", "EffectiveCost": "-1"},
        {"ChargeDescription": "m5.large Instance Hour", "EffectiveCost": "0.10", "SkuId": ""},
    )
    compared, bill = against(three_hours(), path)
    assert {(other.why, other.nanos) for other in bill.others.values()} == {
        ("tax", 5_000_000_000),
        ("credit", -7_250_000_000),
        ("correction", -1_000_000_000),
        ("no known GPU", 100_000_000),
    }
    billed = sum(line.effective for line in read_focus(path))
    assert bill.nanos == billed * 10**9
    assert "m5.large Instance Hour, 1 line" in reconcile_text(compared, bill, "i")
    assert compared.matched


def test_a_line_over_several_days_is_divided_by_time(tmp_path: Path) -> None:
    """The days of a line sum to the line, in billionths."""
    line = {"ChargePeriodEnd": "2026-11-04T00:00:00Z", "EffectiveCost": "100", "PricingQuantity": "1"}
    bill = gather(read_focus(invoice(tmp_path / "i.csv", line)), SkuMap.of(["H100-80GB"]))
    assert [day.nanos for day in bill.days.values()] == [33_333_333_333, 33_333_333_333, 33_333_333_334]
    assert sum(day.nano_hours for day in bill.days.values()) == 8 * 10**9


def test_a_mapping_file_goes_first(tmp_path: Path) -> None:
    """A provider's own names are the site's to explain; a wrong row of the file is named."""
    rules = tmp_path / "map.toml"
    rules.write_text('[[invoice]]\nmatch = "gpu-*"\nsku = "H100-80GB"\ngpus = 8\n')
    path = invoice(tmp_path / "i.csv", {"SkuId": "GPU-large", "ChargeDescription": "a host"})
    assert against(three_hours(), path, mapping=rules)[0].matched
    with pytest.raises(ConfigError, match="none of its 1 lines in the period is of a known GPU"):
        against(three_hours(), path)
    rules.write_text('[[invoice]]\nmatch = "x"\nsku = "H100-80GB"\ngpus = 1025\n')
    with pytest.raises(ConfigError, match="'gpus' must be 0 to 1,024, not 1025"):
        SkuMap.of([], rules)


def test_an_instance_type_of_two_kinds_is_none() -> None:
    """Where the list prices do not agree what an instance has, it is not guessed."""
    assert known_instances()["p5.48xlarge"] == ("H100-80GB", 8)
    assert not any("(" in name for name in known_instances())


def test_our_own_export_is_no_invoice(tmp_path: Path) -> None:
    """It would always match."""
    books = small()
    exported(books, tmp_path)
    with pytest.raises(ConfigError, match="is an export of gpuledger"):
        against(books, tmp_path / "bill.csv")


def test_reports_say_what_came_of_it(tmp_path: Path) -> None:
    """The newest word on an invoice that reaches into the period counts, else the last before it."""
    books = three_hours()
    week = Period(NOVEMBER, NOVEMBER + 7 * DAY, "2026-W45", "UTC")
    with books.session() as session:
        assert match_words(last_match(session, week)) == "not reconciled with an invoice"
        for number, (cost, words) in enumerate([("80", "not matched: 22.0% apart"), ("62.4", "matched within 0.0%")]):
            path = invoice(tmp_path / "i.csv", {"EffectiveCost": cost})
            compared, bill = reconcile(session, [path], [], "USD")
            told = InvoiceSource(path.name, digest_of(path), "cli:test", number)
            keep(session, compared, bill, label_of(compared.start, compared.end), told)
            assert match_words(last_match(session, week)) == f"invoice {words} (2026-11-01)"
        later = Period(NOVEMBER + 20 * DAY, NOVEMBER + 27 * DAY, "2026-W48", "UTC")
        assert match_words(last_match(session, later)) == "invoice matched within 0.0% (2026-11-01)"
        before = Period(NOVEMBER - 7 * DAY, NOVEMBER, "2026-W44", "UTC")
        assert last_match(session, before) is None


def test_a_month_is_called_by_its_name() -> None:
    """As the header of a report says it."""
    assert label_of(NOVEMBER, NOVEMBER + 30 * DAY) == "2026-11"
    assert label_of(NOVEMBER, NOVEMBER + DAY) == "2026-11-01"
    assert label_of(NOVEMBER, NOVEMBER + 2 * DAY) == "2026-11-01 to 2026-11-02"


def test_of_a_day_that_the_bill_has_in_part_no_other_hours_are_compared(tmp_path: Path) -> None:
    """It is cut off, or has the days of another time zone; beside usage of the whole day the hours are missing."""
    part = {"ChargePeriodEnd": "2026-11-01T02:00:00Z", "PricingQuantity": "2", "EffectiveCost": "41.60"}
    month = {"ChargeDescription": "support", "PricingUnit": "Month", "ChargePeriodEnd": "2026-12-01T00:00:00Z"}
    compared, _ = against(three_hours(), invoice(tmp_path / "cut.csv", part, month))
    assert (compared.matched, compared.ledger_micros) == (True, 41_600_000)
    assert label_of_compared(compared) == "2026-11-01, the first or last day in part"
    disk = {"ChargeDescription": "disk", "PricingUnit": "GB-Mo"}
    (difference,) = against(three_hours(), invoice(tmp_path / "whole.csv", part, disk))[0].differences
    assert reasons(difference) == [("hours", -20_800_000)]
    late = {"ChargePeriodStart": "2026-11-01T02:00:00Z", "PricingQuantity": "1", "EffectiveCost": "20.80"}
    compared, _ = against(three_hours(), invoice(tmp_path / "late.csv", late))
    assert (compared.matched, compared.ledger_micros) == (True, 20_800_000)
