"""The driver's energy counters, across their resets and across restarts of the agent."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from agent.gpu.nvidia.meter import Meter
from agent.gpu.nvidia.units import MILLIJOULES_PER_JOULE
from agent.procfs import boot_id
from agent.state_file import StateFile

_SECTION = "energy"
_BOOT = "boot"


@dataclass(frozen=True, slots=True)
class Energy:
    """Energy of one interval, in joules, with the counter that it was read from and that counter's epoch."""

    joules: float | None
    joules_total: float | None
    epoch: int | None


@dataclass(frozen=True, slots=True)
class Counter:
    """How far a counter was read, in millijoules, and the epoch of that life of it."""

    millijoules: int
    epoch: int


class EnergyMeter:
    """The driver's energy counter in millijoules. It starts anew with the driver; its epoch then changes.

    The epoch is the wall second at which an agent first saw the counter's present life. `known` is what an earlier
    agent saw of the same boot: a counter that did not fall behind it is still in that life.
    """

    def __init__(self, wall_seconds: Callable[[], float], known: Counter | None = None) -> None:
        self._wall_seconds = wall_seconds
        self._meter = Meter()
        self._counter = known

    @property
    def counter(self) -> Counter | None:
        """How far it was read, None before the first reading."""
        return self._counter

    def read(self, millijoules: int | None) -> Energy:
        """Return the joules of the interval; None for them at the first value, after silence and after a reset."""
        amount = self._meter.amount(millijoules)
        if millijoules is None:
            return Energy(None, None, None)
        last = self._counter
        epoch = last.epoch if last is not None and millijoules >= last.millijoules else self._new_epoch()
        self._counter = Counter(millijoules, epoch)
        joules = None if amount is None else amount / MILLIJOULES_PER_JOULE
        return Energy(joules, millijoules / MILLIJOULES_PER_JOULE, epoch)

    def _new_epoch(self) -> int:
        return max(int(self._wall_seconds()), (self._counter.epoch if self._counter else 0) + 1)


class EnergyBook:
    """What an agent leaves to the next one of each GPU's energy counter; of no use after the host has booted."""

    def __init__(self, state_file: StateFile, proc: Path) -> None:
        self._state_file = state_file
        self._boot = boot_id(proc)

    def known(self, uuid: str) -> Counter | None:
        """Return how far the agent before this one read the counter, None where that is of no use."""
        section = self._state_file.section(_SECTION)
        entry = section.get(uuid)
        if self._boot is None or section.get(_BOOT) != self._boot or not isinstance(entry, list):
            return None
        numbers = [each for each in entry if isinstance(each, int) and not isinstance(each, bool) and each >= 0]
        return Counter(numbers[0], numbers[1]) if len(numbers) == len(entry) == 2 else None

    def keep(self, counters: Mapping[str, Counter]) -> None:
        """Leave these to the next agent; those of GPUs that this one has not read stay as they are."""
        section = self._state_file.section(_SECTION)
        if section.get(_BOOT) != self._boot:
            section = {}
        read = {uuid: [counter.millijoules, counter.epoch] for uuid, counter in counters.items()}
        self._state_file.keep(_SECTION, {**section, **read, _BOOT: self._boot})
