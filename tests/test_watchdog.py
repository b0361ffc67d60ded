"""A run that is killed leaves nothing: no process, however it was started, and no file."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.waiting import PATIENCE_SECONDS, until
from tests.watchdog import lives, processes

ROOT = Path(__file__).parent.parent
# Stands for pytest: it starts processes in the ways that servers of tests are started, and tells which.
RUN = """
import json, os, signal, subprocess, sys
from pathlib import Path
from tests.watchdog import Watchdog, remove_at_end

def main():
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # who runs the suite under nohup has it ignored
    watchdog = Watchdog()
    outside = Path(sys.argv[1])
    outside.touch()
    remove_at_end(outside)
    asleep = ["sleep", "600"]
    starts = "import subprocess, sys, time; print(subprocess.Popen(['sleep', '600'], stdout=2, {more}).pid, flush=True)"
    orphan = [sys.executable, "-c", starts.format(more="")]
    parent = [sys.executable, "-c", starts.format(more="env={}, cwd='/', start_new_session=True") + "; time.sleep(600)"]
    pids = {
        "plain": subprocess.Popen(asleep).pid,
        "session": subprocess.Popen(asleep, start_new_session=True).pid,
        "orphan": int(subprocess.run(orphan, stdout=subprocess.PIPE).stdout),
        "works in the folder": subprocess.Popen(asleep, env={}, cwd=watchdog.folder, start_new_session=True).pid,
        "child of a marked one": int(subprocess.Popen(parent, stdout=subprocess.PIPE).stdout.readline()),
    }
    print(json.dumps({"folder": str(watchdog.folder), "pids": pids}), flush=True)
    sys.stdin.readline()
    watchdog.close(keep=sys.argv[2] == "keep")

main()
"""


@contextmanager
def run(outside: Path, keep: str = "") -> Iterator[tuple[subprocess.Popen[str], Path, dict[str, int]]]:
    """Yield a run, its folder, and what it started."""
    process = subprocess.Popen(
        [sys.executable, "-c", RUN, str(outside), keep],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        said = json.loads(process.stdout.readline())
        try:
            assert set(said["pids"].values()) <= processes(said["folder"])
            yield process, Path(said["folder"]), said["pids"]
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_what_a_killed_run_started_ends_with_it(tmp_path: Path, number: signal.Signals) -> None:
    """In whatever session it is, whoever its parent is, and without our mark too."""
    with run(tmp_path / "outside") as (process, folder, pids):
        os.kill(process.pid, number)
        process.wait(PATIENCE_SECONDS)
        until(lambda: not [name for name, pid in pids.items() if lives(pid)], "all have ended")
        until(lambda: not folder.exists() and not (tmp_path / "outside").exists(), "nothing is left on disk")


def test_a_run_that_failed_keeps_its_folder_until_the_next(tmp_path: Path) -> None:
    """Who looks into a failure needs the files of the test; who runs again needs the memory they lie in."""
    with run(tmp_path / "outside", keep="keep") as (process, folder, pids):
        process.communicate("\n")
        assert not [name for name, pid in pids.items() if lives(pid)]
        assert folder.exists()
    with run(tmp_path / "outside") as (process, next_folder, _):
        assert not folder.exists()
        process.communicate("\n")
        assert not next_folder.exists()
