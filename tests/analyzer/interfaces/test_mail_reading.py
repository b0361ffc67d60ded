"""What a mail reads beside the report: the weeks before, and what was learned of weeks that had closed."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from analyzer.finops.anomalies import anomalies
from analyzer.finops.unit_cost.report import unit_report
from analyzer.interfaces.mail.compose import compose
from analyzer.interfaces.mail.sections import CLOSES_AFTER_US, Corrections, Joined
from analyzer.interfaces.mail.team_week import Usual, of_team, team_facts
from analyzer.period import Calendar, Period
from analyzer.reports.reader import Reader
from analyzer.reports.week import week_report
from analyzer.settings.settings import Settings
from analyzer.text.words import money
from collector.store.session import Session
from tests.analyzer.finops.unit_cost_written import HOUR, MONDAY, RATE, WEEK, Written

UTC = Calendar()
MS = 3_600_000


def week(number: int) -> Period:
    """Return the week so many after the first."""
    return UTC.week_of(MONDAY + number * WEEK)


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    """Five weeks of two teams: nlp grows by a GPU a week, vision idles one GPU throughout; corrections of two weeks."""
    made = Written()
    made.know(MONDAY, MONDAY + 5 * WEEK)
    made.run("slurm/a/1", "train", "nlp")
    made.run("slurm/a/2", "notebook", "vision")
    hours = range(MONDAY, week(4).end, HOUR)
    made.book("slurm/a/1", hours, lambda hour: 1 + (hour - MONDAY) // WEEK)
    made.book("slurm/a/2", hours, lambda _: 1, "held_idle")
    learned = week(4).start + CLOSES_AFTER_US
    columns = ["recorded_at", "hour", "gpu_uuid", "node", "run_id", "state", "cause", "shared", "milliseconds"]
    columns += ["cost_micros", "reason", "rules_version"]
    rows = [
        [
            at,
            week(number).start,
            "g",
            "n",
            f"slurm/a/{run}",
            state,
            cause,
            False,
            sign * 16 * MS,
            sign * 16 * RATE,
            "",
            "",
        ]
        for number, at, run in ((3, learned, 1), (2, learned - 1, 1), (4, learned + 9 * WEEK, 2))
        for state, cause, sign in (("productive", "compute", -1), ("lost_work", "failed", 1))
    ]
    with made.store.session() as opened:
        opened.load("adjustments", columns, rows)
        yield opened


def test_the_median_is_of_the_four_weeks_before(session: Session) -> None:
    """Of 1, 2, 3 and 4 GPUs it is two and a half; the week that is told is not among them."""
    usual = Usual.read(session, UTC, week(4))
    nlp, fleet, nobody = usual.of("nlp"), usual.of(None), usual.of("search")
    assert nlp is not None
    assert fleet is not None
    assert nobody is not None
    assert (nlp.milliseconds, nlp.micros, nlp.avoidable_micros) == (420 * MS, 420 * RATE, 0)
    assert (fleet.milliseconds, fleet.avoidable_micros, fleet.is_priced) == (588 * MS, 168 * RATE, True)
    assert nobody.micros == 0


def test_a_young_ledger_has_no_median(session: Session) -> None:
    """Of three weeks it would be another figure by the same name."""
    assert Usual.read(session, UTC, week(3)).of(None) is None


def test_a_trial_of_another_period_has_neither(session: Session) -> None:
    """Four times seven days up to Wednesday are no four weeks."""
    days = UTC.parse("7d", week(4).end)
    assert Usual.read(session, UTC, days).of(None) is None
    assert Corrections.read(session, UTC, days, "USD").lines(None) == ()


def test_the_figures_stand_against_the_week_before_and_the_median(session: Session) -> None:
    """One bad week before makes any week look well."""
    report = week_report(session, week(4), UTC, "USD", [], [])
    usual = Usual.read(session, UTC, week(4)).of(None)
    owned, avoidable, _ = compose(report, usual=usual).figures
    assert (owned.value, owned.change, owned.usual) == ("$2,016.00", "up $336.00", "4-week median $1,176.00")
    assert (avoidable.change, avoidable.usual) == ("unchanged", "4-week median $336.00")
    entries = tuple(replace(one, cost_micros=None) for one in report.breakdown.entries)
    bare = replace(report, breakdown=replace(report.breakdown, entries=entries), previous=None, teams=())
    assert compose(bare, usual=usual).figures[0].usual == "", "hours are not laid beside money"


def test_a_correction_is_told_in_one_mail(session: Session) -> None:
    """What was learned before the last mail was in that one; what is learned later will be in the next."""
    assert Corrections.read(session, UTC, week(4), "USD").lines(None) == (
        "2025-W49: productive -16.0 GPU-hours, -$32.00; lost work +16.0 GPU-hours, +$32.00; the total is unchanged at "
        f"{money(_cost(session, week(3)), 'USD')}.",
    )
    (before,) = Corrections.read(session, UTC, week(3), "USD").lines(None)
    assert before.startswith("2025-W48: ")


def _cost(session: Session, period: Period) -> int | None:
    """Return what the report of a week says that it cost."""
    return week_report(session, period, UTC, "USD", [], []).breakdown.cost_micros


def test_a_total_that_moves_stands_beside_the_one_that_was_told() -> None:
    """A closed week keeps its figure; who adds the lines up finds what it would be now."""
    rows = (("2025-W29", "nlp", ("productive", "compute", 0, 5_000_000)),)
    read = Corrections("USD", rows, {("2025-W29", "nlp"): 7_000_000, ("2025-W29", None): 3_000_000})
    assert read.lines(None)[0].endswith("; in total 0.0 GPU-hours, +$5.00, on a total of $10.00.")
    assert read.lines("nlp")[0].endswith("on a total of $7.00.")
    unpriced = replace(read, totals={("2025-W29", "nlp"): 7_000_000, ("2025-W29", None): None})
    assert unpriced.lines(None)[0].endswith("; in total 0.0 GPU-hours, +$5.00.")


def test_a_team_reads_the_corrections_of_its_own_time(session: Session) -> None:
    """They were told of the fleet alone, and a team's closed week changed without a word to it."""
    read = Corrections.read(session, UTC, week(4), "USD")
    (own,), fleet = read.lines("nlp"), read.lines(None)
    assert own.partition(" unchanged at ")[0] == fleet[0].partition(" unchanged at ")[0]
    assert own != fleet[0], "each has the total that it was told"
    assert read.lines("vision") == ()
    report = week_report(session, week(4), UTC, "USD", [], [])
    facts = team_facts(session, week(3), week(4))
    assert of_team(report, "nlp", facts).corrections == ()
    assert [entry.label for entry in of_team(report, "vision", facts).corrections] == ["productive", "lost work"]


