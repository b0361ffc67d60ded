"""The spool: what is in it survives, what is broken is set aside, and what does not fit goes oldest first."""

import errno
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.errors import SpoolError
from agent.files import hold_lock, write_durably
from agent.spool.queue import MEMORY_BYTES, Spool
from agent.spool.segment_store import QUARANTINED_FILES_MAX, SegmentStore, occupied
from tests.agent.batches import batch, bulky, busy_of, identity, maker

LARGE = 10**7
ROOT = Path(__file__).parents[2]


OPENED: list[Spool] = []


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    """Close what a test opened, so that its lock is given back."""
    yield
    while OPENED:
        OPENED.pop().close()


def spool(
    directory: Path, max_bytes: int = LARGE, kept_bytes: int = LARGE, segments: type[SegmentStore] = SegmentStore
) -> Spool:
    """Open a spool."""
    OPENED.append(Spool(segments(directory), max_bytes, kept_bytes))
    return OPENED[-1]


def files(directory: Path) -> list[str]:
    """Return the names of the batches that lie in the spool's stream."""
    stream = (directory / "stream").read_text()
    return sorted(path.name for path in (directory / stream).iterdir())


def delivered(queue: Spool) -> Iterator[tuple[str, int]]:
    """Take everything out, as a collector that seals nothing."""
    while (found := queue.oldest(0)) is not None:
        queue.acknowledge(found[0], -1)
        yield identity(found[1])


def test_batches_come_out_in_order(tmp_path: Path) -> None:
    """The collector's marker of what is sealed moves along the sequence."""
    queue = spool(tmp_path)
    for _ in range(5):
        assert queue.append(maker())
    assert [sequence for _, sequence in delivered(queue)] == [0, 1, 2, 3, 4]


def test_the_sequence_survives_a_restart(tmp_path: Path) -> None:
    """A number given twice to different batches is a conflict that costs the stream."""
    queue = spool(tmp_path)
    stream = queue.stream
    for _ in range(3):
        queue.append(maker())
    for sequence in range(3):
        queue.acknowledge(sequence, sequence)
    queue.close()
    assert files(tmp_path) == ["00000000000000000002.done"], "the newest stays as the memory of the sequence"
    again = spool(tmp_path)
    again.append(maker())
    assert files(tmp_path) == ["00000000000000000003.batch"]
    assert list(delivered(again)) == [(stream, 3)], "and what was sealed is not sent again"


def test_what_was_not_acknowledged_is_there_after_a_restart(tmp_path: Path) -> None:
    """An agent that is restarted in an outage must not lose the outage."""
    queue = spool(tmp_path)
    for _ in range(4):
        queue.append(maker())
    queue.acknowledge(0, 0)
    queue.close()
    assert [sequence for _, sequence in delivered(spool(tmp_path))] == [1, 2, 3]


def test_acknowledged_batches_are_kept_until_sealed(tmp_path: Path) -> None:
    """A collector that loses its disk before sealing asks for them once more."""
    queue = spool(tmp_path)
    for _ in range(4):
        queue.append(maker())
    for sequence in range(4):
        queue.acknowledge(sequence, -1)
    assert len(files(tmp_path)) == 4
    queue.acknowledge(3, 1)
    assert len(files(tmp_path)) == 2
    queue.send_again()
    assert [sequence for _, sequence in delivered(queue)] == [2, 3]


def test_what_is_kept_has_a_limit_of_its_own(tmp_path: Path) -> None:
    """A collector that never seals must not fill the host's disk."""
    size = occupied(len(batch("x" * 36, 0)))
    queue = spool(tmp_path, kept_bytes=3 * size)
    for sequence in range(10):
        queue.append(maker())
        queue.acknowledge(sequence, -1)
    assert len(files(tmp_path)) <= 4
    assert queue.dropped == 0, "they were delivered: nothing is lost"


