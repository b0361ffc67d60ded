"""The book in a store: made of the ledger, the same however often and by whomever it is made."""

import itertools
from dataclasses import replace
from pathlib import Path

import pytest

from analyzer.analysis import analyze
from analyzer.errors import ConfigError, LedgerError
from analyzer.findings.judgement import FindingTally, VersionTally, judgements, muted, mutes, read_case, record_of
from analyzer.findings.ledger_findings import findings
from analyzer.findings.life import finding_id, keep_findings
from analyzer.findings.say import Statement, keep_judgement, keep_mute
from analyzer.interfaces.questions.registry import answer
from analyzer.ledger.pending import Versions
from analyzer.ledger.thresholds import Thresholds
from analyzer.period import Calendar, Period
from analyzer.reports.reader import Reader
from analyzer.reports.request import Request
from analyzer.settings.settings import Settings
from analyzer.states import BOOKINGS
from collector.store.books import mirror, mirror_findings
from collector.store.database import Store
from collector.store.lake import default_lake
from tests.analyzer.ledger.fleet import DAY, HOUR, MONDAY, Beside, Fleet, priced
from tests.analyzer.ledger.generated import generate
from tests.analyzer.small_site import IDLE, analysed_site, small_site

WEEK = Calendar().week_of(MONDAY)
NEXT = Calendar().week_of(MONDAY + 7 * DAY)
RUN = "slurm/alpha/1"
NOW = MONDAY + DAY
SAID = Statement("seen it in the log", "cli:ada", NOW)


def book(fleet: Fleet) -> list[tuple[object, ...]]:
    """Return the whole book."""
    with fleet.store.session() as session:
        return session.rows("SELECT * FROM finding_book ORDER BY ALL")


def idle_at(fleet: Fleet, *spans: tuple[int, int]) -> None:
    """Let one run hold a GPU that works, and holds still in these hours."""
    fleet.own("n1", ["G1"])
    fleet.hold(RUN, "n1", ["G1"], MONDAY)
    end = max(last for _, last in spans)
    edges = sorted({0, end, *(edge for span in spans for edge in span)})
    for first, last in itertools.pairwise(edges):
        rests = any(low <= first < high for low, high in spans)
        fleet.sample("n1", "G1", MONDAY + first * HOUR, MONDAY + last * HOUR, **(IDLE if rests else {}))


def lives_of_the_idle(fleet: Fleet) -> list[tuple[object, ...]]:
    """Return spell, opening, last hour and closing of what was abandoned, in hours from Monday."""
    with fleet.store.session() as session:
        return session.rows(
            "SELECT spell, (opened_at - $m) // $h, (updated_at - $m) // $h, (closed_at - $m) // $h FROM finding_book "
            "WHERE cause = 'abandoned' ORDER BY ALL",
            {"m": MONDAY, "h": HOUR},
        )


def test_a_finding_opens_closes_and_opens_again() -> None:
    """The same loss a week later is the same finding, opened again, and not a new one."""
    fleet = Fleet()
    idle_at(fleet, (2, 6), (50, 54))
    fleet.sample("n1", "G1", MONDAY + 54 * HOUR, MONDAY + 58 * HOUR)
    fleet.analyze(now=MONDAY + 60 * HOUR)
    assert lives_of_the_idle(fleet) == [(1, 2, 6, 30), (2, 50, 54, None)]
    with fleet.store.session() as session:
        case = read_case(session, Period(MONDAY, MONDAY + 58 * HOUR, "x", "UTC"), NOW)
    life = case.lives[finding_id(RUN, None, "held_idle", "abandoned")]
    assert (life.state, life.reopened) == ("reopened", 1)


# Until which hour is told before each pass: within what rests, until an hour before it closes and then one by one, and
# nothing new at all.
STEPS = ([3, 51, 58, 58], [29, 30, 31, 58])


