"""The lake is older than what was sealed into it: agents are asked for what they hold, the rest is named as lost."""

import logging
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from analyzer.interfaces.doctor.examination import looked_at
from analyzer.interfaces.doctor.sight import Sight
from analyzer.settings.settings import Settings
from collector.config import CollectorConfig
from collector.errors import StoreError
from collector.lake.sealing import seal
from collector.store.database import Store, lake_of
from collector.store.lake import LakeSettings
from collector.store.noted import lost
from collector.store.session import Session
from tests.collector.serving import Running, running
from tests.fleet.postgres import Postgres
from tests.operations.site import Site
from tests.operations.test_restore_with_agents import Host
from tests.waiting import until


@dataclass
class Place:
    """A collector's settings, and what keeps and puts back its lake as it is."""

    config: CollectorConfig
    keep: Callable[[], object]
    put_back: Callable[[], object]
    lives_on: bool  # whether a server runs on meanwhile

    @property
    def lake(self) -> LakeSettings:
        """Where its lake is."""
        lake = lake_of(self.config)
        assert lake is not None
        return lake


@pytest.fixture
def server() -> Iterator[Postgres]:
    """A PostgreSQL of our own, whose disk is put back."""
    with Postgres() as postgres:
        yield postgres


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A site whose lake can be put back."""
    store, kept = tmp_path / "store.duckdb", tmp_path / "kept"
    if request.param == "sqlite":
        config = CollectorConfig(store=store, gather_seconds=0, seal_seconds=3600)
        folder = tmp_path / "store.duckdb.lake"

        def put_back() -> None:
            put(kept, folder)

        return Place(config, lambda: shutil.copytree(folder, kept), put_back, lives_on=False)
    postgres: Postgres = request.getfixturevalue("server")
    lake = f"postgres:{postgres.database()}"
    config = CollectorConfig(store=store, gather_seconds=0, seal_seconds=3600, lake=lake, data=str(tmp_path / "data"))

    def stopped(do: Callable[[], object]) -> None:
        postgres.kill()
        do()
        postgres.start()

    def put_back_cluster() -> None:
        shutil.rmtree(postgres.directory / "data")
        copied(kept, postgres.directory / "data")

    return Place(
        config,
        lambda: stopped(lambda: copied(postgres.directory / "data", kept)),
        lambda: stopped(put_back_cluster),
        lives_on=True,
    )


def copied(source: Path, target: Path) -> None:
    """Copy a cluster's disk with its owners."""
    shutil.copytree(source, target, copy_function=shutil.copy2)
    for path in (source, *source.rglob("*")):
        owner = path.stat()
        there = target / path.relative_to(source)
        there.chmod(owner.st_mode)
        shutil.chown(there, owner.st_uid, owner.st_gid)


def sealed(collector: Running) -> None:
    """Seal what has arrived; the catalogue may be back for a moment only."""

    def tried() -> bool:
        try:
            seal(collector.store, collector.writer.mark)
        except StoreError:
            return False
        return True

    until(tried, "it is sealed")


def samples(collector: Running) -> list[tuple[str, int]]:
    """Return whose batches' samples are there, once for each time."""
    sealed(collector)
    with collector.store.session() as session:
        found = session.rows("SELECT node, memory_used_bytes FROM gpu_samples ORDER BY ALL")
    return [(node, number) for node, number in found]


