"""Negative controls: small fleets of which one thing must not be said.

- A healthy fleet, busy for a week: no finding of high confidence.
- Bursts of work with twice as long pauses and 30 GB held (serving samples read 0 in 66.8% of cases, Alibaba GenTD26):
  headroom where the class is a service, held memory where it is a session, and input starvation nowhere.
- A PCIe reading of 1.7 GB/s that never moves on an idle GPU of 25 W: a broken sensor, and no copies from the host.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from analyzer.analysis import analyze
from analyzer.findings.finding import Finding
from analyzer.findings.ledger_findings import findings
from analyzer.settings.settings import Settings
from bench.truth.archetypes import idle, loaders
from bench.truth.archetypes.phases import blocked, compute, start
from bench.truth.archetypes.registry import Archetype
from bench.truth.draw import GIB, Cell, Draw
from bench.truth.rows import end_of_day, fill
from bench.truth.runs import MONDAY_US, SECOND_US, SimulatedRun
from bench.truth.score import FOREVER
from collector.store.database import Store

DAY_SECONDS = 86_400
WEEK_DAYS = 7
HEALTHY = ("healthy", "healthy_memory_bound", "page_cache", "busy_disk", "evaluation", "reinforcement")
HELD_GIB = 30.0
STUCK_BYTES_PER_SECOND, STUCK_WATTS = 1.7e9, 25.0
DECLARED = ("service", "session", "neither")


@dataclass(frozen=True, slots=True)
class Said:
    """What the ledger, the findings and the list of rules that were not evaluated say of a fleet."""

    shares: dict[tuple[str, str | None], float]  # of the held GPU time
    findings: list[Finding]
    not_evaluated: list[tuple[str, str]]  # rule, what was missing

    def state(self, state: str) -> float:
        """Return the share of the held GPU time in a state."""
        return sum(share for (name, _), share in self.shares.items() if name == state)


def healthy_week(names: Sequence[str] = HEALTHY, every: int = 60) -> Said:
    """Return what is said of healthy runs of a day each, every day of a week."""
    runs = [
        SimulatedRun.make(
            Cell(name, 30.0, 1, every, gpm=True, dirty=False, seed=day),
            DAY_SECONDS,
            start=MONDAY_US + day * DAY_SECONDS * SECOND_US,
            place=f"w{host}",
        )
        for host, name in enumerate(names)
        for day in range(WEEK_DAYS)
    ]
    return said(runs)


def mostly_pauses(declared: str, seed: int = 1) -> Said:
    """Return what is said of work in bursts, a third of the time, by a service, a session or a run of neither kind."""

    def make(draw: Draw) -> None:
        work = idle.decoding(draw) if declared == "service" else compute(draw).but(**loaders.nothing(draw))
        work = work.but(memory=HELD_GIB * GIB)
        if declared == "service":
            draw.is_service, draw.slo_seconds = True, 1.0
            work = work.but(**idle.told(draw, 2.0, 4.0))
        draw.is_interactive, draw.workers = declared == "session", 0
        held = idle.at_rest(draw, HELD_GIB * GIB)
        held = held.being("headroom", "declared") if declared == "service" else held.being("held_idle", "held_memory")
        start(draw, work.but(requests=0.0))
        while draw.tape.left > 0:
            length = draw.log_uniform(30, 300)
            draw.tape.play(work, length)
            draw.tape.play(held, 2 * length * draw.uniform(0.9, 1.1))

    cells = [Cell(f"pauses/{declared}", None, 1, 10, gpm=True, dirty=False, seed=seed + at) for at in range(3)]
    return said([SimulatedRun.make(cell, 4 * 3600, kind=Archetype(make, stepped=False)) for cell in cells])


def stuck_sensor() -> Said:
    """Return what is said of a held, idle GPU of 25 W whose PCIe reading never moves."""

    def make(draw: Draw) -> None:
        still = blocked(draw, compute(draw)).but(**loaders.nothing(draw, cores=0.02), memory=HELD_GIB * GIB)
        draw.workers = 0
        draw.tape.play(still.being("held_idle", "never_used"), draw.tape.left)

    cell = Cell("stuck sensor", None, 1, 10, gpm=False, dirty=False, seed=1)
    return said([SimulatedRun.make(cell, 4 * 3600, kind=Archetype(make, stepped=False))], change=_stuck)


def said(runs: Iterable[SimulatedRun], change: Callable[[str, pa.Table], pa.Table] | None = None) -> Said:
    """Land, analyse and read."""
    with Store.open(None, memory_limit="1GB", threads=1) as store:
        fill(store, runs, change)
        analyze(store, Settings(), now_us=end_of_day())
        with store.session() as session:
            rows = session.rows(
                "SELECT state, cause, sum(milliseconds)::BIGINT FROM ledger WHERE run_id IS NOT NULL GROUP BY ALL"
            )
            total = sum(ms for _, _, ms in rows)
            found = findings(session, 0, FOREVER, with_evidence=False)
            missing = session.rows("SELECT DISTINCT rule, missing FROM not_evaluated ORDER BY ALL")
    return Said({(state, cause): ms / total for state, cause, ms in rows}, found, [(a, b) for a, b in missing])


def _stuck(name: str, table: pa.Table) -> pa.Table:
    """Put the broken readings into the samples of GPUs."""
    if name != "gpu_samples":
        return table
    seconds = (table["ended_at"][0].as_py() - table["started_at"][0].as_py()) / SECOND_US
    stuck = {
        "pcie_receive_bytes": pa.array([int(STUCK_BYTES_PER_SECOND * seconds)] * len(table), pa.int64()),
        "power_watts": pa.array([STUCK_WATTS] * len(table)),
        "power_watts_min": pa.array([STUCK_WATTS] * len(table)),
        "power_watts_max": pa.array([STUCK_WATTS] * len(table)),
        "energy_joules": pa.array([STUCK_WATTS * seconds] * len(table)),
    }
    kept = [column for column in table.column_names if column not in stuck]
    table = table.select(kept)
    for column, values in stuck.items():
        table = table.append_column(column, values)
    return table


def controls() -> dict[str, bool]:
    """Return each control, and whether it is kept."""
    week, stuck = healthy_week(), stuck_sensor()
    service, session, neither = (mostly_pauses(declared) for declared in DECLARED)
    high = [finding for finding in week.findings if finding.confidence == "high"]
    return {
        "control: a healthy week has no finding of high confidence": not high,
        "control: a service's pauses are headroom": service.state("headroom") > 0.5 and not service.state("starved"),
        "control: a session's pauses are held memory": session.state("held_idle") > 0.5,
        "control: pauses that nobody declared are no input starvation": not neither.state("starved"),
        "control: a stuck PCIe reading on an idle GPU is no copying": not stuck.state("starved"),
        "control: a stuck PCIe reading is told as a broken sensor": tells_of_sensor(stuck),
    }


def tells_of_sensor(stuck: Said) -> bool:
    """Return whether the list of what was not evaluated names the PCIe reading."""
    return any("pcie" in f"{rule} {missing}".lower() for rule, missing in stuck.not_evaluated)
