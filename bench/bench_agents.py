"""Five thousand agents of eight GPUs, all tables every ten seconds: python bench/bench_agents.py [--seconds 600].

One process speaks for all of them, their phases spread; it shares this machine's cores with the collector. Each agent
connects, posts, and lets the connection go when it has been idle for two seconds, as the real one does. A wait is from
the moment at which a post was due, so that a late generator counts against the collector. Bodies are made before the
clock starts. Afterwards the lake is counted. Then the number of agents is raised until it does not hold any more.
"""

import argparse
import gc
import resource
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.bodies import SECOND, Window
from bench.crowd import Crowd, speak
from bench.machine import add_record, keep, machine, quantile, told
from bench.magazine import Order, make
from bench.sealed import wait_until_sealed
from bench.serving import Spent, Watch, collector
from bench.telemetry import BEATEN, GPUS, SLOW, Simulation
from bench.windows import windows_of

AGENTS = 5000
EVERY_SECONDS = 10
RECORDED_SECONDS = 900
MOST_WAIT_SECONDS = 2.0
FLAT = 1.15  # the most that memory may have grown from the second quarter of the time to the last
FILES = 65_536  # open at a time


@dataclass(frozen=True, slots=True)
class Trial:
    """One number of agents, and what it came to."""

    agents: int
    seconds: float
    posts: int
    posts_per_second: float
    gpu_samples_per_second: int
    wait_seconds_p50: float
    wait_seconds_p99: float
    wait_seconds_max: float
    wait_seconds_max_by_turn: list[float]
    answers: dict[str, int]
    connections_broken: int
    sealed_through_fell: int
    rows_missing: int
    seconds_until_all_is_sealed: float
    server_cores: float
    server_cores_by_thread: dict[str, float]
    generator_cores: float
    machine_busy_ratio: float
    rss_bytes_max: int
    rss_growth: float
    rss_bytes_every_10_s: list[int]

    @property
    def holds(self) -> bool:
        """Whether the collector keeps up with so many."""
        return self.wait_seconds_p99 <= MOST_WAIT_SECONDS and self.rows_missing == 0


def trial(windows: Sequence[Sequence[Window]], agents: int, seconds: float, settings: dict[str, str]) -> Trial:
    """Let so many agents speak for so long to a collector of their own."""
    turns = max(1, round(seconds / EVERY_SECONDS))
    with tempfile.TemporaryDirectory(prefix="gpuledger-bench-") as name:
        directory = Path(name)
        ends_at = time.time_ns() // 1000 + turns * EVERY_SECONDS * SECOND
        print(f"  {agents} agents for {seconds:g} s; making {agents * turns:,} bodies", file=sys.stderr)
        magazine = make(directory / "bodies", windows, Order(agents * turns, agents, ends_at))
        server = collector(directory / "store.duckdb", settings)
        server.start()
        try:
            watch = Watch(server.pid)
            watch.start()
            gc.freeze()
            crowd = speak(server.port, magazine, agents, turns, EVERY_SECONDS)
            spent = watch.stop()
            assert not crowd.refusal, f"the collector refused a batch: {crowd.refusal}"
            rows = windows[0][0].rows
            took, missing = wait_until_sealed(server.store, crowd.accepted, rows)
            server.stop()
        finally:
            server.kill()
            magazine.close()
    return _trial(agents, crowd, spent, took, missing + agents * turns - crowd.accepted, rows["gpu_samples"])


