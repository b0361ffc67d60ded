"""A final month is what finance was told: what is edited afterwards becomes corrections that sum to the difference."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from analyzer.finops.budgets.month import read_month
from analyzer.finops.charges.closing import edited as charges_edited
from analyzer.finops.charges.closing import edited_words
from analyzer.finops.charges.report import charge_text
from analyzer.interfaces.text.week_text import prices_words
from analyzer.period import Calendar
from analyzer.queries.ledger_query import ledger_source
from analyzer.reports.filtered_reader import confined
from analyzer.reports.reader import Reader
from analyzer.reports.request import LedgerFilter
from analyzer.settings.settings import Settings
from analyzer.text.layout import TextLayout
from collector.access.erasure import Replacement, erase
from collector.backup.backup_maker import make_backup
from collector.backup.restoring import restore
from collector.config import CollectorConfig
from collector.registry import open_registry
from collector.store.database import Store
from tests.analyzer.finops.final_month import BEGINS, DECEMBER, FINAL, Rules, files, fleet, place, report, sums
from tests.analyzer.finops.focus_checker import complaints, rows_of, total
from tests.analyzer.ledger.copies import made_once
from tests.analyzer.ledger.fleet import DAY, HOUR, Fleet
from tests.analyzer.ledger.several import Site, in_folder, same

EARLY = BEGINS - 2 * DAY
RETENTION = ("table_name", "kept_from", "dropped_rows", "reason", "recorded_at")
CENTRES = st.sampled_from([None, "4711", "4712"])
RULES = st.builds(
    Rules,
    price=st.integers(1, 9_999),
    rate=st.none() | st.integers(0, 9_999),
    rate_of=st.sampled_from(["nlp", "nlp-2", "vision"]),
    nlp=st.tuples(st.sampled_from(["nlp", "nlp-2", "vision"]), CENTRES),
    vision=st.none() | st.sampled_from(["vision", "nlp"]),
    reserve=st.none() | st.sampled_from([0, 1]),
    per_kwh=st.none() | st.integers(1, 999),
    per_gb=st.none() | st.integers(1, 99),
)

Move = tuple[str, int] | None
MOVES = st.none() | st.tuples(st.sampled_from("ab"), st.sampled_from([BEGINS + HOUR, DECEMBER, FINAL + HOUR]))


@made_once
def made_final(rules: Rules, at: int = FINAL) -> Fleet:
    """Return the fleet as the first pass after its month was final has left it, by these rules."""
    with TemporaryDirectory() as name:
        site = fleet()
        site.analyze(at, rules.settings(Path(name)))
    return site


EVERY = Rules(4_100, 5_000, "nlp-2", ("nlp-2", "4712"), "nlp", reserve=1, per_kwh=31, per_gb=7)


@pytest.mark.parametrize("phase", [Phase.explicit, pytest.param(Phase.generate, marks=pytest.mark.soak)])
def test_edits_after_a_month_is_final_change_no_byte_of_it(phase: Phase) -> None:
    """Prices, charge rates, teams, cost centres, policies: files stay, and what differs is booked in December.

    So do costs besides GPUs and where hosts stood, by whatever tariffs are edited, wherever hosts are moved, and
    however late it is told that they moved.
    """
    drawn = given(before=RULES, edits=st.lists(st.tuples(RULES, MOVES), min_size=1, max_size=3))
    # The suite has one in which all that can be edited is, and again: few that are drawn would have each of them.
    of_all = example(Rules(rate=3_000), [(EVERY, ("b", BEGINS + HOUR)), (Rules(vision=None), None)])
    settings(max_examples=60, phases=[phase])(of_all(drawn(_no_byte_changes)))()


def _no_byte_changes(before: Rules, edits: list[tuple[Rules, Move]]) -> None:
    with TemporaryDirectory() as name:
        folder, site = Path(name), fleet()
        now = before.settings(folder)
        site.analyze(FINAL, now)
        kept = files(site.store, now, folder)
        for count, (edit, move) in enumerate(edits, 1):
            if move is not None:
                site.add("inventory", [place("n1", *move)])
            now = edit.settings(folder)
            site.analyze(FINAL + count * HOUR, now)
            assert files(site.store, now, folder) == kept
        anew = fleet()
        anew.analyze(FINAL + DAY, now)
        for by in ("team", "cost-centre"):
            told = sums(report(site.store, now, "2025-11", by), report(site.store, now, "2025-12", by))
            assert told == sums(report(anew.store, now, "2025-11", by))
        again = site.analyze(FINAL + DAY, now)
        assert again.adjustments == 0
        assert files(site.store, now, folder) == kept


@pytest.fixture(scope="module")
def edited(tmp_path_factory: pytest.TempPathFactory) -> tuple[Fleet, Settings, Path]:
    """A final November whose team was renamed and given another rate, and the correction that followed."""
    folder = tmp_path_factory.mktemp("edited")
    rules = Rules(rate=3_000)
    site = made_final(rules)
    now = replace(rules, rate=9_000, rate_of="language", nlp=("language", "4712")).settings(folder)
    site.analyze(FINAL + HOUR, now)
    return site, now, folder


def test_a_renamed_team_is_charged_by_its_old_name_and_rate(edited: tuple[Fleet, Settings, Path]) -> None:
    """Of three GPU-hours and two thirds, the third team's seventh of an hour apart; and the difference in December."""
    site, now, _ = edited
    november, december = report(site.store, now, "2025-11"), report(site.store, now, "2025-12")
    lines = {one.bearer: one.charged_micros for one in november.lines if one.held}
    assert lines == {"nlp": 14_000_000, "vision": 371_429}
    moved = {(one.bearer, one.milliseconds, one.charged_micros) for one in december.corrections}
    assert moved == {("nlp", -16_800_000, -14_000_000), ("language", 16_800_000, 42_000_000)}
    assert {one.corrects for one in december.corrections} == {"2025-11"}


