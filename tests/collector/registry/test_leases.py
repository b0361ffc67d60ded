"""A stream has one collector at a time, also when collectors die, come back, and all ask at once."""

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.registry import Registry, open_registry

SECOND = 1_000_000
NOW = 1_795_000_000 * SECOND


def two(registry: Registry) -> tuple[int, int]:
    """Return the numbers of two collectors that are alive for ten seconds."""
    numbers = [registry.collectors.claim_number(name, f"http://{name}:8470", now=NOW) for name in ("a", "b")]
    for number in numbers:
        registry.collectors.heartbeat(number, NOW, 10)
    return numbers[0], numbers[1]


def test_the_first_who_asks_has_it_and_the_other_learns_where_it_is(registry: Registry) -> None:
    """What a 421 tells the agent is the owner's address."""
    a, b = two(registry)
    mine = registry.leases.acquire(["s"], a, NOW)["s"]
    assert (mine.is_mine, mine.epoch, mine.taken_over_from) == (True, 1, None)
    theirs = registry.leases.acquire(["s"], b, NOW)["s"]
    assert (theirs.is_mine, theirs.collector, theirs.url, theirs.epoch) == (False, a, "http://a:8470", 1)


def test_asking_again_changes_nothing(registry: Registry) -> None:
    """A collector that restarts under its name has what it had; its epoch does not move."""
    a, _ = two(registry)
    registry.leases.acquire(["s"], a, NOW)
    again = registry.leases.acquire(["s"], a, NOW + 100 * SECOND)["s"]
    assert (again.is_mine, again.epoch, again.taken_over_from) == (True, 1, None)


def test_a_silent_collector_loses_its_streams_to_who_asks(registry: Registry) -> None:
    """The epoch rises and the new owner learns from whom: what that one has sealed decides what is new."""
    a, b = two(registry)
    registry.leases.acquire(["s", "t"], a, NOW)
    registry.collectors.heartbeat(b, NOW + 9 * SECOND, 10)
    assert not registry.leases.acquire(["s"], b, NOW + 9 * SECOND)["s"].is_mine
    taken = registry.leases.acquire(["s"], b, NOW + 10 * SECOND)["s"]
    assert (taken.is_mine, taken.epoch, taken.taken_over_from) == (True, 2, a)
    assert registry.leases.held(a) == {"t": 1}
    assert registry.leases.held(b) == {"s": 2}


def test_a_heartbeat_that_came_late_says_so(registry: Registry) -> None:
    """Who slept through its leases must not go on believing in them."""
    a, _ = two(registry)
    assert registry.collectors.heartbeat(a, NOW + 9 * SECOND, 10)
    assert not registry.collectors.heartbeat(a, NOW + 19 * SECOND, 10)
    assert registry.collectors.heartbeat(a, NOW + 20 * SECOND, 10)


def test_what_is_given_back_is_free_at_once(registry: Registry) -> None:
    """A collector that ends in order hands its agents on without a wait; nobody has to be asked what it sealed."""
    a, b = two(registry)
    registry.leases.acquire(["s"], a, NOW)
    registry.leases.release(["s"], b)  # not its own: nothing happens
    assert registry.leases.held(a) == {"s": 1}
    registry.leases.release(["s"], a)
    taken = registry.leases.acquire(["s"], b, NOW)["s"]
    assert (taken.is_mine, taken.epoch, taken.taken_over_from) == (True, 2, None)


def test_thousands_in_one_call(registry: Registry) -> None:
    """After a restart of a load balancer a collector meets all agents of the fleet within seconds."""
    a, b = two(registry)
    streams = [f"stream-{number}" for number in range(3000)]
    assert all(lease.is_mine for lease in registry.leases.acquire(streams[:2000], a, NOW).values())
    asked = registry.leases.acquire(streams, b, NOW)
    assert sorted(asked) == sorted(streams)
    assert sum(lease.is_mine for lease in asked.values()) == 1000
    assert len(registry.leases.held(b)) == 1000
    with registry.leases.guard(b, streams) as held:
        assert len(held) == 1000


