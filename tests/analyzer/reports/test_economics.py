"""The readings of money over time: each in every form, by command and by server alike, and their sums agree."""

import json

import pytest

from analyzer.errors import ConfigError, LedgerError
from analyzer.interfaces.questions.money_questions import MONEY_QUESTIONS
from analyzer.interfaces.questions.registry import answer
from analyzer.ledger.coverage import known_part
from analyzer.reports.month import month_of
from analyzer.reports.reader import Reader
from analyzer.reports.request import Format, Request
from analyzer.settings.settings import Settings
from collector.store.database import Store
from tests.analyzer.finops.unit_cost_written import HOUR, MONDAY, RATE, WEEK, Written

NOW = MONDAY + 5 * WEEK

MONEY = sorted(each.name for each in MONEY_QUESTIONS)


@pytest.fixture(scope="module")
def written() -> Written:
    """Return five weeks of a team that trains and serves, from 10 November 2025 on."""
    made = Written()
    made.know(MONDAY, NOW)
    made.run("slurm/a/1", "ranker-serve", "search", started_at=MONDAY, submitted_at=MONDAY, stage="serving", sku="H100")
    made.book("slurm/a/1", range(MONDAY, NOW, HOUR), lambda _: 4.0)
    made.say("service_samples", "slurm/a/1", range(MONDAY, NOW, HOUR), requests=lambda _: 1000)
    made.run("slurm/a/2", "debug", None, started_at=MONDAY, submitted_at=MONDAY, stage="interactive", sku="H100")
    made.book("slurm/a/2", range(MONDAY, NOW, HOUR), lambda _: 1.0, "held_idle")
    return made


@pytest.mark.parametrize("what", MONEY)
@pytest.mark.parametrize("form", ["text", "json", "html", "markdown"])
def test_each_is_told_in_every_form(written: Written, what: str, form: Format) -> None:
    """A reading that breaks in one form breaks a site's cron job, unseen."""
    with written.store.session() as session:
        text = answer(Reader(session, Settings()), Request(what, format=form))
    assert len(text) > 100
    if form == "json":
        assert json.loads(text)["schema"] == f"gpuledger/{what}"
    if form == "text":
        assert all(len(line) <= 80 for line in text.splitlines())


@pytest.mark.parametrize("what", MONEY)
def test_an_empty_ledger_says_what_to_do(what: str) -> None:
    """The first command of a new site must not be a stack trace."""
    with Store.open(None) as store, store.session() as session, pytest.raises(LedgerError, match="the ledger is empty"):
        answer(Reader(session, Settings()), Request(what))


def test_a_months_figures_are_one_figure(written: Written) -> None:
    """The bill of the table, the budgets' spent column and the units' cost are read from one ledger."""
    with written.store.session() as session:
        page = month_of(Reader(session, Settings()), "2025-11")
    hours = 21 * 24
    assert page.week.breakdown.cost_micros == hours * 5 * RATE
    assert page.budgets.fleet.spent_micros == page.week.breakdown.cost_micros
    assert sum(line.spent_micros or 0 for line in page.budgets.lines) == page.week.breakdown.cost_micros


def test_the_last_month_that_is_over_is_the_default(written: Written) -> None:
    """On the fourteenth people want to read of last month; who wants this one says so."""
    with written.store.session() as session:
        reader = Reader(session, Settings())
        assert month_of(reader, None).week.period.label == "2025-11"
        assert month_of(reader, "2025-12").week.period.label == "2025-12"
        with pytest.raises(ConfigError, match="is not a month"):
            month_of(reader, "2025-W47")


def test_a_period_that_runs_is_known_as_far_as_it_went(written: Written) -> None:
    """What was lost in two weeks of December, told as if it were five, would save less than it does."""
    with written.store.session() as session:
        reader = Reader(session, Settings())
        december = reader.period("2025-12")
        part = known_part(session, december)
    assert (part.start, part.end) == (december.start, NOW)
    assert part.label == december.label
