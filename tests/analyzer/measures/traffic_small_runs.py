"""Hosts in two racks with runs on them, and what their agents told of flows and links."""

from tests.analyzer.ledger.fleet import HOUR, MINUTE, MONDAY, Fleet

T = MONDAY
END = T + HOUR


def host(fleet: Fleet, node: str, rack: str | None, **place: object) -> list[str]:
    """Add a host of two GPUs that work, and return them."""
    gpus = [f"{node}g0", f"{node}g1"]
    fleet.own(node, gpus)
    fleet.add("inventory", [{"node": node, "started_at": T, "ended_at": T + 1, "rack": rack, **place}])
    for gpu in gpus:
        fleet.sample(node, gpu, T, END, nvlink_transmit_bytes=1_000, nvlink_receive_bytes=1_000)
    return gpus


def links(fleet: Fleet, node: str, kind: str, received: int, sent: int, every: int = 10 * MINUTE) -> None:
    """Say what a host's link carried in each interval of the hour."""
    row = {"node": node, "device": f"{kind}0", "link_kind": kind, "receive_bytes": received, "transmit_bytes": sent}
    fleet.add(
        "network_samples", [row | {"started_at": at, "ended_at": min(at + every, END)} for at in range(T, END, every)]
    )


def flows(fleet: Fleet, run: str, node: str, peer: str, received: int, sent: int, **more: object) -> None:
    """Say what a run moved to and from a peer in each ten minutes of the hour."""
    row = {"node": node, "run_id": run, "peer": peer, "receive_bytes": received, "transmit_bytes": sent, **more}
    fleet.add(
        "flow_samples",
        [row | {"started_at": at, "ended_at": at + 10 * MINUTE} for at in range(T, END, 10 * MINUTE)],
    )


def alternating(hosts: int = 4, fleet: Fleet | None = None) -> Fleet:
    """Return a run whose ranks alternate between two racks, with a file server and a network of its own."""
    fleet = fleet or Fleet()
    for number in range(hosts):
        node = f"n{number}"
        gpus = host(fleet, node, f"rack-{1 + number % 2}", zone="z1")
        fleet.hold("slurm/alpha/1", node, gpus, T, END, rank=2 * number, name="pretrain")
        links(fleet, node, "infiniband", 1_000_000_000, 1_000_000_000)
        links(fleet, node, "ethernet", 60_000_000, 20_000_000)
        flows(fleet, "slurm/alpha/1", node, "nas1", 50_000_000, 1_000_000, transport="tcp")
        flows(fleet, "slurm/alpha/1", node, f"n{(number + 1) % hosts}", 2_000_000, 3_000_000)
    return fleet
