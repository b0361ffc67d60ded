"""Who read what: bounded, without names, and never lost as a fact."""

import logging

import pytest

from agent.wire.units import HOUR_US
from collector.access import access as module
from collector.access.access import Usage
from collector.errors import RegistryError
from collector.registry import AuditEntry, Registry
from tests.collector.access.conftest import TOKEN, add_key, bearer
from tests.collector.access.serving import Site


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 500_000 * HOUR_US

    def __call__(self) -> int:
        """Return microseconds UTC."""
        return self.now


@pytest.fixture
def clock() -> Clock:
    """The beginning of an hour."""
    return Clock()


@pytest.fixture
def usage(registry: Registry, clock: Clock) -> Usage:
    """Nobody was here yet."""
    return Usage(registry, clock)


def told(registry: Registry) -> list[tuple[str, str, str, int]]:
    """Return kind, actor, route and count of every entry."""
    return [(entry.kind, entry.actor, entry.subject, entry.count) for entry in registry.audit.since(0)]


def test_the_first_is_written_at_once_and_the_rest_when_the_hour_is_over(
    usage: Usage, registry: Registry, clock: Clock
) -> None:
    """A dashboard that asks every five seconds is two lines an hour, and their counts are its requests."""
    for _ in range(720):
        usage.note("read", "k1", "GET", "/v1/ledger")
    usage.flush()
    assert told(registry) == [("read", "k1", "/v1/ledger", 1)]
    clock.now += HOUR_US
    usage.note("read", "k1", "GET", "/v1/ledger")
    usage.flush()
    assert told(registry) == [
        ("read", "k1", "/v1/ledger", 1),
        ("read", "k1", "/v1/ledger", 719),
        ("read", "k1", "/v1/ledger", 1),
    ]
    assert [entry.at for entry in registry.audit.since(0)] == [500_000 * HOUR_US, 500_000 * HOUR_US, 500_001 * HOUR_US]


def test_a_server_that_ends_in_order_writes_what_it_counted(usage: Usage, registry: Registry) -> None:
    """Once, also when it is told to end twice."""
    for _ in range(3):
        usage.note("read", "k1", "GET", "/")
    usage.flush(last=True)
    usage.flush(last=True)
    assert sum(count for *_, count in told(registry)) == 3


def test_no_more_lines_an_hour_than_the_bound(
    usage: Usage, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is beyond is counted under one name, so that nobody fills the registry by being refused."""
    monkeypatch.setattr(module, "MOST_LINES", 10)
    for number in range(100):
        usage.note("refused", f"k{number}", "GET", "/")
    usage.flush(last=True)
    counts = told(registry)
    assert len([one for one in counts if one[1] != "others"]) == 10
    assert sum(count for *_, count in counts) == 100
    assert sum(count for _, actor, _, count in counts if actor == "others") == 90


class SilentAudit:
    """An audit that cannot be written."""

    def add(self, entries: list[AuditEntry]) -> None:
        """Fail as a full disk does."""
        raise RegistryError("the registry failed: disk full")


def test_what_cannot_be_written_waits(
    usage: Usage, registry: Registry, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """And the log says so once."""
    usage.note("read", "k1", "GET", "/")
    with monkeypatch.context() as patch, caplog.at_level(logging.ERROR):
        patch.setattr(registry, "audit", SilentAudit())
        usage.flush()
        usage.flush()
    assert [record.message for record in caplog.records] == [
        "the audit log cannot be written; its entries wait: the registry failed: disk full"
    ]
    usage.flush()
    assert told(registry) == [("read", "k1", "/", 1)]


def test_a_key_is_noted_once_an_hour(usage: Usage, registry: Registry, clock: Clock) -> None:
    """Five thousand agents that post every ten seconds are five thousand updates an hour."""
    key = add_key(registry, "agent", node="n1").split("_")[2]
    usage.key(key)
    usage.flush()
    first = clock.now
    clock.now += HOUR_US // 2
    usage.key(key)
    usage.flush()
    assert [one.used_at for one in registry.keys.listed()] == [first]
    clock.now += HOUR_US
    usage.note("read", key, "GET", "/")
    usage.key(key)
    usage.flush()
    assert [one.used_at for one in registry.keys.listed()] == [clock.now]


def test_the_audit_names_the_key_and_the_route_and_no_more(guarded: Site) -> None:
    """No address with a run's name in it, and no query: erasing a name must leave nothing here."""
    key = add_key(guarded.registry, "read")
    guarded.follow()
    guarded.client.get("/metrics?user=mira", bearer(key))
    guarded.client.get("/runs/slurm/alpha/mira-81234", bearer(key))
    guarded.client.get("/runs/mira", bearer(TOKEN))
    guarded.client.get("/metrics", bearer("gl_read_mira_mira"))
    guarded.access.usage.flush(last=True)
    entries = [entry for entry in guarded.registry.audit.since(0) if entry.kind != "change"]
    assert {(entry.kind, entry.actor, entry.action, entry.subject) for entry in entries} == {
        ("read", "settings", "GET", "/runs/{run_id:path}"),
        ("read", key.split("_")[2], "GET", "/metrics"),
        ("read", key.split("_")[2], "GET", "/runs/{run_id:path}"),
        ("refused", "", "GET", "/metrics"),
    }
    assert "mira" not in repr(entries)


def test_batches_are_no_reading(guarded: Site) -> None:
    """The audit is about money and names; what an agent sends has its receipt."""
    key = add_key(guarded.registry, "agent", node="n14")
    guarded.follow()
    guarded.client.get("/v1/schema", bearer(key))
    guarded.access.usage.flush(last=True)
    assert [entry.kind for entry in guarded.registry.audit.since(0)] == ["change"]
    assert guarded.registry.keys.listed()[0].used_at is not None
