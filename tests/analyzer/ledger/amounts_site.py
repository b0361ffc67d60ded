"""A site whose samples tell of every amount, and every reading of it."""

from collections.abc import Sequence

from analyzer.interfaces.questions.registry import QUESTIONS
from analyzer.settings.settings import Settings
from bench.aging.readings import Asked, commands
from collector.store.database import Store
from collector.store.schemas import make_tier_tables
from tests.analyzer.ledger.copies import made_once
from tests.analyzer.ledger.fleet import DAY, HOUR, MINUTE, MONDAY, Fleet

TRAIN, SERVE, LATE = "slurm/alpha/1", "kubernetes/prod/chat", "slurm/alpha/2"
POD = "kubernetes/prod/chat-pod"
END = MONDAY + 2 * DAY
PERIOD = "2025-11-10"
NOW = MONDAY + 30 * DAY  # everything is closed
FIGURES: tuple[str, ...] = ("units", "costs", "traffic")
ASKED = Asked("2025-W46", "2025-11", NOW, runs=(TRAIN, LATE), names=("train",))


def fill(fleet: Fleet) -> None:
    """Let a run train on two hosts and a service answer, each hour other amounts, and one interval over midnight."""
    with fleet.together():
        for number, node in enumerate(("n1", "n2")):
            fleet.own(node, [f"{node}g"])
            found = {"node": node, "started_at": MONDAY, "ended_at": MONDAY + 1}
            fleet.add("inventory", [found | {"rack": f"r{number}"}])
            fleet.add("inventory", [found | {"gpu_uuid": f"{node}g", "gpu_index": 0, "memory_bytes": 50 * 10**9}])
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
        said |= {"requests_failed": number // 2, "tokens_cached": number // 4}
        latency = {"first_token_seconds_p99": 0.001 * number, "slo_seconds": 0.02, "engine": "vllm"}
        latency |= {"inter_token_seconds_p99": 0.0001 * number}
        fleet.add("service_samples", [at | said | latency])
    else:
        peer = {"run_id": TRAIN, "peer": "nas1", "receive_bytes": 3 * number, "transmit_bytes": 5 * number}
        fleet.add("flow_samples", [at | peer])
    if node == "n1":
        told = {"run_id": TRAIN, "steps": 2 * number, "samples": 64 * number, "tokens": 4_096 * number}
        fleet.add("progress", [at | told | {"checkpoint": "c" if number % 6 == 0 else None}])


@made_once
def site() -> Fleet:
    """Return the site with the tables of the upkeep, analysed and closed."""
    fleet = Fleet()
    make_tier_tables(fleet.store)
    fill(fleet)
    fleet.analyze(now=NOW)
    return fleet


def readings(store: Store, whats: Sequence[str] = tuple(QUESTIONS)) -> dict[str, str]:
    """Return every reading of the site's days in all its forms, as of one moment."""
    with store.session() as session, session.transaction():
        return commands(session, Settings(), ASKED, whats)
