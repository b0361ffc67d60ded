"""Where a run of the second generator takes place: its boards, hosts, sensors and hours, all drawn by seed."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from zlib import crc32

import numpy as np

from analyzer.states import LOSABLE
from bench.published.boards import ALL, BOARDS, Board
from bench.published.lanes import Lane, Phase, Piece, cycles, phase, stretch

HOUR = 3600.0
INTERVALS = ((1.0, 0.08), (5.0, 0.2), (10.0, 0.42), (30.0, 0.18), (60.0, 0.12))
OPEN = "open"  # a state of affairs for which the ledger has no cause: nothing avoidable, and no input, may be booked
PORTS = {"ethernet": (1, 1.25e10), "infiniband": (2, 5e10), "roce": (2, 5e10)}  # of a host: how many, bytes a second
OPENING = 60.0  # seconds of the day before a run may begin


@dataclass(frozen=True, slots=True)
class Disk:
    """Where a run reads and writes: a block device, or a mount (whose bytes come over the network)."""

    device: str = "nvme0n1"
    kind: str = "block"  # block, nfs, lustre, fuse; object: read by the process itself, no mount
    io_bytes: float = 2.6e5
    rdma: bool = False  # whether a mount's bytes come over the fabric

    @property
    def remote(self) -> bool:
        """Whether its bytes come over a network."""
        return self.kind != "block"


@dataclass(slots=True)
class Story:
    """What a run did. `lanes`: of each rank. `accepts`: for a label of the truth, what else may rightly be told."""

    lanes: Sequence[Lane]
    disk: Disk = field(default_factory=Disk)
    status: str = "completed"
    lost: tuple[float, str] | None = None  # from which moment on work was thrown away, and why
    accepts: dict[str, set[str]] = field(default_factory=dict)
    suspected: frozenset[str] = (
        frozenset()
    )  # what may rightly be suspected that the ledger never books (docs/detectors.md)
    limits: dict[int, float] = field(default_factory=dict)  # power limit by GPU, where not the make's own
    service: bool = False
    name: str = "train"
    queue: str | None = None
    scheduler: str = "slurm"
    quota_cores: float | None = None  # of each host
    strangers: bool = False
    checkpoints: tuple[float, ...] = ()  # moments at which the run itself tells that one is complete

    @property
    def start(self) -> float:
        """When the GPUs were given to it."""
        return float(self.lanes[0].ends[0])

    @property
    def end(self) -> float:
        """When it gave them back."""
        return max(lane.end for lane in self.lanes)

    def truth(self) -> dict[str, float]:
        """Return the GPU-seconds of each label."""
        found: dict[str, float] = defaultdict(float)
        since, why = self.lost or (self.end, "")
        for lane in self.lanes:
            for label, seconds in lane.truth(until=since).items():
                found[label] += seconds
            for label, seconds in lane.truth(since=since).items():
                found[f"lost_work/{why}" if label.partition("/")[0] in LOSABLE else label] += seconds
        return dict(found)


class Setting:
    """What the seed gives a run: a board, so many hosts and GPUs, how often is sampled, and what cannot be read."""

    def __init__(self, seed: int, number: int, kind: "Kind", copy: int) -> None:
        self.rng = rng = np.random.default_rng([seed, crc32(kind.name.encode()), copy])
        self.seed, self.number, self.kind = seed, number, kind
        self.board: Board = BOARDS[str(rng.choice(kind.boards))]
        shape = kind.shapes[int(rng.integers(len(kind.shapes)))]
        self.hosts, self.gpus_per_host = shape
        self.gpus = self.hosts * self.gpus_per_host
        seconds, odds = zip(*((one, odd) for one, odd in INTERVALS if 3.2 * one >= self.gpus), strict=True)
        self.interval = float(rng.choice(seconds, p=np.array(odds) / sum(odds)))
        self.window = float(rng.choice([1 / 6, 1.0], p=[0.7, 0.3]))  # of NVML's utilization
        self.spin = float(rng.uniform(0.04, 0.2))  # what a collective draws that only waits, of the way to the limit
        self.dcgm = rng.random() < 0.4  # whether the site runs it
        self.rings = rng.random() < 0.88  # else snapshots
        self.slow_pcie = rng.random() < 0.7
        self.cgroup = rng.random() < 0.75
        self.processes = rng.random() < 0.85
        self.process_io = rng.random() < 0.6
        self.pressure = rng.random() < 0.9
        self.flows = rng.random() < 0.7
        self.tells = rng.random() < 0.3  # whether the run itself tells its steps, and how long they waited for data
        self.cores = int(self.gpus_per_host * rng.choice([8, 12, 16, 24]))
        self.memory_gib = float(self.gpus_per_host * rng.choice([60, 120, 180]))
        self.fabric = str(rng.choice(["infiniband", "ethernet", "roce"], p=[0.5, 0.35, 0.15]))
        self.racks: list[str | None] = [f"r{number}"] * self.hosts
        self.others: dict[int, Board] = {}  # hosts with another make
        self.start = OPENING + float(rng.uniform(0, 900))
        self.seconds = float(rng.uniform(1.6, 2.6)) * HOUR

    def board_of(self, host: int) -> Board:
        """Return the make of a host's boards."""
        return self.others.get(host, self.board)

    def profiled(self, board: Board) -> bool:
        """Return whether activity within the chip is read: by GPM, or by DCGM where the site runs it."""
        return board.profiling == "gpm" or (board.profiling == "dcgm" and self.dcgm)

    def peers(self, rate: float) -> dict[str, float]:
        """Return what a rank exchanges with other hosts, within what the ports of its host carry."""
        return {"peers": min(rate, 0.9 * PORTS[self.fabric][0] * PORTS[self.fabric][1] / self.gpus_per_host)}

    def spinning(self, nvlink: float = 0.0) -> dict[str, float]:
        """Return what this run's boards show inside a collective."""
        return self.board.spinning(self.spin, nvlink)

    def pick(self, low: float, high: float) -> float:
        """Return a number between two."""
        return float(self.rng.uniform(low, high))

    def loading(self, seconds: float | None = None, **channels: float) -> Piece:
        """Return a start: imports, weights from disk to GPU."""
        told = phase(
            "starting/model_load", self.board.waiting(0.25), {"cpu": 1.3, "read": 1.5e8, "busy": 0.1}, channels
        )
        return stretch(told, self.pick(30, 150) if seconds is None else seconds)

    def work(self, *parts: dict[str, float], truth: str = "productive/compute") -> Phase:
        """Return a training step's computing as a fed run of this kind of board has it."""
        load, sm = self.pick(0.72, 0.99), self.pick(0.82, 0.95)
        gpu = self.board.working(load, sm, self.pick(0.22, 0.48), self.pick(0.25, 0.5))
        return phase(truth, gpu, FED, *parts)

    def left(self, *pieces: Piece) -> float:
        """Return the seconds that remain of the run after these pieces."""
        return max(60.0, self.seconds - sum(piece.length for piece in pieces))

    def steps(self, seconds: float, *parts: tuple[Phase, float, float]) -> Piece:
        """Return steps of (phase, seconds, variation) for so long."""
        return cycles(self.rng, seconds, parts)

    def training(self, seconds: float, *parts: dict[str, float]) -> Piece:
        """Return a fed training: steps of computing, and of several GPUs 2-5 % of exchange that nothing hides."""
        step, share = self.pick(0.3, 3.0), self.pick(0.02, 0.05) if self.gpus > 1 else 0.0
        exchange = phase("communicating/collective", self.spinning(4e10), FED, *parts, self.peers(2e9))
        ending = ((exchange, step * share, 0.1),) if share else ()
        return self.steps(seconds, (self.work(*parts), step * (1 - share), 0.04), *ending)

    def lane(self, *pieces: Piece) -> Lane:
        """Return one rank that does these pieces from the run's start on."""
        return Lane(self.start, pieces, self.board.unheld())

    def together(self, *pieces: Piece) -> list[Lane]:
        """Return all ranks in lockstep."""
        return [self.lane(*pieces)] * self.gpus

    def apart(self, before: Piece, waits: Phase, wait: float, works: Phase, work: float, spread: float) -> list[Lane]:
        """Return ranks that each wait for their own input, then spin until the last has had its own.

        So it is in data parallel training: NVML's utilization of those that have their input reads 100 %. The truth of
        the spinning is that of the waiting, its root.
        """
        waits = waits.but(data_wait=1.0)
        count = int(self.left(before) / (wait + work)) + 1
        whole = wait * np.exp(self.rng.normal(0, 0.25, count))
        span = work * np.exp(self.rng.normal(0, 0.04, count))
        spin = Phase(waits.truth, waits.channels | self.spinning() | {"data_wait": 0.0})
        lanes = []
        for _ in range(self.gpus):
            own = whole * (1 - spread * self.rng.random(count))
            seconds = np.stack([own, whole - own, span], axis=1).ravel()
            lanes.append(self.lane(before, Piece((waits, spin, works), np.tile(np.arange(3), count), seconds)))
        return lanes


