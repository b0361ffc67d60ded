"""What teams are charged stands beside what GPUs cost: charges and differences sum to the bill, to the millionth."""

import csv
import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from decimal import Decimal
from io import StringIO
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analyzer.errors import ConfigError, LedgerError
from analyzer.finops.charges.report import ChargesReport, charge_csv, charge_data, charge_text, charges_report
from analyzer.finops.charges.sums import Bearer, Charged, HeldHour, charges, read_held
from analyzer.interfaces.cli.prices import charges as command
from analyzer.ledger.coverage import Hours
from analyzer.period import Period
from analyzer.prices.check import complaints
from analyzer.prices.price_book import PriceBook
from analyzer.prices.rows import Charge
from analyzer.reports.reader import Reader
from analyzer.text.layout import TextLayout
from collector.store.database import Store
from tests.analyzer.ledger.fleet import DAY, HOUR, MONDAY, Fleet, priced

WEEK = Period(0, 168 * HOUR, "2026-W46", "UTC")
CHARGE = """
[[charge]]
team = "team-nlp"
sku = "H100-80GB"
usd_per_gpu_hour = 2.90
from = 2020-01-01
source = "internal price list"
as_of = 2025-12-01
"""
SKUS, TEAMS = ("H100-80GB", "A100-80GB", None), ("team-a", "team-b", None)
holdings = st.builds(
    HeldHour,
    st.sampled_from(TEAMS),
    st.booleans(),
    st.sampled_from(SKUS),
    st.sampled_from(["reserved", "owned", None]),
    st.integers(0, 167).map(lambda hour: hour * HOUR),
    st.integers(1, 10_000 * 3_600_000),
    st.integers(0, 10**13),
)
rates = st.builds(
    Charge,
    st.sampled_from([name for name in TEAMS if name]),
    st.sampled_from(SKUS),
    st.sampled_from(["reserved", None]),
    st.integers(0, 10**8),
    st.integers(0, 80).map(lambda hour: hour * HOUR),
    st.integers(81, 168).map(lambda hour: hour * HOUR),
    st.just("a price list"),
    st.just(date(2026, 1, 1)),
)


def report(lines: Sequence[Charged], *, by: Bearer = "team") -> ChargesReport:
    """Return the lines as a report of a week."""
    return ChargesReport(WEEK, "USD", by, 1, Hours(168, 168, "closed", (), ()), tuple(lines))


@given(held=st.lists(holdings, max_size=30), rows=st.lists(rates, max_size=4))
def test_charges_and_differences_sum_to_the_bill(held: list[HeldHour], rows: list[Charge]) -> None:
    """Whatever teams are charged, the platform's line is the rest; nothing is made up and nothing is smeared."""
    lines = charges(held, rows)
    charged = sum(line.charged_micros or 0 for line in lines)
    assert charged + sum(line.difference_micros or 0 for line in lines) == sum(one.cost_micros or 0 for one in held)
    assert sum(line.milliseconds for line in lines) == sum(one.milliseconds for one in held)
    assert all(line.charged_micros == 0 for line in lines if not line.held)


@given(held=st.lists(holdings, max_size=30), rows=st.lists(rates, max_size=4), cut=st.integers(0, 168))
def test_windows_that_abut_sum_to_the_window_over_both(held: list[HeldHour], rows: list[Charge], cut: int) -> None:
    """A month's charges are its days' charges, wherever it is cut."""

    def charged(part: list[HeldHour]) -> int:
        return sum(line.charged_micros or 0 for line in charges(part, rows))

    early = [one for one in held if one.hour < cut * HOUR]
    late = [one for one in held if one.hour >= cut * HOUR]
    assert charged(early) + charged(late) == charged(held)


def held(team: str | None, cost: int | None = 5_200_000, sku: str = "H100-80GB", hours: int = 2) -> HeldHour:
    """Return GPU-hours of a team."""
    return HeldHour(team, True, sku, "reserved", 0, hours * 3_600_000, cost)


