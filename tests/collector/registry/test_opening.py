"""Where a registry rests: who may read its file, what versions do, and what errors say."""

import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from collector.errors import RegistryError
from collector.registry import AccessKey, Registry, open_registry, registry_file
from collector.registry.tables import VERSIONS
from tests.collector.registry.test_audit import attempt
from tests.fleet.postgres import Postgres


def test_it_lies_beside_the_store_and_its_owner_alone_reads_it(tmp_path: Path) -> None:
    """It names hosts, teams and hashes of keys. Its log beside it is no more open than it is."""
    where = registry_file(tmp_path / "gpuledger.duckdb")
    assert where == tmp_path / "gpuledger.duckdb.registry.sqlite"
    assert registry_file(None) is None
    with open_registry(where) as registry:
        registry.collectors.claim_number("a", "http://a")
        files = sorted(tmp_path.iterdir())
        assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
        assert len(files) > 1


def test_all_may_open_it_at_once(opened: Callable[[], Registry]) -> None:
    """A fleet is started by one command; one of them makes the tables."""
    registries: list[Registry] = []
    threads = [threading.Thread(target=lambda: registries.append(opened())) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(registries) == 6
    assert {registry.keys.changed(0)[1] for registry in registries} == {0}


def test_one_of_a_newer_release_is_left_alone(where: str | Path, registry: Registry) -> None:
    """Two releases in one fleet: the older one must not write what it does not understand."""
    attempt(where, f"INSERT INTO versions VALUES ({max(VERSIONS) + 1}, 0)")
    with pytest.raises(RegistryError, match="which this release does not know; upgrade gpuledger"):
        open_registry(where)


def test_what_is_no_registry_is_told(tmp_path: Path) -> None:
    """One sentence that names the file."""
    (tmp_path / "text").write_text("this is no database, and it is long enough to be read as one" * 10)
    with pytest.raises(RegistryError, match="text cannot be used: file is not a database"):
        open_registry(tmp_path / "text")
    with pytest.raises(RegistryError, match="cannot open the registry"):
        open_registry(tmp_path / "none" / "r.sqlite")


@pytest.mark.parametrize("secret", ["p4ssw0rd-of-the-site"])
@pytest.mark.parametrize(
    "form", ["postgres:host=127.0.0.1 port=1 user=u password={} dbname=d", "postgresql://u:{}@127.0.0.1:1/d"]
)
def test_no_error_says_the_password(form: str, secret: str) -> None:
    """It would stand in a log, for years."""
    with pytest.raises(RegistryError) as told:
        open_registry(form.format(secret))
    error: BaseException | None = told.value
    assert "host=127.0.0.1 port=1 dbname=d" in str(error)
    while error is not None:
        assert secret not in str(error)
        error = error.__cause__


def test_what_is_no_address_is_told_without_it() -> None:
    """It may be a password that slipped."""
    with pytest.raises(RegistryError, match="use dbname=… host=…") as told:
        open_registry("postgres:p4ssw0rd")
    assert "p4ssw0rd" not in str(told.value)


def test_it_survives_a_restart_of_its_server() -> None:
    """A connection that was broken meanwhile is replaced before it is used."""
    with Postgres() as server, open_registry(f"postgres:{server.database()}") as registry:
        registry.keys.add(AccessKey("k1", "read", "", "hash", 0, "test"))
        server.kill()
        with pytest.raises(RegistryError):
            registry.keys.listed()
        server.start()
        assert [key.id for key in registry.keys.listed()] == ["k1"]
