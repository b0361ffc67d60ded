"""What nobody measured is told as that: in no headline, share or comparison is it nothing, zero or an improvement."""

from typing import Any

import pytest

from analyzer.config import Settings
from analyzer.mail.compose import compose
from analyzer.period import Calendar
from analyzer.reading import Reader
from analyzer.report.group_table import group_lines
from analyzer.report.moved import largest_move
from analyzer.report.readings import Breakdown, fold
from analyzer.report.sentences import first_sentence
from analyzer.report.week import WeekReport, week_report
from analyzer.request import Request
from tests.ledger.fleet import DAY, HOUR, MONDAY, Fleet

WEEK = Calendar().week_of(MONDAY)
H = 3_600_000


def silent_fleet() -> Fleet:
    """Return a site as an imported job history makes it: runs that held GPUs, and not one sample."""
    fleet = Fleet()
    for number in range(48):
        node = f"n{number:02}"
        fleet.own(node, [f"{node}g0"])
        fleet.hold(f"slurm/alpha/{number}", node, [f"{node}g0"], MONDAY, MONDAY + 6 * HOUR, name="train", account="nlp")
    fleet.analyze(now=MONDAY + DAY)
    return fleet


@pytest.fixture(scope="module")
def silent() -> Fleet:
    """That site, analysed."""
    return silent_fleet()


def week_of(fleet: Fleet) -> WeekReport:
    """Return its week, without what is recommended."""
    with fleet.store.session() as session:
        found = Reader(session, Settings()).findings(WEEK)
        return week_report(session, WEEK, Calendar(), "USD", found, ())


def test_a_week_of_which_nothing_was_measured_is_not_well(silent: Fleet) -> None:
    """Nothing was looked at: nothing avoidable was found is what a director would read as all well."""
    told = first_sentence(week_of(silent))
    assert "Nothing avoidable" not in told
    assert told.startswith("Nothing was measured")
    content = compose(week_of(silent))
    assert not content.is_all_clear
    assert "useful 0" not in content.subject
    assert "nothing measured" in content.subject


def test_a_team_of_which_nothing_was_measured_has_no_share(silent: Fleet) -> None:
    """0.0 % useful is an accusation, and 0 avoidable a praise: neither is known."""
    report = week_of(silent)
    rows = [line for line in group_lines(report, report.by_team) if line.level == "row"]
    assert {(line.useful, line.avoidable) for line in rows if line.hours != "0"} == {("-", "-")}


def test_a_part_that_was_measured_is_told_as_that() -> None:
    """Of the ninth that somebody measured nothing is avoidable; of the rest nobody knows."""
    fleet = Fleet()
    fleet.own("n1", ["G0"])
    fleet.own("n2", ["G1"])
    fleet.hold("slurm/alpha/1", "n1", ["G0"], MONDAY, MONDAY + HOUR)
    fleet.hold("slurm/alpha/2", "n2", ["G1"], MONDAY, MONDAY + 8 * HOUR)
    fleet.sample("n1", "G0", MONDAY, MONDAY + HOUR)
    fleet.analyze(now=MONDAY + DAY)
    told = first_sentence(week_of(fleet))
    assert "of held GPU-hours that were measured" in told, told
    assert "Nothing avoidable was found in the 11.1" in told, told


def told_as(**milliseconds: int) -> Breakdown:
    """Return a breakdown of these states."""
    causes = {"starved": "storage", "unobserved": "gap", "productive": "compute"}
    return Breakdown(fold((state, causes[state], ms, None) for state, ms in milliseconds.items()))


def test_what_was_not_measured_has_not_fallen() -> None:
    """After the change the agent was down: waiting for input is not known, and a fall of it is a success for nobody."""
    before, after = told_as(starved=20 * H, productive=80 * H), told_as(unobserved=100 * H)
    told = largest_move(before, after)
    assert "fell" not in told
    assert told == "Nothing was measured after: where the time went cannot be compared."
    half = largest_move(before, told_as(starved=10 * H, productive=40 * H, unobserved=50 * H))
    assert "stayed" in half, "a fifth of what was measured, then as now"
    assert "was not" in half
    assert "50.0" in half
    assert largest_move(before, told_as(starved=10 * H, productive=90 * H)).endswith("to 10.0\u00a0%.")


def test_a_headline_over_a_gap_says_how_large_it_is() -> None:
    """A tenth avoidable reads otherwise where half of the week was not looked at."""
    fleet = Fleet()
    for number, node in enumerate(("n1", "n2")):
        fleet.own(node, [f"G{number}"])
        fleet.hold(f"slurm/alpha/{number}", node, [f"G{number}"], MONDAY, MONDAY + 8 * HOUR)
    fleet.sample("n1", "G0", MONDAY, MONDAY + 4 * HOUR)
    idle: dict[str, Any] = {"utilization_ratio": 0.0, "utilization_zero_ratio": 1.0, "sm_active_ratio": 0.0}
    fleet.sample("n1", "G0", MONDAY + 4 * HOUR, MONDAY + 8 * HOUR, **idle)
    fleet.analyze(now=MONDAY + DAY)
    told = first_sentence(week_of(fleet))
    assert "avoidable" in told
    assert "50.0\u00a0% of held GPU-hours was not measured" in told, told


def test_a_busy_gpu_that_nobody_held_is_not_spare_without_a_word() -> None:
    """Samples without allocations: it is booked as free, and worked. Nobody may hand it back as spare."""
    fleet = Fleet()
    for number, busy in enumerate((0.83, 0.0)):
        fleet.own(f"n{number}", [f"G{number}"])
        busy_at: dict[str, Any] = {
            "utilization_ratio": busy,
            "utilization_zero_ratio": 1 - busy,
            "sm_active_ratio": busy,
        }
        fleet.sample(f"n{number}", f"G{number}", MONDAY, MONDAY + 8 * HOUR, **busy_at)
    fleet.analyze(now=MONDAY + DAY)
    told = first_sentence(week_of(fleet))
    assert "50.0\u00a0% of what counts as unallocated was at work (83\u00a0% busy), and nobody told who held it" in told
    with fleet.store.session() as session:
        session.execute("UPDATE activity_amounts SET active_permille_ms = 0")
    assert "at work" not in first_sentence(week_of(fleet))


def test_shorter_runs_are_compared_and_not_called_cheaper_work() -> None:
    """Two runs that say nothing of their work: the second took half the time, and may have done half of it."""
    fleet = Fleet()
    fleet.own("n1", ["G0"])
    for number, hours in enumerate((4, 2)):
        begin = MONDAY + number * 6 * HOUR
        fleet.hold(f"slurm/alpha/{number}", "n1", ["G0"], begin, begin + hours * HOUR, exit_status="completed")
        fleet.sample("n1", "G0", begin, begin + hours * HOUR)
    fleet.analyze(now=MONDAY + DAY)
    with fleet.store.session() as session:
        told = " ".join(Reader(session, Settings()).answer(Request("compare", "0", other="1")).split())
    assert "A completed run takes GPU time: 50.0 % less than before." in told
    assert "How much work either did is not known: it may be less work." in told
