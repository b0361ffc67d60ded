"""Runs speak, rows come: real processes, a real socket, and people who send nonsense."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from agent.attribution.evidence import Identity
from agent.attribution.run import Attribution
from agent.errors import SourceError
from agent.sources.progress import (
    MESSAGES_PER_SECOND,
    OF_ONE_USER_MAX,
    RUNS_MAX,
    HostRuns,
    ProgressSource,
    Senders,
    one_run,
)
from tests.agent.sources.progress_hearing import PROC, each_alone, hearing, own_run, rows, say, summed, us
from tests.waiting import until

# Says steps 0 and 5, and lives until its input ends.
SPEAKER = """
import socket, sys
ours = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
for step in (0, 5):
    ours.sendto(b'{"step": %d}' % step, sys.argv[1])
print("said", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return where the socket will be."""
    return tmp_path / "progress.sock"


@pytest.fixture
def source(path: Path) -> Iterator[ProgressSource]:
    """Return a source that hears, all our processes being one run."""
    with closing(hearing(path)) as opened:
        yield opened


def speaker(path: Path) -> subprocess.Popen[bytes]:
    """Return a process that has spoken, and lives."""
    process = subprocess.Popen([sys.executable, "-c", SPEAKER, str(path)], stdin=-1, stdout=-1)
    assert process.stdout is not None
    assert process.stdout.readline() == b"said\n"
    return process


def end(process: subprocess.Popen[bytes]) -> None:
    """Let a speaker end."""
    process.communicate()


def test_what_a_run_says_becomes_its_row(source: ProgressSource, path: Path) -> None:
    """The run is told by the process that sends, and not by the message."""
    say(path, {"step": 100, "tokens": 0}, {"step": 101, "tokens": 4096, "run_id": "slurm/alpha/8"})
    say(path, {"step": 120, "checkpoint": "ckpt-120"})
    until(lambda: source.drops() == dict.fromkeys(source.drops(), 0), "nothing is dropped")
    found: dict[str, object] = {}

    def heard() -> bool:
        for row in rows(source):
            steps = int(row.get("steps") or 0) + int(str(found.get("steps", 0)))
            found.update(row, steps=steps)
        return "checkpoint" in found

    until(heard, "the checkpoint is heard")
    assert found == {"run_id": "slurm/alpha/7", "steps": 20, "tokens": 4096, "checkpoint": "ckpt-120"}


def test_a_run_that_is_silent_keeps_an_empty_row(source: ProgressSource, path: Path) -> None:
    """Silence is not idleness: no steps are told, and its series goes on where it stood."""
    say(path, {"step": 1})
    until(lambda: rows(source) == [{"run_id": "slurm/alpha/7"}], "the run has a row")
    assert rows(source) == [{"run_id": "slurm/alpha/7"}]


def test_a_child_speaks_for_the_holder_above_it(path: Path) -> None:
    """Where no scheduler is, the GPU is booked to the process that holds it, and its children work for that."""
    pid, _ = us()
    with closing(ProgressSource(path, HostRuns(PROC, each_alone, lambda: {pid}))) as source:
        source.open()
        process = speaker(path)
        assert summed(source, lambda sums: sums.get("steps") == 5)["checkpoints"] == 0
        assert [row["run_id"] for row in rows(source)] == [f"process/here/{pid}"]
        end(process)


def test_a_run_of_one_process_ends_with_it(path: Path) -> None:
    """Nothing is remembered of processes that are gone, or a host of many small ones would fill the agent."""
    with closing(hearing(path, each_alone)) as source:
        process = speaker(path)
        alone = f"process/here/{process.pid}"
        until(lambda: [row["run_id"] for row in rows(source)] == [alone], "the run has a row")
        end(process)
        until(lambda: rows(source) == [], "the run's row is gone")


def test_nobody_speaks_as_another_user() -> None:
    """A process number may be used again by somebody else between the sending and the look."""
    pid, uid = us()
    whose = HostRuns(PROC, own_run, tuple)
    assert whose(pid, uid) is not None
    assert whose(pid, uid + 1) is None
    assert whose(0, uid) is None, "a process of a PID namespace that is not ours"
    assert whose(2**22 + 1, uid) is None, "one that has ended"


def test_the_last_word_of_a_watched_command_is_heard(path: Path) -> None:
    """It may have ended before the message is read; on a socket of its own, nobody else can have sent it."""
    with closing(ProgressSource(path, one_run("declared/here/1", PROC))) as source:
        source.open()
        end(speaker(path))
        assert summed(source, lambda sums: sums.get("steps") == 5)["steps"] == 5


def test_nonsense_is_counted_and_stops_nothing(
    source: ProgressSource, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One user's broken script must not cost the others their steps, nor the host its disk for logs."""
    for _ in range(3):
        say(path, b"\xff" * 10, b"[" * 4000, b"x" * 5000)
        until(lambda: source.drops()["too_long"] > 0, "a message is too long")
        rows(source)
    say(path, {"step": 0}, {"step": 3})
    assert summed(source, lambda sums: sums.get("steps") == 3)["steps"] == 3
    assert (source.drops()["malformed"], source.drops()["too_long"]) == (6, 3)
    assert len([record for record in caplog.records if "are ignored" in record.message]) == 1


def test_who_sends_too_fast_is_not_looked_at(path: Path) -> None:
    """A flood costs a look at its sender, and no parsing."""
    stopped_clock = lambda: 7.5  # noqa: E731
    with closing(ProgressSource(path, HostRuns(PROC, own_run, tuple), monotonic=stopped_clock)) as source:
        source.open()
        say(path, *({"step": step} for step in range(MESSAGES_PER_SECOND + 5)))
        until(lambda: source.drops()["too_fast"] == 5, "five messages come too fast")
        assert rows(source) == [{"run_id": "slurm/alpha/7", "steps": MESSAGES_PER_SECOND - 1}]


def test_one_user_cannot_take_all_places() -> None:
    """Places of processes that have ended are free again; the others' users keep theirs."""
    living: set[Identity] = set()

    def whose(pid: int, uid: int) -> tuple[Identity, Attribution]:
        living.add((pid, 1))
        return (pid, 1), Attribution(f"process/here/{pid}", "process")

    senders = Senders(whose, living.__contains__)
    for pid in range(1, OF_ONE_USER_MAX + 10):
        senders.find(pid, 1000, 0.0)
    assert senders.refused == 9
    assert senders.find(5000, 1001, 0.0) is not None
    living.clear()
    assert senders.find(5001, 1000, 0.0) is not None


def test_a_sender_that_no_scheduler_knows_is_looked_at_again() -> None:
    """It says step 0 before it holds a GPU; later its steps belong to who holds it."""
    runs = iter(["process/here/1", "process/here/99"])

    def whose(pid: int, uid: int) -> tuple[Identity, Attribution]:
        return (pid, 1), Attribution(next(runs), "process")

    senders = Senders(whose, lambda _: True)
    found = [senders.find(1, 1000, at) for at in (0.0, 30.0)]
    assert senders.runs() == {"process/here/1"}
    found += [senders.find(1, 1000, at) for at in (61.0, 62.0)]
    assert senders.runs() == {"process/here/99"}
    assert len({id(one) for one in found}) == 1, "and it stays one sender, with one count of its messages"


def test_runs_are_bounded(path: Path) -> None:
    """The one that was heard longest ago makes room."""
    source = ProgressSource(path, one_run("x", PROC))
    for number in range(RUNS_MAX + 3):
        source._run(f"slurm/alpha/{number}", float(number))
    assert len(source._runs) == RUNS_MAX
    assert "slurm/alpha/2" not in source._runs
    source.close()


def test_a_path_that_is_not_to_be_had_is_a_reading_that_failed(tmp_path: Path) -> None:
    """The agent reads everything else, and tries again: the directory may come later."""
    directory = tmp_path / "later" / "still"
    source = ProgressSource(directory / "progress.sock", HostRuns(PROC, own_run, tuple))
    with pytest.raises(SourceError, match=r"set agent\.progress"):
        source.read()
    directory.mkdir(parents=True)
    assert source.read() == {"progress": []}
    source.close()
    source.close()
    assert source.drops()["malformed"] == 0
