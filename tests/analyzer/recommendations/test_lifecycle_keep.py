"""The book in a store: written once, never changed, the same by whichever analyzer."""

from pathlib import Path

import pytest

from analyzer.errors import ConfigError, LedgerError
from analyzer.findings.say import Statement
from analyzer.period import Calendar
from analyzer.recommendations.lifecycle.lifecycle_tables import (
    Offer,
    Word,
    add_predictions,
    add_word,
    decide,
    lifecycle_statuses,
    predictions,
    rejections,
    words,
)
from analyzer.recommendations.lifecycle.realised import all_realised
from analyzer.reports.prediction_book import keep_recommendations
from analyzer.reports.reader import Reader
from analyzer.settings.settings import Settings
from collector.store.books import mirror, mirror_findings
from collector.store.database import Store
from collector.store.lake import default_lake
from tests.analyzer.ledger.fleet import DAY, HOUR, MINUTE, MONDAY, Fleet, priced
from tests.analyzer.recommendations.lifecycle_recurring import prediction
from tests.analyzer.small_site import IDLE, analysed_site

WEEK = Calendar().week_of(MONDAY)
NOW = MONDAY + 20 * DAY
SAID = Statement("the host is promised", "cli:ada", NOW)


def idle_weeks(weeks: int = 1) -> Fleet:
    """Return a site on which a run holds four GPUs that fell quiet, analysed."""
    fleet = Fleet()
    fleet.own("n1", [f"G{gpu}" for gpu in range(4)])
    fleet.hold("slurm/alpha/1", "n1", [f"G{gpu}" for gpu in range(4)], MONDAY, name="debug-asr")
    for gpu in range(4):
        fleet.sample("n1", f"G{gpu}", MONDAY, MONDAY + 6 * HOUR, every=10 * MINUTE)
        end = MONDAY + weeks * 7 * DAY
        fleet.sample("n1", f"G{gpu}", MONDAY + 6 * HOUR, end, every=10 * MINUTE, memory_used_bytes=10**10, **IDLE)
    return fleet


def test_what_is_recommended_of_a_whole_week_is_written_down_once(tmp_path: Path) -> None:
    """With what it stands on, and with the figures that it was made of."""
    fleet, site = idle_weeks(), priced(tmp_path, H100_80GB=2.6)
    fleet.analyze(now=NOW, settings=site)
    assert keep_recommendations(fleet.store, site, NOW) > 0
    assert keep_recommendations(fleet.store, site, NOW + 1) == 0
    with fleet.store.session() as session:
        kept = predictions(session)
        advice = Reader(session, site).advice(Reader(session, site).findings(WEEK), WEEK)
    (one,) = [each for each in kept if each.kind == "release"]
    assert {each.recommendation_id for each in kept} == {each.id for each in advice}
    assert (one.made_at, one.span.start, one.span.end, one.span.label) == (NOW, WEEK.start, WEEK.end, "2025-W46")
    assert (one.run_ids, one.name) == (("slurm/alpha/1",), "debug-asr")
    assert one.held.milliseconds == 4 * 168 * 3_600_000
    assert one.held.micros == 4 * 168 * 2_600_000
    assert one.lost.milliseconds is not None
    assert one.saves_milliseconds["p50"] <= one.lost.milliseconds <= one.held.milliseconds


def test_what_was_predicted_stays_when_the_ledger_changes() -> None:
    """A prediction that follows what is learned later would always have been right."""
    fleet = idle_weeks()
    fleet.analyze(now=NOW)
    keep_recommendations(fleet.store, Settings(), NOW)
    with fleet.store.session() as session:
        before = predictions(session)
        session.execute("UPDATE ledger SET milliseconds = milliseconds / 2")
        session.execute("DELETE FROM recommendation_turns")  # as a second analyzer that knows nothing of the first
    assert keep_recommendations(fleet.store, Settings(), NOW + DAY) == 0
    with fleet.store.session() as session:
        assert predictions(session) == before


