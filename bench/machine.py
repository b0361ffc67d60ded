"""What figures were measured on, and where they are kept: the only module that writes to bench/results."""

import argparse
import json
import os
import platform
import resource
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "bench" / "results"  # what documents and tests read
UNRECORDED = ROOT / "bench" / "unrecorded"  # what was run for a look; git ignores it


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


def add_record(parser: argparse.ArgumentParser) -> None:
    """Add the option without which a bench leaves bench/results as it is."""
    parser.add_argument(
        "--record",
        action="store_true",
        help="write the raw numbers to bench/results, which documents and tests read; else to bench/unrecorded",
    )


def keep(name: str, found: Mapping[Any, object] | Sequence[object] | str, *, record: bool) -> None:
    """Write the raw numbers of a bench as NAME.json and print where; what is a string already is written as it is."""
    path = _place(name, record=record)
    path.parent.mkdir(exist_ok=True)
    path.write_text(found if isinstance(found, str) else json.dumps(found, indent=1) + "\n")
    print(f"raw numbers: {path.relative_to(ROOT)}" + ("" if record else "; --record puts them into bench/results"))


def kept(name: str, *, record: bool = True) -> Any:  # noqa: ANN401 - as it was written, or None
    """Return what `keep` last wrote; None where it has not been measured."""
    path = _place(name, record=record)
    return json.loads(path.read_text()) if path.exists() else None


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


def _place(name: str, *, record: bool) -> Path:
    return (RESULTS if record else UNRECORDED) / f"{name}.json"


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
