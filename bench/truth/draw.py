"""One run to be made: its cell of the design, its machine, its random numbers, and its tape."""

import zlib
from dataclasses import dataclass, field

import numpy as np

from bench.truth.kinds import Label
from bench.truth.tape import Tape

GIB = 2**30

# Long enough for the start (minutes), an hour and a half of steady work, and findings that ask for half an hour; a
# hang, a quiet half hour, or three checkpoints fit in. Longer runs repeat themselves and cost rows.
RUN_SECONDS = 7200


@dataclass(frozen=True, slots=True)
class Cell:
    """One combination of the design. `step` is None for what has no steps."""

    archetype: str
    step: float | None
    ranks: int
    every: int  # seconds between samples of a GPU
    gpm: bool
    dirty: bool  # samples are missing, and the host's clock is not the GPU's
    seed: int

    def rng(self) -> np.random.Generator:
        """Return the run's own stream of random numbers: no two runs share any."""
        name = f"{self.archetype}/{self.step}/{self.ranks}/{self.every}/{self.gpm}/{self.dirty}"
        return np.random.default_rng((self.seed, zlib.crc32(name.encode())))


@dataclass(frozen=True, slots=True)
class Machine:
    """A host and its GPUs, by their makers' data sheets."""

    sku: str
    limit_watts: float
    idle_watts: float
    clock_hertz: float
    pcie_bytes: float  # a second, one way: what pinned memory reaches
    nvlink_bytes: float  # a second, one way
    memory_bytes: int
    pcie_generation: int


# H100 SXM5: 700 W, 1980 MHz, PCIe 5.0 x16, NVLink 900 GB/s both ways. A100 SXM4: 400 W, 1410 MHz, PCIe 4.0, 600 GB/s.
# An A100 has no GPM. Idle power is what nvidia-smi shows without a process.
H100 = Machine("H100-80GB", 700.0, 70.0, 1.98e9, 5.2e10, 4.5e11, 80 * GIB, 5)
A100 = Machine("A100-80GB", 400.0, 54.0, 1.41e9, 2.5e10, 3.0e11, 80 * GIB, 4)

CORES = (48, 64, 96, 128, 192, 224)


@dataclass(frozen=True, slots=True)
class Beside:
    """A second run on the same GPUs: what it is counted as, which group of phases is its own, and what it is."""

    name: str
    group: int
    workers: int = 0
    is_service: bool = False
    is_interactive: bool = False
    slo_seconds: float | None = None


@dataclass
class Draw:
    """Everything that an archetype needs to make one run, and what it leaves behind."""

    cell: Cell
    rng: np.random.Generator
    machine: Machine
    cores: int
    nodes: int
    tape: Tape
    workers: int | None = None  # below each rank's process; None where there is no process at all
    cores_allotted: float = 0.0
    is_service: bool = False
    slo_seconds: float | None = None
    is_interactive: bool = False
    group_of_rank: list[int] = field(default_factory=list)
    group_of_node: list[int] = field(default_factory=list)  # what each host tells of; empty where all tell the same
    racks: int = 1
    day: int = 0  # of the week
    scheduler: str = "slurm"
    attempts: list[tuple[float, str]] = field(default_factory=list)  # where several: when each ended, and how
    restarts_of: str | None = None
    process_from: float = 0.0  # seconds until a process of the run is on its hosts
    beside: Beside | None = None
    tells_sharers: bool = (
        False  # by time slicing the driver tells each process's share of SM time, under MPS it does not
    )
    exit_status: str = "completed"
    mount_kind: str | None = None  # nfs or lustre
    memory_gib: float = 0.0
    same: dict[Label, Label] = field(default_factory=dict)  # a booking that is as right as this label

    @classmethod
    def of(cls, cell: Cell, seconds: float = RUN_SECONDS, groups: int = 1) -> "Draw":
        """Draw the machine of a run."""
        rng = cell.rng()
        cores = int(rng.choice(CORES[2:] if cell.ranks > 1 else CORES))
        drawn = cls(cell, rng, H100 if cell.gpm else A100, cores, 1, Tape(rng, seconds, groups))
        drawn.group_of_rank = [0] * cell.ranks
        drawn.memory_gib = drawn.uniform(12, 76)
        drawn.exit_status = "cancelled" if drawn.chance(0.2) else "completed"
        drawn.cores_allotted = float(max(4, round(cores * (drawn.uniform(0.3, 1.0) if cell.ranks == 1 else 1.0))))
        return drawn

    @property
    def step(self) -> float:
        """Seconds of one step: the design's, and up to a third more or less."""
        assert self.cell.step is not None, "BUG: this run has no steps"
        return self.cell.step * float(self._step_factor)

    @property
    def ranks_per_node(self) -> int:
        """How many GPUs of the run are on each of its hosts."""
        return self.cell.ranks // self.nodes

    def uniform(self, low: float, high: float) -> float:
        """Return a number between these."""
        return float(self.rng.uniform(low, high))

    def chance(self, share: float) -> bool:
        """Return True in this share of draws."""
        return bool(self.rng.random() < share)

    def log_uniform(self, low: float, high: float) -> float:
        """Return a number between these, each order of magnitude as likely as another."""
        return float(np.exp(self.rng.uniform(np.log(low), np.log(high))))

    def __post_init__(self) -> None:
        self._step_factor = self.rng.uniform(0.75, 1.33)
