"""Half an hour of a fleet in which things go wrong: python bench/bench_faults.py [--seconds 1800].

Collectors that seal into one lake (catalogue in PostgreSQL, Parquet in an S3 server), a balancer before them, agents
with the real spool and the real sender. A collector, PostgreSQL or S3 is killed at random, again and again, and comes
back; some collectors stay away for longer than their leases; once, the disk of one is full. In the end every sample
that an agent was told is safe must be in the lake exactly once, and meanwhile no reader may see a part of a batch.

With `--schedules N` it is N drawn ones of what befalls the places of one site (places.py): an older lake is put back, a
newer one comes back, clocks jump, the lake's disk comes late, goes and is back. Nothing may be there twice, nothing be
lost that anybody still holds, what is lost be named, and nothing expire by a clock that is not proven.
"""

import argparse
import logging
import random
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

from bench.faults import Fault, Faults, small_disk
from bench.machine import add_record, keep, machine, told
from bench.places import Schedule
from collector.errors import CollectorError
from tests.fleet.fleet import Fleet, half_batches
from tests.fleet.postgres import Postgres
from tests.fleet.s3 import S3Server

COLLECTORS = 3
AGENTS = 30
EVERY_SECONDS = 1.0
QUIET_SECONDS = (5.0, 20.0)  # between two faults
FULL_SECONDS = 30.0
LOOK_SECONDS = 5.0


class Reader(threading.Thread):
    """Looks at the lake every few seconds, from outside; what it cannot read while something is down is counted."""

    def __init__(self, fleet: Fleet) -> None:
        super().__init__(name="reader", daemon=True)
        self._fleet = fleet
        self._ending = threading.Event()
        self.looks = 0
        self.failures = 0
        self.partial: list[object] = []

    def run(self) -> None:
        """Look until told to stop."""
        while not self._ending.wait(LOOK_SECONDS):
            try:
                with self._fleet.reader() as store:
                    self.partial += half_batches(store)
                self.looks += 1
            except CollectorError:
                self.failures += 1

    def stop(self) -> None:
        """End it."""
        self._ending.set()
        self.join()


def run(seconds: float, agents: int, seed: int) -> dict[str, object]:
    """Let things go wrong for so long; return what came of it."""
    dice = random.Random(seed)
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gpuledger-bench-")))
        disk = stack.enter_context(small_disk(directory / "disk-0"))
        postgres = stack.enter_context(Postgres(quick=False))
        s3 = stack.enter_context(S3Server())
        stores = [directory / f"disk-{number}" for number in range(COLLECTORS)]
        for store in stores:
            store.mkdir(exist_ok=True)
        settings = {"seal_seconds": "5"}
        fleet = Fleet(directory, postgres, s3, COLLECTORS, agents, EVERY_SECONDS, settings, stores=stores)
        stack.enter_context(fleet)
        reader = Reader(fleet)
        reader.start()
        happened = _happen(Faults(fleet, postgres, s3, disk, dice), seconds, dice, disk)
        fleet.settle()
        reader.stop()
        wrong = fleet.faults()
        return {
            "seconds": seconds,
            "seed": seed,
            "collectors": COLLECTORS,
            "agents": agents,
            "faults": [asdict(fault) for fault in happened],
            "disk_filled": disk is not None,
            "batches_said": sum(agent.said for agent in fleet.agents),
            "batches_acknowledged": fleet.acknowledged,
            "new_streams": fleet.new_streams,
            "reader_looks": reader.looks,
            "reader_failures_while_down": reader.failures,
            "reader_saw_partial_batches": len(reader.partial),
            "wrong": len(wrong),
            "wrong_first": wrong[:20],
        }


def _happen(faults: Faults, seconds: float, dice: random.Random, disk: Path | None) -> list[Fault]:
    began, filled = time.monotonic(), disk is None
    while time.monotonic() - began < seconds:
        time.sleep(dice.uniform(*QUIET_SECONDS))
        if not filled and time.monotonic() - began > seconds / 2:
            faults.fill_disk(FULL_SECONDS)
            filled = True
        faults.one()
    return faults.happened


def table(happened: Sequence[dict[str, object]]) -> str:
    """Return how long it took to recover, as the table of bench/README.md."""
    lines = [
        "| fault | times | down | until all are answered: median, longest | until all is sealed: median, longest |",
        "|---|---|---|---|---|",
    ]
    for what in sorted({str(fault["what"]) for fault in happened}):
        own = [fault for fault in happened if fault["what"] == what]
        down = [float(str(fault["down_seconds"])) for fault in own]
        lines.append(
            f"| {what} | {len(own)} | {min(down):.0f} to {max(down):.0f} s "
            f"| {_spread(own, 'seconds_to_answers')} | {_spread(own, 'seconds_to_sealed')} |"
        )
    return "\n".join(lines)


def _spread(faults: Sequence[dict[str, object]], name: str) -> str:
    known = [float(str(fault[name])) for fault in faults if fault[name] is not None]
    never = len(faults) - len(known)
    said = f"{statistics.median(known):.1f}, {max(known):.1f} s" if known else "–"
    return f"{said}; {never} never" if never else said


def schedules(count: int, seed: int) -> dict[str, object]:
    """Play so many schedules; return what befell their sites, and what was wrong."""
    happened: Counter[str] = Counter()
    wrong: list[str] = []
    for number in range(seed, seed + count):
        with tempfile.TemporaryDirectory(prefix="gpuledger-bench-") as folder:
            played = Schedule(Path(folder), number).play()
        happened += played.happened
        wrong += [f"schedule {number}: {sentence}" for sentence in played.wrong]
        print(f"  {number}: {dict(played.happened)}; {len(played.wrong)} wrong", flush=True)
    return {
        "schedules": count,
        "seed": seed,
        "happened": dict(happened),
        "wrong": len(wrong),
        "wrong_first": wrong[:20],
    }


def main() -> int:
    """Run, print and keep what came of it; 1 where something was lost, doubled or did not recover."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1800.0)
    parser.add_argument("--agents", type=int, default=AGENTS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--schedules", type=int, default=0, help="of one site and its places, instead of a fleet")
    add_record(parser)
    asked = parser.parse_args()
    if asked.schedules:
        logging.disable()
        found = schedules(asked.schedules, asked.seed)
        print("\n".join(map(str, found["wrong_first"])))  # type: ignore[call-overload]
        kept = {"nothing is twice, lost unnamed, or expired by an unproven clock": found["wrong"] == 0}
        keep("places", {"machine": machine(), **found, "bars": kept}, record=asked.record)
        return told(kept)
    logging.getLogger("agent").setLevel(logging.ERROR)  # that a collector is away is no news here
    about = machine()
    found = run(asked.seconds, asked.agents, asked.seed)
    happened = found["faults"]
    assert isinstance(happened, list)
    kept = {
        "every sample that an agent was told is safe is there exactly once": found["wrong"] == 0,
        "no reader saw a part of a batch": found["reader_saw_partial_batches"] == 0,
        "the fleet recovered from every fault": all(fault["seconds_to_sealed"] is not None for fault in happened),
        "a disk was filled": bool(found["disk_filled"]),
    }
    keep("faults", {"machine": about, **found, "bars": kept}, record=asked.record)
    print(table(happened))
    print(f"{found['batches_said']} batches said, {found['batches_acknowledged']} acknowledged, {found['wrong']} wrong")
    return told(kept)


if __name__ == "__main__":
    sys.exit(main())
