"""What ends somebody's work stands on that run's own clock, names what may be lost, and is a question to its owner."""

from analyzer.config import Settings
from analyzer.mail.compose import compose
from analyzer.period import Calendar, Period
from analyzer.placement.recommendation import Recommendation
from analyzer.reading import Reader
from analyzer.report.recommendation_words import FREE, cost_short
from analyzer.report.sentences import first_sentence
from analyzer.report.week import WeekReport, week_report
from tests.analyzer.small_site import IDLE
from tests.ledger.fleet import DAY, HOUR, MINUTE, MONDAY, Fleet

WEEK = Calendar().week_of(MONDAY)
RUN = "slurm/alpha/1"


def site(*, works_again: bool) -> Fleet:
    """Return a site on which a run that still holds two GPUs idled for eight hours, and perhaps works again."""
    fleet = Fleet()
    gpus = ["G0", "G1"]
    fleet.own("n1", gpus)
    fleet.hold(RUN, "n1", gpus, MONDAY, name="debug-asr")
    for gpu in gpus:
        fleet.sample("n1", gpu, MONDAY, MONDAY + 16 * HOUR, every=5 * MINUTE)
        fleet.sample("n1", gpu, MONDAY + 16 * HOUR, MONDAY + DAY, every=5 * MINUTE, memory_used_bytes=10**10, **IDLE)
        if works_again:
            fleet.sample("n1", gpu, MONDAY + DAY, MONDAY + DAY + 2 * HOUR, every=5 * MINUTE)
    fleet.analyze(now=MONDAY + 2 * DAY)
    return fleet


def advised(fleet: Fleet, period: Period = WEEK) -> tuple[list[Recommendation], WeekReport]:
    """Return what is recommended, and the report of it."""
    with fleet.store.session() as session:
        reader = Reader(session, Settings())
        found = reader.findings(period)
        advice = reader.advice(found, period)
        return advice, week_report(session, period, Calendar(), "USD", found, advice)


def test_a_run_that_works_again_is_not_ended() -> None:
    """Its idle hours are lost and told; a line that ends it would end what it does now."""
    (one,) = [each for each in advised(site(works_again=True))[0] if each.kind == "release"]
    assert "scancel" not in one.artefact
    monday = Period(MONDAY, MONDAY + DAY, "Monday", "UTC")
    (earlier,) = [each for each in advised(site(works_again=True), monday)[0] if each.kind == "release"]
    assert "scancel" not in earlier.artefact, "read of Monday, when it idled, it must know of Tuesday"


def test_what_idles_now_is_a_question_to_its_owner() -> None:
    """Eight hours by the clock; what it has in memory is its owner's, and nobody calls that free."""
    advice, report = advised(site(works_again=False))
    (one,) = [each for each in advice if each.kind == "release"]
    assert one.ends_work
    assert one.title.startswith("ask its owner to release 2 GPUs, idle for 8 h")
    assert "has not saved" in one.cost_to_move
    assert "scancel 1" in one.artefact
    assert one.artefact.startswith("# once its owner agrees: debug-asr idles for 8 h")
    assert one.cost_to_move_micros is None
    assert cost_short(one, "USD") != FREE
    told = first_sentence(report)
    assert "costs nothing" not in told
    assert one.id not in told, "the headline ends nobody's work"
    mail = compose(report).actions
    assert mail is not None
    (asked,) = [each for each in mail.rows if each.id == one.id]
    assert "still needed?" in asked.title
    assert not any("scancel" in line for line in asked.how)
    assert "has not saved" in asked.how[0]