def test_the_bill_of_the_month_that_books_it_is_what_focus_says(edited: tuple[Fleet, Settings, Path]) -> None:
    """Each move is two adjustments, of the team that bore it and of the one that does: together they cost nothing."""
    site, now, folder = edited
    files(site.store, now, folder, "2025-12")
    rows = rows_of(folder / "focus.csv")
    assert complaints(rows, "1.2") == []
    moved = [row for row in rows if row["ChargeCategory"] == "Adjustment"]
    assert {(row["SubAccountId"], row["ChargeClass"]) for row in moved} == {
        ("nlp", "Correction"),
        ("language", "Correction"),
    }
    assert total(rows, "EffectiveCost", adjustments=True) == 0


def test_a_month_that_is_not_final_follows_edits(edited: tuple[Fleet, Settings, Path]) -> None:
    """The service that began in November is in December what it is called now, at the rate of now."""
    site, now, _ = edited
    lines = {one.bearer: one.charged_micros for one in report(site.store, now, "2025-12").lines if one.held}
    assert lines == {"language": 18_000_000, "vision": 5_200_000}


def test_every_reader_of_the_month_says_the_closed_figures(edited: tuple[Fleet, Settings, Path]) -> None:
    """The month's report, its budgets, the fleet's figures of /v1 and the page, and what is drawn by team."""
    site, now, _ = edited
    with site.store.session() as session:
        reader = Reader(session, now)
        month = reader.figures(reader.period("2025-11"))
        assert {row.name for row in month.by_team.rows if row.held} == {"nlp", "vision"}
        assert [one.charged_micros for one in month.charged if one.held] == [14_000_000, 371_429]
        budgets = read_month(session, Calendar("UTC"), now, "2025-11")
        spent = {line.team: line.spent_micros for line in budgets.lines if line.held}
        assert spent == {"nlp": 12_133_333, "vision": 371_429}
        asked: dict[str, object] = {"start": BEGINS, "end": DECEMBER}
        source = ledger_source(("l.hour >= $start", "l.hour < $end"), ("team",))
        assert dict(session.rows(f"SELECT l.team, sum(l.cost_micros)::BIGINT {source} GROUP BY 1", asked)) == {
            "nlp": 12_133_333,
            "vision": 371_429,
            None: 3 * 3 * 2_600_000 - 12_133_333 - 371_429,
        }


