"""One host's key tells of that host alone: whatever its batches say, nothing of the nine beside it moves."""

import random
from collections.abc import Iterator

import pytest

from collector.access.host_book import HostBook
from collector.registry import open_registry
from tests.access.hostile_host import EVIL, hostile, of_others, registered, site, takes

CASES = 400  # `make bench-hostile` tries ten thousand


@pytest.fixture
def book() -> Iterator[HostBook]:
    """What a collector remembers of hosts, its registry in memory."""
    with open_registry(None) as registry:
        yield registered(registry)


def test_whatever_a_host_tells_nothing_of_another_moves(book: HostBook) -> None:
    """Not a millisecond and not a millionth, in one pass with it or in one after another."""
    alone = site(book)
    alone.analyze()
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
