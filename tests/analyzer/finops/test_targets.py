"""Targets: useful is read, not utilization; what is not known is not missed."""

from analyzer.finops.targets import Headroom, HeldTime, Target, all_targets, target_lines, targets
from analyzer.finops.unit_cost.report import unit_report
from analyzer.period import Calendar
from analyzer.text.layout import TextLayout
from tests.analyzer.ledger.fleet import DAY, HOUR, MINUTE, MONDAY, Fleet

NONE = Headroom(0, 0, 0)


def by_name(found: tuple[Target, ...]) -> dict[str, Target]:
    """Return targets by what they are of."""
    return {one.name: one for one in found}


def test_what_is_not_known_is_neither_reached_nor_missed() -> None:
    """A fleet that measures nothing must not look as if it failed, nor as if it shone."""
    found = all_targets(HeldTime(0, 0, 0, 0), NONE, (0, 0), [])
    assert {one.standing for one in found} == {None}
    assert all(one.told for one in found)


def test_silence_is_left_out_of_the_shares() -> None:
    """Half the time not measured: what is useful of the other half counts, or an outage would be called waste."""
    found = by_name(all_targets(HeldTime(1000, 500, 450, 10), NONE, (0, 0), []))
    assert (found["useful"].permille, found["useful"].standing) == (900, None)
    assert (found["idle allocation"].permille, found["idle allocation"].standing) == (20, None)
    assert found["useful"].told == "90.0% of what was measured; 50.0% was not"
    most = by_name(all_targets(HeldTime(1000, 100, 810, 60), Headroom(400, 0, 390, unread=600), (0, 0), []))
    standings = [most[name].standing for name in ("useful", "idle allocation", "free memory at peak")]
    assert standings == ["reached", "missed", None], "whatever the rest was; of memory that decides"


def test_bars_are_bars() -> None:
    """Under 5% is under it; 80% or more includes 80."""
    found = by_name(
        all_targets(HeldTime(1000, 0, 800, 50), Headroom(1000, 100, 499), (1000, 990), [(2, 1), (1, 1), (3, 1)])
    )
    assert found["useful"].standing == "reached"
    assert found["idle allocation"].standing == "missed"
    assert found["free memory at peak"].standing == "missed"
    assert found["cost per run"].standing == "missed"
    assert found["latency target"].standing == "reached"


def test_a_fleet_is_read_as_it_is() -> None:
    """One GPU of two works with 12 GB of 80 left, the other is held and does nothing."""
    fleet = Fleet()
    fleet.own("n1", ["g1", "g2"])
    gigabyte = 2**30
    rows = [{"gpu_uuid": gpu, "gpu_index": n, "memory_bytes": 80 * gigabyte} for n, gpu in enumerate(("g1", "g2"))]
    fleet.add("inventory", [row | {"node": "n1", "started_at": MONDAY, "ended_at": MONDAY + HOUR} for row in rows])
    fleet.hold("slurm/a/1", "n1", ["g1"], MONDAY, MONDAY + DAY)
    fleet.hold("slurm/a/2", "n1", ["g2"], MONDAY, MONDAY + DAY)
    fleet.sample("n1", "g1", MONDAY, MONDAY + DAY, memory_used_bytes=68 * gigabyte)
    fleet.sample(
        "n1", "g2", MONDAY, MONDAY + DAY, MINUTE, memory_used_bytes=10 * gigabyte,
        utilization_ratio=0.0, utilization_zero_ratio=1.0, sm_active_ratio=0.0,
    )  # fmt: skip
    fleet.analyze()
    calendar = Calendar("UTC")
    period = calendar.parse("2025-11-10", MONDAY + DAY)
    with fleet.store.session() as session:
        found = by_name(targets(session, period, unit_report(session, period, calendar, "USD")))
    assert found["free memory at peak"].permille == 500
    assert found["idle allocation"].standing == "missed"
    assert found["useful"].permille is not None
    assert 480 <= found["useful"].permille <= 500
    assert found["latency target"].standing is None
    assert all(len(line) <= 64 for line in target_lines(tuple(found.values()), TextLayout(64)))
    lines = target_lines(tuple(found.values()), TextLayout(80))
    assert all(len(line) <= 80 for line in lines)
    assert any(line.startswith("  useful ") and line.endswith("missed") and "%" in line[50:] for line in lines)
    assert "read in November 2026" in " ".join(" ".join(lines).split()), "a bar without its date is an opinion"


def test_a_promise_of_which_too_little_is_known_is_neither_reached_nor_missed() -> None:
    """What the engine's buckets cannot tell is told apart from what they do."""
    none = HeldTime(0, 0, 0, 0)
    found = by_name(all_targets(none, NONE, (1000, 900, 95), []))["latency target"]
    assert (found.standing, found.permille) == (None, 994)
    assert found.told.startswith("99.4% of what is known; 9.5% is not: choose a target that is a bound")
    assert by_name(all_targets(none, NONE, (1000, 500, 95), []))["latency target"].standing == "missed"
    assert by_name(all_targets(none, NONE, (1000, 995, 5), []))["latency target"].standing == "reached"
    silent = by_name(all_targets(none, NONE, (1000, 0, 1000), []))["latency target"]
    assert (silent.standing, "never certain" in silent.told) == (None, True)
