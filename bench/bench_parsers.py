"""Hostile texts for every reader of what others write, each for ten minutes with a gigabyte of memory.

Each reader is in a process of its own: one that is killed or hangs ends the bench with 1 and tells its seed. Slowest is
the processor's time of one text: the readers share the machine.
"""

import argparse
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Sequence
from multiprocessing.connection import wait
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.fuzz.doors import DOORS, Door
from bench.fuzz.knocking import Knocked, knocked
from bench.machine import add_record, keep, machine, told

if TYPE_CHECKING:
    from multiprocessing.queues import SimpleQueue

_FORKED = multiprocessing.get_context("fork")  # what the readers need takes seconds to import

MINUTES = 10.0
SLOW_SECONDS = 2.0
HUNG_SECONDS = 300.0  # beyond its time


def knocked_at(doors: Sequence[Door], seed: int, seconds: float, at_once: int) -> list[dict[str, Any]]:
    """Knock at each door in a process of its own, so many at once; a kill or a hang is told as its end."""
    found: list[dict[str, Any]] = []
    waiting, running = list(doors), dict[int, tuple[Any, Door, Any, float]]()
    while waiting or running:
        while waiting and len(running) < at_once:
            door = waiting.pop(0)
            process = _FORKED.Process(target=_knock, args=(door, seed, seconds, results := _FORKED.SimpleQueue()))
            process.start()
            running[process.sentinel] = (process, door, results, time.monotonic() + seconds + HUNG_SECONDS)
        wait(list(running), timeout=1.0)
        for sentinel, (process, door, results, until) in list(running.items()):
            if not process.is_alive():
                found.append(_ended(door, seed, results, f"ended with {process.exitcode}"))
            elif time.monotonic() > until:
                process.kill()
                found.append(_ended(door, seed, results, f"hung for {HUNG_SECONDS:g} s"))
            else:
                continue
            process.join()
            del running[sentinel]
    names = [door.name for door in doors]
    return sorted(found, key=lambda one: names.index(one["door"]))


def _knock(door: Door, seed: int, seconds: float, results: "SimpleQueue[dict[str, Any]]") -> None:
    with tempfile.TemporaryDirectory(prefix="gpuledger-fuzz-") as folder:
        found = knocked(door, seed, Path(folder), seconds=seconds)
        results.put({name: getattr(found, name) for name in Knocked.__slots__})


def _ended(door: Door, seed: int, results: "SimpleQueue[dict[str, Any]]", how: str) -> dict[str, Any]:
    if results.empty():
        empty = {"ends": {}, "slowest_seconds": 0.0, "slowest_text": "", "rss_bytes_max": 0, "faults": []}
        return {"door": door.name, "seed": seed, "killed": how} | empty
    found = results.get()
    print(f"  {door.name}: {sum(found['ends'].values()):,} texts", file=sys.stderr, flush=True)
    return found | {"killed": None}


def table(found: list[dict[str, Any]]) -> str:
    """Return the figures as the table of bench/README.md."""
    lines = ["| reader | texts | read | refused | slowest | memory (max) |", "|---|---|---|---|---|---|"]
    for one in found:
        ends = one["ends"]
        lines.append(
            f"| {one['door']} | {sum(ends.values()):,} | {ends.get('read', 0):,} | {ends.get('refused', 0):,} "
            f"| {one['slowest_seconds']:.2f} s | {one['rss_bytes_max'] / 1e6:,.0f} MB |"
        )
    return "\n".join(lines)


def main() -> int:
    """Knock at all doors, print and keep what became of it; 1 where something was wrong."""
    parser = argparse.ArgumentParser(prog="make bench-parsers", description=__doc__)
    parser.add_argument("--minutes", type=float, default=MINUTES, help="of each reader")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--readers", default=",".join(door.name for door in DOORS), help="which, by commas")
    add_record(parser)
    asked = parser.parse_args()
    about, doors = machine(), [door for door in DOORS if door.name in asked.readers.split(",")]
    found = knocked_at(doors, asked.seed, asked.minutes * 60, asked.processes)
    bars = {
        "no reader was killed or hung": not any(one["killed"] for one in found),
        "no exception that nobody expects": not any(one["faults"] for one in found),
        f"no text took {SLOW_SECONDS:g} s": all(one["slowest_seconds"] < SLOW_SECONDS for one in found),
    }
    keep("parsers", {"machine": about, "minutes": asked.minutes, "readers": found, "bars": bars}, record=asked.record)
    print(table(found))
    for one in found:
        for what in filter(None, [one["killed"], *one["faults"]]):
            print(f"{one['door']}, seed {one['seed']}: {what}")
    return told(bars)


if __name__ == "__main__":
    sys.exit(main())
