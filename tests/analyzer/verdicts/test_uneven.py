"""Gangs of which each step another rank has most to do, as of answers of unequal length: the others wait for it.

Each is a run of two hours on boards, sensors and sizes of its own: what a rank computes in a step is drawn for it, and
it spins in the collective until the slowest has come. What is waited is known from what was drawn.
"""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import pytest

from tests.analyzer.ledger.fleet import HOUR, MONDAY, SECOND, Fleet, Row
from tests.analyzer.verdicts.test_hangs import A100, B200, H100, Board

START, HOURS, LOADS_SECONDS = MONDAY + 6 * HOUR, 2, 120
A100_DCGM = replace(A100, sm=(0.83, 0.16))
H20 = Board("H20-96GB", 500, 430, 165, 115, (0.88, 0.12), nvlink=True)

Loads = Callable[[random.Random, int], list[float]]  # what share of the slowest's time each of so many ranks computes


def _another_each_time(chance: random.Random, ranks: int) -> list[float]:
    loads = [chance.uniform(0.38, 0.72) for _ in range(ranks)]
    loads[chance.randrange(ranks)] = 1.0
    return loads


def _by_length(chance: random.Random, ranks: int) -> list[float]:
    lengths = [chance.lognormvariate(0.0, 0.45) for _ in range(ranks)]
    return [length / max(lengths) for length in lengths]


def _all_alike(_: random.Random, ranks: int) -> list[float]:
    return [1.0] * ranks


def _the_same(_: random.Random, ranks: int) -> list[float]:
    return [0.55] * (ranks - 1) + [1.0]


@dataclass(frozen=True)
class Gang:
    """One run: steps of so many seconds in which its ranks compute by `loads`, and as many of something alike."""

    loads: Loads = _another_each_time
    board: Board = H20
    hosts: int = 2
    gpus: int = 8  # of a host
    step_seconds: float = 28.4
    alike_seconds: float = 49.7  # of decoding, without traffic, before each step
    every_seconds: int = 10
    noise: float = 0.015  # of each reading of SM activity and of power, by itself
    late_seconds: float = 0.0  # by which each host's agent samples later than the one before
    stands_still: bool = False  # who waits does so without a kernel, as for a loader
    sends: bool = True

    @property
    def waited_share(self) -> float:
        """Share of all GPU time that ranks wait for the slowest of their step, as drawn."""
        chance, steps = random.Random(7), self._steps()
        drawn = [self.loads(chance, self.hosts * self.gpus) for _ in range(steps)]
        idle = sum(1 - load for loads in drawn for load in loads) / (steps * self.hosts * self.gpus)
        return idle * self.step_seconds / (self.step_seconds + self.alike_seconds)

    def _steps(self) -> int:
        return int((HOURS * 3600 - LOADS_SECONDS) / (self.step_seconds + self.alike_seconds)) + 2

    def phases(self) -> list[list[tuple[float, str]]]:
        """Return what each rank does: phases that end after so many seconds."""
        chance = random.Random(7)
        told: list[list[tuple[float, str]]] = [[(LOADS_SECONDS, "loads")] for _ in range(self.hosts * self.gpus)]
        at = float(LOADS_SECONDS)
        for _ in range(self._steps()):
            loads = self.loads(chance, self.hosts * self.gpus)
            begins = at + self.alike_seconds
            for phases, load in zip(told, loads, strict=True):
                phases.extend([(begins, "alike")] * (self.alike_seconds > 0))
                phases.extend([(begins + self.step_seconds * load, "works"), (begins + self.step_seconds, "waits")])
            at += self.alike_seconds + self.step_seconds
        return told


def _readings(gang: Gang) -> Mapping[str, Row]:
    board = gang.board
    assert board.sm is not None
    sent = 2e10 if gang.sends else 0.0
    waits: Row = {"busy": 1.0, "sm": board.sm[1], "watts": board.spins, "dram": 0.01, "sent": sent / 200}
    if gang.stands_still:
        waits = {"busy": 0.0, "sm": 0.0, "watts": board.rests, "dram": 0.0, "sent": 0.0}
    return {
        "loads": {"busy": 0.03, "sm": 0.02, "watts": board.rests, "dram": 0.02, "sent": 0.0},
        "alike": {"busy": 0.98, "sm": 0.45, "watts": (board.works + board.spins) / 2, "dram": 0.55, "sent": 0.0},
        "works": {"busy": 1.0, "sm": board.sm[0], "watts": board.works, "dram": 0.3, "sent": sent},
        "waits": waits,
    }


def _means(phases: list[tuple[float, str]], readings: Mapping[str, Row], begin: float, end: float) -> dict[str, float]:
    """Return what a sensor tells of [begin, end): means over the phases in it."""
    sums, since = dict.fromkeys(("busy", "sm", "watts", "dram", "sent"), 0.0), 0.0
    for until, phase in phases:
        inside = min(until, end) - max(since, begin)
        if inside > 0:
            for name in sums:
                sums[name] += inside * float(str(readings[phase][name]))
        since = until
        if until >= end:
            break
    return {name: value / (end - begin) for name, value in sums.items()}


