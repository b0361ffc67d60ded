"""Four weeks of cluster alpha through a real Prometheus, and what its ledger makes of them against the truth.

    python -m tests.collector.importing.month --every 300

It takes minutes and gigabytes, and so is no test; test_onboarding.py does two hours of the same.
"""

import argparse
import contextlib
import io
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from agent.wire.units import HOUR_MS
from analyzer.interfaces.onboarding.cli import import_prometheus
from bench.truth.simulated import gpu_truth
from collector.store.database import Store
from simulator.fleet import Fleet
from simulator.site import Chunk, alpha_site
from tests.collector.importing import backfill, server

MONDAY = 1_792_368_000_000_000  # 19 October 2026, 00:00 UTC
PRICES = ("--price", "h100=2.60", "--price", "a100=1.10")


def main() -> None:
    """Generate, import, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--weeks", type=int, default=4)
    parser.add_argument("--every", type=int, default=300, help="seconds between scrapes")
    parser.add_argument("--keep", type=Path, help="a directory to make it in, and to leave there; made once")
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        here = options.keep or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        here.mkdir(exist_ok=True)
        fleets = backfill.weeks(replace(alpha_site(every_seconds=options.every), started_at=MONDAY), options.weeks)
        began = time.monotonic()
        samples = 0 if (here / "data").exists() else backfill.write_blocks(fleets, here, server.make_blocks)
        (here / "store.duckdb").unlink(missing_ok=True)
        (here / "jobs.json").write_text(backfill.sacct(fleets))
        (here / "events.txt").write_text(backfill.events(fleets))
        print(f"{samples:,} samples made in {time.monotonic() - began:.0f} s", flush=True)
        until = MONDAY + options.weeks * 7 * 24 * HOUR_MS * 1000
        with server.prometheus(here / "data") as url:
            began = time.monotonic()
            print(imported(url, here, MONDAY, until))
            print(f"imported in {time.monotonic() - began:.0f} s", flush=True)
        for line in compared(fleets, here / "store.duckdb"):
            print(line)


def imported(url: str, here: Path, since: int, until: int, *more: str) -> str:
    """Run the command on what lies in a directory, and return what it printed."""
    span = ("--since", _iso(since), "--until", _iso(until))
    files = ("--allocations", "slurm", "--file", str(here / "jobs.json"), "--file", str(here / "events.txt"))
    with contextlib.redirect_stdout(io.StringIO()) as said:
        code = import_prometheus(["--url", url, *span, *files, *PRICES, "--store", str(here / "store.duckdb"), *more])
    assert code == 0
    return said.getvalue()


def compared(fleets: list[Fleet], path: Path) -> Iterator[str]:
    """Yield the ledger's GPU-hours beside the truth's, and how many GPU-hours of runs lie on their true GPU."""
    true, booked = truth_of(fleets), ledger_of(path)
    yield f"{'state':16}{'truth':>12}{'ledger':>12}   GPU-hours"
    for state in sorted({*true, *booked}, key=lambda state: -true[state]):
        yield f"{state:16}{true[state] / HOUR_MS:12,.1f}{booked[state] / HOUR_MS:12,.1f}"
    held, placed = overlap(fleets, path)
    yield f"held in truth {held / HOUR_MS:,.1f} GPU-hours; of these on the true GPU {100 * placed / held:.2f}%"


def truth_of(fleets: list[Fleet]) -> Counter[str]:
    """Return the true milliseconds by state."""
    found: Counter[str] = Counter()
    for fleet in fleets:
        for host in fleet.site.hosts:
            for gpu in range(host.gpus):
                made = gpu_truth(fleet, host, gpu, Chunk(0, 0, fleet.site.span, HOUR_MS))
                for label, milliseconds in zip(made.labels, made.milliseconds.sum(axis=0), strict=True):
                    found[label.state] += int(milliseconds)
    return found


def ledger_of(path: Path) -> Counter[str]:
    """Return the ledger's milliseconds by state."""
    with Store.open(path, read_only=True) as store, store.session() as session:
        return Counter(dict(session.rows("SELECT state, sum(milliseconds)::BIGINT FROM ledger GROUP BY state")))


def overlap(fleets: list[Fleet], path: Path) -> tuple[int, int]:
    """Return the milliseconds that runs held whole GPUs, and those of them that the ledger has on the same GPU."""
    held = placed = 0
    with Store.open(path, read_only=True) as store, store.session() as session:
        sql = "SELECT run_id, gpu_uuid, attempt, sum(milliseconds)::BIGINT FROM ledger GROUP BY ALL"
        booked = {(run, gpu, attempt): int(ms) for run, gpu, attempt, ms in session.rows(sql)}
    for fleet in fleets:
        site = fleet.site
        for run in fleet.runs:
            plan = run.plan
            if plan.shared > 1:
                continue
            start, end = max(0, plan.started), min(site.span, site.span if plan.ended is None else plan.ended)
            for seat in plan.seats if end > start else ():
                key = (
                    f"slurm/{site.cluster}/{plan.number}",
                    site.gpu_uuid(site.host(seat.node), seat.gpu),
                    plan.attempt,
                )
                held += end - start
                placed += min(end - start, booked.get(key, 0))
    return held, placed


def _iso(microseconds: int) -> str:
    return datetime.fromtimestamp(microseconds / 1e6, UTC).isoformat()


if __name__ == "__main__":
    main()
