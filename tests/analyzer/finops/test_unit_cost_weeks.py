"""The trend of a unit's price, week by week, beside the one difference."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from analyzer.finops.unit_cost.report import unit_report
from analyzer.finops.unit_cost.text import trend, units_text
from analyzer.finops.unit_cost.units import REQUESTS, Week, prices, weeks_between
from analyzer.period import Calendar
from analyzer.text.layout import TextLayout
from tests.analyzer.finops.test_unit_cost_report import ALL, ranker, read
from tests.analyzer.finops.unit_cost_written import HOUR, MONDAY, RATE, WEEK, Written

BERLIN = Calendar("Europe/Berlin")


def test_the_weeks_of_a_line_sum_to_what_it_is_made_of() -> None:
    """The last week is the report's own: two figures for it would be one too many."""
    line = next(each for each in read(ranker(requests_from_tuesday=0.5)).units if each.unit is REQUESTS)
    assert [week.label for week in line.weeks] == ["2025-W46", "2025-W47", "2025-W48", "2025-W49", "2025-W50"]
    last = line.weeks[-1]
    assert (last.units, last.milliseconds, last.micros) == (line.units, line.milliseconds, line.micros)
    before = line.weeks[-2]
    assert (before.units, before.micros) == (line.units_before, line.micros_before)


def test_a_dearer_week_stands_out_on_paper() -> None:
    """Four alike and one near twice as dear; in a pipe with other characters, and no other columns."""
    report = read(ranker(requests_from_tuesday=0.5))
    text, piped = units_text(report, TextLayout(80)), units_text(report, TextLayout(80, ascii=True))
    assert "▅▅▅▅█" in text
    assert "====#" in piped
    assert piped.isascii()
    assert max(len(line) for line in text.split("\n")) <= 80
    assert "trend" in text
    assert "ranke" in units_text(report, TextLayout(64)), "narrow paper leaves some letters to each name"


def test_one_week_has_no_trend() -> None:
    """The column is left out where nobody has anything in it."""
    written = Written()
    written.know(MONDAY + 4 * WEEK, MONDAY + 5 * WEEK)
    written.run("slurm/a/1", "serve", "search")
    hours = range(MONDAY + 4 * WEEK, MONDAY + 5 * WEEK, HOUR)
    written.book("slurm/a/1", hours, lambda _: 1.0)
    written.say("service_samples", "slurm/a/1", hours, requests=lambda _: 1000)
    assert "trend" not in units_text(read(written), TextLayout(80))


def test_a_week_that_was_not_told_is_a_gap_and_no_0() -> None:
    """A service that counted nothing for a week did not work for nothing then."""
    written = ranker(speaks=False)
    told = [hour for hour in ALL if not MONDAY + 2 * WEEK <= hour < MONDAY + 3 * WEEK]
    written.say("service_samples", "slurm/a/1", told, requests=lambda _: 1000)
    line = next(each for each in read(written).units if each.unit is REQUESTS)
    assert [week.units for week in line.weeks] == [168_000, 168_000, None, 168_000, 168_000]
    assert line.weeks[2].micros == 168 * 4 * RATE
    assert trend(line, TextLayout(80)) == "██ ██"


def test_a_name_has_no_weeks_before_it_ran() -> None:
    """A service that is a fortnight old did not cost nothing before."""
    written = Written()
    written.know(MONDAY, MONDAY + 5 * WEEK)
    written.run("slurm/a/1", "serve", "search")
    hours = range(MONDAY + 3 * WEEK, MONDAY + 5 * WEEK, HOUR)
    written.book("slurm/a/1", hours, lambda _: 1.0)
    written.say("service_samples", "slurm/a/1", hours, requests=lambda _: 1000)
    (line,) = read(written).units
    assert [week.label for week in line.weeks] == ["2025-W49", "2025-W50"]


def test_the_clock_takes_no_week_away() -> None:
    """The week after the one in which summer time ends has four before it, like any other."""
    week = BERLIN.week(2025, 44)
    assert len(weeks_between(week.start - 4 * WEEK, week.end, BERLIN)) == 5


def test_a_week_that_runs_is_told_as_far_as_it_went() -> None:
    """Its price is comparable: cost and work are of the same hours."""
    written = ranker()
    utc = Calendar("UTC")
    with written.store.session() as session:
        report = unit_report(session, utc.month(2025, 12), utc, "USD")
    line = next(each for each in report.units if each.unit is REQUESTS)
    assert line.weeks[-1].label == "2025-W50"
    known = [price for price in prices(line.weeks) if price is not None]
    assert max(known) / min(known) < 1.02


@given(st.integers(0, 400), st.integers(1, 800))
def test_weeks_abut_and_begin_within_the_span(start: int, length: int) -> None:
    """Whatever the site's clock does: no hour is of two weeks, none between them is of none."""
    begin, end = MONDAY + start * HOUR, MONDAY + (start + length) * HOUR
    weeks = weeks_between(begin, end, BERLIN)
    assert all(week.start >= begin - HOUR for week in weeks)
    assert all(one.end == other.start for one, other in pairwise(weeks))
    assert not weeks or weeks[-1].start < end <= weeks[-1].end


def test_prices_are_money_only_where_all_weeks_have_it() -> None:
    """Dollars beside GPU-hours on one line would rise and fall for nothing."""
    weeks = [Week("a", 0, 1, 10, 100, 5), Week("b", 1, 2, 10, 200, None)]
    assert prices(weeks) == [10.0, 20.0]
    assert prices(weeks[:1]) == [0.5]