def test_both_kinds_of_corrections_are_one_section(session: Session) -> None:
    """Those of this week since it closed, and those of weeks before."""
    report = week_report(session, week(4), UTC, "USD", [], [])
    facts = team_facts(session, week(3), week(4))
    joined = Joined(
        None,
        anomalies(session, week(4), "USD"),
        unit_report(session, week(4), UTC, "USD"),
        corrections=Corrections.read(session, UTC, week(4), "USD"),
    )
    content = compose(of_team(report, "vision", facts), team="vision", extras=joined.extras("nlp"))
    (section,) = [one for one in content.sections if one.title == "corrections"]
    assert [one.split(":")[0] for one in section.paragraphs] == [
        "Since 2025-W50 closed, and not in the figures above",
        "2025-W49",
    ]


def test_a_month_that_the_ledger_has_not_from_its_start_says_so(session: Session) -> None:
    """Five days told as "month to date" without a word are somebody's whole bill."""
    reader = Reader(session, Settings())
    assert Joined.read(reader, week(1)).extras(None).of_months[-1:] == (
        "The ledger begins Mon 10 Nov: earlier days of this month are not in it.",
    )
    (later,) = Joined.read(reader, week(4)).extras(None).of_months
    assert later.startswith("2025-")
    assert "Month-end: " in later  # by which method, and what its interval needs


def test_many_corrected_weeks_are_few_lines() -> None:
    """A new price for last year moves every week of it."""
    rows = tuple((f"2025-W{n:02d}", None, ("productive", "compute", 0, 5_000_000)) for n in range(10, 30))
    lines = Corrections("USD", rows).lines(None)
    assert lines[0] == "2025-W29: productive 0.0 GPU-hours, +$5.00; in total 0.0 GPU-hours, +$5.00."
    assert lines[-1] == "and earlier weeks: gpuledger report 2025-W23"