def rate(team: str, micros: int, sku: str | None = None, option: str | None = None) -> Charge:
    """Return a charge rate that always holds."""
    return Charge(team, sku, option, micros, 0, None, "a price list", date(2026, 1, 1))


def test_the_more_particular_rate_goes_first() -> None:
    """Of the very GPU, then of the very way of paying, then any."""
    rows = [rate("nlp", 1), rate("nlp", 2, option="reserved"), rate("nlp", 4, sku="H100-80GB"), rate("vision", 8)]
    lines = {line.bearer: line.charged_micros for line in charges([held("nlp"), held("vision", sku="A100-80GB")], rows)}
    assert lines == {"nlp": 8, "vision": 16}


def test_a_team_without_a_rate_is_charged_what_it_cost() -> None:
    """And what nobody held stays with the platform."""
    nobody = HeldHour(None, False, "H100-80GB", "reserved", 0, 3_600_000, 2_600_000)
    lines = charges([held("vision"), held(None), nobody], [rate("nlp", 1)])
    assert [(one.bearer, one.held, one.charged_micros, one.difference_micros) for one in lines] == [
        ("vision", True, 5_200_000, 0),
        (None, True, 5_200_000, 0),
        (None, False, 0, 2_600_000),
    ]


def test_what_has_no_price_has_no_difference() -> None:
    """The charge is known by the rate; what is left to the platform is not."""
    (line,) = charges([held("nlp", None)], [rate("nlp", 2_900_000)])
    assert (line.cost_micros, line.charged_micros, line.difference_micros) == (None, 5_800_000, None)
    assert charges([held("nlp", None)], [])[0].charged_micros is None
    said = charge_text(report([line]), TextLayout(ascii=True))
    assert "part of it has no price; gpuledger bill prices check names what is missing" in said


def test_cost_centres_bear_what_their_teams_are_charged() -> None:
    """Two teams of one centre, at their rates; who has no centre is a row, and for what is free nobody is charged."""
    holdings = [
        replace(held("nlp"), cost_centre="4711", avoidable_micros=1_000_000),
        replace(held("vision"), cost_centre="4711"),
        held("search"),
        HeldHour(None, False, "H100-80GB", "reserved", 0, 3_600_000, 2_600_000),
    ]
    lines = charges(holdings, [rate("nlp", 3_000_000)], "cost-centre")
    assert [(one.bearer, one.team, one.held, one.charged_micros, one.avoidable_micros) for one in lines] == [
        ("4711", None, True, 6_000_000 + 5_200_000, 1_000_000),
        (None, "search", True, 5_200_000, 0),
        (None, None, False, 0, 0),
    ]


def test_a_team_without_a_cost_centre_is_named() -> None:
    """Finance must know whom to ask; unmapped is unmapped runs at all."""
    lines = charges([held("search"), held("vision"), held(None)], [], "cost-centre")
    said = charge_text(report(lines, by="cost-centre"), TextLayout(ascii=True))
    assert [row.split("  ")[0] for row in said.splitlines()[3:6]] == [
        "no cost centre: search",
        "no cost centre: vision",
        "unmapped",
    ]
    rows = list(csv.DictReader(StringIO(charge_csv(report(lines, by="cost-centre")))))
    assert [row["cost_centre"] for row in rows] == ["no cost centre: search", "no cost centre: vision", "unmapped"]
    told = charge_data(report(lines, by="cost-centre"))["charges"]
    assert [(row["cost_centre"], row["team"]) for row in told] == [(None, "search"), (None, "vision"), (None, None)]  # type: ignore[attr-defined]