def test_it_says_in_one_line_that_teams_changed_and_where_that_is_booked(
    edited: tuple[Fleet, Settings, Path],
) -> None:
    """Whoever reads the old figure must know that there is another word on it."""
    site, now, folder = edited
    told = "charge rates and teams changed after 2025-11 was final; it keeps its figures, corrections are booked in"
    told += " 2025-12"
    november = report(site.store, now, "2025-11")
    assert edited_words(november.edited) == [told]
    assert told in " ".join(charge_text(november, TextLayout(ascii=True)).split())
    with site.store.session() as session:
        reader = Reader(session, now)
        assert told in prices_words(reader.figures(reader.period("2025-11")))
        other = Rules(rate=1, nlp=("language", "4712")).settings(folder / "other")
        waiting = edited_words(charges_edited(session, reader.period("2025-11"), other))
        assert waiting[1].startswith("teams or charge rates were edited after 2025-11 was final")
        assert charges_edited(session, reader.period("2025-12"), other) is None


def test_a_teams_key_sees_a_closed_month_as_it_was(edited: tuple[Fleet, Settings, Path]) -> None:
    """The team that held sees what it held then; its successor sees what it holds since, and the correction."""
    site, now, _ = edited
    with site.store.session() as session:
        for team, held in (("nlp", {"2025-11": 14_000_000}), ("language", {"2025-12": 18_000_000})):
            with confined(session, LedgerFilter(teams=(team,))) as own:
                reader = Reader(own, now)
                found = {
                    month: sum(one.charged_micros or 0 for one in reader.figures(reader.period(month)).charged)
                    for month in ("2025-11", "2025-12")
                }
                assert {month: charged for month, charged in found.items() if charged} == held
                ((moved,),) = own.rows("SELECT sum(milliseconds)::BIGINT FROM adjustments")
                assert moved == (16_800_000 if team == "language" else -16_800_000)


def test_a_month_that_an_earlier_release_made_final_closes_with_the_first_pass(tmp_path: Path) -> None:
    """Nothing says what finance was told then: it keeps what the last pass had booked, and says since when."""
    rules = Rules(rate=3_000)
    site, now = made_final(rules), rules.settings(tmp_path)
    kept = files(site.store, now, tmp_path)
    with site.store.session() as session:
        closed = ("closed_hours", "closed_runs", "closed_nodes", "closed_rates", "closed_charges")
        for table in (*closed, "charge_corrections", "terms_applied"):
            session.execute(f"DELETE FROM {table}")
    assert report(site.store, now, "2025-11").closed_at is None
    site.analyze(FINAL + DAY, now)
    assert files(site.store, now, tmp_path) == kept
    november = report(site.store, now, "2025-11")
    assert (november.closed_at, november.edited) == (FINAL + DAY, None)
    assert "final: teams and charge rates as of 2025-12-11" in charge_text(november, TextLayout(ascii=True))


