"""A month against its budgets: the columns add up, silence is not thrift, and who is over is told."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analyzer.errors import ConfigError, LedgerError
from analyzer.finops.budgets.month import (
    FLEET,
    Budget,
    BudgetLine,
    Days,
    Ending,
    MonthReport,
    Spending,
    Whose,
    month_report,
    with_verdicts,
)
from analyzer.finops.budgets.text import budgets_text, first_sentence, over_words
from analyzer.interfaces.questions.money_questions import BUDGETS
from analyzer.period import Calendar
from analyzer.reports.reader import Reader
from analyzer.reports.request import Request
from analyzer.settings.settings import Settings
from analyzer.text.layout import TextLayout
from collector.store.database import Store
from gpuledger import main
from tests.analyzer.ledger.fleet import DAY, HOUR, MONDAY, Fleet
from tests.analyzer.reports import example_week

BERLIN = Calendar("Europe/Berlin")
NOVEMBER = BERLIN.month(2026, 11)
NLP, ODD, FREE = ("nlp", None, True), ("odd", None, True), (None, None, False)


def spent(days: int, by_day: Mapping[Whose, Sequence[int]]) -> Spending:
    """Return what was spent on days up to some day of November, all of them wholly known."""
    starts, start = list[int](), BERLIN.month(2026, 10).start
    while len(starts) < days:
        starts.append(start)
        start += (25 if start == BERLIN.parse("2026-10-25", start).start else 24) * HOUR
    return Spending(Days(tuple(starts), (True,) * days), by_day, {})


def budget(micros: int, team: str | None = "nlp") -> Budget:
    """Return a budget for good."""
    return Budget(team, None, micros, date(2026, 1, 1), None, "test")


def at(days: int, by_day: Mapping[Whose, Sequence[int]], *budgets: Budget) -> MonthReport:
    """Return the month as it stands after so many days since 1 October."""
    known = spent(days, by_day)
    until = known.days.starts[-1] + 24 * HOUR
    report = with_verdicts(known, NOVEMBER, until, "USD", budgets)
    assert report is not None
    return report


def line(report: MonthReport, name: str) -> BudgetLine:
    """Return the line of this name."""
    return next(each for each in report.every if each.name == name)


def test_a_team_that_spends_the_same_each_day_ends_at_its_days_times_that() -> None:
    """The arithmetic a reader does in the head: 15 of 30 days, so twice as much.

    The Sunday of 25 hours costs an hour more, and those after it are not expected to.
    """
    days = [24_000_000] * 24 + [25_000_000] + [24_000_000] * 21
    report = at(46, {NLP: days, FREE: [day // 2 for day in days]}, budget(700_000_000))
    nlp = line(report, "nlp")
    assert nlp.spent_micros == 15 * 24_000_000
    assert nlp.ending is not None
    assert nlp.ending.expected_micros == 30 * 24_000_000
    assert nlp.verdict == "likely over"
    assert report.over == ("nlp",)


def test_over_is_told_without_any_forecast() -> None:
    """What is spent is spent, even in the first week that is known."""
    report = at(33, {NLP: [0] * 31 + [9_000_000, 2_000_000]}, budget(10_000_000))
    assert line(report, "nlp").verdict == "over"


def test_a_team_without_a_week_of_history_is_not_judged() -> None:
    """Three days say nothing of a weekend; a guess would be an accusation."""
    starts = spent(34, {}).days.starts[31:]
    known = Spending(Days(starts, (True,) * 3), {NLP: [1, 1, 1]}, {})
    report = with_verdicts(known, NOVEMBER, starts[-1] + 24 * HOUR, "USD", [budget(100)])
    assert report is not None
    assert line(report, "nlp").verdict is None
    assert "No forecast yet" in budgets_text(report, TextLayout(80))


def test_a_budget_of_who_spent_nothing_is_shown() -> None:
    """A team that does not use what it was given is news as well."""
    report = at(46, {FREE: [5_000_000] * 46}, budget(10_000_000, "quiet"))
    assert line(report, "quiet").spent_micros == 0
    assert line(report, "quiet").verdict == "within"


amounts = st.lists(st.integers(0, 10**10), min_size=46, max_size=46)


@settings(max_examples=40)
@given(st.dictionaries(st.sampled_from([NLP, FREE, ("b", None, True), (None, "p", True)]), amounts, min_size=1))
def test_both_columns_sum_to_the_fleet(by_day: dict[Whose, list[int]]) -> None:
    """Finance adds them up; what nobody holds takes what is left."""
    report = at(46, by_day)
    assert sum(each.spent_micros or 0 for each in report.lines) == report.fleet.spent_micros
    endings = [each.ending for each in report.lines]
    assert report.fleet.ending is not None
    assert sum(ending.expected_micros for ending in endings if ending) == report.fleet.ending.expected_micros
    for each in report.every:
        ending = each.ending
        assert ending is not None
        assert each.spent_micros is not None
        assert ending.expected_micros >= each.spent_micros
        if ending.low_micros is not None and ending.high_micros is not None:
            assert ending.low_micros <= ending.expected_micros <= ending.high_micros


def test_a_month_that_is_over_forecasts_nothing() -> None:
    """Its figures are those of the ledger."""
    known = spent(61, {NLP: [1_000_000] * 61})
    report = with_verdicts(known, NOVEMBER, NOVEMBER.end, "USD", [])
    assert report is not None
    ending = line(report, "nlp").ending
    assert ending is not None
    assert (ending.expected_micros, ending.model) == (30_000_000, None)


def test_the_ledger_is_counted_by_days_of_the_sites_clock() -> None:
    """GPU-hours of the evening belong to the local day; a day with missing hours is known to be partial."""
    fleet = Fleet()
    fleet.own("n1", ["g1"])
    fleet.hold("slurm/a/1", "n1", ["g1"], MONDAY, MONDAY + 2 * DAY)
    fleet.sample("n1", "g1", MONDAY, MONDAY + 2 * DAY)
    fleet.analyze(MONDAY + 2 * DAY)
    with fleet.store.session() as session:
        (cost,) = session.row("SELECT count(*) FROM ledger WHERE cost_micros IS NOT NULL")
        assert cost == 0
        report = month_report(session, Calendar("UTC").month(2025, 11), MONDAY + 2 * DAY, "USD", [])
    assert report is not None
    assert report.fleet.spent_micros is None
    assert report.fleet.unpriced_milliseconds == 2 * 24 * 3_600_000
    assert "no price" in budgets_text(report, TextLayout(80))


def in_part(priced: Mapping[Whose, Sequence[int]], without: Mapping[Whose, Sequence[int]], allowed: int) -> MonthReport:
    """Return November after 16 days of which the fleet and nlp have a budget, and some GPU time has no price."""
    known = replace(spent(46, priced), unpriced_by_day=without)
    until = known.days.starts[-1] + 24 * HOUR
    report = with_verdicts(known, NOVEMBER, until, "USD", [budget(allowed), budget(allowed, None)])
    assert report is not None
    return report


def test_what_has_no_price_costs_not_0() -> None:
    """A site that has no prices yet read "The fleet has cost ≥$0.00", and its budgets were kept."""
    report = in_part({NLP: [0] * 46, FREE: [0] * 46}, {NLP: [HOUR] * 46, FREE: [HOUR] * 46}, 10)
    assert [(one.spent_micros, one.ending, one.verdict) for one in report.every] == [(None, None, None)] * 3
    text = " ".join(budgets_text(report, TextLayout(120)).split())
    assert "$0" not in text
    assert "0.00" not in text
    assert "Not known to be within budget: nlp, the whole fleet; some GPU time has no price." in text
    assert "The fleet has no known cost: none of its GPU time has a price." in text


def test_a_team_without_prices_leaves_the_others_their_figures() -> None:
    """Its row is unknown; theirs add up to a fleet that costs at least that much, and whose budget may not hold."""
    report = in_part({NLP: [5_000_000] * 46, ODD: [0] * 46}, {NLP: [0] * 46, ODD: [HOUR] * 46}, 1_000_000_000)
    assert (line(report, "odd").spent_micros, line(report, "odd").ending) == (None, None)
    assert (line(report, "nlp").verdict, line(report, FLEET).verdict) == ("within", None)
    assert report.fleet.spent_micros == line(report, "nlp").spent_micros
    rows = {
        words[0]: words[1:] for text in budgets_text(report, TextLayout(100)).splitlines() if (words := text.split())
    }
    assert rows["odd"][0] == "-"
    assert rows["total"][0] == f"≥{rows['nlp'][0]}"
    assert rows["total"][2:] == [f"≥{rows['nlp'][2]}", "-"]
    assert line(in_part({NLP: [5_000_000] * 46}, {NLP: [HOUR] * 46}, 10), "nlp").verdict == "over"


def test_days_before_the_first_price_are_no_days_without_cost() -> None:
    """Prices of 8 November on forecast half a month, since each day before it counted as one that cost nothing."""
    since = 31 + 7
    report = in_part({NLP: [0] * since + [5_000_000] * 8}, {NLP: [HOUR] * since + [0] * 8}, 1_000_000_000)
    ending = line(report, "nlp").ending
    assert ending is not None
    assert ending.expected_micros == (8 + 15) * 5_000_000


def test_no_month_end_adds_up_while_one_of_them_is_not_known() -> None:
    """A team whose GPUs got their price three days ago is in the fleet's forecast, and has none of its own yet."""
    report = in_part({NLP: [5_000_000] * 46, ODD: [0] * 43 + [1_000_000] * 3}, {ODD: [HOUR] * 43 + [0] * 3}, 10**9)
    rows = {
        words[0]: words[1:] for text in budgets_text(report, TextLayout(100)).splitlines() if (words := text.split())
    }
    assert [rows[name][2] for name in ("nlp", "total")] == ["-", "-"]
    assert rows["odd"][:3] == ["≥3.00", "-", "-"]


