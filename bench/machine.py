"""What figures were measured on, and where they are kept."""

import json
import os
import platform
import resource
import time
from collections.abc import Mapping
from pathlib import Path

import psutil

RESULTS = Path(__file__).parent / "results"
ROOT = Path(__file__).parent.parent


def machine() -> dict[str, object]:
    """Return what the figures were measured on."""
    return {
        "date": time.strftime("%Y-%m-%d"),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load_1_minute_before": round(os.getloadavg()[0], 2),
    }


def keep(name: str, found: Mapping[str, object], path: Path | None = None) -> None:
    """Write the raw numbers of a bench to results/NAME.json, or to `path`."""
    path = path or RESULTS / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found, indent=1) + "\n")


def told(bars: Mapping[str, bool]) -> int:
    """Print which bars are kept; return the exit code, 1 where one is not."""
    print(*(f"{'kept' if held else 'NOT KEPT'}: {bar}" for bar, held in bars.items()), sep="\n")
    return 0 if all(bars.values()) else 1


def cpu_seconds() -> float:
    """Return the processor's time of this process and of those that it has started and that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def quantile(ascending: list[float], share: float) -> float:
    """Return the value at or below which this share of them lies; NaN where there are none."""
    return ascending[min(len(ascending) - 1, int(share * len(ascending)))] if ascending else float("nan")


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
