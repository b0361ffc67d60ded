"""Whether hostile batches leave the collector slower or larger: python bench/bench_hostile.py.

Good batches are timed before and after 50,000 mutants of them, decoded and checked in one process.
"""

import json
import os
import platform
import random
import statistics
import time
from pathlib import Path

import psutil

from agent.wire.envelope import encode
from collector.decode import decode
from collector.errors import BatchError

RESULTS = Path(__file__).parent / "results" / "hostile.json"
MUTANTS = 50_000
TIMED = 3_000
NOW = 1_762_732_800_000_000  # microseconds UTC


def main() -> None:
    """Time, mutate, time again; print and keep."""
    body = _good()
    before = _decode_microseconds(body)
    memory = _megabytes()
    refused = sum(_is_refused(_mutated(body, random.Random(seed))) for seed in range(MUTANTS))
    kept = {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        "mutants": MUTANTS,
        "refused": refused,
        "decode_microseconds_median": {"before": before, "after": _decode_microseconds(body)},
        "megabytes": {"before": memory, "after": _megabytes()},
    }
    print(json.dumps(kept, indent=1))
    RESULTS.write_text(json.dumps(kept, indent=1) + "\n")


def _good() -> bytes:
    rows = [
        {
            "node": "n1",
            "started_at": NOW + beat * 10_000_000,
            "ended_at": NOW + (beat + 1) * 10_000_000,
            "gpu_uuid": f"GPU-{gpu}",
            "up": True,
            "utilization_ratio": 0.9,
            "power_watts": 400.0 + gpu,
        }
        for beat in range(10)
        for gpu in range(8)
    ]
    return encode(agent="n1", stream="s", sequence=0, sent_at=NOW + 100_000_000, tables={"gpu_samples": rows})


def _mutated(body: bytes, draw: random.Random) -> bytes:
    changed = bytearray(body)
    for _ in range(draw.randint(1, 8)):
        changed[draw.randrange(len(changed))] = draw.randrange(256)
    return bytes(changed[: draw.randrange(1, len(changed))] if draw.random() < 0.2 else changed)


def _is_refused(body: bytes) -> bool:
    try:
        decode(body, NOW + 100_000_000)
    except BatchError:
        return True
    return False


def _decode_microseconds(body: bytes) -> float:
    taken = []
    for _ in range(TIMED):
        began = time.perf_counter_ns()
        decode(body, NOW + 100_000_000)
        taken.append((time.perf_counter_ns() - began) / 1000)
    return round(statistics.median(taken), 1)


def _megabytes() -> float:
    return round(float(psutil.Process().memory_info().rss) / 1e6, 1)


if __name__ == "__main__":
    main()
