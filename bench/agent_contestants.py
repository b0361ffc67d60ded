"""Who is measured: our agent, and what people run today, in a virtual environment of its own."""

import hashlib
import json
import socket
import subprocess
import sys
import venv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
CACHE = ROOT / "build" / "bench-agent"
PINNED = (
    "nvitop==1.7.2",
    "nvitop-exporter==1.7.2",
    "gpustat==1.1.1",
    "nvidia-ml-py==13.615.71",
    "prometheus-client==0.26.0",
    "psutil==7.2.2",
)
# The cheapest way to poll it: one process that asks again and again. A process a second would cost far more.
GPUSTAT_LOOP = """
import time, gpustat
due = time.monotonic()
while True:
    gpustat.new_query().jsonify()
    due += 1
    time.sleep(max(0, due - time.monotonic()))
"""
IDENTITY = ("index", "pid")  # numbers of gpustat's that measure nothing


@dataclass(frozen=True, slots=True)
class Contestant:
    """One to be measured: its command, where its page is, or else the names that it reports."""

    name: str
    command: tuple[str, ...]
    port: int | None = None
    metrics: frozenset[str] = frozenset()


def ours(name: str, directory: Path, collector: str, beat_seconds: float) -> Contestant:
    """Return the agent with everything on, all it writes below `directory`."""
    port = free_port()
    directory.mkdir()
    keys = {
        "collector": collector,
        "listen": f"127.0.0.1:{port}",
        "beat-seconds": f"{beat_seconds:g}",
        "spool": str(directory / "spool"),
        "state": str(directory / "state.json"),
        "progress": str(directory / "progress.sock"),
        "control": str(directory),
    }
    flags = [part for key, value in keys.items() for part in (f"--{key}", value)]
    return Contestant(name, (sys.executable, "-m", "gpuledger", "agent", *flags), port)


def others(environment: Mapping[str, str]) -> list[Contestant]:
    """Return what is measured beside it, installed where that is not done yet.

    Raises:
        subprocess.CalledProcessError: it cannot be installed here.
    """
    python = _rivals()
    port = free_port()
    exporter = str(python.with_name("nvitop-exporter"))
    interval = ("--interval", "1", "--bind-address", "127.0.0.1", "--port", str(port))
    told = subprocess.run([python, "-m", "gpustat", "--json"], env=environment, capture_output=True, check=True)
    return [
        Contestant("nvitop-exporter 1.7.2, every 1 s", (exporter, *interval), port),
        Contestant(
            "gpustat 1.1.1, every 1 s", (str(python), "-c", GPUSTAT_LOOP), metrics=_gpustat_metrics(told.stdout)
        ),
    ]


def free_port() -> int:
    """Return a port that was free a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
    return port


def _rivals() -> Path:
    """Return the Python of the others' environment; a change of pins makes another."""
    folder = CACHE / hashlib.sha256("\n".join(PINNED).encode()).hexdigest()[:12]
    python = folder / "bin" / "python"
    if not (folder / ".made").exists():
        venv.create(folder, with_pip=True, clear=True)
        install = ("-m", "pip", "install", "--quiet", "--quiet", "--disable-pip-version-check")
        subprocess.run([python, *install, *PINNED], check=True)
        (folder / ".made").touch()
    return python


def _gpustat_metrics(told: bytes) -> frozenset[str]:
    """Return the names of the numbers that gpustat reports of a GPU and of a process on it."""
    gpus = json.loads(told)["gpus"]
    processes = [process for gpu in gpus for process in gpu["processes"]]
    named = [("gpu", gpus), ("process", processes)]
    return frozenset(
        f"{subject}.{key}"
        for subject, rows in named
        for row in rows
        for key, value in row.items()
        if isinstance(value, (int, float)) and key not in IDENTITY
    )