@pytest.mark.parametrize("round_number", range(3))
def test_all_at_once_and_one_has_it(opened: Callable[[], Registry], round_number: int) -> None:
    """Several collectors, each with connections of its own, ask for the same streams in the same moment."""
    registries = [opened() for _ in range(4)]
    numbers = [
        registry.collectors.claim_number(f"c{index}", "http://c", now=NOW) for index, registry in enumerate(registries)
    ]
    streams = [f"stream-{round_number}-{number}" for number in range(50)]
    start = threading.Barrier(len(registries))
    answers: dict[int, set[str]] = {}

    def ask(registry: Registry, number: int) -> None:
        registry.collectors.heartbeat(number, NOW, 10)
        start.wait()
        leases = registry.leases.acquire(streams if number % 2 else streams[::-1], number, NOW)
        answers[number] = {stream for stream, lease in leases.items() if lease.is_mine}

    threads = [threading.Thread(target=ask, args=pair) for pair in zip(registries, numbers, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(stream for mine in answers.values() for stream in mine) == sorted(streams)


def test_nobody_takes_a_stream_while_its_rows_are_being_committed(opened: Callable[[], Registry]) -> None:
    """The silent collector was only slow: it is committing. Both taking and committing would count its rows twice."""
    first, second = opened(), opened()
    a, b = two(first)
    first.leases.acquire(["s"], a, NOW)
    later = NOW + 60 * SECOND
    answers: list[bool] = []

    def take() -> None:
        second.collectors.heartbeat(b, later, 10)
        answers.append(second.leases.acquire(["s"], b, later)["s"].is_mine)

    thread = threading.Thread(target=take)
    with first.leases.guard(a) as held:
        assert held == {"s": NOW}
        thread.start()
        thread.join(0.3)  # PostgreSQL says no at once, SQLite lets it wait for the end
        assert True not in answers
    thread.join()
    with first.leases.guard(a) as held:
        still = "s" in held
    assert still != answers[0]


def test_who_lost_a_stream_learns_it_before_it_commits(registry: Registry) -> None:
    """The other half: taken first, so the rows of the old owner must not be committed."""
    a, b = two(registry)
    registry.leases.acquire(["s", "t"], a, NOW)
    registry.collectors.heartbeat(b, NOW + 60 * SECOND, 10)
    registry.leases.acquire(["s"], b, NOW + 60 * SECOND)
    with registry.leases.guard(a, ["s", "t"]) as held:
        assert held == {"t": NOW}


def test_a_process_that_dies_lets_go(where: str | Path, registry: Registry) -> None:
    """A collector that is killed while it commits must not hold the fleet's streams."""
    a, b = two(registry)
    registry.leases.acquire(["s"], a, NOW)
    code = (
        "import os, sys\nfrom collector.registry import open_registry\n"
        "with open_registry(sys.argv[1]).leases.guard(int(sys.argv[2])):\n"
        "    print('held', flush=True)\n    os.kill(os.getpid(), 9)\n"
    )
    root = str(Path(__file__).parents[3])
    died = subprocess.run([sys.executable, "-c", code, str(where), str(a)], cwd=root, capture_output=True)
    assert (died.stdout, died.returncode) == (b"held\n", -9)
    registry.collectors.heartbeat(b, NOW + 60 * SECOND, 10)
    # PostgreSQL finds the broken connection in its own time; a stream that is not had yet is asked for again.
    for _ in range(200):
        if (taken := registry.leases.acquire(["s"], b, NOW + 60 * SECOND)["s"]).is_mine:
            break
    assert (taken.is_mine, taken.taken_over_from) == (True, a)


@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["beat", "take", "release"]), st.integers(0, 7))))
def test_one_owner_whatever_happens(steps: list[tuple[int, str, int]]) -> None:
    """A model: nobody who is alive loses a stream unasked, and an epoch rises with each new owner and never else."""
    with open_registry(None) as registry:
        numbers = [registry.collectors.claim_number(name, "http://c", now=0) for name in "abc"]
        owner: int | None = None
        alive, epoch, now = dict.fromkeys(numbers, 0), 0, 0
        for who, what, seconds in steps:
            now += seconds * SECOND
            number = numbers[who]
            if what == "beat":
                assert registry.collectors.heartbeat(number, now, 5) == (alive[number] > now)
                alive[number] = now + 5 * SECOND
            elif what == "release":
                registry.leases.release(["s"], number)
                owner = None if owner == number else owner
            else:
                lease = registry.leases.acquire(["s"], number, now)["s"]
                if owner != number and (owner is None or alive[owner] <= now):
                    owner, epoch = number, epoch + 1
                assert (lease.collector, lease.epoch, lease.is_mine) == (owner, epoch, owner == number)
