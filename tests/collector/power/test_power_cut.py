"""What was answered survives a power cut at any moment, whatever the disk kept of what was not synced; and counts once.

A real collector runs once, with every change of its files recorded. Then disks are rebuilt as a cut may have left them,
each is opened as at the next start, and everything that was ever sent is sent again. More cuts than the few of every
run: POWER_CUTS=500 pytest tests/power.
"""

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.store.power import BLOCK, BLOCKS_AT
from tests.collector.power.aftermath import faults
from tests.collector.power.collecting import ROWS, Recorded, recorded
from tests.collector.power.disk import Disk, Promise
from tests.collector.power.recording import Event, Kind, compiled, events

CUTS = int(os.environ.get("POWER_CUTS", "8"))  # of each promise


pytestmark = pytest.mark.soak


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """One run of a collector, from its first start to its orderly end."""
    folder = tmp_path_factory.mktemp("power")
    return recorded(folder, compiled(folder))


@pytest.fixture(scope="module")
def happened(run: Recorded) -> list[Event]:
    """Everything that was done to its files."""
    return list(events(run.log, run.root))


class Judge:
    """A process that opens what is left; a store that brings it down has brought down a collector."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-X", "faulthandler", "-m", "tests.collector.power.aftermath"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[3],
        )

    def faults(self, run: Recorded, event: Event) -> list[str]:
        """Return what is wrong with the disk of a run that was cut after an event."""
        told = {
            "folder": str(run.root),
            "rows": ROWS,
            "answered": [[a.stream, a.sequence] for a in run.answered if a.recorded <= event.end],
            "sent": [[stream, sequence, content.hex()] for (stream, sequence), content in run.sent.items()],
        }
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(told) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, f"what a power cut left brought the process down: {self._process.wait()}"
        found: list[str] = json.loads(answer)
        return found

    def close(self) -> None:
        """End it."""
        if self._process.poll() is None:
            self._process.communicate()


@pytest.fixture
def judge() -> Iterator[Judge]:
    """A fresh process."""
    one = Judge()
    yield one
    one.close()


def test_the_run_held_what_the_cuts_are_meant_to_hit(run: Recorded, happened: list[Event]) -> None:
    """Without checkpoints, seals and files of Parquet the cuts below would show nothing."""
    assert sum(event.kind is Kind.SYNC_ALL for event in happened) >= 3, "seals"
    made = [event.path for event in happened if event.kind is Kind.CREATE]
    assert sum(path == "store.duckdb.wal" for path in made) >= 3, "checkpoints"
    assert any(path.endswith(".parquet") for path in made)
    assert len(run.answered) == len(run.sent)


@pytest.mark.parametrize("promise", Promise)
def test_what_was_answered_is_there_once_wherever_the_power_is_cut(
    run: Recorded, happened: list[Event], judge: Judge, promise: Promise
) -> None:
    """The agent's promise to forget rests on it, and finance on that nothing counts twice."""
    dice = random.Random(f"{promise} {CUTS}")
    wrong = {}
    disk, done = Disk(promise), 0
    for cut in sorted(dice.sample(range(1, len(happened) + 1), CUTS)):
        for event in happened[done:cut]:
            disk.take(event)
        done = cut
        rebuilt(run.root, disk, random.Random(f"{promise} {cut}"))
        if found := judge.faults(run, happened[cut - 1]):
            wrong[cut] = found[:3]
    assert wrong == {}


def test_a_checkpoint_that_is_torn_is_put_right(run: Recorded, happened: list[Event], judge: Judge) -> None:
    """DuckDB writes blocks that hold metadata in use over in place: torn, the whole file could not be opened."""
    cut = _amid_a_checkpoint(happened)
    disk = Disk(Promise.JOURNAL)
    for event in happened[:cut]:
        disk.take(event)
    wrong = [found for seed in range(4) if (found := _torn(run, disk, happened[cut - 1], seed, judge))]
    assert wrong == []
    harmed = [seed for seed in range(4) if _torn(run, disk, happened[cut - 1], seed, judge, copied=False)]
    assert harmed, "without the copy torn blocks do no harm either; the test shows nothing"


def test_the_test_can_fail(run: Recorded, happened: list[Event]) -> None:
    """A disk that forgets what was synced must show, or all of this shows nothing."""
    last = len(happened) * 3 // 4
    disk = Disk(Promise.JOURNAL)
    for event in happened[:last]:
        if event.kind not in (Kind.SYNC_FILE, Kind.SYNC_DIRECTORY, Kind.SYNC_ALL):
            disk.take(event)
    answered = [(a.stream, a.sequence) for a in run.answered if a.recorded <= happened[last - 1].end]
    assert answered

    def lies() -> bool:
        rebuilt(run.root, disk, NoLuck())
        try:
            return bool(faults(run.root, answered, run.sent, ROWS))
        except Exception:  # noqa: BLE001 - not to open is to lose everything
            return True

    assert lies()


class NoLuck(random.Random):
    """Dice for whom nothing that was not synced was kept."""

    def choice(self, seq):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
        """Return the first: no name, no write."""
        return seq[0]


def rebuilt(root: Path, disk: Disk, dice: random.Random) -> None:
    """Make the folder of the run what the disk holds. Its place must be the same: the lake knows where it lies."""
    shutil.rmtree(root)
    root.mkdir()
    disk.after_a_cut(root, dice)


def _amid_a_checkpoint(happened: list[Event]) -> int:
    """Return the number of events up to the last write of a checkpoint, before it is synced: that of metadata."""
    made = {event.inode: event.path for event in happened if event.kind is Kind.CREATE}
    blocks = [
        number
        for number, event in enumerate(happened, 1)
        if event.kind is Kind.WRITE and made.get(event.inode) == "store.duckdb" and len(event.data) == BLOCK
    ]
    middle = [number for number in blocks if happened[number].kind is Kind.SYNC_FILE]  # the last one of a checkpoint
    return middle[len(middle) // 2]


def _torn(run: Recorded, disk: Disk, event: Event, seed: int, judge: Judge, *, copied: bool = True) -> list[str]:
    dice = random.Random(seed)
    rebuilt(run.root, disk, NoLuck())
    with (run.root / "store.duckdb").open("r+b") as file:
        at = dice.randrange(512, BLOCK, 512)
        assert (event.offset - BLOCKS_AT) % BLOCK == 0
        file.seek(event.offset)
        file.write(event.data[:at])
    if not copied:
        (run.root / "store.duckdb.metadata").unlink()
    return judge.faults(run, event)
