import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from agent.errors import SourceError
from agent.source import Row
from agent.sources.process_table import read_table
from agent.sources.processes import ProcessSource
from tests.agent.sources.conftest import told

# A root with three workers: one burns until told to stop, two sleep. It says when they run, and when they have worked.
FAMILY = """
import multiprocessing, sys, time

def burn(worked):
    until = time.process_time() + 0.3
    while time.process_time() < until:
        pass
    worked.set()
    time.sleep(600)

if __name__ == "__main__":
    context = multiprocessing.get_context("fork")
    worked = context.Event()
    workers = [context.Process(target=time.sleep, args=(600,), daemon=True) for _ in range(2)]
    for worker in workers:
        worker.start()
    print("born", flush=True)
    sys.stdin.readline()
    last = context.Process(target=burn, args=(worked,), daemon=True)
    last.start()
    worked.wait()
    print("worked", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def family() -> Iterator[subprocess.Popen[str]]:
    """Return a real process with real workers, and a run id in its environment."""
    environment = os.environ | {"GPULEDGER_RUN_ID": "family", "SLURM_JOB_ID": ""}
    command = [sys.executable, "-c", FAMILY]
    with subprocess.Popen(command, stdin=-1, stdout=-1, text=True, env=environment) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "born\n"
        yield process
        process.kill()


def say(process: subprocess.Popen[str]) -> None:
    """Let the family go on to its next word."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("go\n")
    process.stdin.flush()
    process.stdout.readline()


def row_of(rows: Sequence[Row], gpu: str | None) -> Row:
    """Return the only row of this GPU."""
    (found,) = [row for row in rows if row["gpu_uuid"] == gpu]
    return found


def source_of(host: Any, attribution: Any, held: list[Any], watched: Sequence[int] = ()) -> ProcessSource:
    """Return a source over a captured host."""
    return ProcessSource(
        lambda: told(held), attribution, host.wall, lambda: watched, host.proc, host.sys, monotonic=host.monotonic
    )


def test_real_workers_are_counted_and_their_work_is_the_runs(
    family: subprocess.Popen[str], attribution: Any, holder: Any
) -> None:
    """The captured trees are ours; a loader with workers that come meanwhile is what the agent will meet."""
    held = [holder("GPU-a", family.pid, 2**30, 0.5)]
    source = ProcessSource(lambda: told(held), attribution, now=lambda: 1)
    first = row_of(source.read()["process_samples"], "GPU-a")
    assert (first["pid"], first["workers"], first["cpu_seconds"]) == (family.pid, 2, None)
    say(family)
    later = row_of(source.read()["process_samples"], "GPU-a")
    spent = later["cpu_seconds"]
    assert later["workers"] == 3
    assert isinstance(spent, float)
    assert spent >= 0.25
    assert later["read_bytes"] is not None


def test_a_run_that_declares_itself_is_known_by_its_environment(
    family: subprocess.Popen[str], attribution: Any, holder: Any
) -> None:
    """`gpuledger run` puts its id there; the workers inherit it with everything else."""
    source = ProcessSource(lambda: told([holder("GPU-a", family.pid)]), attribution, now=lambda: 1)
    (row,) = source.read()["process_samples"]
    assert row["run_id"] == f"declared/n14/{os.getuid()}/family"


def test_a_holder_that_died_gives_its_gpu_back(family: subprocess.Popen[str], attribution: Any, holder: Any) -> None:
    """The driver's list is a moment old: its pid may be gone from /proc, which is not an error."""
    wall = iter((1_000, 2_000))
    source = ProcessSource(lambda: told([holder("GPU-a", family.pid)]), attribution, now=lambda: next(wall))
    source.read()
    family.kill()
    family.wait()
    reading = source.read()
    (row,) = reading["allocations"]
    assert (row["gpu_uuid"], row["started_at"], row["ended_at"]) == ("GPU-a", 1_000, 2_000)
    assert reading["process_samples"] == []
    assert source.unseen == 1


CHURN = """
import os
print("churning", flush=True)
while True:
    if (pid := os.fork()) == 0:
        os._exit(0)
    os.waitpid(pid, 0)
"""


def test_processes_that_come_and_go_during_the_pass_are_no_error(attribution: Any, holder: Any) -> None:
    """A shell script forks hundreds of times a second; each may vanish between any two of our reads."""
    with subprocess.Popen([sys.executable, "-c", CHURN], stdout=-1) as churner:
        assert churner.stdout is not None
        assert churner.stdout.readline() == b"churning\n"
        source = ProcessSource(lambda: told([holder("GPU-a", churner.pid)]), attribution, now=lambda: 1)
        for _ in range(20):
            assert len(source.read()["process_samples"]) == 1
        churner.kill()


