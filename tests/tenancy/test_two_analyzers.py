"""Two analyzers over one lake: whatever they do and whenever they die, its books are those of one analyzer alone."""

import random
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from collector.errors import StoreError, TakenError
from collector.store import booking, books
from collector.store.lake import LakeSettings, delete
from tests.ledger.fleet import DAY, HOUR, MONDAY, Fleet
from tests.ledger.generated import generate
from tests.ledger.several import NOW, Analyzer, Books, Site, in_folder

if TYPE_CHECKING:
    from collections.abc import Callable

HOSTS = 2
PARTS = (11, 12, 13)  # seeds of what arrives, one after another
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Books:
    """The books of one analyzer that nobody disturbed."""
    folder = tmp_path_factory.mktemp("alone")
    with Site(folder, in_folder(folder)) as site:
        for part in PARTS:
            generate(site.fleet, part, HOSTS)
            assert site.a.whole()
        return site.a.books()


def same(found: Books, wanted: Books) -> bool:
    """Whether two books say the same; where not, in which tables is shown."""
    off = {table: (len(found[table]), len(rows)) for table, rows in wanted.items() if found[table] != rows}
    assert off == {}
    return True


def test_who_takes_over_goes_on_from_the_lakes_books(tmp_path: Path, lake: LakeSettings, alone: Books) -> None:
    """Its own hot file has no ledger, or an old one, and the first may come back: each time the other's days stay."""
    with Site(tmp_path / "site", lake) as site:
        for part, analyzer in zip(PARTS, (site.a, site.b, site.a), strict=True):
            generate(site.fleet, part, HOSTS)
            assert analyzer.whole()
        assert same(site.a.books(), alone)
        assert same(site.a.own_books(), alone)


@pytest.mark.soak
def test_of_two_passes_at_once_the_lake_takes_one(tmp_path: Path, lake: LakeSettings, alone: Books) -> None:
    """The one that wakes up late has its pass undone, and makes it again from what the other booked."""
    with Site(tmp_path / "site", lake) as site:
        for part in PARTS:
            generate(site.fleet, part, HOSTS)
            site.a.begin()
            assert site.b.whole()
            with pytest.raises(TakenError, match="b has booked into this lake since this pass began"):
                _books_something(site.a)
            assert site.a.whole()
        assert same(site.b.books(), alone)


def _books_something(analyzer: Analyzer) -> None:
    """Let it book a day that differs, as a pass over other arrivals would have made it."""
    with analyzer.store.session() as session:
        session.execute(f"UPDATE {analyzer.store.hot}.ledger_hours SET input_digest = 'late'")
    books.mirror(analyzer.store, analyzer.name)


def test_a_transaction_that_began_before_is_undone_at_its_commit(tmp_path: Path, either_lake: LakeSettings) -> None:
    """The late holder has looked, all was well, and then it slept: what it looked at must not be what decides."""
    with Site(tmp_path / "site", either_lake) as site:
        generate(site.fleet, PARTS[0], HOSTS)
        site.a.begin()
        site.b.begin()
        late = site.a.store
        assert late.hot is not None
        following = booking.set_out(site.a.store.session(), late.hot)
        with late.session() as session:
            session.execute("BEGIN")
            assert books._mirror(session, late.hot, following, "late") != []
            assert site.b.book()
            with pytest.raises(StoreError):
                session.execute("COMMIT")
        with site.b.store.session() as session:
            assert books.days_doubled(session) == []
            assert booking.newest(session).holder == "b"
        assert same(site.a.books(), site.b.own_books())


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(2, 9))])
def test_no_order_of_passes_and_deaths_changes_the_books(
    tmp_path: Path, lake: LakeSettings, alone: Books, seed: int
) -> None:
    """Begun, booked, killed within a pass or after the lake's commit, started on an empty disk: drawn by a seed."""
    draw = random.Random(seed)
    with Site(tmp_path / "site", lake) as site:
        steps: list[Callable[[Analyzer], object]] = [
            Analyzer.begin,
            Analyzer.book,
            Analyzer.whole,
            Analyzer.killed,
            Analyzer.reopen,
            Analyzer.lose_all,
            Analyzer.said,
            dies_after_the_commit,
        ]
        for part in PARTS:
            generate(site.fleet, part, HOSTS)
            for _ in range(3):
                draw.choice(steps)(draw.choice((site.a, site.b)))
        for last in (site.a, site.b):
            assert last.whole()
            assert same(last.books(), alone)
            assert same(last.own_books(), alone)


def dies_after_the_commit(analyzer: Analyzer) -> None:
    """Make a pass that the lake takes, and die before the hot file knows."""
    analyzer.begin()
    hot = analyzer.store.hot
    assert hot is not None
    with analyzer.store.session() as session:
        following = booking.set_out(session, hot)
        try:
            with session.transaction():
                books._mirror(session, hot, following, analyzer.name)
        except TakenError:
            return
    analyzer.reopen()