def _trial(agents: int, crowd: Crowd, spent: Spent, took: float, missing: int, gpu_rows: int) -> Trial:
    waits = sorted(crowd.waits)
    rate = crowd.accepted / crowd.seconds
    return Trial(
        agents=agents,
        seconds=round(crowd.seconds, 1),
        posts=crowd.accepted,
        posts_per_second=round(rate, 1),
        gpu_samples_per_second=round(rate * gpu_rows),
        wait_seconds_p50=round(quantile(waits, 0.5), 3),
        wait_seconds_p99=round(quantile(waits, 0.99), 3),
        wait_seconds_max=round(quantile(waits, 1.0), 3),
        wait_seconds_max_by_turn=[round(wait, 2) for _, wait in sorted(crowd.longest_of_turn.items())],
        answers={str(status): count for status, count in crowd.answers.items()},
        connections_broken=crowd.broken,
        sealed_through_fell=crowd.sealed_through_fell,
        rows_missing=missing,
        seconds_until_all_is_sealed=round(took, 1),
        server_cores=round(spent.cores, 3),
        server_cores_by_thread=spent.cores_by_thread,
        generator_cores=round(crowd.cpu_seconds / crowd.seconds, 3),
        machine_busy_ratio=spent.machine_busy_ratio,
        rss_bytes_max=max(spent.rss_bytes),
        rss_growth=round(_growth(spent.rss_bytes), 3),
        rss_bytes_every_10_s=list(spent.rss_bytes[::10]),
    )


def _growth(rss: Sequence[int]) -> float:
    """Return the highest memory of the last quarter over that of the second: what fills up once is no growth."""
    quarter = max(1, len(rss) // 4)
    return max(rss[-quarter:]) / max(rss[quarter : 2 * quarter] or rss)


def largest(
    windows: Sequence[Sequence[Window]], first: Trial, step: int, seconds: float, settings: dict[str, str]
) -> list[Trial]:
    """Raise the number of agents by a step until it does not hold any more."""
    found: list[Trial] = []
    agents = first.agents + step
    while step and (found or [first])[-1].holds:
        found.append(trial(windows, agents, seconds, settings))
        agents += step
    return found


def table(trials: Sequence[Trial]) -> str:
    """Return the figures as the table of bench/README.md."""
    lines = [
        "| agents | for | posts/s | GPU samples/s | wait p50, p99, max | memory (max), growth | server, generator |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {one.agents:,} | {one.seconds:.0f} s | {one.posts_per_second:,.0f} | {one.gpu_samples_per_second:,} "
        f"| {one.wait_seconds_p50:.2f}, {one.wait_seconds_p99:.2f}, {one.wait_seconds_max:.2f} s "
        f"| {one.rss_bytes_max / 1e6:,.0f} MB, × {one.rss_growth:.2f} "
        f"| {one.server_cores:.2f}, {one.generator_cores:.2f} cores |"
        for one in trials
    ]
    return "\n".join(lines)


def main() -> int:
    """Measure, search, print and keep the figures; 1 where a bar is not kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--agents", type=int, default=AGENTS)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--step", type=int, default=1000, help="agents more in each trial of the search; 0 for none")
    parser.add_argument("--search-seconds", type=float, default=120.0, help="how long each trial of the search takes")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of the collector")
    add_record(parser)
    asked = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(FILES, hard) if hard > 0 else FILES, hard))
    settings = dict(pair.split("=", 1) for pair in asked.set)
    about = machine()
    windows = windows_of(Simulation(), tuple(BEATEN | SLOW), EVERY_SECONDS, RECORDED_SECONDS)
    first = trial(windows, asked.agents, asked.seconds, settings)
    print(table([first]), flush=True)
    search = largest(windows, first, asked.step, asked.search_seconds, settings)
    holding = [one.agents for one in [first, *search] if one.holds]
    kept = {
        f"{asked.agents:,} agents of {GPUS} GPUs: p99 at most {MOST_WAIT_SECONDS:g} s": first.wait_seconds_p99
        <= MOST_WAIT_SECONDS,
        "nothing lost": first.rows_missing == 0 and first.sealed_through_fell == 0,
        f"memory flat (at most × {FLAT:g})": first.rss_growth <= FLAT,
    }
    found = {
        "machine": about,
        "settings": settings,
        "rows_per_post": windows[0][0].rows,
        "trial": asdict(first),
        "search": [asdict(one) for one in search],
        "largest_that_holds": max(holding, default=0),
        "bars": kept,
    }
    keep("agents", found, record=asked.record)
    print(table([first, *search]))
    print(f"the largest number that held: {max(holding, default=0):,}")
    return told(kept)


if __name__ == "__main__":
    sys.exit(main())