def lay(fleet: Fleet, number: int, gang: Gang) -> None:
    """Say what the agents of a gang saw."""
    chance, readings, told = random.Random(number), _readings(gang), gang.phases()
    run, end = f"slurm/alpha/{number}", START + HOURS * HOUR
    for host in range(gang.hosts):
        node, names = f"n{number}-{host}", [f"GPU-{number}-{host}-{index}" for index in range(gang.gpus)]
        fleet.own(node, names, sku=gang.board.sku)
        row: Row = {"node": node, "started_at": START - HOUR, "ended_at": START - HOUR + SECOND, "sku": gang.board.sku}
        row |= {"power_limit_watts": gang.board.limit}
        fleet.add("inventory", [row | {"gpu_uuid": gpu} for gpu in names])
        fleet.hold(run, node, names, START, end, name="rl")
        for index, gpu in enumerate(names):
            phases = told[host * gang.gpus + index]
            rows, begun = [], 0
            late = host * gang.late_seconds
            for tick in range(HOURS * 3600 // gang.every_seconds):
                begin = tick * gang.every_seconds + late
                while phases[begun][0] <= begin:
                    begun += 1
                means = _means([(begin, "loads"), *phases[begun : begun + 200]], readings, begin,
                               begin + gang.every_seconds)  # fmt: skip
                rows.append(_sample(gang, chance, begin, means) | {"node": node, "gpu_uuid": gpu})
            fleet.add("gpu_samples", rows)


def _sample(gang: Gang, chance: random.Random, begin: float, means: Mapping[str, float]) -> Row:
    at = START + int(begin * SECOND)
    row: Row = {"started_at": at, "ended_at": at + gang.every_seconds * SECOND, "up": True}
    row |= {"utilization_ratio": means["busy"], "utilization_zero_ratio": round((1 - means["busy"]) * 0.9, 2)}
    row["sm_active_ratio"] = min(1.0, means["sm"] * chance.gauss(1, gang.noise))
    row["power_watts"] = means["watts"] * chance.gauss(1, gang.noise)
    row |= {"dram_active_ratio": means["dram"], "tensor_active_ratio": means["sm"] * 0.6, "memory_used_bytes": 6e10}
    moved = means["sent"] * gang.every_seconds
    return row | {"nvlink_receive_bytes": moved, "nvlink_transmit_bytes": moved}


UNEVEN = {
    "as reported, two hosts": Gang(),
    "by length": Gang(_by_length, step_seconds=40, alike_seconds=0),
    "H100, one host": Gang(board=H100, hosts=1),
    "B200, hardly any SM while it waits": Gang(board=B200, hosts=1),
    "A100 by DCGM, four ranks": Gang(board=A100_DCGM, hosts=1, gpus=4),
    "every second": Gang(hosts=1, gpus=4, every_seconds=1, step_seconds=6, alike_seconds=6),
    "every half minute": Gang(every_seconds=30, step_seconds=60),
    "sensors of much noise": Gang(noise=0.04),
    "hosts that sample apart": Gang(late_seconds=4.0),
}
NOT_UNEVEN = {
    "noise alone": Gang(_all_alike, alike_seconds=0, noise=0.04),
    "noise alone, of four": Gang(_all_alike, gpus=4, hosts=1, noise=0.06),
    "phases, of hosts that sample apart": Gang(_all_alike, late_seconds=4.0),
    "the same rank each time": Gang(_the_same),
    "nothing is sent": Gang(sends=False),
    "who waits has no kernel": Gang(stands_still=True, hosts=1),
}


@pytest.fixture(scope="module")
def states() -> dict[str, dict[tuple[str, str | None], float]]:
    """Return the share of each gang's time by state and cause."""
    fleet, gangs = Fleet(), UNEVEN | NOT_UNEVEN
    with fleet.together():
        for number, gang in enumerate(gangs.values()):
            lay(fleet, number, gang)
    fleet.analyze()
    found = {}
    for number, (name, gang) in enumerate(gangs.items()):
        held = gang.hosts * gang.gpus * HOURS * 3_600_000
        found[name] = {key: ms / held for key, ms in fleet.states(f"slurm/alpha/{number}").items()}
    return found


@pytest.mark.parametrize("name", UNEVEN)
def test_ranks_that_wait_for_another_each_time_have_uneven_work(
    name: str, states: dict[str, dict[tuple[str, str | None], float]]
) -> None:
    """At least half of what they wait is booked so, never much more, and no GPU and no loader is at fault."""
    waited, told = UNEVEN[name].waited_share, states[name]
    assert waited * 0.5 <= told.get(("communicating", "uneven"), 0) <= waited * 1.2
    assert told.get(("communicating", "straggler"), 0) <= waited / 10
    assert not {key for key in told if key[0] == "starved"}


@pytest.mark.parametrize("name", NOT_UNEVEN)
def test_ranks_that_wait_for_nobody_or_for_one_alone_have_no_uneven_work(
    name: str, states: dict[str, dict[tuple[str, str | None], float]]
) -> None:
    """Noise, hosts that sample apart, a slow rank, a loader: none of them is unequal work."""
    assert ("communicating", "uneven") not in states[name]


def test_the_same_rank_each_time_is_a_straggler(states: dict[str, dict[tuple[str, str | None], float]]) -> None:
    """Who holds up the others is then known."""
    assert states["the same rank each time"][("communicating", "straggler")] > 0.1