def test_this_hosts_table_holds_this_test() -> None:
    """The captured trees are ours; the real one is the kernel's."""
    before = time.process_time()
    me = read_table(Path("/proc")).processes[os.getpid()]
    after = time.process_time()
    assert me.parent == os.getppid()
    assert me.state == "R"
    assert before - 0.03 <= me.own / 100 <= after, "in ticks of a hundredth, cut off twice"


def test_a_watched_command_without_a_gpu_has_a_row_of_its_own(host: Any, attribution: Any) -> None:
    """`gpuledger run` works on a host without GPUs: CPU time, workers and cores are still worth telling."""
    source = source_of(host, attribution, [], watched=(4711,))
    source.read()
    host.move_on()
    reading = source.read()
    (row,) = reading["process_samples"]
    assert (row["gpu_uuid"], row["workers"], row["cpu_seconds"]) == (None, 4, 30.4)
    assert reading["run_samples"][0]["cores_allotted"] == 16.0
    assert reading["allocations"] == []


def test_who_nobody_claims_belongs_to_the_root_above(host: Any, attribution: Any, holder: Any) -> None:
    """A server's engine process that holds a GPU itself is the server's, not a run of its own."""
    for pid in (4711, 4801):
        (host.proc / str(pid) / "cgroup").write_text("0::/user.slice\n")
    source = source_of(host, attribution, [holder("GPU-b", 4801, 1)], watched=(4711,))
    rows = source.read()["process_samples"]
    assert {row["run_id"] for row in rows} == {"process/n14/4711.100400"}
    assert {row["gpu_uuid"]: row["pid"] for row in rows} == {"GPU-b": 4801, None: 4711}


def test_a_small_context_on_gpu_0_brings_no_workers_along(host: Any, attribution: Any, holder: Any) -> None:
    """Ranks often touch GPU 0 by mistake; rank 0's row must not show every rank's workers."""
    held = [holder("GPU-a", 4711, 2**36), holder("GPU-a", 4712, 2**28), holder("GPU-b", 4712, 2**36)]
    source = source_of(host, attribution, held)
    rows = source.read()["process_samples"]
    assert row_of(rows, "GPU-a")["workers"] == 4
    assert row_of(rows, "GPU-b")["workers"] == 2
    assert row_of(rows, "GPU-a")["memory_used_bytes"] == 2**36 + 2**28


def test_bytes_that_may_not_be_seen_are_unknown(host: Any, attribution: Any, holder: Any) -> None:
    """Without CAP_SYS_PTRACE other users' io files are closed: a partial sum would pass for the whole."""
    source = source_of(host, attribution, [holder("GPU-a", 4711)])
    source.read()
    host.move_on()
    (host.proc / "4804/io").unlink()
    (row,) = source.read()["process_samples"]
    assert (row["read_bytes"], row["cpu_seconds"]) == (None, 30.4)


def test_memory_that_one_process_does_not_tell_is_unknown_for_all(host: Any, attribution: Any, holder: Any) -> None:
    """A sum of some would pass for the whole; SM shares are only told for those that worked."""
    held = [holder("GPU-a", 4711, None, 0.7), holder("GPU-a", 4712, 5, 0.6)]
    (row,) = source_of(host, attribution, held).read()["process_samples"]
    assert (row["memory_used_bytes"], row["sm_utilization_ratio"]) == (None, 1.0)


def test_a_host_whose_gpus_nobody_holds_is_not_walked(tmp_path: Path, attribution: Any) -> None:
    """An idle host costs nothing: there is no /proc here, and no complaint."""
    source = ProcessSource(lambda: told([]), attribution, now=lambda: 1, proc=tmp_path / "none")
    assert source.read() == {"allocations": []}


def test_a_missing_procfs_is_one_sentence(tmp_path: Path, attribution: Any, holder: Any) -> None:
    """The sampler logs the sentence once; it must name the place and the way out."""
    source = ProcessSource(lambda: told([holder("GPU-a", 1)]), attribution, now=lambda: 1, proc=tmp_path / "none")
    with pytest.raises(SourceError, match="mount procfs"):
        source.read()


def test_a_pass_is_bounded_and_counts_what_it_left_out(host: Any) -> None:
    """A fork bomb must not become the agent's; and a pass that was cut short proves no process young."""
    table = read_table(host.proc, limit=3)
    assert (len(table.processes), table.left_out) == (3, 9)


def test_holdings_are_told_once(host: Any, attribution: Any, holder: Any) -> None:
    """An allocation row is an edge; a row a reading would be a new allocation each."""
    held: list[Mapping[str, Any]] = [holder("GPU-a", 4711), holder("GPU-b", 4711)]
    source = source_of(host, attribution, held)
    assert {row["gpu_uuid"] for row in source.read()["allocations"]} == {"GPU-a", "GPU-b"}
    host.move_on()
    assert source.read()["allocations"] == []
    held.pop()
    (row,) = source.read()["allocations"]
    assert (row["gpu_uuid"], row["scheduler"], row["ended_at"]) == ("GPU-b", "cgroup", host.wall())