def test_what_is_learned_of_closed_hours_is_a_line_of_its_own(tmp_path: Path) -> None:
    """A closed month was charged: finance books the difference in the month in which it was learned, and once."""
    fleet = Fleet()
    fleet.own("n1", ["g1"], purchase_option="reserved")
    fleet.sample("n1", "g1", MONDAY, MONDAY + 40 * DAY, every=DAY)
    fleet.hold("slurm/alpha/1", "n1", ["g1"], MONDAY, MONDAY + HOUR)
    settings = priced(tmp_path, H100_80GB=2.6)
    december = MONDAY + 25 * DAY
    fleet.analyze(december, settings)
    priced(tmp_path, H100_80GB=3.0)
    fleet.analyze(december, settings)
    with fleet.store.session() as session:
        reader = Reader(session, settings)
        november, month = (
            charges_report(reader.session, reader.settings, reader.period(name), "team")
            for name in ("2025-11", "2025-12")
        )
    assert november.corrections == ()
    closed = 20 * DAY // HOUR  # up to the week that ended on the 30th, which is open until two days later
    moved = {(one.corrects, one.held): one.cost_micros for one in month.corrections}
    assert moved[("2025-11", True)] == 400_000
    assert sum(cost or 0 for cost in moved.values()) in (400_000 * closed, 400_000 * (closed + 24))
    said = charge_text(month, TextLayout(ascii=True))
    assert "CORRECTIONS booked in 2025-12 to closed hours; not in the figures" in said
    assert all(len(line) <= 80 for line in said.splitlines())
    rows = list(csv.DictReader(StringIO(charge_csv(month))))
    assert {row["corrects"] for row in rows} == {"", "2025-11"}
    printed = sum(Decimal(row["charged"]) + Decimal(row["difference"]) for row in rows) * 1_000_000
    whole = [*month.lines, *month.corrections]
    assert printed == sum(one.cost_micros or 0 for one in whole)


def test_the_file_for_finance_is_exact_and_holds_no_formula() -> None:
    """It is opened in a spreadsheet, by who trusts it."""
    hostile = replace(held("=cmd|' /C calc'!A0", 1), cost_centre='=HYPERLINK("x")')
    rows = list(csv.DictReader(StringIO(charge_csv(report(charges([hostile, held(None, None)], []))))))
    assert rows[0]["team"].startswith("'=")
    assert (rows[0]["cost"], rows[0]["charged"], rows[0]["difference"]) == ("0.000001", "0.000001", "0")
    assert (rows[1]["team"], rows[1]["cost"], rows[1]["charged"]) == ("unmapped", "", "")


@given(held=st.lists(holdings, max_size=30), rows=st.lists(rates, max_size=4))
def test_the_files_rows_sum_to_the_bill(held: list[HeldHour], rows: list[Charge]) -> None:
    """By team or by cost centre: charged and difference are the cost, to the millionth, as printed."""
    for by in get_args(Bearer):
        text = charge_csv(report(charges(held, rows, by), by=by))
        told = list(csv.DictReader(StringIO(text)))
        printed = sum((Decimal(row["charged"]) + Decimal(row["difference"]) for row in told), Decimal(0))
        assert printed * 1_000_000 == sum(one.cost_micros or 0 for one in held)


def test_the_ledgers_price_does_not_depend_on_who_holds_a_gpu(tmp_path: Path) -> None:
    """A charge is no price: with and without it, the same cost and the same version."""
    fleet = Fleet()
    fleet.own("n1", ["g1", "g2"], purchase_option="reserved")
    fleet.sample("n1", "g1", MONDAY, MONDAY + 3 * HOUR)
    fleet.hold("slurm/alpha/1", "n1", ["g1"], MONDAY, MONDAY + 3 * HOUR)
    settings = priced(tmp_path, H100_80GB=2.6)
    assert settings.prices is not None
    plain = PriceBook.read(settings.prices)
    settings.prices.write_text(settings.prices.read_text() + CHARGE)
    book = PriceBook.read(settings.prices)
    assert (book.version, plain.beside_version, book.beside_version != "") == (plain.version, "", True)
    fleet.analyze(MONDAY + DAY, settings)
    period = Period(MONDAY, MONDAY + 3 * HOUR, "three hours", "UTC")
    with fleet.store.session() as session:
        lines = charges(read_held(session, period), [rate("unmapped", 1), *book.charges])
    assert sum(line.cost_micros or 0 for line in lines) == 2 * 3 * 2_600_000
    assert [(line.held, line.milliseconds) for line in lines] == [(True, 3 * 3_600_000), (False, 3 * 3_600_000)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (CHARGE.replace("team = ", "teem = "), "did you mean 'team'"),
        (CHARGE.replace('team = "team-nlp"\n', ""), "'team' is missing"),
        (CHARGE.replace("2.90", "-2.90"), "must be 0 or more"),
        (CHARGE.replace("2.90", "1e300"), "more than a trillion"),
        (CHARGE + CHARGE.replace("list", "book"), "two prices of H100-80GB (any) for team-nlp at the same time"),
        (CHARGE.replace("sku", 'purchase_option = "hired"\nsku'), "must be one of on_demand"),
    ],
)
def test_a_wrong_charge_is_refused(tmp_path: Path, text: str, message: str) -> None:
    """In one sentence with the way out."""
    (tmp_path / "prices.toml").write_text(text)
    with pytest.raises(ConfigError) as refusal:
        PriceBook.read(tmp_path / "prices.toml")
    assert message in str(refusal.value)


