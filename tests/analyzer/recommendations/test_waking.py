"""How long hosts take to wake is measured, or said not to be known."""

from analyzer.recommendations.types.idle import Waking, waking
from collector.schedulers.slurm import nodes
from tests.analyzer.ledger.fleet import DAY, MINUTE, MONDAY, Fleet


def night(fleet: Fleet, node: str, asleep_at: int, wakes_seconds: int, ends: str = "up") -> None:
    """Let a host be powered down, and wake."""
    second = 1_000_000
    up_at = asleep_at + 60 * MINUTE
    woken = up_at + wakes_seconds * second
    rows = [
        (asleep_at, up_at, "drained", "powered down"),
        (up_at, up_at + second, "drained", nodes.POWERING_UP),
        (up_at + second, woken, "drained", nodes.POWERING_UP),
        (woken, woken + MINUTE, ends, None),
    ]
    fleet.add(
        "node_states",
        [
            {"node": node, "started_at": start, "ended_at": end, "state": state, "reason": reason}
            for start, end, state, reason in rows
        ],
    )


def read(fleet: Fleet) -> Waking | None:
    """Return what is known of waking."""
    with fleet.store.session() as session:
        return waking(session, MONDAY + 7 * DAY)


def test_waking_is_measured_from_the_first_word_to_the_first_use() -> None:
    """A host that is asked for twice while it wakes is asked for once."""
    fleet = Fleet()
    for number, seconds in enumerate((240, 300, 900)):
        night(fleet, f"n{number}", MONDAY + DAY, seconds)
    assert read(fleet) == Waking(3, 300, 900)


def test_a_host_that_did_not_wake_is_no_waking() -> None:
    """It broke: how long that took says nothing of the next one."""
    fleet = Fleet()
    for number in range(3):
        night(fleet, f"n{number}", MONDAY + DAY, 300)
        night(fleet, f"m{number}", MONDAY + DAY, 7200, ends="down")
    assert read(fleet) == Waking(3, 300, 300)


def test_one_odd_night_is_not_knowledge() -> None:
    """Fewer than three wakings say nothing."""
    fleet = Fleet()
    night(fleet, "n1", MONDAY + DAY, 300)
    assert read(fleet) is None
