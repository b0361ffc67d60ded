"""PostgreSQL behind pgbouncer that pools transactions: each may come to another connection than the one before."""

import os
import pwd
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from collector.errors import RegistryError
from collector.registry import AuditEntry, open_registry
from collector.store.lake import LakeSettings
from tests.fleet.ports import free_ports
from tests.fleet.postgres import USER, Postgres
from tests.operations.site import Site
from tests.waiting import PATIENCE_SECONDS, until


@pytest.fixture
def pooled(postgres: Postgres) -> Iterator[str]:
    """How libpq reaches a new database through pgbouncer."""
    if shutil.which("pgbouncer") is None and not Path("/usr/sbin/pgbouncer").exists():
        pytest.skip("pgbouncer is not installed; make services installs it")
    name = postgres.database().split()[0].partition("=")[2]
    (port,) = free_ports(1)
    folder = postgres.directory / f"pgbouncer-{port}"
    folder.mkdir()
    settings = {
        "listen_addr": "127.0.0.1",
        "listen_port": port,
        "unix_socket_dir": "",
        "auth_type": "any",
        "pool_mode": "transaction",
        "default_pool_size": 3,
        "server_round_robin": 1,
    }
    lines = [f"{key} = {value}" for key, value in settings.items()]
    place = f"{name} = host=127.0.0.1 port={postgres.port} user={USER} dbname={name}"
    (folder / "pgbouncer.ini").write_text("\n".join(["[databases]", place, "[pgbouncer]", *lines, ""]))
    as_user = [] if os.geteuid() else ["-u", pwd.getpwnam("postgres").pw_name]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            ["/usr/sbin/pgbouncer", *as_user, str(folder / "pgbouncer.ini")], stdout=log, stderr=log
        )
    dsn = f"dbname={name} host=127.0.0.1 port={port} user={USER}"

    def answers() -> bool:
        try:
            psycopg.connect(dsn, connect_timeout=5).close()
        except psycopg.OperationalError:
            return False
        return True

    try:
        until(answers, "pgbouncer answers", process=process, more=(folder / "log").read_text)
        yield dsn
    finally:
        process.terminate()
        process.wait(PATIENCE_SECONDS)


def test_a_registry_works_through_a_pool_of_transactions(pooled: str) -> None:
    """A statement that was prepared on one connection is not there on the next."""
    failed: list[RegistryError] = []

    def asks(registry_of: str, number: int) -> None:
        try:
            with open_registry(f"postgres:{registry_of}") as registry:
                for at in range(20):
                    registry.audit.add([AuditEntry(at, "read", f"k{number}", "GET", "/", "")])
                    registry.keys.listed()
        except RegistryError as error:
            failed.append(error)

    threads = [threading.Thread(target=asks, args=(pooled, number)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
    assert failed == []


def test_a_lake_is_sealed_into_through_a_pool_of_transactions(pooled: str, tmp_path: Path) -> None:
    """Every row is there once, while others use the same connections."""
    lake = LakeSettings(f"postgres:{pooled}", str(tmp_path / "data"))
    with Site(tmp_path / "s.duckdb", settings=lake) as site, open_registry(f"postgres:{pooled}") as registry:
        for number in range(6):
            site.take(range(number * 100, number * 100 + 100))
            registry.keys.listed()
            site.seal()
        assert site.rows() == 1200
