"""One simulated run: when and where it ran, what is missing of its samples, and what is true of every held second."""

import copy
import zlib
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from bench.truth.archetypes.registry import ARCHETYPES, Archetype
from bench.truth.draw import RUN_SECONDS, Cell, Draw
from bench.truth.kinds import Label
from bench.truth.tape import Timeline

SECOND_US = 1_000_000
HOUR_SECONDS = 3600
MONDAY_US = 1_793_577_600 * SECOND_US  # 2026-11-02 00:00 UTC
DAY_SECONDS = 24 * HOUR_SECONDS
LAST_START = 20 * HOUR_SECONDS
GAP: Label = ("unobserved", "gap")
MISSING = 0.05  # of the time, in a dirty run
LONGEST_GAP, SHORTEST_GAP = 360, 60
LOST_BEATS = 0.01  # of the missing time's share: single samples
SKEW_SECONDS = 0.4

Mask = npt.NDArray[np.bool_]
Truth = dict[Label, int]  # milliseconds


@dataclass(frozen=True)
class SimulatedRun:
    """One run, made. Labels are only here: no table holds them."""

    number: int
    draw: Draw
    started_at: int  # microseconds, a multiple of ten seconds
    lines: list[Timeline]
    silences: list[list[tuple[float, float]]]  # of each node, in seconds of the run
    kept: list[Mask]  # of each node: which samples of a GPU came
    skews: list[float]  # of each node: what the host's tables are off, in seconds
    place: str  # its hosts' and GPUs' names begin so
    is_guest: bool = False  # on GPUs and hosts that another run tells of

    @classmethod
    def make(
        cls,
        cell: Cell,
        seconds: int = RUN_SECONDS,
        *,
        kind: Archetype | None = None,
        start: int | None = None,
        place: str = "",
    ) -> "SimulatedRun":
        """Make the run of a cell: on hosts of its own unless `place` names others, on Monday unless `start` says."""
        kind = kind or ARCHETYPES[cell.archetype]
        draw = Draw.of(cell, seconds, kind.groups)
        kind.make(draw)
        rng = draw.rng
        number = 10_000 + zlib.crc32(repr(cell).encode()) % 900_000_000
        drawn = MONDAY_US + int(rng.integers(LAST_START // 10)) * 10 * SECOND_US
        silences = [_silences(rng, seconds) if cell.dirty else [] for _ in range(draw.nodes)]
        kept = [_kept(rng, cell, seconds, spans) for spans in silences]
        skews = [float(rng.uniform(-SKEW_SECONDS, SKEW_SECONDS)) if cell.dirty else 0.0 for _ in range(draw.nodes)]
        begins = drawn + draw.day * DAY_SECONDS * SECOND_US if start is None else start
        return cls(number, draw, begins, draw.tape.timelines(), silences, kept, skews, place or str(number))

    def beside(self) -> list["SimulatedRun"]:
        """Return the run that holds the same GPUs at the same time, where one does."""
        other = self.draw.beside
        if other is None:
            return []
        draw = copy.copy(self.draw)  # dataclasses.replace would draw another step
        draw.cell, draw.beside = replace(self.cell, archetype=other.name), None
        draw.group_of_rank, draw.group_of_node = [other.group] * self.cell.ranks, [other.group] * draw.nodes
        draw.workers, draw.is_service, draw.is_interactive = other.workers, other.is_service, other.is_interactive
        draw.slo_seconds, draw.exit_status = other.slo_seconds, "completed"
        return [replace(self, number=self.number + 1, draw=draw, is_guest=True)]

    @property
    def sharers(self) -> int:
        """How many runs hold each of its GPUs; the ledger gives each the same part of every millisecond."""
        return 2 if self.is_guest or self.draw.beside is not None else 1

    @property
    def cell(self) -> Cell:
        """Where in the design it stands."""
        return self.draw.cell

    @property
    def run_id(self) -> str:
        """Its name in the contract: a number that says nothing of what it is."""
        return f"{self.draw.scheduler}/truth/{self.number}"

    @property
    def seconds(self) -> int:
        """How long it holds its GPUs."""
        return round(float(self.lines[0].edges[-1]))

    @property
    def ended_at(self) -> int:
        """When it gives its GPUs back, in microseconds."""
        return self.started_at + self.seconds * SECOND_US

    @property
    def nodes(self) -> list[str]:
        """Its hosts, which it has for itself."""
        return [f"n{self.place}-{node}" for node in range(self.draw.nodes)]

    def gpu_uuid(self, rank: int) -> str:
        """Return the GPU of a rank."""
        return f"GPU-{self.place}-{rank}"

    def line_of(self, node: int) -> Timeline:
        """Return what a host tells of."""
        groups = self.draw.group_of_node
        return self.lines[groups[node] if groups else 0]

    def node_of(self, rank: int) -> int:
        """Return which of the hosts a rank is on."""
        return rank // self.draw.ranks_per_node

    def labels_by_second(self, rank: int) -> list[dict[Label, float]]:
        """Return the shares of every second of a rank by label, as they are whether measured or not."""
        line = self.lines[self.draw.group_of_rank[rank]]
        names = line.labels()
        found = line.labelled(np.arange(self.seconds + 1, dtype=np.float64))
        return [{name: float(share) for name, share in zip(names, row, strict=True) if share > 0} for row in found]

    def by_hour(self, rank: int) -> dict[int, Truth]:
        """Return the milliseconds of a rank by UTC hour (its first microsecond) and label; what is missing is a gap."""
        return self._by_group[self.draw.group_of_rank[rank], self.node_of(rank)]

    def truth(self) -> Truth:
        """Return the milliseconds of the whole run by label."""
        total: Truth = {}
        for rank in range(self.cell.ranks):
            for labels in self.by_hour(rank).values():
                for label, ms in labels.items():
                    total[label] = total.get(label, 0) + ms
        return total

    @cached_property
    def _by_group(self) -> dict[tuple[int, int], dict[int, Truth]]:
        pairs = {(self.draw.group_of_rank[rank], self.node_of(rank)) for rank in range(self.cell.ranks)}
        return {(group, node): self._hours(self.lines[group], self.kept[node]) for group, node in pairs}

    def _hours(self, line: Timeline, kept: Mask) -> dict[int, Truth]:
        every = self.cell.every
        found = line.labelled(np.arange(0, self.seconds + 1, every, dtype=np.float64))
        begun = self.started_at // SECOND_US + np.arange(len(kept)) * every
        hours = begun // HOUR_SECONDS
        names = line.labels()
        made = {}
        for hour in np.unique(hours).tolist():
            here = hours == hour
            shares = dict(zip(names, found[here & kept].sum(axis=0).tolist(), strict=True))
            shares[GAP] = float((here & ~kept).sum() * every)
            own = {label: seconds / self.sharers for label, seconds in shares.items()}
            made[hour * HOUR_SECONDS * SECOND_US] = _whole(own, int(here.sum()) * every * 1000 // self.sharers)
        return made


def _silences(rng: np.random.Generator, seconds: int) -> list[tuple[float, float]]:
    """Return when the host's agent was not heard: a minute to six at a time, five percent of the run in all."""
    left, found = MISSING * seconds, []
    while left > SHORTEST_GAP / 2:
        length = min(float(rng.uniform(SHORTEST_GAP, LONGEST_GAP)), left)
        start = float(rng.uniform(0, seconds - length))
        found.append((start, start + length))
        left -= length
    return found


def _kept(rng: np.random.Generator, cell: Cell, seconds: int, silences: list[tuple[float, float]]) -> Mask:
    """Return which samples came: an interval that touches a silence did not, nor did a few single ones."""
    starts = np.arange(0, seconds, cell.every)
    kept = np.ones(len(starts), dtype=np.bool_)
    for start, end in silences:
        kept &= (starts + cell.every <= start) | (starts >= end)
    if cell.dirty:
        kept &= rng.random(len(starts)) >= LOST_BEATS
    return kept


def _whole(seconds: dict[Label, float], milliseconds: int) -> Truth:
    """Return whole milliseconds that sum to what there is: the largest remainders are rounded up."""
    parts = {label: 1000 * share for label, share in seconds.items() if share > 0}
    floors = {label: int(part) for label, part in parts.items()}
    short = milliseconds - sum(floors.values())
    assert 0 <= short <= len(parts) + 1, f"BUG: labels cover {sum(parts.values())} of {milliseconds} ms"
    by_remainder = sorted(parts, key=lambda label: floors[label] - parts[label])
    for at in range(short):
        floors[by_remainder[at % len(by_remainder)]] += 1
    return {label: ms for label, ms in floors.items() if ms}
