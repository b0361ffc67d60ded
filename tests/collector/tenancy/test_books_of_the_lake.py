"""The books in a lake between two analyzers: what is told once, doubled, older, newer or made anew is put right."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.errors import StoreError
from collector.store import booking, books
from collector.store.lake import LakeSettings, delete
from tests.analyzer.ledger.fleet import DAY, HOUR, MONDAY, Fleet
from tests.analyzer.ledger.generated import generate
from tests.analyzer.ledger.several import NOW, Analyzer, Site, in_folder, same

HOSTS, PART = 2, 11  # PART is the seed of what arrives


@pytest.fixture(scope="module")
def booked_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a site into whose lake `a` has booked all that came."""
    folder = tmp_path_factory.mktemp("booked")
    with Site(folder / "site", in_folder(folder)) as site:
        generate(site.fleet, PART, HOSTS)
        assert site.a.whole()
    return folder


@pytest.fixture
def booked(request: pytest.FixtureRequest, tmp_path: Path, lake: LakeSettings) -> Iterator[Site]:
    """Yield such a site of a test's own: a copy, where all of it lies in one folder."""
    is_copied = lake == in_folder(tmp_path)
    if is_copied:
        shutil.copytree(request.getfixturevalue("booked_once"), tmp_path, dirs_exist_ok=True)
    with Site(tmp_path / "site", lake) as site:
        if not is_copied:
            generate(site.fleet, PART, HOSTS)
            assert site.a.whole()
        yield site


def test_a_transaction_that_began_before_is_undone_at_its_commit(tmp_path: Path, either_lake: LakeSettings) -> None:
    """The late holder has looked, all was well, and then it slept: what it looked at must not be what decides."""
    with Site(tmp_path / "site", either_lake) as site:
        generate(site.fleet, PART, HOSTS)
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
        told = site.a.books("adjustments")["adjustments"]
        assert told != []
        for taker in (site.b, site.a):
            assert taker.whole(MONDAY + 11 * DAY)
            assert taker.books("adjustments")["adjustments"] == told
            assert taker.own_books("adjustments")["adjustments"] == told
        site.b.lose_all()
        assert site.b.whole(MONDAY + 12 * DAY)
        assert site.b.books("adjustments")["adjustments"] == told


def test_books_that_an_older_release_doubled_are_put_right(booked: Site) -> None:
    """By the analyzer that has the ledger; one that has none refuses to guess which of the two rows is true."""
    right = booked.a.books()
    with booked.a.store.session() as session:
        for table in ("ledger", "ledger_hours"):
            session.execute(f"INSERT INTO lake.books.{table} SELECT * FROM {booked.a.store.hot}.{table}")
    with pytest.raises(StoreError, match="hours of 1 days twice"):
        booked.b.whole()
    assert booked.a.book()
    assert same(booked.a.books(), right)
    assert booked.b.whole()


def test_a_ledger_of_before_there_were_bookings_is_gone_on_from(booked: Site) -> None:
    """An upgrade: the analyzer that has the ledger goes on, and one without takes over what the lake has."""
    right = booked.a.books()
    with booked.a.store.session() as session:
        delete(session, "DELETE FROM lake.books.bookings")
        delete(session, "DELETE FROM lake.books.booked")
        session.execute("INSERT INTO lake.books.bookings VALUES ('', '', 0, 0)")
        session.execute(f"DELETE FROM {booked.a.store.hot}.books_place")
    assert booked.b.whole()
    assert same(booked.b.own_books(), right)
    assert booked.a.whole()
    assert same(booked.a.books(), right)


def test_the_books_of_a_newer_release_are_left_alone(booked: Site) -> None:
    """It may have kept what this one does not know."""
    with booked.a.store.session() as session:
        session.execute("UPDATE lake.books.bookings SET migration = 9999")
    with pytest.raises(StoreError, match="written by a newer release"):
        booked.b.begin()


def test_a_lake_that_was_made_anew_does_not_empty_a_ledger(tmp_path: Path, booked_once: Path) -> None:
    """Nobody has booked into it: what the hot file has is all there is."""
    other = tmp_path / "other"
    other.mkdir()
    shutil.copytree(booked_once / "site" / "a", other / "a")
    before = Analyzer("a", other, in_folder(booked_once))
    right = before.own_books("ledger")["ledger"]
    before.close()
    moved = Analyzer("a", other, in_folder(other))
    try:
        assert moved.book()
        assert moved.books("ledger")["ledger"] == right
    finally:
        moved.close()


def test_nothing_is_written_where_nothing_is_new(booked: Site) -> None:
    """A pass a minute over a site that rests must leave its lake as it is."""
    snapshots = _snapshots(booked.fleet)
    for _ in range(2):
        assert booked.a.whole(NOW)
    assert _snapshots(booked.fleet) == snapshots


def _snapshots(fleet: Fleet) -> int:
    with fleet.store.session() as session:
        return int(session.row("SELECT count(*) FROM ducklake_snapshots('lake')")[0])
