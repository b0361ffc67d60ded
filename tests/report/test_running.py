"""A period that still runs is told by one rule everywhere: what is known of it, and as much of what was before."""

from dataclasses import replace

from analyzer.config import Settings
from analyzer.period import Calendar, Period
from analyzer.reading import Reader
from analyzer.report.running import known, like_before
from analyzer.report.sentences import first_sentence
from tests.analyzer.small_site import END, T, small_site
from tests.ledger.fleet import DAY
from tests.unit_cost.written import HOUR, MONDAY, WEEK, Written

UTC = Calendar("UTC")
RUNNING = UTC.week_of(MONDAY + WEEK)
PASSED = 40  # hours


def running() -> Written:
    """Return a week that is over, one GPU idle in it, and 40 hours of the next, with two."""
    written = Written()
    written.know(MONDAY, MONDAY + WEEK + PASSED * HOUR)
    written.run("slurm/a/1", "notebook", "nlp")
    written.book("slurm/a/1", range(MONDAY, MONDAY + WEEK, HOUR), lambda _: 1.0, "held_idle")
    here = range(MONDAY + WEEK, MONDAY + WEEK + PASSED * HOUR, HOUR)
    written.book("slurm/a/1", here, lambda _: 2.0, "held_idle")
    return written


def test_it_is_compared_with_as_many_hours_of_the_period_before() -> None:
    """Forty hours against a hundred and sixty-eight would look like the best week ever, every Tuesday."""
    with running().store.session() as session:
        before = like_before(session, RUNNING, UTC)
        report = Reader(session, Settings()).week(RUNNING)
    assert (before.start, before.end, before.label) == (MONDAY, MONDAY + PASSED * HOUR, "2025-W46")
    assert report.previous is not None
    assert report.previous.milliseconds * 2 == report.breakdown.milliseconds
    assert "$80.00 more than by this hour of the week before" in first_sentence(report)
    assert (report.period.start, report.period.end) == (RUNNING.start, RUNNING.end)


def test_a_period_that_is_over_is_compared_with_all_of_the_one_before() -> None:
    """A month has 30 days or 31: what is over is compared whole."""
    with running().store.session() as session:
        over = UTC.week_of(MONDAY)
        assert like_before(session, over, UTC) == UTC.before(over)
        assert known(session, over) == over


def test_what_a_week_saves_does_not_depend_on_how_much_of_the_period_is_to_come() -> None:
    """What two hours lost, told as a week's, is the same whether one asks for the two hours or for their month."""
    fleet = small_site()
    fleet.analyze(now=T + DAY)
    with fleet.store.session() as session:
        told = []
        for period in (Period(T, END, "two hours", "UTC"), UTC.week_of(T), UTC.month_of(T)):
            reader = Reader(session, Settings())
            found = reader.all_advice(reader.findings(period), period)
            told.append({one.id: (one.saves_milliseconds, one.saves_micros) for one in found})
            listed = reader.week(replace(period)).recommendations
            assert {one.id: one.saves_milliseconds for one in listed}.items() <= {
                key: saves for key, (saves, _) in told[-1].items()
            }.items()
    assert told[0]
    assert told[0] == told[1] == told[2]