def test_a_week_that_is_not_over_is_not_predicted_from() -> None:
    """Two hours scaled to a week would be held against a week."""
    fleet = analysed_site()
    assert keep_recommendations(fleet.store, Settings(), NOW) == 0
    assert keep_recommendations(Fleet().store, Settings(), NOW) == 0


def test_a_decision_keeps_what_was_said_and_what_it_was_said_of() -> None:
    """Whoever accepts what the book does not have yet has it written down with the word."""
    fleet = analysed_site()
    with fleet.store.session() as session:
        reader = Reader(session, Settings())
        found = reader.findings(WEEK)
        advice = reader.advice(found, WEEK)
        seen = Offer(advice, found, WEEK)
        first, second = advice[0], advice[1]
        decide(session, seen, lambda _: True, first.id[:-1], "accepted", Statement("", "cli:ada", NOW - 1))
        decide(session, seen, lambda _: True, second.id, "rejected", SAID)
        decide(session, Offer([], [], WEEK), lambda _: True, second.id, "rejected", SAID)  # the book still has it
        said = words(session)[0]
        assert (said.recommendation_id, said.word, said.because) == (first.id, "accepted", None)
        stages = {one.id: one.stage for one in lifecycle_statuses(session)}
        assert stages == {first.id: "accepted", second.id: "rejected"}
        assert rejections(session) == {second.id: NOW}
        with pytest.raises(ConfigError, match="say why"):
            decide(session, seen, lambda _: True, first.id, "rejected", Statement(" ", "cli:ada", NOW))
        with pytest.raises(LedgerError, match="gpuledger recommendations lists them"):
            decide(session, seen, lambda _: True, "r-zzzzz", "accepted", SAID)
        with pytest.raises(LedgerError, match="gpuledger recommendations lists them"):
            decide(session, Offer([], [], WEEK), lambda _: False, second.id, "accepted", SAID)
        assert len(predictions(session)) == 2


def test_both_sides_of_a_lake_keep_every_word_and_prediction(tmp_path: Path) -> None:
    """Readers of other processes see the lake alone, and two analyzers write one book."""
    path = tmp_path / "store.duckdb"
    with Store.open(path, lake=default_lake(path)) as store:
        with store.hot_session() as session:
            add_predictions(session, [prediction()])
            add_word(session, Word("here", "r-2hd4a", prediction().id, "accepted", None, 1, "me", 1, None))
        with store.session() as session:
            session.execute(
                "INSERT INTO lake.books.recommendation_words "
                "VALUES ('there', 'r-2hd4a', 'p', 'rejected', 'why', NULL, 'you', 2, NULL)"
            )
            session.execute("INSERT INTO lake.books.recommendation_turns VALUES ('week 1', 7)")
        mirror(store)
        mirror_findings(store)
        with store.session() as session:
            for place in (store.hot, "lake.books"):
                assert session.rows(f"SELECT word_id FROM {place}.recommendation_words ORDER BY 1") == [
                    ("here",),
                    ("there",),
                ]
                assert session.row(f"SELECT count(*) FROM {place}.recommendation_predictions") == (1,)
                assert session.rows(f"SELECT turn FROM {place}.recommendation_turns") == [("week 1",)]


def test_what_is_lost_since_is_told_where_nothing_can_be_proven() -> None:
    """One run that ends has no next run to be compared with; that its loss is gone can be seen."""
    fleet = idle_weeks(2)
    fleet.analyze(now=NOW)
    with fleet.store.session() as session:
        reader = Reader(session, Settings())
        found = reader.findings(WEEK)
        advice = [one for one in reader.advice(found, WEEK) if one.kind == "release"]
        decide(session, Offer(advice, found, WEEK), lambda _: True, advice[0].id, "accepted", SAID, WEEK.end)
        (came,) = all_realised(session, lifecycle_statuses(session))
    assert came.outcome.standing in ("not_yet", "not_provable")
    assert came.lost_since is not None
    assert came.lost_since.milliseconds == 4 * 168 * 3_600_000  # it was said to be done, and was not
    fleet.store.close()
