"""The folder and the watchdog of a run of pytest: when pytest ends, however it ends, all that it started ends with it.

A server that a test started outlives a pytest that is killed, and so does whatever that server started. The watchdog
is a process of its own that waits at a pipe. Only pytest holds the other end, so the pipe closes when pytest is gone,
by SIGKILL too. It then kills every process of the run and removes the run's folder.

A process belongs to the run if it has the run's mark in its environment, if it works or has a file open in the run's
folder, or if it descends from such a process. This file is run by itself and imports nothing of ours.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MARK = "GPULEDGER_TEST_RUN"  # in the environment of all that a run starts: its folder, whose name no other run has
MEMORY = Path("/dev/shm")
MEMORY_BYTES_MIN = 8 * 2**30  # free, for the run's folder to lie in memory; a run was seen to hold 3.2 GiB at its end
KILL_SECONDS_MAX = 30.0  # a process that does not end by then cannot be killed
OUTSIDE = "outside"  # a file in the run's folder: paths that programs make elsewhere whatever they are told
KEPT = "kept"  # a file in the folder of a run that failed, which stays for who looks into it until the next run
PREFIX = "gpuledger-"  # short, since the path of a socket has 107 letters at most


class Watchdog:
    """The watchdog, seen from pytest."""

    def __init__(self) -> None:
        self.folder = make_folder()
        command = [sys.executable, "-I", __file__, str(self.folder)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
        os.environ[MARK] = str(self.folder)  # after it has started: it is to outlive what bears the mark

    def close(self, *, keep: bool) -> None:
        """Let it clean up, and wait for it; `keep` leaves the folder until the next run, for who looks at a failure."""
        assert self._process.stdin is not None
        with self._process.stdin as pipe:
            pipe.write(b"keep" if keep else b"")
        self._process.wait()
        os.environ.pop(MARK, None)


def make_folder() -> Path:
    """Make the folder of a run, in memory where there is room: an fsync there costs nothing, on a disk milliseconds.

    Other users may enter it, but not list it: a PostgreSQL of a test runs as a user of its own.
    """
    try:
        memory = os.statvfs(MEMORY)
        in_memory = memory.f_bavail * memory.f_frsize >= MEMORY_BYTES_MIN and _available_bytes() >= 2 * MEMORY_BYTES_MIN
    except OSError:
        in_memory = False
    parent = MEMORY if in_memory else Path(tempfile.gettempdir())
    for kept in parent.glob(f"{PREFIX}*/{KEPT}"):
        shutil.rmtree(kept.parent, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
    folder.chmod(0o711)
    return folder


def run_folder() -> Path:
    """Return the folder of this run; benches, which have no watchdog, use the temporary one."""
    return Path(os.environ.get(MARK) or tempfile.gettempdir())


def remove_at_end(path: Path) -> None:
    """Have a path outside the run's folder removed when the run ends, if it is still there; benches look to it."""
    if MARK in os.environ:
        with (run_folder() / OUTSIDE).open("a", encoding="utf-8") as lines:
            lines.write(f"{path}\n")


def processes(folder: str) -> set[int]:
    """Return the processes of a run, without this one."""
    parents = {int(entry.name): _parent(entry) for entry in Path("/proc").iterdir() if entry.name.isdecimal()}
    mark = f"{MARK}={folder}".encode()
    found = {pid for pid in parents if _bears(pid, mark) or _is_in(pid, folder)}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {os.getpid()}


def lives(pid: int) -> bool:
    """Return whether a process runs; one that has ended and was not asked for yet does not."""
    return _parent(Path(f"/proc/{pid}")) != 0


def _available_bytes() -> int:
    for line in Path("/proc/meminfo").read_text("ascii").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0


def _parent(entry: Path) -> int:
    """Return a process's parent; 0 for one that has ended, a zombie too."""
    try:
        state, parent = (entry / "stat").read_text("ascii", "replace").rpartition(")")[2].split()[:2]
    except (OSError, ValueError):
        return 0
    return 0 if state in "ZX" else int(parent)


def _bears(pid: int, mark: bytes) -> bool:
    try:
        return mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False


def _is_in(pid: int, folder: str) -> bool:
    at = f"/proc/{pid}"
    with contextlib.suppress(OSError):
        links = [f"{at}/cwd", *(f"{at}/fd/{number}" for number in os.listdir(f"{at}/fd"))]  # noqa: PTH208  by thousands
        for link in links:
            with contextlib.suppress(OSError):
                if f"{os.readlink(link)}/".startswith(f"{folder}/"):  # noqa: PTH115
                    return True
    return False


def _clean(folder: Path, *, keep: bool) -> None:
    ends = time.monotonic() + KILL_SECONDS_MAX
    while (left := processes(str(folder))) and time.monotonic() < ends:
        for pid in left:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)
    with contextlib.suppress(OSError):
        for line in (folder / OUTSIDE).read_text("utf-8").splitlines():
            if Path(line).is_dir():
                shutil.rmtree(line)
            else:
                Path(line).unlink(missing_ok=True)
    if keep:
        (folder / KEPT).touch()
    else:
        shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    """Wait until pytest is gone, and clean up after it. Ctrl-C and the end of a terminal are pytest's matter."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    word = sys.stdin.buffer.read()
    _clean(Path(sys.argv[1]), keep=word == b"keep")


if __name__ == "__main__":
    main()
