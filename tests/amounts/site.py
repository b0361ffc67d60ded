"""A site whose samples tell of every amount, and every reading of it."""

from collections.abc import Sequence

from analyzer.config import Settings
from analyzer.errors import AnalyzerError
from analyzer.reading import Reader
from analyzer.request import Request, What
from collector.store.database import Store
from collector.tiers import schema
from tests.ledger.fleet import DAY, HOUR, MINUTE, MONDAY, Fleet

TRAIN, SERVE, LATE = "slurm/alpha/1", "kubernetes/prod/chat", "slurm/alpha/2"
POD = "kubernetes/prod/chat-pod"
END = MONDAY + 2 * DAY
PERIOD = "2025-11-10"
NOW = MONDAY + 30 * DAY  # everything is closed
OF_RUN: tuple[What, ...] = ("run",)
FIGURES: tuple[What, ...] = ("units", "costs", "traffic")
OF_PERIOD: tuple[What, ...] = (
    "week",
    "traffic",
    "findings",
    "recommend",
    "savings",
    "units",
    "anomalies",
    "demand",
    "portfolio",
    "charges",
    "costs",
    "month",
    "budgets",
)
EVERY = (*OF_PERIOD, *OF_RUN)


def fill(fleet: Fleet) -> None:
    """Let a run train on two hosts and a service answer, each hour other amounts, and one interval over midnight."""
    with fleet.together():
        for number, node in enumerate(("n1", "n2")):
            fleet.own(node, [f"{node}g"])
            fleet.add("inventory", [{"node": node, "started_at": MONDAY, "ended_at": MONDAY + 1, "rack": f"r{number}"}])
            fleet.hold(TRAIN, node, [f"{node}g"], MONDAY + 7 * MINUTE, END - 90 * MINUTE, rank=number, name="train")
        fleet.own("n3", ["n3g"])
        fleet.hold(SERVE, "n3", ["n3g"], MONDAY, END, name="chat", scheduler="kubernetes")
        fleet.add("run_aliases", [{"alias_run_id": POD, "run_id": SERVE}])
        fleet.hold(LATE, "n1", ["n1g"], END - 80 * MINUTE, END, name="late")
        for node in ("n1", "n2", "n3"):
            for hour in range(MONDAY, END, HOUR):
                _hour(fleet, node, hour, 1 + (hour - MONDAY) // HOUR)


def _hour(fleet: Fleet, node: str, hour: int, number: int) -> None:
    step = 10 * MINUTE
    fleet.sample(
        node,
        f"{node}g",
        hour,
        hour + HOUR,
        every=step,
        energy_joules=1_000.5 * number,
        power_watts=300.0,
        memory_used_bytes=10**9 * number,
        nvlink_transmit_bytes=7 * number,
        nvlink_receive_bytes=7 * number,
    )
    at = {"node": node, "started_at": hour + 5 * MINUTE, "ended_at": hour + HOUR + 5 * MINUTE}
    ports = {
        "device": "ib0",
        "link_kind": "infiniband",
        "receive_bytes": 999 * number,
        "transmit_bytes": 1_001 * number,
    }
    fleet.add("network_samples", [at | ports])
    if node == "n3":
        said = {"run_id": POD, "requests": 11 * number, "tokens_in": number, "tokens_out": 100 * number}
        latency = {"first_token_seconds_p99": 0.001 * number, "slo_seconds": 0.02, "engine": "vllm"}
        fleet.add("service_samples", [at | said | latency])
    else:
        peer = {"run_id": TRAIN, "peer": "nas1", "receive_bytes": 3 * number, "transmit_bytes": 5 * number}
        fleet.add("flow_samples", [at | peer])
    if node == "n1":
        told = {"run_id": TRAIN, "steps": 2 * number, "samples": 64 * number, "tokens": 4_096 * number}
        fleet.add("progress", [at | told | {"checkpoint": "c" if number % 6 == 0 else None}])


def site() -> Fleet:
    """Return the site with the tables of the upkeep, analysed and closed."""
    fleet = Fleet()
    schema.make_tables(fleet.store)
    fill(fleet)
    fleet.analyze(now=NOW)
    return fleet


def readings(store: Store, whats: Sequence[What] = EVERY) -> dict[str, str]:
    """Return every reading of the site's days as text and as JSON, as of one moment."""
    found = {}
    for what in whats:
        for form in ("text", "json"):
            of_period = what not in ("run", "savings", "demand", "month", "budgets")
            asked = Request(
                what,
                subject=TRAIN if what == "run" else None,
                since="2025-W46" if of_period else None,
                everything=what in ("findings", "recommend"),
                format="json" if form == "json" else "text",
                traffic=True,
            )
            with store.session() as session, session.transaction():
                try:
                    found[f"{what} {form}"] = Reader(session, Settings(), clock=lambda: NOW).answer(asked)
                except AnalyzerError as error:
                    found[f"{what} {form}"] = f"refused: {error}"
    return found
