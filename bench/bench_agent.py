"""What watching a GPU host costs: python bench/bench_agent.py [--seconds 600].

Our agent and what people run today, all at the same time on one host: eight fake GPUs with GPM (tests/agent/gpu/fake),
two hundred processes, five hundred sockets. Ours has a real spool and a stand-in collector, and runs twice: every
second, as the others do, and every ten, as it comes. Pages are scraped every 15 s. Starting is not counted.
"""

import argparse
import math
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import psutil

from bench.agent_contestants import others, ours
from bench.agent_host import CONNECTIONS, GPUS, PROCESSES, Host
from bench.agent_trial import Cost, measure
from bench.machine import add_record, keep
from tests.agent.receiver import Receiver

LEFT_OUT = {
    "nvidia_gpu_exporter": "a Go program whose modules could not be had here, and which asks an nvidia-smi",
    "dcgm-exporter": "needs DCGM and a GPU",
}
MOST_OF_A_CORE = 0.01
MOST_RSS_BYTES = 45_000_000
MOST_LATENESS_SECONDS = 0.05


def bars(costs: Sequence[Cost]) -> dict[str, bool]:
    """Return what our agent promises, and whether it kept it; the first of `costs` is ours at one reading a second."""
    mine, rest = costs[0], [cost for cost in costs if not cost.name.startswith("gpuledger")]
    late = mine.lateness_seconds_p99
    least = min((cost.cpu_seconds_per_hour_and_metric for cost in rest), default=math.inf)
    return {
        "at most 1% of a core": mine.share_of_a_core <= MOST_OF_A_CORE,
        "at most 45 MB of memory": mine.rss_bytes_max <= MOST_RSS_BYTES,
        "less CPU per metric than every other": bool(rest) and mine.cpu_seconds_per_hour_and_metric < least,
        "99% of beats at most 50 ms late": late is not None and late <= MOST_LATENESS_SECONDS,
    }


def machine() -> dict[str, object]:
    """Return what the figures were measured on."""
    return {
        "cores": os.cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
        "python": platform.python_version(),
        "kernel": platform.release(),
        "load_1_minute": round(os.getloadavg()[0], 2),
        "gpus": GPUS,
        "processes": PROCESSES,
        "sockets": 2 * CONNECTIONS,
        "driver": "fake (tests/agent/gpu/fake): a real driver's own calls cost more",
    }


def table(costs: Sequence[Cost]) -> str:
    """Return the figures as the table of bench/README.md."""
    lines = [
        "| | CPU s per GPU-hour | share of a core | memory (max) | metrics | CPU s per hour and metric "
        "| beats late: p50, p99, max |",
        "|---|---|---|---|---|---|---|",
    ]
    for cost in costs:
        late = (cost.lateness_seconds_p50, cost.lateness_seconds_p99, cost.lateness_seconds_max)
        said = ", ".join("–" if each is None else f"≤ {each * 1000:g} ms" for each in late) if any(late) else "–"
        lines.append(
            f"| {cost.name} | {cost.cpu_seconds_per_gpu_hour:.2f} | {cost.share_of_a_core:.2%} "
            f"| {cost.rss_bytes_max / 1e6:.1f} MB | {cost.metrics} "
            f"| {cost.cpu_seconds_per_hour_and_metric:.2f} | {said} |"
        )
    return "\n".join(lines)


def main() -> int:
    """Measure, print and keep the figures; 1 where a promise is not kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0, help="how long they are measured")
    add_record(parser)
    asked = parser.parse_args()
    left_out = dict(LEFT_OUT)
    with tempfile.TemporaryDirectory() as temporary, Receiver() as receiver, Host(Path(temporary)) as host:
        directory = Path(temporary)
        contestants = [
            ours("gpuledger agent, every 1 s", directory / "1", receiver.url, 1.0),
            ours("gpuledger agent, every 10 s", directory / "10", receiver.url, 10.0),
        ]
        try:
            contestants += others(host.environment)
        except (OSError, subprocess.CalledProcessError) as error:
            left_out["nvitop-exporter, gpustat"] = f"cannot be installed here: {error}"
        about = machine()
        costs = measure(contestants, host, directory, asked.seconds)
    kept = bars(costs)
    found = {"machine": about, "costs": [asdict(cost) for cost in costs], "bars": kept, "left_out": left_out}
    keep("agent", found, record=asked.record)
    print(table(costs))
    print(*(f"{'kept' if held else 'NOT KEPT'}: {bar}" for bar, held in kept.items()), sep="\n")
    print(*(f"not measured: {name}: {why}" for name, why in left_out.items()), sep="\n")
    return 0 if all(kept.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
