"""Bodies made before the clock starts, each different, in files: what is measured is then the collector."""

import mmap
import multiprocessing
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench.bodies import AGENTS_MAX, SECOND, Speaker, Window, speaker

MAKERS = 2


@dataclass(frozen=True, slots=True)
class Order:
    """What to make: `count` bodies of `agents`, who take turns; agent a tells of host a modulo the hosts there are.

    The last turn ends at `ends_at` (microseconds UTC), and each turn before it one window earlier. Sequences of
    every agent begin at 0. `generation` tells the agents of one order from those of another.
    """

    count: int
    agents: int
    ends_at: int
    generation: int = 0

    @property
    def turns(self) -> int:
        """How often an agent has its turn, at most."""
        return -(-self.count // self.agents)


class Magazine:
    """The bodies of one order, in their order."""

    def __init__(self, parts: Sequence[Path]) -> None:
        self._maps: list[mmap.mmap] = []
        self._ends: list[list[int]] = []
        for part in parts:
            with part.open("rb") as file:
                self._maps.append(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
            self._ends.append(np.load(part.with_suffix(".npy")).tolist())

    def __len__(self) -> int:
        return sum(map(len, self._ends))

    def __iter__(self) -> Iterator[bytes]:
        for content, ends in zip(self._maps, self._ends, strict=True):
            start = 0
            for end in ends:
                yield content[start:end]
                start = end

    @property
    def mean_bytes(self) -> float:
        """The mean size of a body."""
        return sum(ends[-1] for ends in self._ends) / len(self)

    def close(self) -> None:
        """Let the files go."""
        for content in self._maps:
            content.close()


def make(directory: Path, hosts: Sequence[Sequence[Window]], order: Order) -> Magazine:
    """Make an order's bodies below a directory, on all cores; `hosts` are the windows of each host, in order."""
    assert order.agents <= AGENTS_MAX, f"BUG: {order.agents} agents have no names"
    directory.mkdir(parents=True, exist_ok=True)
    edges = [order.count * index // MAKERS for index in range(MAKERS + 1)]
    context = multiprocessing.get_context("fork")  # the windows are inherited, not sent
    parts, makers = [], []
    for index in range(MAKERS):
        part = directory / f"bodies-{order.generation}-{index}.bin"
        stretch = range(edges[index], edges[index + 1])
        parts.append(part)
        makers.append(context.Process(target=_made, args=(part, hosts, order, stretch)))
        makers[-1].start()
    for maker in makers:
        maker.join()
        assert maker.exitcode == 0, "a maker of bodies failed"
    return Magazine(parts)


def _made(part: Path, hosts: Sequence[Sequence[Window]], order: Order, stretch: range) -> None:
    ends, at = np.zeros(len(stretch), dtype=np.int64), 0
    speakers: dict[int, Speaker] = {}
    with part.open("wb") as file:
        for index, number in enumerate(stretch):
            turn, agent = divmod(number, order.agents)
            who = speakers.setdefault(agent, speaker(agent, order.generation))
            windows = hosts[agent % len(hosts)]
            window = windows[(turn + 7 * (agent // len(hosts))) % len(windows)]
            ends_at = order.ends_at - (order.turns - 1 - turn) * window.seconds * SECOND
            at += file.write(window.body(who, turn, ends_at))
            ends[index] = at
    np.save(part.with_suffix(".npy"), ends)
