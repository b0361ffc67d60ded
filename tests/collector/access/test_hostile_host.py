"""One host's key tells of that host alone: whatever its batches say, nothing of the nine beside it moves."""

import random
from collections.abc import Iterator

import pytest

from collector.access.enrol import HostBook
from collector.registry import open_registry
from collector.store.seal_mark import COLLECTOR_BITS
from tests.analyzer.ledger.fleet import HOUR, MONDAY, Fleet
from tests.collector.access.hostile_host import (
    END,
    EVIL,
    JOINABLE,
    RUNS,
    UNKNOWN,
    held_by,
    hostile,
    of_others,
    registered,
    site,
    takes,
)

CASES = 100  # `make bench-hostile` tries ten thousand


@pytest.fixture
def book() -> Iterator[HostBook]:
    """What a collector remembers of hosts, its registry in memory."""
    with open_registry(None) as registry:
        yield registered(registry)


@pytest.fixture(scope="module")
def alone() -> Iterator[Fleet]:
    """The site without anything of the hostile host, analysed."""
    with open_registry(None) as registry:
        fleet = site(registered(registry))
    fleet.analyze()
    with fleet.store:
        yield fleet


def test_whatever_a_host_tells_nothing_of_another_moves(book: HostBook, alone: Fleet) -> None:
    """Not a millisecond and not a millionth, in one pass with it or in one after another."""
    right = of_others(alone)
    assert len(right["ledger"]) > 20
    beside = site(book)
    draw, aside = random.Random(7), 0
    for case in range(CASES):
        aside += sum(takes(beside, book, hostile(draw), case).values())
        if case == CASES // 2:
            beside.analyze()
    beside.analyze()
    assert of_others(beside) == right
    assert aside > CASES
    with beside.store.session() as session:
        (told,) = session.row("SELECT count(*) FROM allocations WHERE told_by = ?", [EVIL])
    assert told > 0, "all was put aside; the pass was shown nothing"


JOINING = 150


def _of_known(rows: list[tuple[object, ...]]) -> list[tuple[object, ...]]:
    return [row for row in rows if not set(JOINABLE).intersection(row)]


def test_a_host_that_joins_a_run_takes_nothing_from_it(book: HostBook, alone: Fleet) -> None:
    """One that no scheduler knows, within the quarter of an hour in which its hosts tell of it: whose the run is, and
    what each GPU of the others cost and for whom, stays. What is said of that run as a whole takes the new host in;
    of the other runs it is not even heard.
    """
    beside = site(book)
    beside.batches -= HOUR << COLLECTOR_BITS
    draw = random.Random(11)
    for case in range(JOINING):
        takes(beside, book, hostile(draw, [*RUNS, *([UNKNOWN] * len(RUNS))]), case)
    beside.analyze()
    assert held_by(beside) == held_by(alone)
    with beside.store.session() as session:
        (joined,) = session.row("SELECT count(*) FROM ledger WHERE node = ? AND run_id = ?", [EVIL, UNKNOWN])
    assert joined > 0, "it did not join; nothing was shown"
    others, right = of_others(beside), of_others(alone)
    for name in ("ledger", "runs"):
        assert _of_known(others[name]) == _of_known(right[name])


@pytest.mark.parametrize("scheduler", ["kubernetes", "cgroup", "declared"])
def test_a_host_that_joins_a_run_does_not_say_whose_it_is(book: HostBook, scheduler: str) -> None:
    """By the lesser name, or by the word of a kubelet, it could move the run to the team that it likes."""
    fleet = site(book)
    fleet.batches -= HOUR << COLLECTOR_BITS
    row = {"node": EVIL, "gpu_uuid": "n9g0", "run_id": UNKNOWN, "scheduler": scheduler, "user": "a", "labels": "{}"}
    takes(fleet, book, {"allocations": [row | {"started_at": MONDAY, "ended_at": END}]}, 1)
    fleet.analyze()
    with fleet.store.session() as session:
        assert session.row("SELECT owner, nodes FROM runs WHERE run_id = ?", [UNKNOWN]) == ("ada", 3)
