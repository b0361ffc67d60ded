"""A period that still runs is told by one rule everywhere: what is known of it, and as much of what was before."""

import re
from dataclasses import replace

from analyzer.interfaces.mail.compose import compose
from analyzer.interfaces.mail.content import Footer
from analyzer.interfaces.mail.message import mail_text
from analyzer.interfaces.questions.registry import answer
from analyzer.interfaces.text.sentences import first_sentence
from analyzer.ledger.coverage import known_part, like_before
from analyzer.period import Calendar, Period
from analyzer.reports.reader import Reader
from analyzer.reports.request import Format, Request
from analyzer.settings.settings import Settings
from tests.analyzer.finops.unit_cost_written import HOUR, MONDAY, WEEK, Written
from tests.analyzer.small_site import END, T, analysed_site

UTC = Calendar("UTC")
RUNNING = UTC.week_of(MONDAY + WEEK)
PASSED = 40  # hours
PAPERS: tuple[tuple[str, Format], ...] = (
    ("week", "text"), ("week", "html"), ("week", "json"), ("recommend", "text"), ("recommend", "markdown"),
    ("recommend", "json"),
)  # fmt: skip
FOOTER = Footer("all@example.com gets this once a week, never more.", None, None)


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
        assert known_part(session, over) == over


def test_what_a_week_saves_does_not_depend_on_how_much_of_the_period_is_to_come() -> None:
    """What two hours lost is the same whether one asks for the two hours or for their month."""
    with analysed_site().store.session() as session:
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


def test_of_two_hours_no_paper_tells_what_a_week_would_save() -> None:
    """A fleet that has cost $16 so far saves no $600 a week: whoever sees that believes no other figure either."""
    with analysed_site().store.session() as session:
        reader = Reader(session, Settings())
        week = reader.week(UTC.week_of(T))
        asked = [Request(what, since="2025-11-10", format=form) for what, form in PAPERS]
        papers = [answer(reader, one) for one in asked]
        hour = answer(reader, Request("recommend", since="2025-11-10T00:00", until="2025-11-10T01:00"))
        papers += [mail_text(compose(week, oldest_price=None, site_url=None), FOOTER)]
    assert "estimated savings in the 1 h seen (median)" in hour
    assert max(map(len, hour.splitlines())) <= 80
    spans = {one.saves_over_seconds for one in week.recommendations}
    assert spans == {(END - T) // 1_000_000} == {7_200}
    for one in week.recommendations:
        assert one.saves_milliseconds.p95 <= week.breakdown.milliseconds
        assert one.saves_micros is None or one.saves_micros.p95 <= (week.breakdown.cost_micros or 0)
    for text in papers:
        assert "in the 2 h seen" in text or '"saves_over_seconds": 7200' in text
        assert not re.search(r"saves?[^.;|<]{0,30}(a|per) week", text), text