def test_a_month_of_which_hours_are_still_to_be_booked_is_not_final(tmp_path: Path) -> None:
    """Hosts fell silent in November and came back in January: what they owned meanwhile is booked then, not before."""
    site, now = Fleet(), Rules(rate=3_000).settings(tmp_path)
    site.own("n1", ["g1"])
    site.hold("slurm/alpha/1", "n1", ["g1"], EARLY, EARLY + 4 * HOUR, account="nlp")
    site.sample("n1", "g1", EARLY, EARLY + 4 * HOUR)
    site.analyze(FINAL, now)
    november = report(site.store, now, "2025-11")
    assert (november.hours.status, november.closed_at) == ("open", None)
    said = charge_text(november, TextLayout(ascii=True))
    assert "of 720 hours of 2025-11 are in the ledger" in said
    assert "final" not in said
    files(site.store, now, tmp_path)
    days = {row["ChargePeriodStart"][:10]: row["x_BookStatus"] for row in rows_of(tmp_path / "focus.csv")}
    assert days == {"2025-11-28": "final", "2025-11-29": "open"}, "of the second an hour is booked"
    site.sample("n1", "g1", FINAL, FINAL + HOUR)
    site.analyze(FINAL + DAY, now)
    november = report(site.store, now, "2025-11")
    assert (november.hours.status, november.closed_at) == ("final", FINAL + DAY)


def test_what_was_edited_before_the_pass_that_closes_it_is_a_correction(tmp_path: Path) -> None:
    """As of prices: the month closes with what the pass before had booked, be the server away for a week."""
    site, rules = fleet(), Rules()
    now = rules.settings(tmp_path)
    site.analyze(DECEMBER + HOUR, now)
    now = replace(rules, nlp=("language", None)).settings(tmp_path)
    site.analyze(FINAL, now)
    assert {one.bearer for one in report(site.store, now, "2025-11").lines if one.held} == {"nlp", "vision"}
    assert {one.bearer for one in report(site.store, now, "2025-12").corrections} == {"nlp", "language"}


def test_samples_that_came_late_move_the_charge_by_their_time(tmp_path: Path) -> None:
    """A run that nobody had told of is charged as a correction, under the team that it is of, at its rate."""
    site, now = made_final(Rules(rate=3_000)), Rules(rate=3_000).settings(tmp_path)
    kept = files(site.store, now, tmp_path)
    site.hold("slurm/alpha/9", "n1", ["g1"], DECEMBER - HOUR, DECEMBER, account="nlp", name="late")
    site.analyze(FINAL + HOUR, now)
    assert files(site.store, now, tmp_path) == kept
    moved = {(one.bearer, one.held): one.charged_micros for one in report(site.store, now, "2025-12").corrections}
    assert moved == {("nlp", True): 3_000_000, (None, False): 0}
    now = replace(Rules(rate=3_000), nlp=("language", None), rate_of="language").settings(tmp_path)
    site.analyze(FINAL + 2 * HOUR, now)
    moved = {(one.bearer, one.held): one.charged_micros for one in report(site.store, now, "2025-12").corrections}
    assert moved == {("nlp", True): -14_000_000, ("language", True): 17_000_000, (None, False): 0}