def test_the_oldest_goes_first_and_is_declared(tmp_path: Path) -> None:
    """The newest batch says what is wrong now; a gap that is declared is no mystery."""
    size = occupied(len(batch("x" * 36, 0)))
    queue = spool(tmp_path, max_bytes=3 * size + size // 2)
    for _ in range(10):
        queue.append(maker())
    assert [sequence for _, sequence in delivered(queue)] == [7, 8, 9]
    assert (queue.dropped, *(queue.untold_loss or ())) == (7, 0, 6)


def test_the_batch_on_its_way_is_not_dropped(tmp_path: Path) -> None:
    """It may arrive at this moment: declaring it dropped would be a lie."""
    size = occupied(len(batch("x" * 36, 0)))
    queue = spool(tmp_path, max_bytes=2 * size + size // 2)
    queue.append(maker())
    queue.append(maker())
    assert queue.oldest(0) is not None
    queue.append(maker())
    assert queue.untold_loss == (1, 1)
    queue.release()
    queue.append(maker())
    assert [sequence for _, sequence in delivered(queue)] == [2, 3]


def test_a_single_batch_larger_than_the_limit_is_kept(tmp_path: Path) -> None:
    """A limit set too small must not turn the agent into a generator of nothing."""
    queue = spool(tmp_path, max_bytes=1)
    queue.append(maker(rows=1000))
    assert [sequence for _, sequence in delivered(queue)] == [0]


class FullDisk(SegmentStore):
    """A disk that holds `room` batches and then says that it is full."""

    room = 3

    def write(self, sequence: int, body: bytes) -> None:
        """Write, where there is room."""
        if len(list(self._path(0).parent.iterdir())) >= self.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        super().write(sequence, body)


def test_a_full_disk_drops_the_oldest(tmp_path: Path) -> None:
    """Keeping the old and refusing the new would freeze every dashboard at the moment the disk filled."""
    queue = spool(tmp_path, segments=FullDisk)
    assert all(queue.append(maker()) for _ in range(6))
    assert [sequence for _, sequence in delivered(queue)] == [3, 4, 5]
    assert queue.dropped == 3


def test_a_full_disk_lets_go_of_delivered_batches_first(tmp_path: Path) -> None:
    """The collector has them; nothing is lost."""
    queue = spool(tmp_path, segments=FullDisk)
    for sequence in range(6):
        queue.append(maker())
        queue.acknowledge(sequence, -1)
    assert queue.dropped == 0


class Refusing(SegmentStore):
    """A disk that refuses everything while `failures` lasts."""

    failures = 10**9

    def write(self, sequence: int, body: bytes) -> None:
        """Write, where no failure is left."""
        if self.failures:
            self.failures -= 1
            raise OSError(errno.EROFS, "Read-only file system")
        super().write(sequence, body)


def test_what_a_disk_refuses_waits_in_memory(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A root file system that went read-only is what its owner must hear of, so the readings must still arrive."""
    queue = spool(tmp_path, segments=Refusing)
    assert not any(queue.append(maker()) for _ in range(5))
    assert (queue.unwritten, queue.dropped, files(tmp_path)) == (5, 0, [])
    assert len(caplog.records) == 1, "one change of state is one line"
    assert [sequence for _, sequence in delivered(queue)] == [0, 1, 2, 3, 4]


def test_a_disk_that_is_well_again_takes_what_waited_in_memory(tmp_path: Path) -> None:
    """Then a restart loses nothing either."""

    class Recovering(Refusing):
        failures = 3

    queue = spool(tmp_path, segments=Recovering)
    for number in range(5):
        queue.append(maker(number / 1000))
    queue.close()
    assert len(files(tmp_path)) == 5
    assert [sequence for _, sequence in delivered(spool(tmp_path))] == [0, 1, 2, 3, 4]


def test_what_waits_in_memory_is_bounded_and_what_is_dropped_is_declared(tmp_path: Path) -> None:
    """A broken disk must not turn into a process that is killed for its memory."""
    queue = spool(tmp_path, segments=Refusing)
    for _ in range(10):
        queue.append(lambda stream, sequence: bulky(stream, sequence, MEMORY_BYTES // 4))
    assert queue.waiting_bytes <= MEMORY_BYTES
    assert queue.untold_loss == (0, queue.dropped - 1)
    assert queue.dropped_rows == {"allocations": queue.dropped}
    assert [sequence for _, sequence in delivered(queue)] == list(range(queue.dropped, 10))


def test_a_torn_write_leaves_nothing(tmp_path: Path) -> None:
    """Whoever was writing died before telling anybody; the number is free."""
    queue = spool(tmp_path)
    queue.append(maker())
    queue.close()
    torn = tmp_path / queue.stream / "00000000000000000001.batch.tmp"
    torn.write_bytes(b"half")
    again = spool(tmp_path)
    again.append(maker())
    assert not torn.exists()
    assert (again.quarantined, [sequence for _, sequence in delivered(again)]) == (0, [0, 1])


def test_quarantine_is_bounded(tmp_path: Path) -> None:
    """A collector that refuses everything for a week must not fill the disk either."""
    queue = spool(tmp_path)
    for sequence in range(QUARANTINED_FILES_MAX + 20):
        queue.append(maker())
        queue.refuse(sequence, "no")
    assert len(list((tmp_path / "quarantine").iterdir())) == QUARANTINED_FILES_MAX
    assert queue.quarantined == QUARANTINED_FILES_MAX + 20


def test_a_batch_that_vanished_is_passed_over(tmp_path: Path) -> None:
    """Somebody tidied up: the rest must still be delivered."""
    queue = spool(tmp_path)
    for _ in range(3):
        queue.append(maker())
    (tmp_path / queue.stream / "00000000000000000001.batch").unlink()
    assert [sequence for _, sequence in delivered(queue)] == [0, 2]


def test_a_new_stream_renumbers_what_waits(tmp_path: Path) -> None:
    """A copied disk image: what was never accepted counts once, under a stream of its own."""
    queue = spool(tmp_path)
    old = queue.stream
    for busy in (0.1, 0.2, 0.3):
        queue.append(maker(busy))
    queue.acknowledge(0, -1)
    queue.begin_stream()
    assert queue.stream != old
    assert not (tmp_path / old).exists()
    queue.append(maker())
    assert list(delivered(queue)) == [(queue.stream, 0), (queue.stream, 1), (queue.stream, 2)]
    queue.close()
    assert spool(tmp_path).stream == queue.stream


@pytest.mark.parametrize("point", ["before", "after"])
def test_a_crash_while_changing_streams_leaves_one_of_the_two(tmp_path: Path, point: str) -> None:
    """Two half streams would count the same beats twice."""
    here = tmp_path / "spool"
    queue = spool(here)
    old = queue.stream
    queue.append(maker())
    copy = tmp_path / "copy"
    shutil.copytree(here / old, copy)
    queue.begin_stream()
    new = queue.stream
    queue.close()
    shutil.copytree(copy, here / old)
    if point == "before":
        (here / "stream").write_text(old)
    again = spool(here)
    assert list(delivered(again)) == [(old if point == "before" else new, 0)]
    assert sorted(path.name for path in here.iterdir()) == sorted(["lock", "quarantine", "stream", again.stream])


def test_two_agents_cannot_share_a_spool(tmp_path: Path) -> None:
    """They would give out the same numbers."""
    queue = spool(tmp_path)
    with pytest.raises(SpoolError, match="each agent needs its own"):
        spool(tmp_path)
    queue.close()
    spool(tmp_path).close()


def test_a_directory_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    """The operator must not have to guess which path was meant."""
    (tmp_path / "file").touch()
    with pytest.raises(SpoolError, match="file/spool"):
        spool(tmp_path / "file" / "spool")


def test_a_failed_write_leaves_what_was_there(tmp_path: Path) -> None:
    """A half-written note of the stream would lose the stream."""
    path = tmp_path / "note"
    write_durably(path, b"before")
    path.with_name("note.tmp").mkdir()
    with pytest.raises(OSError, match="note"):
        write_durably(path, b"after")
    assert path.read_bytes() == b"before"


def test_the_lock_ends_with_its_holder(tmp_path: Path) -> None:
    """A killed agent must not lock its successor out."""
    holder = (
        "import pathlib, sys, agent.files\n"
        "held = agent.files.hold_lock(pathlib.Path(sys.argv[1]))\n"
        "print('held', flush=True)\n"
        "sys.stdin.read()\n"
    )
    lock = tmp_path / "lock"
    with subprocess.Popen([sys.executable, "-c", holder, lock], stdin=-1, stdout=-1, cwd=ROOT) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(BlockingIOError):
            hold_lock(lock)
        other.kill()
    hold_lock(lock).close()


STEPS = st.lists(st.sampled_from(["append", "send", "seal", "refuse", "restart", "again", "stream"]), max_size=40)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(steps=STEPS)
def test_whatever_happens_nothing_is_lost_and_no_number_is_given_twice(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str]
) -> None:
    """Every beat that was appended is delivered, refused or still there, under a number that is its own."""
    directory = tmp_path_factory.mktemp("spool")
    queue, written = spool(directory), 0
    seen: dict[tuple[str, int], float] = {}
    done: set[float] = set()
    for step in steps:
        if step == "append":
            written += 1
            queue.append(maker(written / 1000))
        elif step in ("send", "seal", "refuse") and (found := queue.oldest(0)) is not None:
            busy = busy_of(found[1])
            assert seen.setdefault(identity(found[1]), busy) == busy
            done.add(busy)
            queue.refuse(found[0], "no") if step == "refuse" else queue.acknowledge(
                found[0], found[0] if step == "seal" else -1
            )
        elif step == "again":
            queue.send_again()
        elif step == "stream":
            queue.begin_stream()
        elif step == "restart":
            queue.close()
            queue = spool(directory)
    while (found := queue.oldest(0)) is not None:
        done.add(busy_of(found[1]))
        queue.acknowledge(found[0], found[0])
    queue.close()
    assert done == {number / 1000 for number in range(1, written + 1)}


def test_a_number_that_was_refused_is_not_given_again_after_a_restart(tmp_path: Path) -> None:
    """The last batch was set aside, so nothing but the quarantine remembers its number."""
    first = spool(tmp_path)
    first.append(maker(0.001))
    first.refuse(0, "no")
    first.close()
    again = spool(tmp_path)
    again.append(maker(0.002))
    found = again.oldest(0)
    assert found is not None
    assert identity(found[1])[1] == 1
