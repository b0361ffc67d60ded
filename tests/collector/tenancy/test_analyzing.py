"""The lease under which a lake is booked into: one analyzer at a time, by name, and none while nobody can say which."""

import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from analyzer.interfaces.doctor.examination import jobs
from analyzer.interfaces.doctor.sight import Live, Sight
from analyzer.settings.settings import Settings
from collector.access.open_access import analyst_of, tenant_of
from collector.config import CollectorConfig
from collector.errors import HeldElsewhereError, RegistryError
from collector.registry import Registry, open_registry
from collector.registry.tenant import NAME, Tenant
from collector.store.database import Store
from dashboards.analysis import AnalysisJob, JobPage
from dashboards.server.app import Booker
from tests.analyzer.ledger.fleet import HOUR, MONDAY, Fleet
from tests.analyzer.ledger.several import Site, in_folder
from tests.exposed import exposed
from tests.fleet.postgres import Postgres
from tests.waiting import until


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Registry]:
    """Return the registry of the lake's analyzers."""
    with open_registry(tmp_path / "registry.sqlite") as opened:
        yield opened


def tenant(registry: Registry, name: str) -> Tenant:
    """Return an analyzer that has just shown that it is alive."""
    made = Tenant(registry, name, f"http://{name}:8470", name)
    made._beat()
    return made


def fall_silent(registry: Registry, one: Tenant) -> None:
    """Let the others think that it is gone, while it goes on."""
    registry.collectors.heartbeat(one.number, time.time_ns() // 1000, -1)


def test_the_second_is_refused_with_who_has_it_and_the_way_out(registry: Registry) -> None:
    """Somebody must find the other one, or know that nothing need be done."""
    tenant(registry, "a").booking_lease().take()
    with pytest.raises(HeldElsewhereError) as refused:
        tenant(registry, "b").booking_lease().take()
    assert str(refused.value).startswith("a (http://a:8470) books into this lake, since 2")
    assert str(refused.value).endswith("takes over when that one is stopped or falls silent")


def test_it_is_handed_on_when_given_back_or_silent(registry: Registry) -> None:
    """A restart costs nothing; a death costs what the heartbeat allows."""
    a, b = tenant(registry, "a"), tenant(registry, "b")
    first, second = a.booking_lease(), b.booking_lease()
    assert first.take().is_mine
    first.release()
    assert second.take().is_mine
    fall_silent(registry, b)
    assert first.take().is_mine
    with pytest.raises(HeldElsewhereError), second.guard():
        pytest.fail("it has no lease to book under")


def test_a_late_holder_keeps_it_while_it_books(postgres: Postgres) -> None:
    """Its heart may be late in the very moment of its commit: nobody else begins until that is through."""
    with open_registry(f"postgres:{postgres.database()}") as shared:
        a, b = tenant(shared, "a"), tenant(shared, "b")
        lease = a.booking_lease()
        lease.take()
        with lease.guard():
            fall_silent(shared, a)
            with pytest.raises(HeldElsewhereError):
                b.booking_lease().take()
        assert b.booking_lease().take().is_mine


def test_who_has_stopped_or_was_refused_leaves_no_connection(postgres: Postgres, tmp_path: Path) -> None:
    """The registry of each server's heartbeat was closed by nobody: a database has a hundred connections for all."""
    database = postgres.database()
    config = CollectorConfig(
        lake=f"postgres:{database}", data=str(tmp_path / "data"), direct_url="http://127.0.0.1:1", name="a"
    )
    with psycopg.connect(f"{database} application_name=test") as connection:

        def others() -> int:
            found = connection.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
            ).fetchone()
            connection.commit()
            return int(found[0]) if found else -1

        for opened in (tenant_of, analyst_of):
            for refused in (False, True):  # for as long as the first is alive, another store is none of its name
                with Store.open(tmp_path / f"{opened.__name__}-{refused}.duckdb") as store:
                    if refused:
                        with pytest.raises(RegistryError, match="with another store"):
                            opened(config, store)
                    else:
                        own = opened(config, store)
                        assert own is not None
                        own.start()
                        assert others() > 0
                        own.stop()
                until(lambda: others() == 0, "PostgreSQL has seen that they are gone")


