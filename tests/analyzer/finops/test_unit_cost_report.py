"""Unit economics: the price of a unit is all that its runs cost over all that they did, and a change has its reason."""

import pytest

from analyzer.finops.unit_cost.report import UnitReport, unit_report
from analyzer.finops.unit_cost.text import digits, short, units_text
from analyzer.finops.unit_cost.units import REQUESTS
from analyzer.period import Calendar
from analyzer.text.layout import TextLayout
from tests.analyzer.finops.unit_cost_written import HOUR, MONDAY, RATE, WEEK, Written
from tests.analyzer.ledger.amounts import book

UTC = Calendar("UTC")
THIS = UTC.week_of(MONDAY + 4 * WEEK)
ALL = range(MONDAY, MONDAY + 5 * WEEK, HOUR)
TUESDAY = THIS.start + 38 * HOUR


def ranker(tokens_from_tuesday: float = 1.0, requests_from_tuesday: float = 1.0, speaks: bool = True) -> Written:
    """Return five weeks of a service on four GPUs that may change on Tuesday, 14:00 of the last."""
    written = Written()
    written.know(MONDAY, MONDAY + 5 * WEEK)
    written.run("slurm/a/1", "ranker-serve", "search")
    written.book("slurm/a/1", ALL, lambda _: 4.0)

    def requests(hour: int) -> int:
        day = 1 + hour // HOUR % 24 // 8
        return round(10_000 * day * (requests_from_tuesday if hour >= TUESDAY else 1.0))

    def tokens(hour: int) -> int:
        return round(requests(hour) * 100 * (tokens_from_tuesday if hour >= TUESDAY else 1.0))

    if speaks:
        written.say("service_samples", "slurm/a/1", ALL, requests=requests, tokens_out=tokens)
    return written


def read(written: Written) -> UnitReport:
    """Read the last week."""
    with written.store.session() as session:
        return unit_report(session, THIS, UTC, "USD")


def test_a_unit_costs_all_that_was_spent_over_all_that_was_done() -> None:
    """168 hours of four GPUs over a week's requests: a figure anybody can check with the report of the week."""
    line = next(each for each in read(ranker()).units if each.unit is REQUESTS)
    assert line.micros == 168 * 4 * RATE
    assert line.units == 7 * 8 * 10_000 * (1 + 2 + 3)
    assert line.ratio == pytest.approx(1.0)
    assert line.change is None


def test_dearer_requests_are_told_with_what_moved() -> None:
    """Half the requests on the same GPUs: the price doubled because traffic left, not because anything broke."""
    report = read(ranker(requests_from_tuesday=0.5))
    line, change = next(pair for pair in report.changes if pair[0].unit is REQUESTS)
    assert change.at == TUESDAY
    assert change.ratio == pytest.approx(2.0, rel=0.01)
    assert change.after == pytest.approx(2 * change.before, rel=0.01)
    moved = {one.factor: one.ratio for one in change.factors}
    assert moved["units"] == pytest.approx(0.5, rel=0.01)
    assert moved["GPUs"] == pytest.approx(1.0)
    assert moved["tokens a request"] == pytest.approx(1.0)
    text = units_text(report, TextLayout(80))
    assert "since Tue 9 Dec 14:00" in text
    assert "Requests per hour fell to 0.50x; GPUs, price and tokens per request did not change." in " ".join(
        text.split()
    )
    assert text.count("more per week") == 1, "requests and tokens became dearer at once: one loss, told once"
    assert line.ratio is not None
    assert line.ratio > 1.4


def test_what_a_change_costs_a_week_is_the_difference_at_the_traffic_of_after() -> None:
    """Four GPUs now do what two did: two GPUs' week is what is lost."""
    report = read(ranker(requests_from_tuesday=0.5))
    _, change = next(pair for pair in report.changes if pair[0].unit is REQUESTS)
    assert change.a_week == pytest.approx(2 * 168 * RATE, rel=0.05)


def test_who_says_nothing_has_no_unit_and_is_told_how_to_have_one() -> None:
    """A price per request of a service that counts none would be made up."""
    report = read(ranker(speaks=False))
    assert report.units == ()
    assert "docs/progress.md" in units_text(report, TextLayout(80))


def test_two_hosts_that_count_at_once_count_nothing() -> None:
    """Nobody knows whether their counts are of one and the same steps."""
    written = Written()
    written.know(MONDAY, MONDAY + 5 * WEEK)
    written.run("slurm/a/2", "sft", "nlp")
    written.book("slurm/a/2", ALL, lambda _: 8.0)
    written.say("progress", "slurm/a/2", ALL, tokens=lambda _: 10**9)
    assert [line.units for line in read(written).units] == [168 * 10**9]
    with written.store.session() as session:
        session.load(
            "progress",
            ["node", "started_at", "ended_at", "run_id", "tokens", "batch"],
            [["other", THIS.start, THIS.start + HOUR, "slurm/a/2", 10**9, 1]],
        )
    book(written.store)
    assert read(written).units == ()


def test_whole_runs_are_compared_with_those_of_the_weeks_before() -> None:
    """The middle run of this week against the middle one of four: one odd run moves neither."""
    written = Written()
    written.know(MONDAY, MONDAY + 5 * WEEK)
    for number in range(12):
        start = MONDAY + 3 * WEEK + number * 20 * HOUR
        run = f"slurm/a/{number}"
        done = {"started_at": start, "ended_at": start + 4 * HOUR, "exit_status": "completed", "submitted_at": start}
        written.run(run, "eval", "nlp", **done)
        written.book(run, range(start, start + 4 * HOUR, HOUR), lambda hour: 2.0 if hour < THIS.start else 3.0)
    (line,) = read(written).runs
    assert (line.runs, line.runs_before) == (3, 9)
    assert (line.micros, line.micros_before) == (12 * RATE, 8 * RATE)


@pytest.mark.parametrize(
    ("value", "text"), [(0.00373, "0.00373"), (0.5490, "0.549"), (733.9, "734"), (12_345.6, "12,346"), (0, "0")]
)
def test_prices_have_three_digits_that_count(value: float, text: str) -> None:
    """A request costs a thousandth of a cent, a billion tokens hundreds of dollars."""
    assert digits(value) == text


@pytest.mark.parametrize(("count", "text"), [(5, "5"), (2_989, "2.99 k"), (792_426_592, "792 M"), (4 * 10**9, "4 bn")])
def test_counts_are_short(count: int, text: str) -> None:
    """A column of nine digits is read by nobody."""
    assert short(count) == text


def test_what_embeds_costs_by_the_tokens_that_it_reads() -> None:
    """It answers with none: 300 a request, so that a million of them cost what 1,000 requests do over 0.3."""
    written = Written()
    written.know(MONDAY, MONDAY + 5 * WEEK)
    written.run("slurm/a/1", "embed-serve", "search")
    written.book("slurm/a/1", ALL, lambda _: 1.0)
    told = {"requests": lambda _: 10_000, "tokens_in": lambda _: 3_000_000, "tokens_out": lambda _: 0}
    written.say("service_samples", "slurm/a/1", ALL, **told)
    by_noun = {line.unit.noun: line for line in read(written).units}
    assert set(by_noun) == {"requests", "prompt tokens"}
    prices = {noun: (line.micros or 0) * line.unit.per / line.units for noun, line in by_noun.items()}
    assert prices["prompt tokens"] == pytest.approx(prices["requests"] / 0.3)
    text = units_text(read(written), TextLayout(80))
    assert "1M prompt tokens" in text
