"""How a run was placed and what it was given: what a change of placement changes."""

from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class Shape:
    """One attempt of a run. Hosts are in the order of its ranks; None is not known."""

    run_id: str
    attempt: int
    started_at: int
    nodes: tuple[str, ...]
    racks: tuple[str | None, ...]  # of each host
    gpus: int
    skus: tuple[str, ...] = ()
    slices: int = 0  # of its GPUs that are MIG instances
    shared: int = 0  # of its GPUs that another run holds for most of its time
    cores: float | None = None  # allotted, of all its hosts
    network_read_bytes: int | None = None  # by its hosts while it ran
    local_read_bytes: int | None = None

    @property
    def crossings(self) -> int | None:
        """How often the ring of its ranks passes from one rack to another; None where a rack is not known."""
        if not self.racks or None in self.racks:
            return None
        ring = (*self.racks, self.racks[0])
        return sum(one != other for one, other in pairwise(ring))

    @property
    def rack_count(self) -> int | None:
        """How many racks it spans; None where one is not known."""
        return None if not self.racks or None in self.racks else len(set(self.racks))

    @property
    def cores_per_gpu(self) -> float | None:
        """Cores allotted for each GPU."""
        return None if self.cores is None or not self.gpus else self.cores / self.gpus

    @property
    def network_share(self) -> float | None:
        """The share of what its hosts read that came over network mounts."""
        if self.network_read_bytes is None or self.local_read_bytes is None:
            return None
        whole = self.network_read_bytes + self.local_read_bytes
        return self.network_read_bytes / whole if whole else None