def test_adjustments_of_closed_hours_are_told_once(tmp_path: Path, lake: LakeSettings) -> None:
    """What was learned after an hour closed is nowhere but in the books: a taker must neither lose nor repeat it."""
    with Site(tmp_path / "site", lake) as site:
        fleet = site.fleet
        fleet.own("n1", ["G1"])
        fleet.sample("n1", "G1", MONDAY, MONDAY + 2 * HOUR)
        fleet.sample("n1", "G1", MONDAY + 3 * HOUR, MONDAY + 4 * HOUR)
        assert site.a.whole()
        fleet.sample("n1", "G1", MONDAY + 2 * HOUR, MONDAY + 3 * HOUR)
        assert site.a.whole(MONDAY + 10 * DAY)
        told = site.a.books()["adjustments"]
        assert told != []
        for taker in (site.b, site.a):
            assert taker.whole(MONDAY + 11 * DAY)
            assert taker.books()["adjustments"] == told
            assert taker.own_books()["adjustments"] == told
        site.b.lose_all()
        assert site.b.whole(MONDAY + 12 * DAY)
        assert site.b.books()["adjustments"] == told


def test_books_that_an_older_release_doubled_are_put_right(tmp_path: Path, lake: LakeSettings) -> None:
    """By the analyzer that has the ledger; one that has none refuses to guess which of the two rows is true."""
    with Site(tmp_path / "site", lake) as site:
        generate(site.fleet, PARTS[0], HOSTS)
        assert site.a.whole()
        right = site.a.books()
        with site.a.store.session() as session:
            for table in ("ledger", "ledger_hours"):
                session.execute(f"INSERT INTO lake.books.{table} SELECT * FROM {site.a.store.hot}.{table}")
        with pytest.raises(StoreError, match="hours of 1 days twice"):
            site.b.whole()
        assert site.a.book()
        assert same(site.a.books(), right)
        assert site.b.whole()


def test_a_ledger_of_before_there_were_bookings_is_gone_on_from(tmp_path: Path, lake: LakeSettings) -> None:
    """An upgrade: the analyzer that has the ledger goes on, and one without takes over what the lake has."""
    with Site(tmp_path / "site", lake) as site:
        generate(site.fleet, PARTS[0], HOSTS)
        assert site.a.whole()
        right = site.a.books()
        with site.a.store.session() as session:
            delete(session, "DELETE FROM lake.books.bookings")
            delete(session, "DELETE FROM lake.books.booked")
            session.execute("INSERT INTO lake.books.bookings VALUES ('', '', 0, 0)")
            session.execute(f"DELETE FROM {site.a.store.hot}.books_place")
        assert site.b.whole()
        assert same(site.b.own_books(), right)
        assert site.a.whole()
        assert same(site.a.books(), right)


def test_the_books_of_a_newer_release_are_left_alone(tmp_path: Path, lake: LakeSettings) -> None:
    """It may have kept what this one does not know."""
    with Site(tmp_path / "site", lake) as site:
        generate(site.fleet, PARTS[0], HOSTS)
        assert site.a.whole()
        with site.a.store.session() as session:
            session.execute("UPDATE lake.books.bookings SET migration = 9999")
        with pytest.raises(StoreError, match="written by a newer release"):
            site.b.begin()


def test_a_lake_that_was_made_anew_does_not_empty_a_ledger(tmp_path: Path) -> None:
    """Nobody has booked into it: what the hot file has is all there is."""
    folder = tmp_path / "site"
    fleet_folder = in_folder(folder)
    with Site(folder, fleet_folder) as site:
        generate(site.fleet, PARTS[0], HOSTS)
        assert site.a.whole()
        right = site.a.own_books()["ledger"]
    other = tmp_path / "other"
    other.mkdir()
    (folder / "a").rename(other / "a")
    moved = Analyzer("a", other, in_folder(other))
    try:
        assert moved.book()
        assert moved.books()["ledger"] == right
    finally:
        moved.close()


_PASSES = """
import sys
from pathlib import Path
from tests.ledger.several import Analyzer, in_folder
folder = Path(sys.argv[1])
one = Analyzer("victim", folder, in_folder(folder))
print("ready", flush=True)
one.whole()
print("done", flush=True)
"""


@pytest.mark.parametrize(
    "after_seconds", [0.7, *(pytest.param(late, marks=pytest.mark.soak) for late in (0.2, 1.0, 1.4, 2.0))]
)
def test_who_takes_over_from_a_killed_process_doubles_nothing(
    tmp_path: Path, alone: Books, after_seconds: float
) -> None:
    """kill -9 in the middle of wherever it is."""
    folder = tmp_path / "site"
    with Site(folder, in_folder(folder)) as site:
        for part in PARTS:
            generate(site.fleet, part, HOSTS)
        with subprocess.Popen(
            [sys.executable, "-c", _PASSES, str(folder)], cwd=ROOT, stdout=subprocess.PIPE, text=True
        ) as victim:
            assert victim.stdout is not None
            assert victim.stdout.readline() == "ready\n"
            time.sleep(after_seconds)
            victim.kill()
        assert site.a.whole()
        assert same(site.a.books(), alone)


def test_nothing_is_written_where_nothing_is_new(tmp_path: Path, lake: LakeSettings) -> None:
    """A pass a minute over a site that rests must leave its lake as it is."""
    with Site(tmp_path / "site", lake) as site:
        generate(site.fleet, PARTS[0], HOSTS)
        assert site.a.whole()
        snapshots = _snapshots(site.fleet)
        for _ in range(2):
            assert site.a.whole(NOW)
        assert _snapshots(site.fleet) == snapshots


def _snapshots(fleet: Fleet) -> int:
    with fleet.store.session() as session:
        return int(session.row("SELECT count(*) FROM ducklake_snapshots('lake')")[0])
