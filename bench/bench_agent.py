"""What the agent costs its host: python bench/bench_agent.py [--seconds 60].

The real agent over a fake NVIDIA driver of eight GPUs with GPM (tests/nvml/fake) and a real spool, sending to a
stand-in collector; once read every second and once every ten. Processor time and memory are the kernel's figures of
the agent's process; what it takes to start is not counted.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from tests.agent.receiver import Receiver
from tests.nvml.fake.build import build, living

ROOT = Path(__file__).parent.parent
RESULTS = Path(__file__).parent / "results" / "agent.json"
GPUS = 8
WARM_SECONDS = 4.0
SECONDS_PER_HOUR = 3600


@dataclass(frozen=True)
class Cost:
    """What one agent took over the measured time."""

    gpus: int
    beat_seconds: float
    measured_seconds: float
    cpu_seconds: float
    cpu_seconds_per_hour: float
    share_of_a_core: float
    rss_bytes: int
    threads: int
    batches: int
    bytes_sent_per_hour: int


def cost(directory: Path, library: Path, beat_seconds: float, seconds: float) -> Cost:
    """Run an agent for a while and return what it took."""
    scenario = living(directory / "scenario", GPUS).every(processes="")
    environment = os.environ | {"LD_LIBRARY_PATH": str(library), "GPULEDGER_FAKE_NVML": str(scenario.path)}
    with Receiver() as receiver:
        line = [sys.executable, "-m", "gpuledger", "agent", "--collector", receiver.url, "--listen", "127.0.0.1:0"]
        flags = ["--spool", str(directory / f"spool-{beat_seconds:g}"), "--beat-seconds", str(beat_seconds)]
        agent = subprocess.Popen([*line, *flags], cwd=ROOT, env=environment, stderr=subprocess.DEVNULL)
        process = psutil.Process(agent.pid)
        time.sleep(WARM_SECONDS)
        began, before, sent = time.monotonic(), process.cpu_times(), len(receiver.bodies)
        time.sleep(seconds)
        took, after = time.monotonic() - began, process.cpu_times()
        used = after.user + after.system - before.user - before.system
        rss, threads = process.memory_info().rss, process.num_threads()
        agent.terminate()
        agent.wait()
        bodies = receiver.bodies[sent:]
    return Cost(
        gpus=GPUS,
        beat_seconds=beat_seconds,
        measured_seconds=round(took, 1),
        cpu_seconds=round(used, 2),
        cpu_seconds_per_hour=round(used / took * SECONDS_PER_HOUR, 1),
        share_of_a_core=round(used / took, 5),
        rss_bytes=rss,
        threads=threads,
        batches=len(bodies),
        bytes_sent_per_hour=round(sum(map(len, bodies)) / took * SECONDS_PER_HOUR),
    )


def machine() -> dict[str, object]:
    """Return what the figures were measured on."""
    return {
        "cores": os.cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
        "python": platform.python_version(),
        "kernel": platform.release(),
        "load_1_minute": round(os.getloadavg()[0], 2),
        "driver": "fake (tests/nvml/fake): a real driver's own calls cost more",
    }


def main() -> None:
    """Measure, print and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long each agent is measured")
    seconds = parser.parse_args().seconds
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary)
        library = build(directory)
        costs = [cost(directory, library, beat, seconds) for beat in (1.0, 10.0)]
    found = {"machine": machine(), "costs": [asdict(one) for one in costs]}
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
