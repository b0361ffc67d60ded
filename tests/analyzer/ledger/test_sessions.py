"""A person's session: its pauses hold memory where its processes rest, whatever its queue is called."""

from typing import Any

import pytest

from tests.analyzer.ledger.fleet import HOUR, MINUTE, MONDAY, SECOND, Fleet

T, END = MONDAY, MONDAY + 4 * HOUR
RUN = "slurm/alpha/1"
GIB = 2**30
Told = dict[str, object]
# Another GPU, interval of samples, and size: sku, seconds, gigabytes held, is SM activity known
NEIGHBOURS = [("H100-80GB", 10, 40, True), ("A100-80GB", 60, 12, False), ("V100-32GB", 30, 4, False)]


def _session(neighbour: tuple[str, int, int, bool], told: Told | None = None) -> dict[tuple[str, str | None], int]:
    """Return the states of a session that is without a kernel for three minutes of each four."""
    (sku, seconds, size, has_sm), fleet, busy = neighbour, Fleet(), 0.25
    fleet.own("n1", ["G1"], sku=sku)
    fleet.hold(RUN, "n1", ["G1"], T, END, queue="interactive", name="notebook")
    shares: dict[str, Any] = {"utilization_ratio": busy, "utilization_zero_ratio": 1 - busy}
    shares |= {"sm_active_ratio": busy if has_sm else None, "memory_used_bytes": size * GIB}
    fleet.sample("n1", "G1", T, END, every=seconds * SECOND, **shares)
    if told:
        row = {"node": "n1", "run_id": RUN, **told}
        table = "process_samples" if "workers" in told else "run_samples"
        fleet.add(table, [row | {"started_at": at, "ended_at": at + MINUTE} for at in range(T, END, MINUTE)])
    fleet.analyze()
    assert fleet.unbalanced() == []
    return fleet.states()


@pytest.mark.parametrize("neighbour", NEIGHBOURS)
def test_the_pauses_of_who_rests_are_held_memory(neighbour: tuple[str, int, int, bool]) -> None:
    """Neither its cores nor its children do anything: it waits for its person."""
    idle: Told = {"workers": 4, "workers_busiest_cpu_ratio": 0.01}
    rests: tuple[Told, ...] = ({"cpu_seconds": 12.0}, {"workers": 0}, idle)
    for told in rests:
        assert _session(neighbour, told)["held_idle", "held_memory"] == 3 * HOUR // 1000


@pytest.mark.parametrize("neighbour", NEIGHBOURS)
def test_the_pauses_of_who_computes_are_no_held_memory(neighbour: tuple[str, int, int, bool]) -> None:
    """A training in the queue for sessions waits for its loader as any other does."""
    works: tuple[Told, ...] = ({"cpu_seconds": 300.0}, {"workers": 4, "workers_busiest_cpu_ratio": 0.99})
    for told in works:
        states = _session(neighbour, told)
        assert "held_idle" not in {state for state, _ in states}
        assert sum(ms for (state, _), ms in states.items() if state in ("starved", "unexplained")) == 3 * HOUR // 1000


@pytest.mark.parametrize("neighbour", NEIGHBOURS)
def test_short_pauses_of_which_nothing_is_told_are_unexplained(neighbour: tuple[str, int, int, bool]) -> None:
    """Who does not see processes does not see a person think."""
    assert _session(neighbour)["unexplained", None] == 3 * HOUR // 1000
