"""What is lost is told: every range, until the collector has it, and across restarts."""

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.spool.losses import MOST_RANGES, Losses, Range, lost_ranges, noted
from agent.spool.queue import Spool, open_spool
from agent.spool.segment_store import occupied
from tests.agent.batches import batch, identity

STREAM = "4f7c1b9e-0000-4000-8000-000000000000"
SIZE = occupied(len(batch(STREAM, 0)))
LARGE = 10**7


def losses(*sequences: int) -> Losses:
    """Return losses of these batches."""
    made = Losses((), lambda ranges: None)
    for sequence in sequences:
        made.add(sequence, {"gpu_samples": 2})
    return made


def test_neighbours_are_one_range() -> None:
    """A day of drops is one range, not thousands."""
    assert losses(0, 1, 2, 7, 6, 4, 5).ranges == [(0, 2), (4, 7)]
    assert losses(0, 2, 1).ranges == [(0, 2)]
    assert losses(3, 3).ranges == [(3, 3)]


def test_rows_are_counted_by_table() -> None:
    """An hour of a host's disks is another loss than an hour of its GPUs."""
    lost = losses(0, 1)
    lost.count({"disk_samples": 5})
    assert (lost.batches, lost.rows) == (3, {"gpu_samples": 4, "disk_samples": 5})


def test_a_range_is_told_until_it_has_arrived() -> None:
    """The batch that tells it may be dropped too, or refused."""
    lost = losses(0, 1)
    assert lost.untold() == (0, 1)
    lost.told([(0, 1)], 5)
    assert lost.untold() is None
    lost.arrived(4)
    lost.tell_again(5)
    assert lost.untold() == (0, 1)
    lost.told([(0, 1)], 6)
    lost.arrived(6)
    assert (lost.untold(), lost.ranges) == (None, [])


def test_a_range_that_grew_is_told_again() -> None:
    """What was told of it is not all of it."""
    lost = losses(0)
    lost.told([(0, 0)], 5)
    lost.add(1, {})
    lost.arrived(5)
    assert lost.untold() == (0, 1)


def test_several_ranges_are_told_one_after_another() -> None:
    """A row has room for one."""
    lost = losses(0, 5, 9)
    for sequence, expected in ((10, (0, 0)), (11, (5, 5)), (12, (9, 9))):
        assert lost.untold() == expected
        lost.told([expected], sequence)
    assert lost.untold() is None


def test_the_list_is_bounded_and_says_what_it_forgot() -> None:
    """A list without a bound is the next thing that fills a host."""
    lost = losses(*range(0, 2 * (MOST_RANGES + 3), 2))
    assert (len(lost.ranges), lost.forgotten) == (MOST_RANGES, 3)
    assert lost.ranges[0] == (6, 6), "the oldest goes first"


@given(st.lists(st.integers(0, 200), max_size=80))
def test_ranges_are_exactly_what_was_lost(sequences: list[int]) -> None:
    """In order, apart from each other, nothing more and nothing less."""
    ranges = losses(*sequences).ranges
    assert {number for first, last in ranges for number in range(first, last + 1)} == set(sequences)
    assert all(left[1] + 1 < right[0] for left, right in pairwise(ranges))


@given(st.lists(st.tuples(st.integers(0, 99), st.integers(100, 2**61)), max_size=9))
def test_a_note_of_losses_is_read_as_it_was_written(ranges: list[Range]) -> None:
    """And under another stream it says nothing."""
    assert lost_ranges(STREAM, noted(STREAM, ranges)) == ranges
    assert lost_ranges("other", noted(STREAM, ranges)) == []


@given(st.one_of(st.binary(), st.text().map(str.encode)))
def test_what_is_no_note_says_so(content: bytes) -> None:
    """A note is read at the start, and nothing in it may end the agent."""
    with pytest.raises(ValueError, match="no note of lost batches"):
        lost_ranges(STREAM, content)


def append(queue: Spool) -> None:
    """Append as the agent does: the next batch tells of what is lost and untold."""
    told = queue.untold_loss
    queue.append(batch, [told] if told else [])


