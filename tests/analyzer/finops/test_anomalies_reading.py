"""Anomalies of a ledger: the team, the hours, and the runs that made the difference."""

from dataclasses import replace

from analyzer.finops.anomalies import Anomalies, anomalies, anomalies_text
from analyzer.finops.unit_cost.report import UnitReport, unit_report
from analyzer.period import Calendar
from analyzer.text.layout import TextLayout
from tests.analyzer.finops.unit_cost_written import HOUR, MONDAY, RATE, WEEK, Written

UTC = Calendar("UTC")
THIS = UTC.week_of(MONDAY + 4 * WEEK)
TUESDAY = THIS.start + 38 * HOUR


def fleet(extra_gpus: float = 0.0, weeks: int = 5, state: str = "productive") -> Written:
    """Return weeks of a team on ten GPUs; in the last, six hours of Tuesday have more."""
    written = Written()
    start = THIS.end - weeks * WEEK
    written.know(start, THIS.end)
    written.run("slurm/a/1", "steady", "nlp")
    written.run("slurm/a/2", "forgotten", "nlp")
    written.book("slurm/a/1", range(start, THIS.end, HOUR), lambda hour: 10.0 + hour // HOUR % 3)
    if extra_gpus:
        written.book("slurm/a/2", range(TUESDAY, TUESDAY + 6 * HOUR, HOUR), lambda _: extra_gpus, state)
    return written


def read(written: Written) -> tuple[Anomalies, str]:
    """Read the last week, and write it."""
    with written.store.session() as session:
        found = anomalies(session, THIS, "USD")
        return found, anomalies_text(found, unit_report(session, THIS, UTC, "USD"), TextLayout(80))


def test_the_run_that_made_the_difference_is_named() -> None:
    """ "nlp cost more on Tuesday" helps nobody; which of its runs did is the answer."""
    found, text = read(fleet(extra_gpus=40.0))
    (one,) = found.found
    assert (one.team, one.what, one.odd.start, one.odd.end) == ("nlp", "cost", TUESDAY, TUESDAY + 6 * HOUR)
    assert one.odd.impact == 6 * 40 * RATE
    assert [(each.name, each.actual, each.expected) for each in one.by_name] == [("forgotten", 6 * 40 * RATE, 0)]
    assert "nlp cost $480 more than usual, Tue 9 Dec 14:00 - 20:00" in text
    assert "forgotten +$480" in text


def test_what_was_avoidable_is_looked_at_apart() -> None:
    """The same GPUs may cost the same and do nothing."""
    found, text = read(fleet(extra_gpus=40.0, state="held_idle"))
    assert [one.what for one in found.found] == ["avoidable cost", "cost"]
    assert "had avoidable cost of $480, where there is usually none, Tue 9 Dec" in " ".join(text.split())


def test_what_is_not_listed_is_counted() -> None:
    """Of twelve that were found ten were listed, and the other two nowhere."""
    found, _ = read(fleet(extra_gpus=40.0))
    units = UnitReport(found.period, "USD", (), (), ())
    many = replace(found, found=found.found * 7, more=3)
    assert f"and {7 * len(found.found) + 3 - 4} smaller ones" in anomalies_text(many, units, TextLayout(80), top=4)
    assert "smaller" not in anomalies_text(found, units, TextLayout(80))


def test_a_usual_week_says_so() -> None:
    """A section that always finds something is read twice."""
    found, text = read(fleet())
    assert found.found == ()
    assert "No anomalies." in text


def test_a_young_ledger_says_what_it_needs() -> None:
    """Nothing odd, because nothing could be: that is another sentence."""
    found, text = read(fleet(extra_gpus=40.0, weeks=2))
    assert found.found == ()
    assert found.weeks_missing == 2
    assert "Insufficient data to find anomalies." in text
    assert "2 more weeks" in text
