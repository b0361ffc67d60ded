"""A person's session: its pauses hold memory where its processes rest, whatever its queue is called."""

from collections.abc import Iterator
from itertools import product
from typing import Any

from tests.analyzer.ledger.fleet import HOUR, MINUTE, MONDAY, SECOND, Beside, Fleet

T, END = MONDAY, MONDAY + 4 * HOUR
RUN = "slurm/alpha/1"
GIB = 2**30
Told = dict[str, object]
# Another GPU, interval of samples, and size: sku, seconds, gigabytes held, is SM activity known
NEIGHBOURS = [("H100-80GB", 10, 40, True), ("A100-80GB", 60, 12, False), ("V100-32GB", 30, 4, False)]


def _sessions(*told: Told) -> Iterator[tuple[object, dict[tuple[str, str | None], int]]]:
    """Yield the states of sessions, one for each neighbour and each of what is told; one pass judges all of them.

    Each is without a kernel for three minutes of each four.
    """
    store = Fleet()
    each: dict[object, Beside] = {}
    for neighbour, (number, words) in product(NEIGHBOURS, enumerate(told)):
        fleet = each[neighbour, number] = Beside(store, f"~{len(each)}")
        _hold_session(fleet, neighbour, words)
    store.analyze()
    assert store.unbalanced() == []
    for case, fleet in each.items():
        yield case, fleet.states(RUN)


def _hold_session(fleet: Fleet, neighbour: tuple[str, int, int, bool], told: Told) -> None:
    (sku, seconds, size, has_sm), busy = neighbour, 0.25
    fleet.own("n1", ["G1"], sku=sku)
    fleet.hold(RUN, "n1", ["G1"], T, END, queue="interactive", name="notebook")
    shares: dict[str, Any] = {"utilization_ratio": busy, "utilization_zero_ratio": 1 - busy}
    shares |= {"sm_active_ratio": busy if has_sm else None, "memory_used_bytes": size * GIB}
    fleet.sample("n1", "G1", T, END, every=seconds * SECOND, **shares)
    if told:
        row = {"node": "n1", "run_id": RUN, **told}
        table = "process_samples" if "workers" in told else "run_samples"
        fleet.add(table, [row | {"started_at": at, "ended_at": at + MINUTE} for at in range(T, END, MINUTE)])


def test_the_pauses_of_who_rests_are_held_memory() -> None:
    """Neither its cores nor its children do anything: it waits for its person."""
    idle: Told = {"workers": 4, "workers_busiest_cpu_ratio": 0.01}
    for case, states in _sessions({"cpu_seconds": 12.0}, {"workers": 0}, idle):
        assert states["held_idle", "held_memory"] == 3 * HOUR // 1000, case


def test_the_pauses_of_who_computes_are_no_held_memory() -> None:
    """A training in the queue for sessions waits for its loader as any other does."""
    for case, states in _sessions({"cpu_seconds": 300.0}, {"workers": 4, "workers_busiest_cpu_ratio": 0.99}):
        assert "held_idle" not in {state for state, _ in states}, case
        waited = sum(ms for (state, _), ms in states.items() if state in ("starved", "unexplained"))
        assert waited == 3 * HOUR // 1000, case


def test_short_pauses_of_which_nothing_is_told_are_unexplained() -> None:
    """Who does not see processes does not see a person think."""
    for case, states in _sessions({}):
        assert states["unexplained", None] == 3 * HOUR // 1000, case
