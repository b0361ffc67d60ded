"""Gangs that hang: what is left of them spins for ever, whatever the board tells and however the hang began.

Each is a run of an hour or two on boards, sensors and sizes of its own. A watchdog that ends a collective waits for ten
minutes by default (torch.distributed), schedulers and people for hours.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import pytest

from tests.analyzer.ledger.fleet import MINUTE, MONDAY, SECOND, Fleet, Row

START = MONDAY + 6 * 60 * MINUTE


@dataclass(frozen=True)
class Board:
    """A kind of GPU: its limit, and what it draws in a training step, spinning, and held at rest, in watts."""

    sku: str
    limit: float
    works: float
    spins: float
    rests: float
    sm: tuple[float, float] | None = None  # at work, spinning; None: neither GPM nor DCGM
    nvlink: bool = False


H100 = Board("H100-80GB", 700, 610, 190, 115, (0.86, 0.14), nvlink=True)
B200 = Board("B200-180GB", 1000, 880, 260, 180, (0.8, 0.03), nvlink=True)
A100 = Board("A100-80GB", 400, 345, 128, 85, nvlink=True)
L40S = Board("L40S-48GB", 350, 300, 110, 80, (0.82, 0.1))
A10G = Board("A10G-24GB", 300, 235, 105, 60)
RTX4090 = Board("RTX-4090-24GB", 450, 380, 100, 55)
L4 = Board("L4-24GB", 72, 69, 36, 28)
T4 = Board("T4-16GB", 70, 68, 34, 27)
V100 = Board("V100-32GB", 300, 255, 72, 50, nvlink=True)


@dataclass(frozen=True)
class Gang:
    """One run: `works` minutes of steps after `loads` of loading, then `hangs` minutes of nothing, and its end."""

    board: Board = H100
    hosts: int = 1
    gpus: int = 8  # of a host
    loads: int = 3
    works: int = 57
    hangs: int = 60
    dead: int = 0  # ranks whose process is gone as the others begin to wait
    lost_hosts: int = 0  # hosts of which nothing more is heard
    off_the_bus: int = 0  # GPUs that the driver has lost as the others begin to wait
    rests: int = 0  # ranks that are alive, and do nothing on their GPUs while the others wait
    rests_cores: float = 0.02  # of a processor, each of these
    name: str = "pretrain"
    serves: dict[str, float] | None = None  # what its serving stack says meanwhile
    steps: int = 0  # a minute, told while it hangs
    every_seconds: int = 30
    loses: float = 0.0  # of its samples
    without: frozenset[str] = field(default_factory=frozenset)  # columns and tables that are not reported

    @property
    def hung_at(self) -> int:
        """When the first rank is waited for."""
        return START + (self.loads + self.works) * MINUTE

    @property
    def end(self) -> int:
        """When somebody ends it."""
        return self.hung_at + self.hangs * MINUTE


def lay(fleet: Fleet, number: int, gang: Gang) -> None:
    """Say what the agents of a gang saw."""
    run = f"slurm/alpha/{number}"
    for host in range(gang.hosts):
        node, names = f"n{number}-{host}", [f"GPU-{number}-{host}-{index}" for index in range(gang.gpus)]
        is_lost = host >= gang.hosts - gang.lost_hosts
        fleet.own(node, names, sku=gang.board.sku)
        _inventory(fleet, gang, node, names)
        fleet.hold(run, node, names, START, gang.end, name=gang.name, exit_status="cancelled")
        for index, gpu in enumerate(names):
            _gpu(fleet, gang, {"node": node, "gpu_uuid": gpu, "run_id": run}, host * gang.gpus + index, is_lost=is_lost)
        _host(fleet, gang, node, until=gang.hung_at if is_lost else gang.end)
    _words(fleet, gang, {"node": f"n{number}-0", "run_id": run})


def _inventory(fleet: Fleet, gang: Gang, node: str, names: list[str]) -> None:
    row: Row = {"node": node, "started_at": START - 60 * MINUTE, "ended_at": START - 59 * MINUTE, "sku": gang.board.sku}
    row |= {"power_limit_watts": gang.board.limit, "nvlink_peers": gang.gpus - 1 if gang.board.nvlink else 0}
    fleet.add("inventory", [row | {"gpu_uuid": gpu} for gpu in names])


def _told(gang: Gang, values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name not in gang.without}


def _gpu(fleet: Fleet, gang: Gang, whose: Row, rank: int, *, is_lost: bool) -> None:
    node, gpu = str(whose["node"]), str(whose["gpu_uuid"])
    is_dead = rank < gang.dead + gang.off_the_bus
    board, seconds = gang.board, gang.every_seconds
    loads: Row = {"utilization_ratio": 0.02, "power_watts": board.rests, "memory_used_bytes": 9 * 10**9}
    loads |= {
        "memory_utilization_ratio": 0.01,
        "pcie_receive_bytes": 4e8 * seconds,
        "pcie_transmit_bytes": 1e6 * seconds,
    }
    works: Row = {"utilization_ratio": 0.97, "power_watts": board.works, "memory_used_bytes": 20 * 10**9}
    works |= {
        "memory_utilization_ratio": 0.42,
        "pcie_receive_bytes": 9e8 * seconds,
        "pcie_transmit_bytes": 8e8 * seconds,
    }
    spins: Row = {"utilization_ratio": 1.0, "power_watts": board.spins, "memory_used_bytes": 20 * 10**9}
    spins |= {
        "memory_utilization_ratio": 0.0,
        "pcie_receive_bytes": 3e5 * seconds,
        "pcie_transmit_bytes": 2e5 * seconds,
    }
    gone: Row = {"utilization_ratio": 0.0, "power_watts": board.rests * 0.6, "memory_used_bytes": 6 * 10**6}
    gone |= {"memory_utilization_ratio": 0.0, "pcie_receive_bytes": 1e4, "pcie_transmit_bytes": 1e4}
    rests: Row = spins | {"utilization_ratio": 0.0, "power_watts": board.rests}
    for phase, sm, tensor, dram, sent in (
        (rests, 0.0, 0.0, 0.0, 0.0),
        (loads, 0.01, 0.0, 0.01, 0.0),
        (works, board.sm and board.sm[0], 0.42, 0.35, 4e10),
        (spins, board.sm and board.sm[1], 0.0, 0.003, 0.0),
        (gone, 0.0, 0.0, 0.0, 0.0),
    ):
        phase |= {"utilization_zero_ratio": 1.0 if phase in (loads, gone, rests) else 0.0}
        if board.sm:
            phase |= {"sm_active_ratio": sm, "tensor_active_ratio": tensor, "dram_active_ratio": dram}
        if board.nvlink:
            phase |= {"nvlink_receive_bytes": sent * seconds, "nvlink_transmit_bytes": sent * seconds}
    every = seconds * SECOND
    base: Row = {"sm_active_ratio": None, "utilization_zero_ratio": None}
    started = START + gang.loads * MINUTE
    fleet.sample(node, gpu, START - 10 * MINUTE, START, every, **base | _told(gang, gone))
    fleet.sample(node, gpu, START, started, every, **base | _told(gang, loads))
    fleet.sample(node, gpu, started, gang.hung_at, every, **base | _told(gang, works))
    chance = Random(rank)
    if not is_lost:
        then = gone if is_dead else rests if rank < gang.rests else spins
        if rank < gang.off_the_bus:
            then = dict.fromkeys([*gone, "sm_active_ratio"]) | {"up": False}
        for at in range(gang.hung_at, gang.end, every):
            if chance.random() >= gang.loses:
                fleet.sample(node, gpu, at, min(at + every, gang.end), every, **base | _told(gang, then))
        fleet.sample(node, gpu, gang.end, gang.end + 30 * MINUTE, every, **base | _told(gang, gone))
    if "process_samples" not in gang.without:
        until = gang.hung_at if is_dead or is_lost else gang.end
        row: Row = whose | {"pid": 4000 + rank, "workers": 4}
        row |= {"cpu_seconds": 11.0 * seconds / 10, "workers_busiest_cpu_ratio": 0.05, "workers_waiting_ratio": 0.0}
        at_rest = {"cpu_seconds": gang.rests_cores * seconds} if rank < gang.rests else {}
        rows = [
            row | {"started_at": at, "ended_at": at + every} | (at_rest if at >= gang.hung_at else {})
            for at in range(START, until, every)
        ]
        fleet.add("process_samples", rows)


def _words(fleet: Fleet, gang: Gang, row: Row) -> None:
    """Let the run say its steps while it works, and a service what it answers."""
    minutes = range(START + gang.loads * MINUTE, gang.end, MINUTE)
    if gang.steps:
        fleet.add(
            "progress",
            [row | {"started_at": at, "ended_at": at + MINUTE, "steps": float(gang.steps)} for at in minutes],
        )
    if gang.serves is not None:
        works = {"requests": 40.0, "running": 6.0, "waiting": 0.0, "tokens_out": 9000.0}
        told = [(at, works if at < gang.hung_at else gang.serves) for at in minutes]
        row |= {"engine": "vllm", "model": "m", "state": "read"}
        fleet.add("service_samples", [row | {"started_at": at, "ended_at": at + MINUTE} | said for at, said in told])


def _host(fleet: Fleet, gang: Gang, node: str, until: int) -> None:
    minutes = range(START, until, MINUTE)
    if "host_samples" not in gang.without:
        row: Row = {"node": node, "cpu_busy_ratio": 0.1, "pressure_io_some_ratio": 0.0, "pressure_cpu_some_ratio": 0.0}
        fleet.add("host_samples", [row | {"started_at": at, "ended_at": at + MINUTE} for at in minutes])
    if gang.hosts > 1 and "network_samples" not in gang.without:
        port: Row = {"node": node, "device": "mlx5_0", "link_kind": "infiniband", "speed_bytes_per_second": 5e10}
        sent = [(at, 9e9 * 60 if START + gang.loads * MINUTE <= at < gang.hung_at else 1e5) for at in minutes]
        moved = [{"started_at": at, "ended_at": at + MINUTE, "transmit_bytes": b, "receive_bytes": b} for at, b in sent]
        fleet.add("network_samples", [port | row for row in moved])


BLIND = frozenset({"process_samples"})
NO_PCIE = frozenset({"pcie_receive_bytes", "pcie_transmit_bytes"})
STUCK = {"requests": 0.0, "running": 6.0, "waiting": 9.0, "tokens_out": 0.0}
IDLE = {"requests": 0.0, "running": 0.0, "waiting": 0.0, "tokens_out": 0.0}
CASES = {
    "every rank, NVLink and GPM": Gang(),
    "every rank, NVLink, no GPM": Gang(A100),
    "Volta": Gang(V100, gpus=4),
    "B200, hardly any SM": Gang(B200),
    "SM activity, no links": Gang(L40S, gpus=4),
    "PCIe alone": Gang(A10G, gpus=4),
    "two cards of a workstation": Gang(RTX4090, gpus=2),
    "small boards": Gang(L4, gpus=8),
    "no PCIe counters": Gang(A10G, gpus=4, without=NO_PCIE),
    "no memory utilization": Gang(RTX4090, gpus=4, without=frozenset({"memory_utilization_ratio"})),
    "no power": Gang(A10G, gpus=4, without=frozenset({"power_watts"})),
    "one dead of 8": Gang(dead=1),
    "one dead of 8, no processes told": Gang(dead=1, without=BLIND),
    "one dead of 16, no NVLink": Gang(L40S, hosts=2, dead=1),
    "one dead of 16, no NVLink, no processes": Gang(A10G, hosts=2, dead=1, without=BLIND),
    "four dead of 8": Gang(A100, dead=4),
    "one of two dead": Gang(RTX4090, gpus=2, dead=1),
    "a host of two is gone": Gang(hosts=2, lost_hosts=1),
    "a host of two is gone, no processes": Gang(hosts=2, lost_hosts=1, without=BLIND),
    "a host of four is gone, A100": Gang(A100, hosts=4, lost_hosts=1),
    "a host of four is gone, A10G": Gang(A10G, hosts=4, gpus=4, lost_hosts=1, without=BLIND),
    "four hosts, fabric": Gang(hosts=4),
    "a GPU a host": Gang(L40S, hosts=4, gpus=1),
    "a GPU a host, no SM": Gang(A10G, hosts=8, gpus=1),
    "after four minutes of work": Gang(works=4),
    "after seven minutes of work, no GPM": Gang(A100, works=7),
    "after two minutes of work, no links": Gang(L40S, gpus=4, works=2),
    "after five minutes of work, PCIe": Gang(A10G, gpus=4, works=5, loads=1),
    "the watchdog's ten minutes": Gang(works=62, hangs=10),
    "the watchdog's ten minutes, no links": Gang(L40S, gpus=4, works=63, hangs=10),
    "the watchdog's ten minutes, PCIe": Gang(A10G, gpus=4, works=65, hangs=10),
    "a quarter of an hour at the end": Gang(A100, works=75, hangs=15),
    "ten minutes, three of them after a full hour's ten": Gang(L4, gpus=8, loads=4, works=79, hangs=10),
    "twelve minutes, two of them in the last window": Gang(A100, hosts=2, gpus=4, works=67, hangs=12),
    "ten minutes, one dead of 2, and processes": Gang(hosts=2, gpus=2, works=8, hangs=10, dead=1),
    "twenty minutes, one dead, no processes": Gang(gpus=2, loads=6, works=114, hangs=20, dead=1, without=BLIND),
    "twenty minutes, one dead of 8, no processes": Gang(
        A100, hosts=4, gpus=2, works=91, hangs=20, dead=1, without=BLIND
    ),
    "a quarter of an hour, one dead of 8, no processes": Gang(L40S, works=23, hangs=15, dead=1, without=BLIND),
    "ten minutes, one dead of 4, no processes": Gang(V100, hosts=2, gpus=2, works=11, hangs=10, dead=1, without=BLIND),
    "twenty minutes, one of 16 rests": Gang(L40S, hosts=2, works=65, hangs=20, rests=1),
    "one of 16 rests, NVLink": Gang(hosts=2, rests=1),
    "one of 8 rests, no NVLink": Gang(L40S, rests=1),
    "one of 16 rests, no SM": Gang(A10G, hosts=4, gpus=4, rests=1),
    "a GPU falls off the bus": Gang(off_the_bus=1),
    "a GPU falls off the bus, no NVLink": Gang(A10G, gpus=4, off_the_bus=1, without=BLIND),
    "a service of four": Gang(gpus=4, name="vllm", serves=STUCK),
    "a service over PCIe": Gang(L40S, gpus=4, name="vllm", serves=STUCK),
    "a service without SM activity": Gang(A10G, gpus=2, name="vllm", serves=STUCK),
    "a service that says nothing": Gang(A100, gpus=4, name="vllm-serving"),
    "over a night, no links": Gang(L40S, gpus=4, hangs=540, every_seconds=120),
    "over a night, no GPM": Gang(A10G, gpus=4, hangs=540, every_seconds=120),
    "over a night, NVLink": Gang(gpus=4, hangs=540, every_seconds=120),
    "one dead, no processes, no PCIe": Gang(A10G, gpus=4, dead=1, without=BLIND | NO_PCIE),
    "a host is gone, no PCIe": Gang(A10G, hosts=2, gpus=4, lost_hosts=1, without=NO_PCIE),
    "T4, no power": Gang(T4, gpus=4, without=frozenset({"power_watts"})),
    "T4": Gang(T4, gpus=4),
    "A100 by DCGM": Gang(replace(A100, sm=(0.83, 0.24)), gpus=4),
    "H100, 32 channels": Gang(replace(H100, sm=(0.83, 0.25)), gpus=4),
    "T4 by DCGM": Gang(replace(T4, sm=(0.75, 0.3)), gpus=4),
    "every second": Gang(H100, gpus=2, works=40, hangs=30, every_seconds=1),
    "a twentieth of its samples is lost": Gang(A100, hosts=2, gpus=4, works=69, hangs=12, loses=0.05),
    "every minute, and some of them are lost": Gang(A100, hosts=4, works=80, hangs=20, every_seconds=60, loses=0.03),
    "every half minute": Gang(A100, gpus=4, every_seconds=30),
    "every minute": Gang(L40S, gpus=4, every_seconds=60),
}


NOT_HUNG = {
    "before any work": Gang(L40S, gpus=4, works=0),
    "one rank computes on its processor": Gang(L40S, gpus=4, rests=1, rests_cores=1.0),
    "one rank computes on its processor, NVLink": Gang(A100, gpus=8, rests=1, rests_cores=1.3),
    "one rank rests, and nothing is known of it": Gang(L40S, gpus=4, rests=1, without=BLIND | NO_PCIE),
    "its steps go on": Gang(L40S, gpus=4, steps=200),
    "its steps go on, NVLink": Gang(gpus=4, steps=200),
    "a service that nobody asks": Gang(L40S, gpus=4, name="vllm", serves=IDLE),
    "one GPU alone": Gang(L40S, gpus=1),
    "all but one have ended": Gang(L40S, gpus=4, dead=3),
}


OVER_THE_HOUR = {
    "from the last minutes of an hour on": Gang(L40S, gpus=4, works=50, hangs=25),
    "NVLink": Gang(works=55, hangs=25),
    "one dead of 8": Gang(A100, works=51, hangs=40, dead=1),
    "one dead of 16, no processes": Gang(L40S, hosts=2, works=53, hangs=30, dead=1, without=BLIND),
    "a host of two is gone": Gang(hosts=2, works=49, hangs=45, lost_hosts=1),
    "the watchdog's ten minutes": Gang(A10G, gpus=4, works=52, hangs=10),
    "every two minutes": Gang(L40S, gpus=4, works=49, hangs=60, every_seconds=120),
    "every second": Gang(H100, gpus=2, works=50, hangs=20, every_seconds=1),
}
SHORT_OF_A_HANG = {
    "six minutes over the hour": Gang(L40S, gpus=4, works=54, hangs=6),
    "six minutes over the hour, NVLink": Gang(A100, gpus=4, works=53, hangs=6),
}


@pytest.fixture(scope="module")
def hung_share() -> dict[str, float]:
    """Return the time booked as a hang by gang, as a share of that in which its live ranks spun."""
    fleet, gangs = Fleet(), CASES | NOT_HUNG | OVER_THE_HOUR | SHORT_OF_A_HANG
    with fleet.together():
        for number, gang in enumerate(gangs.values()):
            lay(fleet, number, gang)
    fleet.analyze()
    return {name: _share(fleet, number, gang) for number, (name, gang) in enumerate(gangs.items())}


def _share(fleet: Fleet, number: int, gang: Gang) -> float:
    booked = fleet.states(f"slurm/alpha/{number}").get(("communicating", "hang"), 0)
    spun = gang.hosts * gang.gpus - gang.dead - gang.off_the_bus - gang.rests - gang.lost_hosts * gang.gpus
    return booked / (max(1, spun) * gang.hangs * 60_000)


@pytest.mark.parametrize("name", CASES)
def test_a_gang_of_which_nothing_moves_hangs(name: str, hung_share: dict[str, float]) -> None:
    """The time of its live ranks is booked as a hang, but for less than two minutes at its ends.

    So is that of a rank that is gone, until its rest is long enough to be a state of its own.
    """
    gang = CASES[name]
    others = (gang.dead + gang.rests) / (gang.hosts * gang.gpus - gang.dead - gang.rests) if gang.hangs < 30 else 0
    assert 1 - 2 / gang.hangs <= hung_share[name] <= 1.03 + others


@pytest.mark.parametrize("name", NOT_HUNG)
def test_what_may_go_on_is_no_hang(name: str, hung_share: dict[str, float]) -> None:
    """Who waits for a rank that is there, or never began, or tells that it goes on, does not hang."""
    assert hung_share[name] == 0


@pytest.mark.parametrize("name", OVER_THE_HOUR)
def test_a_hang_from_the_last_minutes_of_an_hour_on_is_seen_from_there(name: str, hung_share: dict[str, float]) -> None:
    """What comes within minutes after an hour is known where it is judged."""
    assert 1 - 2 / OVER_THE_HOUR[name].hangs <= hung_share[name] <= 1.03


@pytest.mark.parametrize("name", SHORT_OF_A_HANG)
def test_minutes_of_waiting_at_the_end_of_an_hour_are_no_hang(name: str, hung_share: dict[str, float]) -> None:
    """Less than ten minutes, with those after the hour, is a collective that took long."""
    assert hung_share[name] == 0