def test_ranges_outlive_a_restart(tmp_path: Path) -> None:
    """An agent that is upgraded in the outage must still know what it dropped before."""
    queue = open_spool(tmp_path, 3 * SIZE, LARGE, sync=False)
    for _ in range(10):
        queue.append(batch)
    assert queue.untold_loss == (0, 6)
    queue.close()
    again = open_spool(tmp_path, 3 * SIZE, LARGE, sync=False)
    assert (again.untold_loss, again.dropped) == ((0, 6), 0)
    for _ in range(2):  # the first append drops one more, and the second tells of that too
        append(again)
        while (found := again.oldest(0)) is not None:
            again.acknowledge(found[0], found[0])
    again.close()
    last = open_spool(tmp_path, 3 * SIZE, LARGE, sync=False)
    assert last.untold_loss is None
    last.close()


def test_a_new_stream_has_lost_nothing(tmp_path: Path) -> None:
    """The numbers were those of the old one."""
    queue = open_spool(tmp_path, 3 * SIZE, LARGE, sync=False)
    for _ in range(10):
        queue.append(batch)
    queue.begin_stream()
    assert (queue.untold_loss, queue.dropped) == (None, 7)
    queue.close()
    again = open_spool(tmp_path, 3 * SIZE, LARGE, sync=False)
    assert again.untold_loss is None
    again.close()


def test_a_number_that_was_dropped_is_not_given_again_although_nothing_is_left(tmp_path: Path) -> None:
    """Somebody removed every batch of a spool that had dropped some: the list of losses remembers the number."""
    queue = open_spool(tmp_path, 2 * SIZE, LARGE, sync=False)
    for _ in range(5):
        queue.append(batch)
    queue.close()
    for path in (tmp_path / queue.stream).iterdir():
        path.unlink()
    again = open_spool(tmp_path, 2 * SIZE, LARGE, sync=False)
    again.append(batch)
    found = again.oldest(0)
    assert found is not None
    assert identity(found[1])[1] == 3
    again.close()


class Told:
    """A spool, and a collector that remembers what it saw and what it was told."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.queue = open_spool(directory, 3 * SIZE, LARGE, sync=False)
        self.seen: set[int] = set()
        self.known: set[int] = set()
        self.vanished: set[int] = set()
        self._tells: dict[int, Range] = {}

    def append(self) -> None:
        """Append a batch that tells of what is lost."""
        told = self.queue.untold_loss

        def make(stream: str, sequence: int) -> bytes:
            self._tells |= {sequence: told} if told else {}
            return batch(stream, sequence)

        self.queue.append(make, [told] if told else [])

    def send(self) -> None:
        """Deliver one."""
        if (found := self.queue.oldest(0)) is not None:
            self.seen.add(found[0])
            first, last = self._tells.get(found[0], (0, -1))
            self.known |= set(range(first, last + 1))
            self.queue.acknowledge(found[0], found[0])

    def refuse(self) -> None:
        """Refuse one: its number is known, what it tells is not."""
        if (found := self.queue.oldest(0)) is not None:
            self.seen.add(found[0])
            self.queue.refuse(found[0], "no")

    def vanish(self) -> None:
        """Remove one file behind the agent's back; not the newest, with which the number would be gone too."""
        if waiting := list(self.queue._waiting)[:-1]:
            sequence = waiting[len(waiting) // 2]
            (self.directory / self.queue.stream / f"{sequence:020d}.batch").unlink(missing_ok=True)
            self.vanished.add(sequence)

    def restart(self) -> None:
        """Stop and start the agent."""
        self.queue.close()
        self.queue = open_spool(self.directory, 3 * SIZE, LARGE, sync=False)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(steps=st.lists(st.sampled_from(["append", "append", "send", "refuse", "restart", "vanish"]), max_size=60))
def test_whatever_is_lost_is_told_in_the_end(tmp_path_factory: pytest.TempPathFactory, steps: list[str]) -> None:
    """Every number that the collector never saw is in a range that it was told, and no number that it saw is."""
    told = Told(tmp_path_factory.mktemp("spool"))
    for step in steps:
        getattr(told, step)()
    for _ in range(len(steps) + 4):  # then all is well
        told.append()
        while told.queue.waiting:
            told.send()
    told.queue.close()
    assert told.queue.untold_loss is None
    # A file that vanished before a restart is missed by nobody: it may as well have been delivered.
    missing = set(range(max(told.seen) + 1)) - told.seen
    assert missing - told.known <= told.vanished
    assert told.known & told.seen == set()