def test_time_without_a_price_of_earlier_months_is_none_of_this_one() -> None:
    """October had no prices; November has them all, and its figures are exact."""
    nlp = line(in_part({NLP: [5_000_000] * 46}, {NLP: [HOUR] * 31 + [0] * 15}, 1_000_000_000), "nlp")
    assert (nlp.unpriced_milliseconds, nlp.verdict) == (0, "within")


def test_a_reader_takes_months_alone() -> None:
    """A week has no budget: to scale one down would be to guess."""
    fleet = Fleet()
    fleet.own("n1", ["g1"])
    fleet.hold("slurm/a/1", "n1", ["g1"], MONDAY, MONDAY + DAY)
    fleet.sample("n1", "g1", MONDAY, MONDAY + DAY)
    fleet.analyze()
    with fleet.store.session() as session:
        reader = Reader(session, Settings())
        assert BUDGETS.read(reader, Request("budgets")).period.label == "2025-11"
        with pytest.raises(ConfigError, match="is not a month"):
            BUDGETS.read(reader, Request("budgets", since="2025-W46"))
        with pytest.raises(LedgerError, match="nothing of 2025-09"):
            BUDGETS.read(reader, Request("budgets", since="2025-09"))


def test_an_empty_ledger_says_what_to_do() -> None:
    """The first command of a new site must not be a stack trace."""
    with Fleet().store.session() as session, pytest.raises(LedgerError, match="the ledger is empty"):
        BUDGETS.read(Reader(session, Settings()), Request("budgets"))


