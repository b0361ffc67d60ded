"""Whether the suite says the same each time: in fresh clones, quiet and busy, in any order, killed, on each Python."""

import argparse
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.machine import ROOT, add_record, keep, kept, machine, told
from tests.waiting import until
from tests.watchdog import MARK, processes

QUIET_MINUTES_MAX = 10
BUSY_PROCESSES = 2
GONE_SECONDS = 5.0  # after a kill
_TOLD = 8_000  # characters
CLOSING = re.compile(r"^(?:=+ )?((?:\d+ \w+, )*\d+ \w+ in [\d.]+s.*?)(?: =+)?$", re.MULTILINE)
PLACES = re.compile(
    r"(?:file://)?/(?:dev|home|opt|root|tmp|usr|work)/[^\s'\"]*"
)  # of this machine, which are no finding
FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)


@dataclass(frozen=True)
class Run:
    """One run of `make test` from a fresh clone."""

    kind: str  # quiet, busy, order 3, Python 3.12.1, after kills
    seconds: float  # with the environment that it makes
    closing: str  # pytest's last line
    failed: tuple[str, ...]
    is_green: bool
    why: str  # the end of what was printed where it is not green: what failed and how, a format, a type


@dataclass(frozen=True)
class Kill:
    """One SIGKILL of pytest in the middle of a run."""

    after_seconds: float
    left: int  # processes of the run, GONE_SECONDS later
    folder_is_gone: bool


def main() -> int:
    """Run what is asked for, keep it, and say which bars are kept."""
    parser = argparse.ArgumentParser(prog="make bench-suite", description=__doc__)
    parser.add_argument("--quiet", type=int, default=0, help="runs with nothing beside them")
    parser.add_argument("--busy", type=int, default=0, help=f"runs with {BUSY_PROCESSES} busy processes beside them")
    parser.add_argument("--orders", type=int, nargs="*", default=[], metavar="SEED", help="random orders of the files")
    parser.add_argument("--kills", type=int, default=0, help="moments at which pytest is killed, and a run after them")
    parser.add_argument("--pythons", nargs="*", default=[], metavar="PATH", help="interpreters of other versions")
    add_record(parser)
    asked = parser.parse_args()
    before = kept("suite", record=asked.record) or {"machine": machine(), "runs": [], "kills": []}
    runs: list[Run] = []
    kills: list[Kill] = []

    def note(run: Run) -> None:
        runs.append(run)
        print(f"{run.kind}: {run.seconds / 60:.1f} min, {run.closing}", *run.failed, run.why, sep="\n  ", flush=True)
        _keep(before, runs, kills, record=asked.record)

    for _ in range(asked.quiet):
        note(one_run("quiet"))
    for seed in asked.orders:
        note(one_run(f"order {seed}", arguments=f"--order={seed}"))
    for path in asked.pythons:
        version = subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout.strip()
        note(one_run(version, python=path))
    if asked.kills:
        kills += killed(asked.kills)
        print(*kills, sep="\n", flush=True)
        note(one_run("after kills"))
    for _ in range(asked.busy):
        with busy():
            note(one_run("busy"))
    bars = {"green each time": all(run.is_green for run in runs)} if runs else {}
    if quiet := [run.seconds for run in runs if run.kind == "quiet"]:
        bars[f"quiet in {QUIET_MINUTES_MAX} minutes"] = max(quiet) <= 60 * QUIET_MINUTES_MAX
    if kills:
        bars[f"nothing left {GONE_SECONDS:g} s after a kill"] = all(not k.left and k.folder_is_gone for k in kills)
    return told(bars)


@contextmanager
def clone() -> Iterator[Path]:
    """Yield a fresh clone of what is committed."""
    folder = Path(tempfile.mkdtemp(prefix="suite-"))
    try:
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(folder / "gpuledger")], check=True)
        yield folder / "gpuledger"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def one_run(kind: str, arguments: str = "", python: str = "") -> Run:
    """Run `make test` in a fresh clone."""
    with clone() as here:
        began = time.monotonic()
        words = ["make", "--no-print-directory", "test", f"ARGS={arguments}", *([f"PYTHON={python}"] if python else [])]
        done = subprocess.run(words, cwd=here, capture_output=True, text=True, env=_environment())
        seconds = time.monotonic() - began
    said = done.stdout + done.stderr
    closing, failed = CLOSING.findall(said), tuple(FAILED.findall(said))
    is_green = done.returncode == 0 and bool(closing)
    why = "" if is_green else PLACES.sub("…", said[-_TOLD:])
    return Run(kind, round(seconds, 1), closing[-1] if closing else "", failed, is_green, why)


@contextmanager
def busy() -> Iterator[None]:
    """Keep processes busy meanwhile."""
    beside = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(BUSY_PROCESSES)]
    try:
        yield
    finally:
        for process in beside:
            process.kill()
            process.wait()


def killed(times: int) -> list[Kill]:
    """Kill pytest that often in one clone, each time at another moment, and look what is left."""
    draw = random.Random(times)
    with clone() as here:
        subprocess.run(["make", "--no-print-directory", ".venv/.made"], cwd=here, check=True, env=_environment())
        return [_kill(here, 45 + draw.random() * 90) for _ in range(times)]


def _kill(here: Path, after_seconds: float) -> Kill:
    words = [str(here / ".venv/bin/python"), "-m", "pytest", "-q", "-n", "auto", "--dist", "loadfile"]
    with subprocess.Popen(
        words, cwd=here, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=_environment()
    ) as run:
        folder = until(lambda: _folder_of(run.pid), "the run has its folder")
        time.sleep(after_seconds)
        run.send_signal(signal.SIGKILL)
        run.wait()
        time.sleep(GONE_SECONDS)
        return Kill(round(after_seconds, 1), len(processes(folder)), not Path(folder).exists())


def _folder_of(pid: int) -> str:
    """Return the folder of a run, which its workers have in their environment; empty before they start."""
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii").split():
        for word in Path(f"/proc/{child}/environ").read_bytes().split(b"\0"):
            if word.startswith(f"{MARK}=".encode()):
                return word.decode().partition("=")[2]
    return ""


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", MARK)}


def _keep(before: dict[str, list[object]], runs: list[Run], kills: list[Kill], *, record: bool) -> None:
    found = {
        "machine": before["machine"],
        "runs": [*before["runs"], *map(asdict, runs)],
        "kills": [*before["kills"], *map(asdict, kills)],
    }
    keep("suite", found, record=record)


if __name__ == "__main__":
    sys.exit(main())
