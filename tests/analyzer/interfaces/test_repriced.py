"""Figures of other prices than the file has now say so, and sums of what is priced in part are marked as such."""

from pathlib import Path

import pytest

from analyzer.interfaces.html import week_html
from analyzer.interfaces.mail.compose import compose
from analyzer.interfaces.mail.content import Footer
from analyzer.interfaces.mail.message import mail_text
from analyzer.interfaces.text.week_text import week_text
from analyzer.prices.price_book import Repriced, price_book, repriced, repriced_words
from analyzer.reports.reader import Reader
from analyzer.reports.run_list import most_expensive_runs
from analyzer.reports.week import WeekReport
from analyzer.settings.settings import Settings
from analyzer.text.layout import TextLayout
from analyzer.text.words import amount, at_least
from tests.analyzer.ledger.fleet import DAY, HOUR, MONDAY, Fleet, priced

LATER = MONDAY + 10 * DAY  # two days after the week, and it is closed


@pytest.fixture
def fleet() -> Fleet:
    """A day in which one team holds an H100 and an A100 of one run."""
    fleet = Fleet()
    fleet.own("n1", ["g1"], purchase_option="reserved")
    fleet.own("n2", ["g2"], sku="A100-80GB", purchase_option="owned")
    for node, gpu in (("n1", "g1"), ("n2", "g2")):
        fleet.sample(node, gpu, MONDAY, MONDAY + 4 * HOUR)
        fleet.hold("slurm/alpha/1", node, [gpu], MONDAY, MONDAY + 3 * HOUR)
    return fleet


def week(fleet: Fleet, settings: Settings) -> WeekReport:
    """Return the report of the day."""
    with fleet.store.session() as session:
        reader = Reader(session, settings)
        return reader.week(reader.period("2025-11-10"))


def told(report: WeekReport) -> list[str]:
    """Return the report as every reader gets it, blanks made one."""
    mail = mail_text(compose(report), Footer("Once a week.", "https://x.example/stop", "x@example.com"))
    return [" ".join(text.split()) for text in (week_text(report, TextLayout(160)), week_html(report), mail)]


def test_figures_of_other_prices_say_so_until_they_are_booked_anew(fleet: Fleet, tmp_path: Path) -> None:
    """Whoever mends a price reads the old figure, and must not take it for the new one."""
    settings = priced(tmp_path, H100_80GB=2.6, A100_80GB=1.1)
    fleet.analyze(settings=settings)
    before = price_book(settings).version
    assert week(fleet, settings).repriced is None
    priced(tmp_path, H100_80GB=3.0, A100_80GB=1.1)
    report, now = week(fleet, settings), price_book(settings).version
    assert report.repriced == Repriced(4, 0, (before,), now)
    sentence = f"rices changed after 4 hours were booked (price list {before}, now {now}): run gpuledger admin analyze"
    assert all(sentence in text for text in told(report))
    fleet.analyze(settings=settings)
    assert week(fleet, settings).repriced is None
    assert not any("changed after" in text for text in told(week(fleet, settings)))


def test_closed_hours_keep_their_figures_and_their_price_book(fleet: Fleet, tmp_path: Path) -> None:
    """A closed week stays: what it would cost now is a correction, and its head names the prices it was made of."""
    settings = priced(tmp_path, H100_80GB=2.6, A100_80GB=1.1)
    fleet.analyze(LATER, settings)
    before, cost = price_book(settings).version, week(fleet, settings).breakdown.cost_micros
    priced(tmp_path, H100_80GB=3.0, A100_80GB=1.1)
    (sentence,) = repriced_words(week(fleet, settings).repriced)
    assert sentence.endswith("run gpuledger admin analyze; closed hours keep their figures and get corrections")
    fleet.analyze(LATER, settings)
    after = week(fleet, settings)
    assert after.repriced is None
    assert (after.breakdown.cost_micros, after.hours.price_versions) == (cost, (before,))
    assert sum(one.cost_micros or 0 for one in after.corrections) == 4 * 400_000
    assert [one.milliseconds for one in after.corrections if one.cost_micros is None] == []


def test_of_a_week_that_closes_in_parts_both_are_said() -> None:
    """The days of a month lie in weeks that are closed, and in one that is open."""
    (sentence,) = repriced_words(Repriced(24, 168, ("aaa",), "bbb"))
    assert (
        "prices changed after 192 hours were booked (price list aaa, now bbb): run gpuledger admin analyze" in sentence
    )
    assert sentence.endswith("; 168 of them are closed, keep their figures and get corrections")
    (one,) = repriced_words(Repriced(1, 0, (), "bbb"))
    assert one == "prices changed after 1 hour was booked (no price, now bbb): run gpuledger admin analyze"


def test_where_no_price_file_is_named_nothing_is_compared(fleet: Fleet, tmp_path: Path) -> None:
    """A copy of a store is read where its price file is not: that is no change of prices."""
    fleet.analyze(settings=priced(tmp_path, H100_80GB=2.6))
    with fleet.store.session() as session:
        assert repriced(session, week(fleet, Settings()).period, Settings()) is None


def test_a_sum_of_what_is_priced_in_part_is_marked(fleet: Fleet, tmp_path: Path) -> None:
    """Half of the team's hours have no price: its amount is the least it can be, and reads so everywhere."""
    settings = priced(tmp_path, H100_80GB=2.6)
    fleet.analyze(settings=settings)
    report = week(fleet, settings)
    text, page, mail = told(report)
    assert "≥7.80" in text
    assert "≥ marks sums without them" in text
    assert page.count("≥7.80") >= 2  # of the team, and of its class
    assert "≥7.80" in mail
    held = next(row for row in report.teams if row.held)
    assert held.breakdown.is_part
    assert sum(one.unpriced_milliseconds for one in held.breakdown.entries) == 3 * 3_600_000
    with fleet.store.session() as session:
        runs = [run.breakdown for run in most_expensive_runs(session, report.period, 25)]
    assert [at_least(amount(went.cost_micros or 0), went.is_part) for went in runs] == ["≥7.80"]
    settings = priced(tmp_path, H100_80GB=2.6, A100_80GB=1.1)
    fleet.analyze(settings=settings)
    assert not any("≥" in text for text in told(week(fleet, settings)))
