"""What cannot be undone goes by a clock that is proven: a jump of days holds it, and is said."""

from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.wire.envelope import encode
from agent.wire.units import DAY_US, HOUR_US, SECOND_US
from collector.background import ProvenClock
from collector.cli.access import Wish, issue
from collector.config import CollectorConfig
from collector.lake.keeper import Maintenance
from collector.pipeline.metrics import Metrics
from collector.pipeline.writer import Writer, clock_of, following
from collector.registry import open_registry
from collector.store.database import Store
from tests.collector.access.conftest import bearer
from tests.collector.serving import running
from tests.operations.site import Site

NOW = 1_764_000_000_000_000
JUMPS = [sign * size for size in (40 * DAY_US, 400 * DAY_US) for sign in (1, -1)]
each_jump = pytest.mark.parametrize("jump", JUMPS, ids=lambda jump: f"{jump // DAY_US:+} d")
SLIGHT = pytest.mark.parametrize("slight", [HOUR_US, -HOUR_US])


@dataclass
class Time:
    """What time it is, and by how much this host's clock is off. Microseconds."""

    true: int = NOW
    off: int = 0

    def wall(self) -> int:
        """Return what the host says."""
        return self.true + self.off

    def monotonic(self) -> float:
        """Return what never jumps."""
        return self.true / SECOND_US

    def clock(self, newest_us: int | None) -> ProvenClock:
        """Return a clock that is made now."""
        return ProvenClock(newest_us, self.wall, self.monotonic)


@pytest.fixture
def at() -> Time:
    """A clock that is right."""
    return Time()


@each_jump
@pytest.mark.parametrize("boots", [True, False], ids=["at boot", "while running"])
def test_a_jump_of_days_is_not_gone_by_until_agents_bear_it_out(at: Time, jump: int, boots: bool) -> None:
    """A boot 40 days ahead dropped receipts, and what agents still held counted twice; 400 days took every tier."""
    clock = at.clock(NOW - HOUR_US)
    at.off = jump
    if boots:
        clock = at.clock(NOW - HOUR_US)
    for _ in range(3):
        at.true += HOUR_US
        assert abs(clock.now() - at.true) <= 2 * HOUR_US
        clock.heard("n14", at.true)
    assert clock.doubt is not None
    at.true += jump  # it was the world that jumped: a host that was off, say
    at.off = 0
    clock = at.clock(NOW)
    clock.heard("n14", at.true - 60 * SECOND_US)
    assert (clock.now(), clock.doubt) == (at.wall(), None)


@SLIGHT
def test_an_hour_is_no_jump(at: Time, slight: int) -> None:
    """Clocks are set, and no agent need say anything."""
    clock = at.clock(NOW - HOUR_US)
    at.off = slight
    assert (clock.now(), clock.doubt) == (at.wall(), None)
    at.true += 300 * DAY_US  # slowly: nobody asked meanwhile
    assert clock.now() == at.wall()


def test_a_clock_that_is_right_again_is_believed(at: Time) -> None:
    """The agents were right all along."""
    clock = at.clock(NOW)
    at.off = 40 * DAY_US
    assert clock.now() == NOW
    at.off = 0
    at.true += HOUR_US
    assert (clock.now(), clock.doubt) == (at.true, None)


@each_jump
def test_who_is_gone_has_no_say_and_who_is_alone_neither(at: Time, jump: int) -> None:
    """Most of those that are heard decide: neither the dead, nor one whose clock is wrong as ours is."""
    clock = at.clock(NOW)
    for number in range(9):
        clock.heard(f"gone-{number}", at.true)
    at.true += HOUR_US
    at.off = jump
    for agent, sent_at in (("wrong", at.wall()), ("a", at.true), ("b", at.true)):
        clock.heard(agent, sent_at)
    assert clock.now() == at.true
    clock.heard("a", at.wall())
    clock.heard("b", at.wall())
    assert clock.now() == at.wall()


def test_batches_that_waited_hold_what_cannot_be_undone_until_the_newest_come(at: Time) -> None:
    """After 40 days of outage agents first send what they kept, the oldest first."""
    clock = at.clock(NOW)
    at.true += 40 * DAY_US
    clock = at.clock(NOW)
    for days in range(1, 38):
        clock.heard("n14", NOW + days * DAY_US)
        assert clock.now() == NOW
    clock.heard("n14", NOW + 38 * DAY_US)
    assert clock.now() == at.true