def test_a_charge_for_a_team_that_does_not_exist_is_found(tmp_path: Path) -> None:
    """It would be charged to nobody, and nobody would see it."""
    book = PriceBook.parse("prices.toml", CHARGE.encode())
    (found,) = complaints(book, [], date(2026, 1, 1), {"team-nlp2", "team-vision"})
    assert (found.kind, found.sentence.endswith("did you mean 'team-nlp2'?")) == ("unknown", True)
    assert complaints(book, [], date(2026, 1, 1), {"team-nlp"}) == []
    assert complaints(book, [], date(2026, 1, 1)) == []
    assert [one.kind for one in complaints(book, [], date(2027, 2, 1))] == [
        "stale"
    ]  # an internal list is made by the year


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the store of a site; nobody changes it."""
    folder = tmp_path_factory.mktemp("charging")
    site(folder)
    return folder / "store.duckdb"


def site(folder: Path) -> None:
    """Make a store of two GPUs, of which an unmapped run held one for three hours, with prices beside it."""
    fleet = Fleet(Store.open(folder / "store.duckdb", memory_limit="500MB"))
    settings = priced(folder, H100_80GB=2.6)
    (folder / "gpuledger.toml").write_text('[analyzer]\nprices = "prices.toml"\n')
    for gpu in ("g1", "g2"):
        fleet.own("n1", [gpu], purchase_option="reserved")
        fleet.sample("n1", gpu, MONDAY, MONDAY + 3 * HOUR, energy_joules=18_000.0)
    fleet.hold("slurm/alpha/1", "n1", ["g1"], MONDAY, MONDAY + 3 * HOUR)
    fleet.analyze(MONDAY + DAY, settings)
    fleet.store.close()


def test_the_command_prints_a_table_that_sums(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What a person sees and what a machine reads are the same amounts."""
    assert command(["2025-11-10", "--store", str(store)]) == 0
    shown = capsys.readouterr().out
    assert "unmapped                           3.0         $7.80         $7.80         $0.00" in shown
    assert "the platform bears $7.80:\ncharged $7.80 and $7.80 are the bill of $15.60" in shown
    assert command(["2025-11-10", "--store", str(store), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert sum(line["charged_micros"] + line["difference_micros"] for line in told["charges"]) == 15_600_000


def test_a_period_without_an_hour_is_no_bill_of_nothing(store: Path) -> None:
    """Nothing booked is unknown: a file of no rows, or a bill of $0.00, would pass for a free month."""
    with pytest.raises(LedgerError, match="no hour of 2025-09"):
        command(["2025-09", "--store", str(store), "--csv"])


def test_a_period_that_is_not_whole_says_so_beside_the_file(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Who sends the file must know that the month is not all in it; the rows stay rows."""
    assert command(["2025-11", "--store", str(store), "--csv"]) == 0
    shown = capsys.readouterr()
    assert "of 720 hours of 2025-11 are in the ledger" in shown.err
    assert [*csv.DictReader(StringIO(shown.out))]
    assert "are in the ledger" not in shown.out
    assert command(["2025-11", "--store", str(store)]) == 0
    assert all(len(line) <= 80 for line in capsys.readouterr().out.splitlines())
