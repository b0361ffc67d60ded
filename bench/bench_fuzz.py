"""A million hostile cases at the doors of the collector: python bench/bench_fuzz.py [--cases 1000000].

Six in ten are batches, three remote writes, one a file to import: each valid once, then changed at one of its layers
(bytes, frame, header, flatbuffer, buffers, protobuf, values, shape). They come in slices, each in a process of its own
with a store and a lake of its own; after each the contract is asked of everything that was stored and sealed. A slice
that crashes, hangs, raises what nobody expects or stores what cannot be true ends the bench with 1 and tells its seed.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from bench.machine import ROOT, add_record, keep, machine, told

SHARES = {"ingest": 0.6, "remote_write": 0.3, "files": 0.1}
SLICE = {"ingest": 20_000, "remote_write": 10_000, "files": 2_500}  # cases; about a minute each
HUNG_SECONDS = 1200.0
SLOW_SECONDS = 5.0  # of one case
MOST_RSS_BYTES = 2_000_000_000


@dataclass(frozen=True, slots=True)
class Slice:
    """One slice, and what makes it again."""

    kind: str
    seed: int
    count: int


def slices(cases: int, seed: int) -> list[Slice]:
    """Return the slices of a run, the kinds mixed."""
    found = []
    for kind, share in SHARES.items():
        left, number = round(cases * share), 0
        while left > 0:
            found.append(Slice(kind, seed * 1_000_000 + number, min(left, SLICE[kind])))
            left -= SLICE[kind]
            number += 1
    return sorted(found, key=lambda one: (one.seed, one.kind))


def done(one: Slice) -> dict[str, Any]:
    """Do a slice; a crash or a hang is told as its only fault."""
    with tempfile.TemporaryDirectory(prefix="gpuledger-fuzz-") as folder:
        command = [sys.executable, "-m", "bench.fuzz.slice", one.kind, str(one.seed), str(one.count), folder]
        try:
            ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=HUNG_SECONDS)
        except subprocess.TimeoutExpired:
            return _broken(one, f"hung for {HUNG_SECONDS:g} s")
    if ran.returncode:
        return _broken(one, f"ended with {ran.returncode}: {ran.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    print(f"  {one.kind} {one.seed}: {found['cases']:,} cases, {found['stored_rows']:,} rows stored", file=sys.stderr)
    return found


def _broken(one: Slice, how: str) -> dict[str, Any]:
    return {"kind": one.kind, "seed": one.seed, "cases": 0, "ends": {}, "crashed": how, "faults": [], "rubbish": []}


def summary(found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the slices of one kind as one."""
    ends: Counter[str] = Counter()
    for one in found:
        ends.update(one["ends"])
    ran = [one for one in found if one["cases"]]
    before, after = ([one.get(f"good_microseconds_{when}", 0.0) for one in ran] for when in ("before", "after"))
    return {
        "cases": sum(one["cases"] for one in found),
        "ends": dict(sorted(ends.items())),
        "stored_rows": sum(one["stored_rows"] for one in ran),
        "slowest_seconds": round(max((one["slowest_seconds"] for one in ran), default=0.0), 3),
        "rss_bytes_max": max((one["rss_bytes_max"] for one in ran), default=0),
        "good_microseconds_before_and_after": [round(sum(each) / max(1, len(each)), 1) for each in (before, after)],
        "crashed": [[one["seed"], one["crashed"]] for one in found if "crashed" in one],
        "faults": [[one["seed"], fault] for one in found for fault in one["faults"]][:50],
        "rubbish": [[one["seed"], sentence] for one in found for sentence in one["rubbish"]][:50],
    }


def table(kinds: dict[str, dict[str, Any]]) -> str:
    """Return the figures as the table of bench/README.md."""
    lines = [
        "| door | cases | taken, in whole or part | rows stored | slowest case | memory (max) |",
        "|---|---|---|---|---|---|",
    ]
    for kind, one in kinds.items():
        taken = sum(count for end, count in one["ends"].items() if end.endswith("taken"))
        lines.append(
            f"| {kind} | {one['cases']:,} | {taken:,} | {one['stored_rows']:,} | {one['slowest_seconds']:.2f} s "
            f"| {one['rss_bytes_max'] / 1e6:,.0f} MB |"
        )
    return "\n".join(lines)


def main() -> int:
    """Do all slices, print and keep what became of them; 1 where something was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--kinds", default=",".join(SHARES), help="which, by commas")
    add_record(parser)
    asked = parser.parse_args()
    about = machine()
    wanted = [one for one in slices(asked.cases, asked.seed) if one.kind in asked.kinds.split(",")]
    with ThreadPoolExecutor(asked.processes) as pool:
        found = list(pool.map(done, wanted))
    kinds = {kind: summary([one for one in found if one["kind"] == kind]) for kind in asked.kinds.split(",")}
    all_of = list(kinds.values())
    kept = {
        f"{sum(one.count for one in wanted):,} cases": sum(one["cases"] for one in all_of)
        >= sum(one.count for one in wanted),
        "no crash and no hang": not any(one["crashed"] for one in all_of),
        "no exception that nobody expects": not any(one["faults"] for one in all_of),
        "nothing stored that cannot be true": not any(one["rubbish"] for one in all_of),
        f"no case took {SLOW_SECONDS:g} s": all(one["slowest_seconds"] < SLOW_SECONDS for one in all_of),
        "memory bounded (2 GB)": all(one["rss_bytes_max"] < MOST_RSS_BYTES for one in all_of),
    }
    keep("fuzz", {"machine": about, "seed": asked.seed, "kinds": kinds, "bars": kept}, record=asked.record)
    print(table(kinds))
    for one in all_of:
        for seed, what in [*one["crashed"], *one["faults"][:5], *one["rubbish"][:10]]:
            print(f"seed {seed}: {what}")
    return told(kept)


if __name__ == "__main__":
    sys.exit(main())