@pytest.fixture(scope="module")
def renamed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a store whose November is final, and was edited since."""
    folder, rules = tmp_path_factory.mktemp("renamed"), Rules(rate=3_000)
    with Store.open(folder / "s.duckdb", memory_limit="500MB") as store:
        site = fleet(store)
        site.analyze(FINAL, rules.settings(folder))
        site.analyze(FINAL + HOUR, replace(rules, nlp=("language", None)).settings(folder))
    return folder / "s.duckdb"


@pytest.fixture
def stored(renamed: Path, tmp_path: Path) -> Iterator[tuple[Store, Settings, Path]]:
    """Such a store on disk, of each test its own, and the settings after the edit."""
    shutil.copy(renamed, tmp_path)
    with Store.open(tmp_path / "s.duckdb", memory_limit="500MB") as store:
        yield store, replace(Rules(rate=3_000), nlp=("language", None)).settings(tmp_path), tmp_path


def test_a_restart_and_a_backup_keep_what_is_closed(stored: tuple[Store, Settings, Path]) -> None:
    """The server starts again, or another from the backup: the same files, and nothing is corrected twice."""
    store, now, folder = stored
    kept = files(store, now, folder), files(store, now, folder, "2025-12")
    made = make_backup(store, folder / "backups")
    store.close()
    restore(made.path, folder / "other" / "new.duckdb")
    for path in (folder / "s.duckdb", folder / "other" / "new.duckdb"):
        with Store.open(path, memory_limit="500MB") as again:
            assert Fleet(again).analyze(FINAL + DAY, now).adjustments == 0
            assert (files(again, now, folder), files(again, now, folder, "2025-12")) == kept


def test_a_name_that_is_erased_moves_no_money(stored: tuple[Store, Settings, Path]) -> None:
    """By whose name a rule fitted is not known any more: her runs stay her team's, in closed months and open ones."""
    store, now, folder = stored
    kept = files(store, now, folder), files(store, now, folder, "2025-12")
    store.close()
    config = CollectorConfig(store=folder / "s.duckdb", lake="none", gather_seconds=0)
    with open_registry(None) as registry:
        erase(config, registry, Replacement("alice", "erased-0123456789"), "test")
        erase(config, registry, Replacement("bob", "erased-1123456789"), "test")
    with Store.open(folder / "s.duckdb", memory_limit="500MB") as again:
        assert Fleet(again).analyze(FINAL + DAY, now).adjustments == 0
        after = files(again, now, folder), files(again, now, folder, "2025-12")
        assert [one.charges for one in after] == [one.charges for one in kept]
        assert after[0].focus == kept[0].focus.replace("bob", "erased-1123456789") != kept[0].focus


def test_whoever_takes_over_the_lakes_books_has_what_is_closed(tmp_path: Path) -> None:
    """An analyzer on another host goes on from the lake: the same files, and nothing is corrected twice."""
    lake, rules = in_folder(tmp_path), Rules(rate=3_000)
    with Site(tmp_path / "site", lake) as site:
        fleet(site.fleet.store)
        site.a.begin(FINAL, settings=rules.settings(tmp_path))
        assert site.a.book()
        now = replace(rules, nlp=("language", None), rate=5_000).settings(tmp_path)
        site.a.begin(FINAL + HOUR, settings=now)
        assert site.a.book()
        kept = files(site.a.store, now, tmp_path), files(site.a.store, now, tmp_path, "2025-12")
        same(site.a.books(), site.a.own_books())
        site.b.begin(FINAL + 2 * HOUR, settings=now)
        assert site.b.book()
        assert (files(site.b.store, now, tmp_path), files(site.b.store, now, tmp_path, "2025-12")) == kept
        site.a.lose_all()
        site.a.begin(FINAL + 3 * HOUR, settings=now)
        assert (files(site.a.store, now, tmp_path), files(site.a.store, now, tmp_path, "2025-12")) == kept


@pytest.mark.parametrize("is_sampled", [True, False])
def test_a_price_that_changes_after_the_samples_are_gone_is_corrected_all_the_same(
    tmp_path: Path, is_sampled: bool
) -> None:
    """To the millionth what a ledger that is made anew says; the booked time needs no sample to be priced."""
    rules = Rules(price=2_601)
    site = made_final(rules)
    with site.store.session() as session:
        if not is_sampled:
            session.execute("DELETE FROM gpu_samples")
            session.load("retention", RETENTION, [("gpu_samples", FINAL, 1, "age", FINAL)])
    edit = replace(rules, price=1_999, nlp=("language", None))
    now = edit.settings(tmp_path)
    assert site.analyze(FINAL + HOUR, now).adjustments > 0
    anew = made_final(edit, FINAL + HOUR)
    told = sums(report(site.store, now, "2025-11"), report(site.store, now, "2025-12"))
    assert told == sums(report(anew.store, now, "2025-11"))
    assert site.analyze(FINAL + 2 * HOUR, now).adjustments == 0
    assert report(site.store, now, "2025-11").repriced is None
    now = rules.settings(tmp_path)
    site.analyze(FINAL + 3 * HOUR, now)
    assert report(site.store, now, "2025-12").corrections == ()