# What a rank that is fed asks of its host: a prefetching loader that rests, and reads that wait a little (1-3 % each).
FED: dict[str, float] = {
    "cpu": 1.6,
    "workers": 4,
    "busiest": 0.3,
    "read": 3e7,
    "busy": 0.06,
    "rwait": 0.05,
    "blocked": 0.015,
    "waiting": 0.015,
    "runq": 0.002,
    "mem": 12,
}


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of workload: who makes it, on which boards, in which shapes (hosts, GPUs of each). `fed`: a control."""

    name: str
    make: Callable[[Setting], Story]
    boards: tuple[str, ...]
    shapes: tuple[tuple[int, int], ...]
    fed: bool
    copies: int


KINDS: dict[str, Kind] = {}
ONE_HOST = ((1, 1), (1, 2), (1, 4), (1, 8))
GANG = ((1, 4), (1, 8))


def kind(
    boards: tuple[str, ...] = ALL,
    shapes: tuple[tuple[int, int], ...] = ONE_HOST,
    *,
    fed: bool = False,
    copies: int = 2,
) -> Callable[[Callable[[Setting], Story]], Callable[[Setting], Story]]:
    """Register a kind under its function's name."""

    def registered(make: Callable[[Setting], Story]) -> Callable[[Setting], Story]:
        KINDS[make.__name__] = Kind(make.__name__, make, boards, shapes, fed, copies)
        return make

    return registered