def test_hostile_names_are_plain_in_the_table() -> None:
    """A team's name comes from a file or a label; it must not steer a terminal."""
    hostile = cast("Whose", ("\x1b[31mred\n", None, True))
    text = budgets_text(at(46, {hostile: [1_000_000] * 46}), TextLayout(80))
    assert "\x1b" not in text
    assert all(len(each) <= 80 for each in text.splitlines())


def test_a_budget_of_a_name_that_spends_nothing_is_asked_about() -> None:
    """A name with a letter wrong would hold its budget for ever, and the sentence would say so."""
    said = first_sentence(at(46, {NLP: [5_000_000] * 46}, budget(10_000_000, "nip")))
    assert said.startswith("No spend on the budget of nip: is the name right?")
    assert first_sentence(at(46, {NLP: [5] * 46}, budget(10_000_000))).startswith("The one budget is on track. ")


def test_budgets_of_a_month_that_is_not_whole_hold_only_without_its_first_days() -> None:
    """What was spent before the ledger began is in no figure, so that nobody knows whether the month holds."""
    report = at(46, {NLP: [5] * 46}, budget(10_000_000))
    late = replace(report, known_since=report.period.start + DAY)
    assert "on track, without the days before the ledger begins" in first_sentence(late)


def test_who_may_be_over_is_told() -> None:
    """That all budgets are on track was said where the upper end of one is above it."""
    report = at(46, {NLP: [1_000_000_000] * 46}, budget(55_000_000_000))
    may = (replace(one, verdict="may be over", ending=MAY) if one.held else one for one in report.lines)
    report = replace(report, lines=tuple(may), fleet=replace(report.fleet, ending=MAY), over=())
    text = budgets_text(report, TextLayout(80))
    words = " ".join(text.split())
    assert "No budget is likely to be exceeded, but nlp may spend up to $57,000 of its $55,000." in words
    assert "50,000 ?" in text
    assert "? may be over its budget" in words


