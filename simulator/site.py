"""The site: hosts, racks, GPU types, the week and the beat. Nothing here is random."""

import hashlib
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from agent.wire.units import DAY_MS, GIB, HOUR_MS

SECOND = 1_000  # milliseconds: the unit of time inside the simulator

_NAMESPACE = uuid.UUID("8f0c2f8e-3d5c-5b0e-9a55-6d7f0c1b2a39")  # of every UUID made here


@dataclass(frozen=True, slots=True)
class Sku:
    """A GPU type. Idle and limit are watts; `has_gpm` says whether SM, tensor and DRAM activity can be read."""

    name: str
    memory_bytes: int
    idle_watts: float
    limit_watts: float
    clock_hertz: float
    has_gpm: bool
    pcie_generation: int
    nvlink_peers: int
    purchase_option: str


_H100 = Sku("H100-80GB", 80 * GIB, 70.0, 700.0, 1.98e9, True, 5, 7, "reserved")
# Two hosts are kept below the 700 W that their boards are built for: what runs there at their limit loses clock.
_CAPPED = replace(_H100, limit_watts=650.0)
_CAPPED_HOSTS = frozenset({1, 13})
_A100 = Sku("A100-80GB", 80 * GIB, 55.0, 400.0, 1.41e9, False, 4, 7, "owned")


@dataclass(frozen=True, slots=True)
class Host:
    """A GPU host. H100 hosts have one fabric port for all GPUs, A100 hosts have Ethernet alone."""

    name: str
    rack: str
    sku: Sku
    gpus: int = 8
    cores: int = 128
    memory_bytes: int = 2 * 2**40
    nvme_bytes: int = 15_360_000_000_000

    @property
    def has_fabric(self) -> bool:
        """Whether there is an RDMA port."""
        return self.sku.name == _H100.name


@dataclass(frozen=True, slots=True)
class Chunk:
    """A stretch of the span with one beat: what is generated at a time. Times are milliseconds since the start."""

    index: int
    start: int
    end: int
    beat: int


@dataclass(frozen=True, slots=True)
class Site:
    """A fleet over a span of whole hours. `plan` names the schedule: "week" (cluster alpha) or "small"."""

    cluster: str
    hosts: tuple[Host, ...]
    started_at: int  # microseconds, UTC
    span: int  # milliseconds
    every_seconds: int
    last_day_every_seconds: int
    seed: int
    plan: str

    def chunks(self) -> Iterator[Chunk]:
        """Yield the days of the span in order; the last has its own beat."""
        last = (self.span - 1) // DAY_MS
        for index in range(last + 1):
            seconds = self.last_day_every_seconds if index == last else self.every_seconds
            yield Chunk(index, index * DAY_MS, min((index + 1) * DAY_MS, self.span), seconds * SECOND)

    def microseconds(self, milliseconds: int) -> int:
        """Return a time of the simulation as the wire has it."""
        return self.started_at + milliseconds * 1_000

    def gpu_uuid(self, host: Host, gpu: int) -> str:
        """Return the UUID of a GPU; it does not depend on the seed."""
        return f"GPU-{uuid.uuid5(_NAMESPACE, f'{self.cluster}/{host.name}/{gpu}')}"

    def stream(self, agent: str) -> str:
        """Return the UUID of an agent's stream: another seed or beat is another body, hence another stream."""
        beats = f"{self.every_seconds}/{self.last_day_every_seconds}"
        return str(uuid.uuid5(_NAMESPACE, f"{self.cluster}/{self.started_at}/{self.seed}/{beats}/{agent}"))

    def host(self, name: str) -> Host:
        """Return the host of this name; a KeyError is our own mistake."""
        for host in self.hosts:
            if host.name == name:
                return host
        raise KeyError(f"BUG: {self.cluster} has no host {name}")

    def generator(self, *purpose: object) -> np.random.Generator:
        """Return the random numbers of one purpose, which depend on the seed and the purpose and on nothing else."""
        digest = hashlib.blake2b(repr((self.cluster, *purpose)).encode(), digest_size=8).digest()
        return np.random.Generator(np.random.PCG64([self.seed, int.from_bytes(digest, "big")]))


_WEEK_STARTED_AT = 1_794_178_800_000_000  # Monday 9 November 2026, 00:00 in Europe/Berlin


def alpha_site(seed: int = 1, every_seconds: int = 60, last_day_every_seconds: int | None = None) -> Site:
    """Return cluster alpha in week 2026-W46: 24 hosts of 8 GPUs in 3 racks, 32,256 GPU-hours."""
    racks = (("rack-1", range(1, 9), _H100), ("rack-2", range(9, 17), _H100), ("rack-3", range(17, 25), _A100))
    hosts = tuple(
        Host(f"n{number:02}", rack, _CAPPED if number in _CAPPED_HOSTS else sku)
        for rack, numbers, sku in racks
        for number in numbers
    )
    last = every_seconds if last_day_every_seconds is None else last_day_every_seconds
    return Site("alpha", hosts, _WEEK_STARTED_AT, 7 * DAY_MS, every_seconds, last, seed, "week")


def small_site(seed: int = 1, every_seconds: int = 10) -> Site:
    """Return two hosts over two hours, for tests that must be quick: one of H100, one of A100."""
    hosts = (Host("s01", "rack-1", _H100), Host("s02", "rack-2", _A100))
    return Site(
        "mini", hosts, _WEEK_STARTED_AT + 9 * HOUR_MS * 1_000, 2 * HOUR_MS, every_seconds, every_seconds, seed, "small"
    )