def notes(collector: Running, config: CollectorConfig) -> str:
    """Return what the doctor says."""
    with collector.store.session() as session:
        sight = Sight(collector.store, session, Settings(), config, time.time_ns() // 1000)
        return "\n".join(line.what for section in looked_at(sight) for line in section.lines)


def test_what_agents_hold_comes_again_and_what_nobody_has_is_named(
    place: Place, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It was answered "repeated", and the doctor said that every batch is sealed."""
    holder, other = Host(tmp_path / "a", "a"), Host(tmp_path / "b", "b")
    with ExitStack() as stack:
        collector = stack.enter_context(running(place.config, lake=place.lake))

        def deliver(host: Host, batches: int) -> None:
            host.connect(collector.client.port)
            host.read(batches)
            host.deliver()

        deliver(holder, 2)
        deliver(other, 2)
        sealed(collector)
        place.keep()
        deliver(holder, 3)  # sealed, which it never hears
        began = time.time_ns() // 1000
        deliver(other, 3)
        sealed(collector)
        deliver(other, 1)  # by which it hears so, and lets go of the three
        ended = time.time_ns() // 1000
        if not place.lives_on:
            stack.close()
        place.put_back()
        if not place.lives_on:
            with pytest.raises(StoreError, match="older than what this store has sealed"):
                Store.open(place.config.store, lake=place.lake, read_only=True)
            collector = stack.enter_context(running(place.config, lake=place.lake))
        with caplog.at_level(logging.WARNING):
            sealed(collector)
            deliver(holder, 1)
            deliver(other, 1)
        assert samples(collector) == [
            *(("a", number) for number in range(6)),
            *(("b", number) for number in (0, 1, 5, 6)),
        ]
        with collector.store.session() as session:
            ((first, last),) = {(rows.first_at or 0, rows.last_at or 0) for rows in lost(session)}
        assert first <= began <= last <= ended
        assert "the lake has lost batches of collector 0" in notes(collector, place.config)
        for host in (holder, other):  # they go on as before
            deliver(host, 1)
        assert len(samples(collector)) == 12
        deliver(holder, 1)
        assert holder.held == 1
    holder.close()
    other.close()


def put(source: Path, target: Path) -> None:
    """Put a copy of a lake, or of a hot file, in a place."""
    if source.is_dir():
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(source, target)
    else:
        shutil.copy(source, target)


def test_a_newer_lake_that_comes_back_has_nothing_twice(tmp_path: Path) -> None:
    """An older one was mounted by mistake; what agents have sent it since, the right one may have already."""
    store, lake = tmp_path / "store.duckdb", tmp_path / "store.duckdb.lake"
    with Site(store) as site:
        site.take(range(3))
        site.seal()
    put(lake, tmp_path / "older")
    with Site(store) as site:
        site.take(range(3, 6))
        site.seal()
    put(lake, tmp_path / "newer")
    put(tmp_path / "older", lake)
    with Site(store) as site:
        assert site.take(range(6)) == [True] * 3 + [False] * 3
        assert site.batches() == [*range(6)]
        site.take(range(6, 8))
        site.seal()
        assert site.take([5, 8]) == [True, False]  # the last of them waits here when the lakes are changed
    put(tmp_path / "newer", lake)
    with Site(store) as site:
        assert site.take(range(9)) == [True] * 6 + [False] * 2 + [True]
        assert site.batches() == [*range(9)]
        with site.store.session() as session:
            assert lost(session) == []


def test_an_older_hot_file_has_nothing_twice(tmp_path: Path) -> None:
    """Its receipts end before the lake's, which has the others."""
    store = tmp_path / "store.duckdb"
    with Site(store) as site:
        site.take(range(3))
        site.seal()
        site.take(range(3, 6))  # wait in the older one
    put(store, tmp_path / "older")
    with Site(store) as site:
        site.take(range(6, 9))
        site.seal()
    put(tmp_path / "older", store)
    with Site(store) as site:
        assert site.take(range(10)) == [True] * 9 + [False]
        assert site.batches() == [*range(10)]
    for file in tmp_path.glob("store.duckdb*"):
        if file.is_file():
            file.unlink()
    with Site(store) as site:
        assert site.take(range(11)) == [True] * 10 + [False]
        assert site.batches() == [*range(11)]


def test_a_commit_that_is_said_and_was_none_is_sealed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a connection that was cut: acknowledged rows were forgotten here, and the lake had none of them."""
    execute, cuts = Session.execute, [1]

    def cut(session: Session, sql: str, parameters: Sequence[object] = ()) -> None:
        execute(session, sql, parameters)
        if "INTO lake.main.markers" in sql and cuts and cuts.pop():
            execute(session, "ROLLBACK")
            execute(session, "BEGIN")

    monkeypatch.setattr(Session, "execute", cut)
    with Site(tmp_path / "store.duckdb") as site:
        site.take(range(3))
        with pytest.raises(StoreError, match="has not kept"):
            site.seal()
        assert site.batches() == [0, 1, 2]
        assert site.take(range(4)) == [True] * 3 + [False]


def test_an_agent_that_never_heard_of_a_sealing_is_asked_too(tmp_path: Path) -> None:
    """It knows of no number that could fall, and must not hear that what it alone holds is sealed."""
    store = tmp_path / "store.duckdb"
    config = CollectorConfig(store=store, gather_seconds=0, seal_seconds=3600)
    host = Host(tmp_path / "spool")
    Site(store).close()
    put(tmp_path / "store.duckdb.lake", tmp_path / "older")
    with running(config, lake=True) as collector:
        host.connect(collector.client.port)
        host.read(3)
        host.deliver()
        sealed(collector)
        host.read(2)
    put(tmp_path / "older", tmp_path / "store.duckdb.lake")
    with running(config, lake=True) as collector:
        host.connect(collector.client.port)
        host.deliver()
        host.read(1)
        host.deliver()
        assert [number for _, number in samples(collector)] == [*range(6)]
    host.close()