MAY = Ending(50_000_000_000, 48_000_000_000, 57_000_000_000, "as a week before")


def test_two_amounts_of_a_sentence_are_as_exact() -> None:
    """The one with cents and the other without reads as if somebody had counted the cents."""
    report = at(46, {NLP: [400_000_000] * 46}, budget(8_000_000_000))
    assert over_words(line(report, "nlp"), "USD").startswith("nlp will likely cost $11,992 of its $8,000 (")


def test_a_project_is_called_by_its_name_alone() -> None:
    """The block says what they are; "project foundat~" named none."""
    allowed = Budget(None, "foundation", 9, date(2026, 1, 1), None, "test")
    report = at(46, {("nlp", "foundation", True): [1_000_000] * 46}, allowed)
    assert "  foundation  " in budgets_text(report, TextLayout(80))


def test_a_check_without_any_budget_fails_and_says_how_to_write_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A job in cron that nobody ever gave a budget ended well each night."""
    path = tmp_path / "store.duckdb"
    with Store.open(path) as store, store.session() as session:
        example_week.fill(session)
    assert main(["bill", "budgets", "--check", "--store", str(path)]) == 2
    said = capsys.readouterr().err
    assert "no budget holds in 2026-11" in said
    assert "usd_per_month = 55_000" in said
    settings, book = tmp_path / "gpuledger.toml", tmp_path / "budgets.toml"
    settings.write_text('[analyzer]\ntimezone = "Europe/Berlin"\nbudgets = "budgets.toml"\n')
    for allowed, code in ((900_000, 0), (9, 1)):
        book.write_text(f'[[budget]]\nusd_per_month = {allowed}\nfrom = 2026-01-01\nsource = "plan"\n')
        assert main(["bill", "budgets", "--check", "--store", str(path)]) == code
    book.write_text('[[budget]]\nusd_per_month = 9\nfrom = 2027-01-01\nsource = "plan"\n')
    assert main(["bill", "budgets", "--check", "--store", str(path)]) == 2


def test_a_check_does_not_pass_a_budget_that_cannot_be_judged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No forecast, or no price: that nothing is exceeded is not known."""
    path, book = tmp_path / "store.duckdb", tmp_path / "budgets.toml"
    with Store.open(path) as store, store.session() as session:
        example_week.fill(session)
        session.execute("UPDATE ledger SET cost_micros = NULL")
    (tmp_path / "gpuledger.toml").write_text('[analyzer]\ntimezone = "Europe/Berlin"\nbudgets = "budgets.toml"\n')
    book.write_text('[[budget]]\nusd_per_month = 900_000\nfrom = 2026-01-01\nsource = "plan"\n')
    assert main(["bill", "budgets", "--check", "--store", str(path)]) == 2
    assert "not known to be within budget: the whole fleet;" in capsys.readouterr().err