def test_the_book_does_not_depend_on_when_it_was_kept() -> None:
    """One pass over a week, and a pass whenever something comes, tell the same lives."""
    at_once, bitwise = Fleet(), Fleet()
    for number, _ in enumerate(STEPS):
        for store in (at_once, bitwise):
            idle_at(Beside(store, f"~{number}"), (2, 6), (50, 54), (56, 58))
    with bitwise.store.session() as session:
        told = session.arrow("SELECT * EXCLUDE (batch) FROM gpu_samples ORDER BY started_at").to_pylist()
        session.execute("DELETE FROM gpu_samples")
    at_once.analyze(now=MONDAY + 60 * HOUR)
    done = [0] * len(STEPS)
    for steps in zip(*STEPS, strict=True):
        for number, step in enumerate(steps):
            of_host = [row for row in told if row["node"] == f"n1~{number}"]
            new = [row for row in of_host if done[number] <= (row["started_at"] - MONDAY) // HOUR < step]
            bitwise.add("gpu_samples", new)
            done[number] = step
        bitwise.analyze(now=MONDAY + 60 * HOUR)
    assert len(lives_of_the_idle(at_once)) == 2 * len(STEPS)
    assert lives_of_the_idle(bitwise) == lives_of_the_idle(at_once)
    assert book(bitwise) == book(at_once)


def test_a_second_pass_and_a_second_analyzer_write_the_same_book() -> None:
    """Nothing is counted up, so that nothing can be counted twice."""
    fleet = analysed_site()
    before = book(fleet)
    assert before
    fleet.analyze()
    with fleet.store.session() as session:
        assert keep_findings(session, Versions("rules", "prices")) == 0
        session.execute("DELETE FROM finding_days_made")  # as one who knows nothing of the first
        assert keep_findings(session, Versions("rules", "prices")) == 1
    assert book(fleet) == before


def test_a_day_whose_hours_are_all_booked_anew_together_is_counted_anew() -> None:
    """An even number of hours that have one digest, before and after: the day's own must show the change still."""
    fleet = Fleet()
    idle_at(fleet, (2, 6))
    fleet.analyze()
    before = book(fleet)
    with fleet.store.session() as session:
        assert session.row("SELECT count(*) % 2, count(DISTINCT input_digest) FROM ledger_hours") == (0, 1)
        session.execute("UPDATE ledger_hours SET input_digest = 'other'")
        session.execute("UPDATE ledger SET milliseconds = 2 * milliseconds")
        keep_findings(session, Versions("", ""))
    assert [row[10] for row in book(fleet)] == [2 * int(str(row[10])) for row in before]


@pytest.mark.parametrize(
    "seeds", [range(8), *(pytest.param(range(at, at + 8), marks=pytest.mark.soak) for at in range(8, 80, 8))], ids=str
)
def test_the_book_holds_what_is_avoidable_to_the_millisecond(seeds: range) -> None:
    """Lives, the list of a period and the ledger are three readings of the same time, closed and muted ones too."""
    fleet = Fleet()
    for seed in seeds:
        generate(fleet, seed, 2)
    fleet.analyze(now=MONDAY + 30 * DAY)
    avoidable = {(b.state, b.cause) for b in BOOKINGS if b.klass == "avoidable"}
    with fleet.store.session() as session:
        found = findings(session, MONDAY - DAY, MONDAY + DAY)
        for one in found[::2]:
            keep_mute(session, found, WEEK, one.id, "2025-11-12", "UTC", SAID)
        report = Reader(session, Settings(), clock=lambda: NOW).list_findings(WEEK)
        kept = dict(session.rows("SELECT finding_id, sum(milliseconds)::BIGINT FROM finding_book GROUP BY 1"))
    booked = sum(ms for key, ms in fleet.states().items() if key in avoidable)
    assert kept == {one.id: one.milliseconds for one in found}
    assert sum(one.milliseconds for one in report.findings) == booked
    hidden = [one for one in report.findings if report.why_not_shown(one)]
    assert sum(one.milliseconds for one in (*report.shown, *hidden)) == booked
    fleet.store.close()


def test_a_finding_names_the_version_of_its_own_rule_and_a_judgement_keeps_it() -> None:
    """Precision is of a version: what was said of the rule as it was must not be counted for the rule as it is."""
    fleet = Fleet()
    idle_at(fleet, (2, 6), (8, 12))
    fleet.analyze(now=MONDAY + DAY)
    with fleet.store.session() as session:
        (before,) = [one for one in findings(session, MONDAY, MONDAY + DAY) if one.cause == "abandoned"]
        kept = keep_judgement(session, [before], WEEK, before.id, "right", SAID)
    longer = replace(Thresholds(), abandoned_ms=2_400_000)
    for limits in (longer, replace(longer, low_permille=60)):
        analyze(fleet.store, Settings(), now_us=MONDAY + DAY, limits=limits)
    with fleet.store.session() as session:
        (after,) = [one for one in findings(session, MONDAY, MONDAY + DAY) if one.cause == "abandoned"]
        keep_judgement(session, [after], NEXT, after.id, "wrong", replace(SAID, recorded_at=NOW + 1))
        (tally,) = record_of(judgements(session)).rules
        whole = session.rows("SELECT count(*), count(DISTINCT versions) FROM rule_versions")
    assert kept.rule_version == before.rule_version == Thresholds().rule_versions()["held_idle/abandoned"]
    assert after.rule_version not in (None, before.rule_version)
    said = ((before.rule_version, FindingTally(1, 1, 0)), (after.rule_version, FindingTally(1, 0, 0)))
    assert tally.versions == tuple(VersionTally(*one) for one in said)
    assert whole == [(3, 3)]  # the last differs in another rule, and leaves this one's version as it was


def test_ids_stay_when_weeks_pass() -> None:
    """What is discussed in a ticket must be found again."""
    fleet = Fleet()
    idle_at(fleet, (2, 6), (200, 204))
    fleet.analyze(now=MONDAY + 10 * DAY)
    with fleet.store.session() as session:
        first, second = (
            {(one.state, one.cause): one.id for one in findings(session, start, start + 7 * DAY) if not one.suspicion}
            for start in (MONDAY, MONDAY + 7 * DAY)
        )
    assert first["held_idle", "abandoned"] == second["held_idle", "abandoned"]


def test_what_was_said_survives_the_analysis_and_stays_what_was_judged(tmp_path: Path) -> None:
    """Late data may make a finding smaller; what an owner judged was what the list said then."""
    fleet = small_site()
    site = priced(tmp_path, H100_80GB=2.6)
    fleet.analyze(settings=site)
    with fleet.store.session() as session:
        found = findings(session, WEEK.start, WEEK.end)
        keep_judgement(session, found, WEEK, found[0].id, "wrong", SAID)
        keep_judgement(session, found, WEEK, found[0].id, "planned", Statement("after all", "cli:ada", NOW + 1))
    before = found[0].milliseconds
    fleet.sample("late", "L1", MONDAY, MONDAY + HOUR)
    fleet.analyze(settings=site)
    with fleet.store.session() as session:
        said = judgements(session)
        case = read_case(session, WEEK, NOW)
        text = answer(Reader(session, site, clock=lambda: NOW), Request("explain", found[0].id))
    assert [one.verdict for one in said] == ["wrong", "planned"]
    assert said[0].milliseconds == before
    assert case.record.high.judged == 1
    assert "planned, said" in text


def test_a_muted_finding_leaves_the_list_and_not_the_sum() -> None:
    """The column adds up on the page, with a row for what is not shown."""
    fleet = analysed_site()
    with fleet.store.session() as session:
        reader = Reader(session, Settings(), clock=lambda: NOW)
        found = reader.findings(WEEK)
        before = answer(reader, Request("findings"))
        keep_mute(session, found, WEEK, found[0].id, "2025-11-20", "UTC", SAID)
        after, everything = (answer(reader, Request("findings", everything=every)) for every in (False, True))
        assert muted(mutes(session), NOW + 30 * DAY) == {}
    assert before.splitlines()[0] == after.splitlines()[0]
    assert f"  {found[0].id}" in before
    assert found[0].id not in after.replace("next:", "")
    assert "1 muted" in after
    assert "muted 1 (until 20 Nov): --all lists them" in after
    assert f"m {found[0].id}" in everything
    assert "m muted 1 (until 20 Nov)\n" in everything


def test_who_judges_what_is_not_there_hears_where_to_look() -> None:
    """Ids are typed by hand, and belong to a period."""
    fleet = analysed_site()
    with fleet.store.session() as session:
        found = findings(session, WEEK.start, WEEK.end)
        with pytest.raises(LedgerError, match="gpuledger findings lists them"):
            keep_judgement(session, found, WEEK, "f-none", "right", SAID)
        with pytest.raises(ConfigError, match="say why"):
            keep_judgement(session, found, WEEK, found[0].id, "right", Statement(" ", "cli:ada", NOW))
        assert judgements(session) == []


def test_readers_of_other_processes_see_the_book_and_both_sides_keep_every_word(tmp_path: Path) -> None:
    """Two analyzers share a lake: neither may lose what somebody said to the other."""
    path = tmp_path / "store.duckdb"
    with Store.open(path, lake=default_lake(path)) as store:
        with store.hot_session() as session:
            session.load(
                "finding_book",
                ("finding_id", "spell", "subject", "state", "cause", "opened_at", "updated_at", "hours", "milliseconds",
                 "confidence", "rules_version"),
                [("f-aaaa", 1, "x", "held_idle", "abandoned", 0, HOUR, 1, 1, "high", "r")],
            )  # fmt: skip
            session.execute("INSERT INTO finding_mutes VALUES ('here', 'f-aaaa', 1, 'why', 'me', 1, NULL)")
        with store.session() as session:
            session.execute("INSERT INTO lake.books.finding_mutes VALUES ('there', 'f-bbbb', 1, 'why', 'me', 1, NULL)")
        mirror(store)
        mirror_findings(store)
        with store.session() as session:
            for place in (store.hot, "lake.books"):
                assert session.rows(f"SELECT mute_id FROM {place}.finding_mutes ORDER BY 1") == [("here",), ("there",)]
            assert session.rows("SELECT finding_id FROM lake.books.finding_book") == [("f-aaaa",)]
            session.execute(f"DELETE FROM {store.hot}.finding_book")
        mirror_findings(store)
        with store.session() as session:
            assert session.rows("SELECT finding_id FROM lake.books.finding_book") == []