@each_jump
def test_the_first_agents_of_a_new_site_are_believed(at: Time, jump: int) -> None:
    """There is no batch yet by which a host that boots with a wrong clock could know it."""
    at.off = jump
    clock = at.clock(None)
    assert clock.now() == at.wall()
    clock.heard("import:what a person brings", at.wall())
    clock.heard("n14", at.true)
    assert clock.now() == at.true
    assert clock.doubt is not None


def test_where_no_agent_is_heard_a_day_without_contradiction_is_enough(at: Time) -> None:
    """A site of imports alone would never expire anything; that its clock jumped was said for a day."""
    clock = at.clock(NOW)
    at.off = 40 * DAY_US
    for _ in range(24):
        assert clock.now() == at.true
        at.true += HOUR_US
    assert clock.now() == at.true
    at.true += HOUR_US
    assert clock.now() == at.wall()


@given(st.lists(st.tuples(st.integers(-500, 500), st.integers(0, 60), st.booleans()), max_size=20), st.booleans())
def test_no_order_of_jumps_takes_it_far_from_the_truth(steps: list[tuple[int, int, bool]], boots: bool) -> None:
    """As long as agents say what time it is."""
    at = Time()
    clock = at.clock(NOW)
    for jump, minutes, restarts in steps:
        newest, at.off = at.true, jump * DAY_US
        at.true += minutes * 60 * SECOND_US
        if restarts and boots:
            clock = at.clock(newest)
        clock.heard("n14", at.true)
        assert abs(clock.now() - at.true) <= 3 * DAY_US


def test_receipts_keys_and_readiness_go_by_it(tmp_path: Path) -> None:
    """A real collector whose host boots 40 days ahead: receipts stay, so that nothing counts twice; keys stay open."""
    at = Time()
    path = tmp_path / "store.duckdb"
    with Site(path) as site:
        site.seal()
    with open_registry(tmp_path / "store.duckdb.registry.sqlite") as registry:
        shown = bearer(issue(registry, Wish("writer", "hosts", lifetime=30 * DAY_US), "test", NOW))

    class Shifted(Writer):
        """A writer on a host of another time."""

        def __init__(self, store: Store, config: CollectorConfig) -> None:
            super().__init__(store, config)
            with store.hot_session() as session:
                (newest,) = session.row("SELECT max(sent_at) FROM receipts")
            self.clock = at.clock(newest)

    def batch(sequence: int) -> bytes:
        row = {"node": "n14", "gpu_uuid": "GPU-0", "started_at": NOW - DAY_US, "ended_at": NOW, "up": True}
        return encode(agent="n14", stream="s", sequence=sequence, sent_at=NOW, tables={"gpu_samples": [row]})

    config = CollectorConfig(store=path, gather_seconds=0, seal_seconds=3600)
    with running(config, Shifted, lake=True) as collector:
        assert collector.client.post(batch(0), shown).status == 200
        assert clock_of(collector.store).now() != NOW
        assert following(collector.store)() is not None
        with collector.store.hot_session() as session:
            session.execute("UPDATE receipts SET received_at = ?", [NOW])
            session.execute("INSERT INTO receipts SELECT * REPLACE (batch + 1 AS batch, 1 AS sequence) FROM receipts")
            session.execute("DELETE FROM arrivals")
    at.off = 40 * DAY_US
    with running(config, Shifted, lake=True) as collector:
        upkeep = Maintenance(collector.store, config, Metrics(), at.wall, proven_us=collector.writer.clock.now)
        assert "receipts" in upkeep.once()
        assert collector.count(f"{collector.store.hot}.receipts") == 2
        answer = collector.client.post(batch(0), shown)
        assert (answer.status, collector.count(f"{collector.store.hot}.receipts")) == (200, 2)
        (said,) = [check for check in collector.client.get("/readyz").json["checks"] if check["name"] == "clock"]
        assert (said["ok"], "nothing expires" in said["sentence"]) == (False, True)