def test_an_agent_cannot_take_it() -> None:
    """Streams share the table of leases; one of this name would stop the ledger of a fleet."""
    assert not NAME.isprintable()  # and the envelope refuses what is not (agent/wire/envelope.py)


def test_one_books_the_other_follows_and_takes_over(tmp_path: Path, registry: Registry) -> None:
    """The whole of it, as servers run it: pages of the second show the first's ledger, and after its death it books."""
    folder = tmp_path / "site"
    with Site(folder, in_folder(folder)) as site:
        _work(site.fleet)
        a, b = tenant(registry, "a"), tenant(registry, "b")
        first = AnalysisJob(Booker(site.a.store, Settings(), a.booking_lease(), None), 3600)
        lease = b.booking_lease()
        second = AnalysisJob(Booker(site.b.store, Settings(), lease, None), 3600)
        assert (first.once().error, first.last.held) == (None, None)
        a._beat()
        assert second.once().held is not None
        assert (second.last.error, second.last.unbooked) == (None, {"held": 1})
        assert site.b.own_books("ledger")["ledger"] == site.a.books("ledger")["ledger"] != []
        page = exposed(JobPage(second, lease)).decode()
        assert 'gpuledger_analysis_unbooked_passes_total{reason="held"} 1.0' in page
        assert "gpuledger_analysis_lease_held 0.0" in page
        assert 'gpuledger_analysis_lease_info{holder="a",url="http://a:8470"} 1.0' in page
        fall_silent(registry, a)
        assert second.once().held is None
        assert "gpuledger_analysis_lease_held 1.0" in exposed(JobPage(second, lease)).decode()
        b._beat()
        assert "b (http://b:8470) books into this lake" in str(first.once().held)


def _work(fleet: Fleet) -> None:
    fleet.own("n1", ["G1"])
    fleet.sample("n1", "G1", MONDAY, MONDAY + HOUR)


def test_nothing_is_booked_while_the_registry_is_away(tmp_path: Path) -> None:
    """Nobody can say whose turn it is then; it is said why, counted, and mended by itself."""
    folder = tmp_path / "site"
    with (
        Postgres() as server,
        Site(folder, in_folder(folder)) as site,
        open_registry(f"postgres:{server.database()}") as shared,
    ):
        _work(site.fleet)
        job = AnalysisJob(Booker(site.a.store, Settings(), tenant(shared, "a").booking_lease(), None), 3600)
        server.kill()
        assert "the registry" in str(job.once().error)
        assert job.last.unbooked == {"registry": 1}
        assert site.a.books("ledger")["ledger"] == []
        server.start()
        assert job.once().error is None
        assert site.a.books("ledger")["ledger"] != []


def test_a_site_with_one_analyzer_hears_nothing_of_leases(tmp_path: Path) -> None:
    """It has none: no line of the doctor, no series."""
    folder = tmp_path / "site"
    with Site(folder, in_folder(folder)) as site:
        _work(site.fleet)
        job = AnalysisJob(Booker(site.a.store, Settings(), None, None), 3600)
        assert job.once().error is None
        assert b"lease" not in exposed(JobPage(job, None))
        assert [line for line in _lines(site, Live()) if "books" in line[1]] == []


def test_the_doctor_says_who_books(tmp_path: Path) -> None:
    """And that hours are there twice, where an older release let that happen."""
    folder = tmp_path / "site"
    with Site(folder, in_folder(folder)) as site:
        _work(site.fleet)
        assert site.a.whole()
        assert ("ok", "a books into this lake") in _lines(site, Live(held="a books into this lake"))
        since = Live(books_since=1_762_732_800_000_000)
        assert ("ok", "this one books into the lake since 2025-11-10 00:00 UTC, and no other") in _lines(site, since)
        with site.a.store.session() as session:
            session.execute(f"INSERT INTO lake.books.ledger_hours SELECT * FROM {site.a.store.hot}.ledger_hours")
        assert ("bad", "the lake's books have hours of 1 day twice: 2025-11-10") in _lines(site, Live())


def _lines(site: Site, live: Live) -> list[tuple[str, str]]:
    with site.a.store.session() as session:
        seen = Sight(site.a.store, session, Settings(), CollectorConfig(), time.time_ns() // 1000, live=live)
        return [(line.answer, line.what) for line in jobs(seen).lines]
