import random

from hypothesis import given
from hypothesis import strategies as st

from agent.sources.process_table import RunOnGpu, Stat, Tree, changes, cpu_spent, nearest_roots, parse_stat, trees

TAIL = b" R 12 1 1 0 -1 4194560 1 0 0 0 70 30 20 10 20 0 1 0 4242 61234 8 1"


def stat(pid: int, parent: int, own: int = 0, reaped: int = 0, started: int = 1) -> Stat:
    """Return a process as /proc would show it."""
    return Stat(pid, parent, "S", started, own, reaped)


def test_a_name_may_hold_anything() -> None:
    """Programs set their own names; one with a bracket and a line break must not shift the fields."""
    assert parse_stat(b"7 (evil) R 1 (\n) x)" + TAIL) == Stat(7, 12, "R", 4242, 100, 30, "evil) R 1 (\n) x")
    assert parse_stat(b"") is None
    assert parse_stat(b"7 (cut off) R 1 2") is None


def test_a_worker_that_was_reaped_counts_once() -> None:
    """Loaders start workers anew each epoch: what one spent before was told, what it spent after is its parent's."""
    before = {1: stat(1, 0, own=100), 2: stat(2, 1, own=400)}
    now = {1: stat(1, 0, own=110, reaped=450)}
    change = changes(before, now)
    assert cpu_spent({1: (100, 0), 2: (400, 0)}, {1: (110, 450)}, change) == {1: 60}


def test_a_parent_that_ignores_its_children_loses_nothing() -> None:
    """With SIGCHLD ignored the kernel hands nothing over; the parent's own work stays."""
    before = {1: stat(1, 0, own=100), 2: stat(2, 1, own=400)}
    change = changes(before, {1: stat(1, 0, own=110)})
    assert cpu_spent({1: (100, 0), 2: (400, 0)}, {1: (110, 0)}, change) == {1: 10}


def test_a_pid_that_was_used_again_is_another_process() -> None:
    """Its predecessor's counters are not its past."""
    change = changes({1: stat(1, 0), 5: stat(5, 1, own=900)}, {1: stat(1, 0), 5: stat(5, 1, own=20, started=9)})
    assert change.born == {5}
    assert cpu_spent({5: (900, 0)}, {5: (20, 0)}, change) == {5: 20}


def test_what_was_not_read_before_is_unknown() -> None:
    """A process that is older than the last reading spent much that nobody saw; it is not this interval's."""
    both = {1: stat(1, 0)}
    assert cpu_spent({}, {1: (900, 0)}, changes(both, both)) == {1: None}


@given(st.integers(0, 2**32))
def test_a_family_spends_what_it_spent(seed: int) -> None:
    """Whatever is forked, worked and waited for, the sum over the living is the ticks that were really used."""
    chance = random.Random(seed)
    own, reaped, parent = {1: 0}, {1: 0}, {1: 0}
    before = {1: stat(1, 0)}
    used = 0
    for step in range(chance.randrange(60)):
        if step == 20:
            before, used = {pid: stat(pid, parent[pid], own[pid], reaped[pid], pid) for pid in own}, 0
        pid = chance.choice(sorted(own))
        action = chance.random()
        if action < 0.3:
            new = max(own | before) + 1
            own[new], reaped[new], parent[new] = 0, 0, pid
        elif action < 0.7:
            own[pid] += 5
            used += 5
        elif pid != 1 and pid not in parent.values():  # a leaf ends, and is waited for
            reaped[parent[pid]] += own.pop(pid) + reaped.pop(pid)
            del parent[pid]
    now = {pid: stat(pid, parent[pid], own[pid], reaped[pid], pid) for pid in own}
    before = {pid: Stat(one.pid, one.parent, "S", pid, one.own, one.reaped) for pid, one in before.items()}
    counters = {pid: (one.own, one.reaped) for pid, one in before.items()}
    told = cpu_spent(counters, {pid: (one.own, one.reaped) for pid, one in now.items()}, changes(before, now))
    assert sum(value or 0 for value in told.values()) == used


@given(st.dictionaries(st.integers(1, 12), st.integers(0, 12), max_size=12), st.sets(st.integers(1, 12), max_size=4))
def test_every_process_has_one_root_even_where_parents_go_in_circles(parents: dict[int, int], roots: set[int]) -> None:
    """A pass over /proc is not one moment: reused pids can show a circle, and it must end."""
    processes = {pid: stat(pid, parent) for pid, parent in parents.items()}
    found = nearest_roots(processes, roots)
    assert set(found.values()) <= roots
    assert all(found[root] == root for root in roots)
    for pid, root in found.items():
        step, above = pid, {pid}
        while step not in roots:
            step = parents[step]
            assert step not in above
            above.add(step)
        assert step == root


def test_trees_of_two_ranks_do_not_overlap() -> None:
    """A launcher that holds a GPU itself is above its ranks; their workers are theirs."""
    processes = {1: stat(1, 0), 2: stat(2, 1), 3: stat(3, 1), 4: stat(4, 2), 5: stat(5, 3)}
    held: dict[RunOnGpu, frozenset[int]] = {("r", "a"): frozenset({1, 2}), ("r", "b"): frozenset({3})}
    found = trees(processes, held, {1: "a", 2: "a", 3: "b"})
    assert found["r", "a"] == Tree(1, frozenset({2, 4}), frozenset({1, 2, 4}))
    assert found["r", "b"] == Tree(3, frozenset({5}), frozenset({3, 5}))


def test_a_process_on_several_gpus_is_told_on_each_and_booked_on_one() -> None:
    """Its CPU time must not be counted eight times, but its workers feed all eight."""
    processes = {1: stat(1, 0), 2: stat(2, 1)}
    held: dict[RunOnGpu, frozenset[int]] = {("r", "a"): frozenset({1}), ("r", "b"): frozenset({1})}
    found = trees(processes, held, {1: "a"})
    assert found["r", "a"].booked == {1, 2}
    assert found["r", "b"].booked == frozenset()
    assert found["r", "b"].workers == {2}
