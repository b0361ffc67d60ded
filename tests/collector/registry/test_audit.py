"""The audit is added to and never changed: the database itself refuses, whoever asks."""

import sqlite3
import time
from pathlib import Path

import psycopg
import pytest

from collector.errors import RegistryError
from collector.registry import AccessKey, AuditEntry, Registry
from collector.registry.audit import Audit
from collector.registry.tables import AUDIT_DAYS

DAY = 86_400_000_000


def now() -> int:
    """Return microseconds UTC."""
    return time.time_ns() // 1000


def attempt(where: str | Path, statement: str) -> None:
    """Try a statement behind our back, as somebody with the database's own tool would."""
    if isinstance(where, Path):
        connection = sqlite3.connect(where)
        try:
            connection.execute(statement)
            connection.commit()
        finally:
            connection.close()
    else:
        with psycopg.connect(where.removeprefix("postgres:"), options="-c search_path=gpuledger") as session:
            session.execute(statement.encode())


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE audit SET actor = 'somebody else'",
        "UPDATE audit SET count = count",
        "DELETE FROM audit",
        "DELETE FROM audit WHERE kind = 'change'",
        "INSERT OR REPLACE INTO audit SELECT id, at, kind, 'x', action, subject, detail, count FROM audit",
        "INSERT INTO audit (id, at, kind, actor, action, subject, detail, count) "
        "OVERRIDING SYSTEM VALUE SELECT id, at, kind, 'x', action, subject, detail, count FROM audit "
        "ON CONFLICT (id) DO UPDATE SET actor = 'x'",
        "TRUNCATE audit",
    ],
)
def test_what_was_written_stays(where: str | Path, registry: Registry, statement: str) -> None:
    """Not even with the rights of the collector's own account, by any statement that either database knows."""
    entry = AuditEntry(now(), "change", "cli:mira", "add key", "k", "read grafana")
    registry.audit.add([entry])
    with pytest.raises((sqlite3.Error, psycopg.Error)):
        attempt(where, statement)
    assert registry.audit.since(0) == [entry]


def test_what_is_older_than_it_must_be_kept_may_go(where: str | Path, registry: Registry) -> None:
    """Otherwise it would grow for ever; the bound is the database's, so that nobody forgets it."""
    old, young = (AuditEntry(now() - days * DAY, "read", "k", "GET", "/") for days in (AUDIT_DAYS + 2, AUDIT_DAYS - 2))
    registry.audit.add([old, young])
    assert registry.audit.expire(now()) == 1
    assert registry.audit.since(0) == [young]


def test_a_change_and_its_entry_are_one(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that nobody is said to have made cannot be, nor an entry about a key that is not there."""
    key = AccessKey("k1", "read", "grafana", "hash", now(), "cli:mira")
    registry.keys.add(key)
    with pytest.raises(RegistryError):
        registry.keys.add(key)
    assert [(entry.actor, entry.action, entry.subject, entry.detail) for entry in registry.audit.since(0)] == [
        ("cli:mira", "add key", "k1", "read grafana")
    ]


def test_the_newest_are_given_in_order(registry: Registry) -> None:
    """A bound, so that years of it do not fill the memory of who looks."""
    registry.audit.add([AuditEntry(at, "read", "k", "GET", "/") for at in (3, 1, 2, 5, 4)])
    assert [entry.at for entry in registry.audit.since(2, limit=3)] == [3, 4, 5]
    assert isinstance(registry.audit, Audit)
