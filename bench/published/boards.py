"""Boards as they are sold: what each draws, how fast it runs at full load, and which of its sensors exist.

Clocks, memory, limits and links are NVIDIA's data sheets. `full_clock_ratio` is what a board keeps of its highest clock
under a load that fills its power limit: 72 W and 70 W cards run far below it by design. Idle and held watts are what
nvidia-smi shows in public threads of such cards (../shared/reference/nvml-and-agents.md and the cases' issues).
"""

from dataclasses import dataclass

Channels = dict[str, float]


@dataclass(frozen=True, slots=True)
class Board:
    """A make of GPU. `profiling`: gpm (Hopper and newer), dcgm (where the site runs it), or none."""

    sku: str
    memory_gib: float
    limit_watts: float
    idle_watts: float
    held_watts: float
    max_mhz: float
    full_clock_ratio: float
    profiling: str
    nvlink: bool
    pcie_generation: int
    copy_bytes_per_second: float  # pinned, host to device
    usd_per_hour: float

    def running(self, load: float, limit_watts: float | None = None) -> Channels:
        """Return watts, clock and how much of the time the limit holds the clock, at a share of the chip's work.

        What a chip would draw at its highest clock grows with about the clock's 2.2th power (DVFS; Zeus, NSDI'23); a
        limit below that takes so much off the clock.
        """
        limit = 0.985 * (self.limit_watts if limit_watts is None else limit_watts)
        whole = 0.985 * self.limit_watts * self.full_clock_ratio**-2.2
        wanted = self.held_watts + (whole - self.held_watts) * load
        ratio = min(1.0, (limit / wanted) ** (1 / 2.2))
        return {"watts": min(wanted, limit), "mhz": 0.99 * self.max_mhz * ratio, "capped": 0.95 if ratio < 1 else 0.0}

    def unheld(self) -> Channels:
        """Return what a GPU shows that nobody holds."""
        return {"watts": self.idle_watts, "mhz": 210, "hbm": 0.0}

    def waiting(self, hbm: float = 0.6) -> Channels:
        """Return what a GPU shows whose process has nothing for it to do: memory, clocks up, no kernel."""
        return {"watts": self.held_watts, "mhz": 0.95 * self.max_mhz, "hbm": hbm * self.memory_gib}

    def working(self, load: float = 0.85, sm: float = 0.88, tensor: float = 0.35, dram: float = 0.35) -> Channels:
        """Return what a GPU shows under a load, at the power limit that its make is built for."""
        return (
            self.waiting()
            | self.running(load)
            | {
                "util": 1.0,
                "sm": sm,
                "occ": 0.4 * sm,
                "tensor": tensor,
                "dram": dram,
                "memutil": 0.9 * dram,
                "h2d": 5e7,
                "d2h": 1e7,
            }
        )

    def spinning(self, share: float, nvlink: float = 0.0) -> Channels:
        """Return what a GPU shows inside a collective: one kernel of a few blocks, at 100 % in NVML's sense.

        24 blocks of 132 SMs, tensor cores at rest (algorithms.md 1.2). Power: `share` of the way to the limit;
        .17 of the limit (zai-org/GLM-130B#32), .29 (marin#7344), up to .4 (algorithms.md).
        """
        over_pcie = min(nvlink, 0.8 * self.copy_bytes_per_second)
        return self.waiting() | {
            "util": 1.0,
            "sm": 0.16,
            "occ": 0.03,
            "dram": 0.02,
            "memutil": 0.01,
            "watts": self.held_watts + share * (self.limit_watts - self.held_watts),
            "mhz": 0.97 * self.max_mhz,
            "nvlink": nvlink if self.nvlink else 0.0,
            "h2d": 0.0 if self.nvlink else over_pcie,
            "d2h": 0.0 if self.nvlink else over_pcie,
        }


BOARDS = {
    board.sku: board
    for board in (
        Board("B200-180GB", 179, 1000, 140, 190, 1965, 0.93, "gpm", True, 5, 5.2e10, 4.5),
        Board("H200-141GB", 140, 700, 76, 120, 1980, 0.89, "gpm", True, 5, 5.2e10, 3.4),
        Board("H100-80GB", 80, 700, 70, 118, 1980, 0.88, "gpm", True, 5, 5.2e10, 2.6),
        Board("A100-80GB", 80, 400, 61, 88, 1410, 0.97, "dcgm", True, 4, 2.4e10, 1.6),
        Board("A100-40GB", 40, 400, 52, 74, 1410, 0.96, "dcgm", True, 4, 2.4e10, 1.1),
        Board("V100-32GB", 32, 300, 41, 56, 1530, 0.92, "dcgm", True, 3, 1.2e10, 0.7),
        Board("L40S-48GB", 45, 350, 34, 88, 2520, 0.80, "none", False, 4, 2.4e10, 1.0),
        Board("A10G-24GB", 23, 300, 17, 58, 1710, 0.86, "none", False, 4, 2.4e10, 0.75),
        Board("L4-24GB", 23, 72, 13, 29, 2040, 0.62, "none", False, 4, 1.2e10, 0.5),
        Board("T4-16GB", 15, 70, 10, 27, 1590, 0.66, "none", False, 3, 1.2e10, 0.3),
        Board("RTX-A6000-48GB", 48, 300, 22, 76, 2100, 0.82, "none", False, 4, 2.4e10, 0.6),
        Board("RTX-4090-24GB", 24, 450, 18, 62, 3105, 0.86, "none", False, 4, 2.4e10, 0.4),
        Board("RTX-3090-24GB", 24, 350, 25, 104, 2100, 0.84, "none", False, 4, 2.4e10, 0.2),
    )
}
NVLINKED = tuple(sku for sku, board in BOARDS.items() if board.nvlink)
PCIE_ONLY = tuple(sku for sku, board in BOARDS.items() if not board.nvlink)
HOPPER = tuple(sku for sku, board in BOARDS.items() if board.profiling == "gpm")
ALL = tuple(BOARDS)
